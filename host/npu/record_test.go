package npu

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
)

var update = flag.Bool("update", false, "write the golden files anew")

// session uses all functions of a driver in one recording: open, load, a launch whose batch shrinks, a hardware
// error, a reset.
func session(t *testing.T, bus Bus, n *testNet, spoil func()) {
	t.Helper()
	d, err := New(bus, Opts{ClockHz: 150e6, Slots: 16, Watchdog: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Load(t.Context(), n.b); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	in := admit(t, d, rng, 1, 2, 3)
	l := launch(0, 1, never, 1, 2, 3)
	_, l.Theta[1] = bundle.Confidence(n.logits(in[2], 0), 6) // request 2 leaves at the first exit
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	check(t, n, l, rep, in)
	if spoil != nil {
		spoil()
	}
	_, err = d.Run(t.Context(), launch(0, 0, never, 3, 1))
	var hw *HWError
	if !errors.As(err, &hw) {
		t.Fatalf("expected a hardware error: %v", err)
	}
	if want := (HWError{Code: abi.ErrReadSLVERR, Layer: 1, Addr: 0x1000}); *hw != want {
		t.Errorf("%+v, expected %+v", *hw, want)
	}
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// The driver's register traffic, access by access. Intended changes are stored with -update.
func TestTraffic(t *testing.T) {
	design := testDesign(t)
	n := newTestNet(t, design)
	// The hashes of the ABI and of the design change from time to time; this test does not depend on them.
	names := strings.NewReplacer(
		word(abi.Hash), "<ABI0>", word(abi.Hash>>32), "<ABI1>",
		word(design.Hash()), "<DSN0>", word(design.Hash()>>32), "<DSN1>")
	hash, err := n.b.Hash()
	if err != nil {
		t.Fatal(err)
	}
	bundleNames := strings.NewReplacer(word(hash), "<BDL0>", word(hash>>32), "<BDL1>")

	f := newFakeBus(t, design.Hash(), 1<<16)
	f.run = computes(n)
	var log bytes.Buffer
	session(t, NewRecorder(f, &log), n, func() {
		f.run = func(f *fakeBus) uint32 {
			f.regs[abi.RegErrorAddr] = 0x1000
			return uint32(abi.ErrReadSLVERR) | 1<<abi.RegErrorLayerLSB
		}
	})
	text := bundleNames.Replace(names.Replace(log.String()))
	golden := filepath.Join("testdata", "traffic.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if text != string(want) {
		t.Errorf("the register traffic has changed (-update, where that is meant):\n%s", diff(string(want), text))
	}

	quietTraffic(t, names, bundleNames, text)

	// A recording can be played back as a device: no other memory is needed than that of the session.
	session(t, NewPlayback(&log, f.mem, f.base), n, nil)
}

// quietTraffic is the same for a quiet build: it only adds a read of ACCESS after each group of writes and before
// each START.
func quietTraffic(t *testing.T, names, bundleNames *strings.Replacer, loud string) {
	t.Helper()
	design := testDesign(t)
	n := newTestNet(t, design)
	f := newFakeBus(t, design.Hash(), 1<<16)
	f.quiet = true
	f.power(design.Hash())
	f.run = computes(n)
	var log bytes.Buffer
	session(t, NewRecorder(f, &log), n, func() {
		f.run = func(f *fakeBus) uint32 {
			f.regs[abi.RegErrorAddr] = 0x1000
			return uint32(abi.ErrReadSLVERR) | 1<<abi.RegErrorLayerLSB
		}
	})
	const look, start = "r 0c8 00000000\n", "w 040 00000001\n"
	text := bundleNames.Replace(names.Replace(log.String()))
	if got, want := strings.Count(text, look+start), strings.Count(loud, start); got != want || want == 0 {
		t.Errorf("ACCESS is read in front of %d starts of %d", got, want)
	}
	// the two times that registers are programmed, and the two times that a network is
	if got, want := strings.Count(text, look), strings.Count(loud, start)+4; got != want {
		t.Errorf("%d reads of ACCESS, expected %d", got, want)
	}
	build := uint32(1 | 8<<abi.RegBuildAXIAXIBytesLSB | 4<<abi.RegBuildAXIMaxBurstLSB)
	text = strings.ReplaceAll(text, look, "")
	text = strings.Replace(text, word(uint64(build|abi.RegBuildAXIQuietMask)), word(uint64(build)), 1)
	if text != loud {
		t.Errorf("a quiet build's traffic differs otherwise:\n%s", diff(loud, text))
	}
}

// word is the lower half of a hash, as in a recording.
func word(v uint64) string {
	return fmt.Sprintf("%08x", uint32(v))
}

// diff returns the first place where two texts differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: %q, expected %q", i+1, g[i], w[i])
		}
	}
	return "one is longer"
}

func TestPlaybackDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		do   func(b *Playback) error
	}{
		"other register":   {"r 044 00000000\n", func(b *Playback) error { _, err := b.ReadReg(0x48); return err }},
		"other value":      {"w 044 00000000\n", func(b *Playback) error { return b.WriteReg(0x44, 1) }},
		"write for read":   {"r 044 00000000\n", func(b *Playback) error { return b.WriteReg(0x44, 0) }},
		"after the end":    {"", func(b *Playback) error { return b.WriteReg(0x44, 0) }},
		"left over":        {"reset\n", func(b *Playback) error { return b.Close() }},
		"nonsense answer":  {"w 044 00000000 WHAT\n", func(b *Playback) error { return b.WriteReg(0x44, 0) }},
		"nonsense value":   {"r 044 xyz\n", func(b *Playback) error { _, err := b.ReadReg(0x44); return err }},
		"nonsense wait":    {"irq x\n", func(b *Playback) error { _, err := b.WaitIRQ(t.Context(), 1); return err }},
		"reset with words": {"reset now\n", func(b *Playback) error { return b.HardReset() }},
	} {
		if err := c.do(NewPlayback(strings.NewReader(c.text), nil, 0)); !errors.Is(err, ErrPlayback) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := NewPlayback(strings.NewReader("w 044 00000000 SLVERR\nr 048 DECERR\nirq 7 none\nirq 9\nreset\n"), nil, 0)
	if err := b.WriteReg(0x44, 0); !errors.As(err, new(*BusError)) {
		t.Error(err)
	}
	if _, err := b.ReadReg(0x48); !errors.As(err, new(*BusError)) {
		t.Error(err)
	}
	if n, err := b.WaitIRQ(t.Context(), 7); n != 7 || !errors.Is(err, ErrNoIRQ) {
		t.Error(n, err)
	}
	if n, err := b.WaitIRQ(t.Context(), 7); n != 9 || err != nil {
		t.Error(n, err)
	}
	if err := errors.Join(b.HardReset(), b.Close()); err != nil {
		t.Error(err)
	}
}
