package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func random(t testing.TB, seed uint64, config string) *bundle.Bundle {
	t.Helper()
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	o := randnet.All()
	o.MaxMACs, o.MaxSide = 20_000, 8
	if config == "run" {
		d.Stack, d.Fluid = true, true
		o.Compile.Mapping = mapping.Options{Points: mapping.Points, Orders: []bool{false, true}}
	}
	n, err := randnet.New(seed, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return n.Bundle
}

func file(t testing.TB, b *bundle.Bundle) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := bundle.Write(&w, b); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// rehash stores the correct hash in a changed file.
func rehash(data []byte) []byte {
	if len(data) < sha256.Size {
		return data
	}
	body := data[:len(data)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func TestRoundTrip(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		b := random(t, seed, []string{"tiny", "run"}[seed%2])
		b.Meta = map[string]string{"source": "here", "é": "<&>"}
		data := file(t, b)
		got, err := bundle.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if d := cmp.Diff(b, got); d != "" {
			t.Fatalf("seed %d: what was read differs from what was written:\n%s", seed, d)
		}
		if again := file(t, got); !bytes.Equal(again, data) {
			t.Fatalf("seed %d: writing again gives other bytes", seed)
		}
		h, err := got.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if want := binary.BigEndian.Uint64(data[len(data)-sha256.Size:]); h != want {
			t.Fatalf("Hash() = %016x, the file ends in %016x", h, want)
		}
	}
}

func TestFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sluice")
	b := random(t, 3, "tiny")
	if err := bundle.WriteFile(path, b); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Fatalf("%v, %v: expected the bundle alone", left, err)
	}
}

func TestReadRefuses(t *testing.T) {
	data := file(t, random(t, 5, "tiny"))
	edit := func(f func(d []byte) []byte) []byte { return f(bytes.Clone(data)) }
	sectionLength := func(i int) int { return 32 + 16*i + 8 }
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, bundle.ErrMagic},
		{"another file", []byte("\x7fELF and so on, long enough for a header of 32 bytes"), bundle.ErrMagic},
		{"header only", data[:20], bundle.ErrTruncated},
		{"no sections", data[:60], bundle.ErrTruncated},
		{"half", data[:len(data)/2], bundle.ErrTruncated},
		{"last byte missing", data[:len(data)-1], bundle.ErrTruncated},
		{"a byte more", edit(func(d []byte) []byte { return append(d, 0) }), bundle.ErrTrailing},
		{"a second bundle", edit(func(d []byte) []byte { return append(d, d...) }), bundle.ErrTrailing},
		{"version 2", edit(func(d []byte) []byte { d[8] = 2; return rehash(d) }), bundle.ErrVersion},
		{"other ABI", edit(func(d []byte) []byte { d[16] ^= 1; return rehash(d) }), bundle.ErrABI},
		{"other design", edit(func(d []byte) []byte { d[24] ^= 1; return rehash(d) }), bundle.ErrFormat},
		{"section count", edit(func(d []byte) []byte { d[12]++; return rehash(d) }), bundle.ErrFormat},
		{"section tag", edit(func(d []byte) []byte { d[32]++; return rehash(d) }), bundle.ErrFormat},
		{"section too long", edit(func(d []byte) []byte { d[sectionLength(0)+2] = 1; return rehash(d) }), bundle.ErrTruncated},
		{"section beyond its limit", edit(func(d []byte) []byte { d[sectionLength(5)+7] = 0xFF; return rehash(d) }), bundle.ErrTooLarge},
		{"weights too short", edit(func(d []byte) []byte {
			binary.LittleEndian.PutUint64(d[sectionLength(8):], 16)
			return rehash(d)
		}), bundle.ErrTrailing},
		{"flipped weight", edit(func(d []byte) []byte { d[len(d)-100] ^= 1; return d }), bundle.ErrHash},
		{"flipped hash", edit(func(d []byte) []byte { d[len(d)-1] ^= 1; return d }), bundle.ErrHash},
		{"JSON of another kind", edit(func(d []byte) []byte {
			return rehash(bytes.Replace(d, []byte(`"Stride":`), []byte(`"stride":`), 1))
		}), bundle.ErrFormat},
		{"unknown key", edit(func(d []byte) []byte {
			return rehash(bytes.Replace(d, []byte(`"Stride":`), []byte(`"Stripe":`), 1))
		}), bundle.ErrFormat},
		{"descriptor magic", edit(func(d []byte) []byte {
			at := bytes.IndexByte(d, abi.DescMagic)
			d[at] = 0
			return rehash(d)
		}), bundle.ErrFormat},
	} {
		b, err := bundle.Read(bytes.NewReader(c.data))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if b != nil {
			t.Errorf("%s: a bundle all the same", c.name)
		}
	}
}

