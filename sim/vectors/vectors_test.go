package vectors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func sample() []Record {
	return []Record{
		Meta{[]byte(`{"name":"sample"}`)},
		MemWrite{0x1000, []byte{1, 2, 3}},
		RegWrite{0x80, 1000},
		RegRefused{0x00, 1},
		RegExpect{0x44, 7, 2},
		Run{1 << 40, true},
		Run{5, false},
		MemExpect{0x2000, []byte{9}},
	}
}

func encode(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Write(records...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.slvec")
	if err := WriteFile(path, sample()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sample()) {
		t.Errorf("read %v, expected %v", got, sample())
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".slvec-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, encode(t, sample())) {
		t.Error("WriteFile and Writer differ")
	}
}

// The bytes of a small file, stored here because other languages also read the format.
func TestBytes(t *testing.T) {
	got := encode(t, []Record{RegWrite{0x40, 1}, Run{100, true}})
	want := "SLVEC001" +
		"\x02\x00\x00\x00\x08\x00\x00\x00\x40\x00\x00\x00\x01\x00\x00\x00" +
		"\x04\x00\x00\x00\x10\x00\x00\x00\x64\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x07\x00\x00\x00\x04\x00\x00\x00"
	if !strings.HasPrefix(string(got), want) || len(got) != len(want)+4 {
		t.Errorf("% x", got)
	}
}

func TestRefused(t *testing.T) {
	good := encode(t, sample())
	rec := func(kind, length uint32, payload string) []byte {
		b := []byte(Magic)
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint32(b, length)
		return append(b, payload...)
	}
	flipped := bytes.Clone(good)
	flipped[len(Magic)+8+3] = 'N' // inside META
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty":             {nil, ErrMagic},
		"other magic":       {[]byte("SLVEC002........"), ErrMagic},
		"no end":            {[]byte(Magic), ErrTruncated},
		"cut in a header":   {good[:len(good)-7], ErrTruncated},
		"cut in a payload":  {good[:len(good)-2], ErrTruncated},
		"one byte too many": {append(bytes.Clone(good), 0), ErrTrailing},
		"one byte changed":  {flipped, ErrChecksum},
		"unknown kind":      {rec(99, 0, ""), ErrRecord},
		"short register":    {rec(2, 4, "abcd"), ErrRecord},
		"short expectation": {rec(3, 8, "abcdefgh"), ErrRecord},
		"memory of nothing": {rec(1, 8, "abcdefgh"), ErrRecord},
		"run of nonsense":   {rec(4, 16, "abcdefghijklmnop"), ErrRecord},
		"meta no JSON":      {rec(6, 1, "{"), ErrRecord},
		"long END":          {rec(7, 5, "abcde"), ErrRecord},
		"length beyond":     {rec(1, 1<<31, "abcdefgh"), ErrTruncated},
		"length too large":  {rec(1, 1<<32-1, "abcdefgh"), ErrTooLarge},
	} {
		if _, err := Read(bytes.NewReader(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Write(MemWrite{Addr: 1}); !errors.Is(err, ErrRecord) {
		t.Errorf("memory of nothing: %v", err)
	}
	if err := w.Write(Meta{[]byte("{")}); !errors.Is(err, ErrRecord) {
		t.Errorf("META without JSON: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Write(RegWrite{}); err == nil {
		t.Error("written after Close")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(encode(f, sample()))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if !bytes.Equal(encode(t, records), data) {
			t.Error("written again, a file that was read differs")
		}
	})
}
