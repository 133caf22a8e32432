package abi

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

var (
	seed = flag.Uint64("seed", 1, "seed of the random suites")
	n    = flag.Int("n", 20000, "rounds of the random suites")
)

// legal clears what must be zero and sets the magic byte.
func legal(words *[DescBytes / 4]uint32) [DescBytes]byte {
	var b [DescBytes]byte
	for i := range words {
		words[i] &^= DescReserved[i]
		if i == 0 {
			words[0] = words[0]&0x00FFFFFF | DescMagic<<24
		}
		binary.LittleEndian.PutUint32(b[4*i:], words[i])
	}
	return b
}

// TestDescRoundTrip: every legal descriptor is decoded and encoded to itself, and no two
// descriptors decode to the same value.
func TestDescRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 0))
	for range *n {
		var words [DescBytes / 4]uint32
		for i := range words {
			words[i] = r.Uint32()
		}
		b := legal(&words)
		d, err := DecodeDesc(b[:])
		if err != nil {
			t.Fatalf("seed %d: decode %x: %v", *seed, b, err)
		}
		got, err := d.Encode()
		if err != nil || got != b {
			t.Fatalf("seed %d: %x comes back as %x, %v", *seed, b, got, err)
		}
	}
}

// TestDescRandomFields tests the other direction: any value of a field is either rejected or preserved.
func TestDescRandomFields(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	encoded := 0
	for range *n {
		var d Desc
		v := reflect.ValueOf(&d).Elem()
		narrow := r.IntN(2) == 0
		for i := range v.NumField() {
			setRandom(r, v.Field(i), narrow)
		}
		d.Magic = DescMagic
		b, err := d.Encode()
		if err != nil {
			continue
		}
		encoded++
		got, err := DecodeDesc(b[:])
		if err != nil || got != d {
			t.Fatalf("seed %d: %+v comes back as %+v, %v", *seed, d, got, err)
		}
	}
	if encoded == 0 {
		t.Error("nothing was encoded")
	}
}

// setRandom sets a field; narrow values (below 16) fit every field.
func setRandom(r *rand.Rand, f reflect.Value, narrow bool) {
	x := r.Uint64()
	if narrow {
		x %= 16
	}
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(x&1 != 0)
	case reflect.Int8, reflect.Int16, reflect.Int32:
		f.SetInt(int64(x) << (64 - f.Type().Bits()) >> (64 - f.Type().Bits()))
	default:
		f.SetUint(x & (1<<f.Type().Bits() - 1))
	}
}

func TestDescPlaces(t *testing.T) {
	d := Desc{
		Op: OpAvgPool, Residual: true, Magic: DescMagic, InOffset: 0x11223344, ClampLo: -2, ClampHi: 0x7FFF,
		Shift: 47, AvgMul: 0x1FFFF, AvgShift: 63, KWC: 0xABCDEF,
	}
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[int]uint32{
		0: 0xD5000012, 1: 0x11223344, 8: 47 << 24, 11: 0x7FFFFFFE, 30: 0xABCDEF, 31: 0x3F01FFFF,
	} {
		if got := binary.LittleEndian.Uint32(b[4*word:]); got != want {
			t.Errorf("word %d is %08x, expected %08x", word, got, want)
		}
	}
}

func TestDescRefused(t *testing.T) {
	for name, d := range map[string]Desc{
		"Magic":    {},
		"Op":       {Magic: DescMagic, Op: 16},
		"ResShift": {Magic: DescMagic, ResShift: 32},
		"AvgMul":   {Magic: DescMagic, AvgMul: 1 << 17},
		"InRow":    {Magic: DescMagic, InRow: 1 << 24},
	} {
		if _, err := d.Encode(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := Desc{Magic: DescMagic}
	good, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, good[:127], append(good[:], 0)} {
		if _, err := DecodeDesc(bad); err == nil {
			t.Errorf("%d bytes are accepted", len(bad))
		}
	}
	for bit := range DescBytes * 8 {
		b := good
		b[bit/8] ^= 1 << (bit % 8)
		reserved := DescReserved[bit/32]>>(bit%32)&1 != 0 || bit/8 == 3
		if _, err := DecodeDesc(b[:]); (err != nil) != reserved {
			t.Errorf("word %d bit %d set: %v, expected refused = %t", bit/32, bit%32, err, reserved)
		}
	}
}

func TestFBCB(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 2))
	for range *n {
		v := r.Uint32()
		f, err := DecodeFBCB(v)
		if (err != nil) != (v&FBCBReserved != 0) {
			t.Fatalf("%08x: %v", v, err)
		}
		if err != nil {
			continue
		}
		if got, err := f.Encode(); err != nil || got != v {
			t.Fatalf("%08x comes back as %08x, %v", v, got, err)
		}
	}
	v, err := FBCB{BR: 8, K: 2, Order: true, KeepOut: true, TileB: 3, TileRows: 0xABC}.Encode()
	if want := uint32(8 | 2<<4 | 1<<6 | 1<<8 | 3<<12 | 0xABC<<16); err != nil || v != want {
		t.Errorf("encoded as %08x, %v, expected %08x", v, err, want)
	}
	for _, f := range []FBCB{{BR: 16}, {K: 4}, {TileB: 16}, {TileRows: 1 << 12}} {
		if _, err := f.Encode(); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

func TestNames(t *testing.T) {
	if ErrWatchdog.String() != "WATCHDOG" || ErrCode(200).String() != "ErrCode(200)" || ErrNone.Doc() == "" {
		t.Error("names of error codes")
	}
	if OpMaxPool.String() != "MAX_POOL" || Op(9).String() != "Op(9)" || Op(9).Valid() || !OpAvgPool.Valid() {
		t.Error("names of operators")
	}
	if CounterNames[CntMACs] != "macs" || CounterLo(CntInterrupts) != CntBase+8*CntInterrupts {
		t.Error("counters")
	}
	if got := FBCBAddr(255, 8); got != 0x7FF {
		t.Errorf("FBCBAddr(255, 8) = %#x", got)
	}
	if got := FBCBAddr(1, 1); got != 8 {
		t.Errorf("FBCBAddr(1, 1) = %#x", got)
	}
}

func FuzzDecodeDesc(f *testing.F) {
	d := Desc{Magic: DescMagic, Op: OpGEMM, InH: 7, ClampHi: 32767, ClampLo: -32768}
	good, err := d.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:])
	f.Add([]byte{})
	f.Add(make([]byte, DescBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDesc(b)
		if err != nil {
			if d != (Desc{}) {
				t.Errorf("refused, yet %+v came back", d)
			}
			return
		}
		got, err := d.Encode()
		if err != nil || string(got[:]) != string(b) {
			t.Errorf("%x comes back as %x, %v", b, got, err)
		}
	})
}

func BenchmarkDecodeDesc(b *testing.B) {
	d := Desc{Magic: DescMagic}
	raw, err := d.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := DecodeDesc(raw[:]); err != nil {
			b.Fatal(err)
		}
	}
}