// No file with one changed byte, and no shortened file, is accepted.
func TestEveryByteCounts(t *testing.T) {
	data := file(t, random(t, 5, "tiny"))
	step := max(1, len(data)/2000)
	for i := 0; i < len(data); i += step {
		data[i] ^= 0x40
		if _, err := bundle.Read(bytes.NewReader(data)); err == nil {
			t.Fatalf("byte %d changed, and nothing noticed", i)
		}
		data[i] ^= 0x40
		if _, err := bundle.Read(bytes.NewReader(data[:i])); err == nil {
			t.Fatalf("cut at byte %d, and nothing noticed", i)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	// A bundle with a residual and two exits, so that every case has its field.
	var seed uint64
	for seed = 1; ; seed++ {
		b := random(t, seed, "run")
		if len(b.Network.Exits) == 2 && residual(b) >= 0 && len(b.Layers) > 3 {
			break
		}
	}
	for _, c := range []struct {
		name string
		edit func(b *bundle.Bundle)
	}{
		{"design", func(b *bundle.Bundle) { b.Design.TP = 1 }},
		{"ABI", func(b *bundle.Bundle) { b.ABIHash++ }},
		{"no layers", func(b *bundle.Bundle) { b.Layers = nil }},
		{"FBCB short", func(b *bundle.Bundle) { b.FBCB = b.FBCB[1:] }},
		{"FBCB row short", func(b *bundle.Bundle) { b.FBCB[0] = b.FBCB[0][1:] }},
		{"names short", func(b *bundle.Bundle) { b.Names = b.Names[1:] }},
		{"layer's name with an escape", func(b *bundle.Bundle) { b.Names[0] = "a\x1b[31m" }},
		{"network's name of two lines", func(b *bundle.Bundle) { b.Network.Name = "a\nb" }},
		{"exit's name that reads backwards", func(b *bundle.Bundle) { b.Network.Exits[0].Name = "a\u202eb" }},
		{"name no UTF-8", func(b *bundle.Bundle) { b.Names[0] = "\xff" }},
		{"stride", func(b *bundle.Bundle) { b.Slot.Stride += 32 }},
		{"stride too small", func(b *bundle.Bundle) { b.Slot.Stride = 64 }},
		{"operator", func(b *bundle.Bundle) { b.Layers[0].Op = 9 }},
		{"product field", func(b *bundle.Bundle) { b.Layers[0].KWC++ }},
		{"row bytes", func(b *bundle.Bundle) { b.Layers[0].OutRowBytes += 2 }},
		{"input offset", func(b *bundle.Bundle) { b.Layers[0].InOffset = uint32(b.Slot.Stride) }},
		{"odd offset", func(b *bundle.Bundle) { b.Layers[0].InOffset++ }},
		{"output offset", func(b *bundle.Bundle) { b.Layers[0].OutOffset = uint32(b.Slot.Stride) }},
		{"output on the input", func(b *bundle.Bundle) { b.Layers[0].OutOffset = b.Layers[0].InOffset }},
		{"residual offset", func(b *bundle.Bundle) { b.Layers[residual(b)].ResOffset = uint32(b.Slot.Stride) }},
		{"output on the residual", func(b *bundle.Bundle) {
			l := &b.Layers[residual(b)]
			l.ResOffset = l.OutOffset
		}},
		{"shift", func(b *bundle.Bundle) { b.Layers[0].Shift = 48 }},
		{"clamp", func(b *bundle.Bundle) { b.Layers[0].ClampLo, b.Layers[0].ClampHi = 1, 0 }},
		{"bias count", func(b *bundle.Bundle) { b.Layers[gemm(b)].BiasCount++ }},
		{"bias offset", func(b *bundle.Bundle) { b.Layers[gemm(b)].BiasOffset += 4 }},
		{"bias beyond", func(b *bundle.Bundle) { b.Layers[gemm(b)].BiasOffset = 1 << 31 }},
		{"weights beyond", func(b *bundle.Bundle) { b.Weights = b.Weights[:64] }},
		{"weights misaligned", func(b *bundle.Bundle) {
			l := &b.Layers[gemm(b)]
			l.WOffset1, l.WOffsetH, l.WOffset2 = l.WOffset1|8, l.WOffsetH|8, l.WOffset2|8
		}},
		{"no weights", func(b *bundle.Bundle) {
			l := &b.Layers[gemm(b)]
			l.WBytes1, l.WBytesH, l.WBytes2 = 0, 0, 0
		}},
		{"weight bytes", func(b *bundle.Bundle) {
			l := &b.Layers[gemm(b)]
			l.WBytes1, l.WBytesH, l.WBytes2 = l.WBytes1+16, l.WBytesH+16, l.WBytes2+16
		}},
		{"C_MAX", func(b *bundle.Bundle) { b.Design.CMax = 16; b.Layers[0].OutC = 17 }},
		{"FBCB entry", func(b *bundle.Bundle) { b.FBCB[0][3].TileRows = 0 }},
		{"exit order", func(b *bundle.Bundle) { b.Network.Exits[0].First = 1 }},
		{"exit gap", func(b *bundle.Bundle) { b.Network.Exits[1].First++ }},
		{"exit short", func(b *bundle.Bundle) { b.Network.Exits[1].Last-- }},
		{"logits outside", func(b *bundle.Bundle) { b.Network.Exits[0].Offset = int(b.Slot.Stride) }},
		{"logits overwritten", func(b *bundle.Bundle) {
			b.Network.Exits[0].Offset = int(b.Layers[len(b.Layers)-1].OutOffset)
		}},
		{"input outside", func(b *bundle.Bundle) { b.Network.InOffset = int(b.Slot.Stride) }},
		{"input overwritten", func(b *bundle.Bundle) { b.Network.InOffset = int(b.Layers[1].OutOffset) }},
		{"input negative", func(b *bundle.Bundle) { b.Network.InOffset = -2 }},
		{"tensor outside", func(b *bundle.Bundle) { b.Slot.Tensors[0].Offset = int(b.Slot.Stride) }},
		{"latency batch", func(b *bundle.Bundle) { b.Latency[0].Batch = 9 }},
		{"latency segment", func(b *bundle.Bundle) { b.Latency[0].Last = 2 }},
		{"latency twice", func(b *bundle.Bundle) { b.Latency[1] = b.Latency[0] }},
		{"latency zero", func(b *bundle.Bundle) { b.Latency[0].P50 = 0 }},
		{"latency endless", func(b *bundle.Bundle) { b.Latency[0].P99 = bundle.MaxNs + 1 }},
		{"MACs endless", func(b *bundle.Bundle) { b.Network.Exits[0].MACs = bundle.MaxMACs + 1 }},
	} {
		b := random(t, seed, "run")
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		c.edit(b)
		if err := bundle.Write(&bytes.Buffer{}, b); !errors.Is(err, bundle.ErrInvalid) && !errors.Is(err, bundle.ErrABI) {
			t.Errorf("%s: %v, want ErrInvalid", c.name, err)
		}
	}
}

// TestKeptTensors: a tensor that is only on chip has no reader but the next layer, and a kept tensor is the input of
// the next layer.
func TestKeptTensors(t *testing.T) {
	kept := func(is func(b *bundle.Bundle, l, batch int) bool) (*bundle.Bundle, int, int) {
		for seed := uint64(1); seed < 2000; seed++ {
			b := random(t, seed, "run")
			for l := range b.Layers {
				for batch, e := range b.FBCB[l] {
					if e.KeepOut && is(b, l, batch) {
						return b, l, batch
					}
				}
			}
		}
		t.Fatal("no network keeps such a tensor")
		return nil, 0, 0
	}
	refused := func(name string, b *bundle.Bundle) {
		t.Helper()
		if err := b.Validate(); !errors.Is(err, bundle.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	b, l, batch := kept(func(b *bundle.Bundle, l, batch int) bool {
		// it has another reader, or the compiler might have made it ON_CHIP
		next := &b.Layers[l+1]
		for j := l + 1; j < len(b.Layers); j++ {
			if b.Layers[j].Residual && b.Layers[j].ResOffset == b.Layers[l].OutOffset {
				return true
			}
		}
		return next.Residual && next.ResOffset == b.Layers[l].OutOffset
	})
	b.FBCB[l][batch].OnChip = true
	refused("another reader", b)

	b, l, batch = kept(func(*bundle.Bundle, int, int) bool { return true })
	b.FBCB[l+1][batch].KeepIn = false
	refused("kept and not taken up", b)

	b, l, _ = kept(func(b *bundle.Bundle, l, _ int) bool { return l+2 < len(b.Layers) })
	b.Layers[l+1].InOffset += 64
	b.Slot.Stride += 4096
	refused("kept, but another tensor is read", b)
}

func residual(b *bundle.Bundle) int {
	for i := range b.Layers {
		if b.Layers[i].Residual {
			return i
		}
	}
	return -1
}

func gemm(b *bundle.Bundle) int {
	for i := range b.Layers {
		if b.Layers[i].Op == abi.OpGEMM {
			return i
		}
	}
	return -1
}

func TestSummary(t *testing.T) {
	b := random(t, 5, "tiny")
	s, err := b.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	if s.Layers != len(b.Layers) || s.Design != "tiny" || len(s.Exits) != len(b.Network.Exits) || len(s.BundleHash) != 16 {
		t.Errorf("summary %+v", s)
	}
	for _, e := range s.Exits {
		for batch, ns := range e.LatencyNS {
			if ns <= 0 {
				t.Errorf("exit %s, batch %d: latency %d ns", e.Name, batch+1, ns)
			}
		}
	}
}

// FuzzRead: no input crashes Read, and accepted input is written back byte for byte. Each input is tried both
// unchanged and with a correct hash, so that the parser behind the hash check is reached.
func FuzzRead(f *testing.F) {
	for seed := uint64(1); seed <= 4; seed++ {
		f.Add(file(f, random(f, seed, "tiny")))
	}
	f.Add([]byte("SLBUNDLE"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, rehash(data)} {
			b, err := bundle.Read(bytes.NewReader(d))
			if err != nil {
				continue
			}
			if again := file(t, b); !bytes.Equal(again, d) {
				t.Fatal("accepted, but written back as other bytes")
			}
		}
	})
}
