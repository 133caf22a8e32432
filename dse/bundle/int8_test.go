package bundle_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// inInt8 returns the bundle of the smallest network in int8.
func inInt8(t testing.TB) *bundle.Bundle {
	t.Helper()
	d, err := configs.Load("run-int8")
	if err != nil {
		t.Fatal(err)
	}
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	image := make([]float32, g.Tensors[g.Input].Elems())
	for i := range image {
		image[i] = float32(i%17)/8 - 1
	}
	seen, err := quant.See(g, 1, func(int) ([]float32, error) { return image, nil }, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := seen.Network(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile.Int8(n, d, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bundles that int8 hardware could not execute are rejected, with the reason.
func TestInt8Refused(t *testing.T) {
	word := func(b *bundle.Bundle, i int, v uint32) {
		at := int(b.Layers[0].BiasOffset) + 4*i
		copy(b.Weights[at:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	for name, c := range map[string]struct {
		edit func(b *bundle.Bundle)
		says string
	}{
		"a layer of 16 bits":  {func(b *bundle.Bundle) { b.Layers[0].In8, b.Layers[0].Out8 = false, false }, "not supported yet"},
		"half a layer":        {func(b *bundle.Bundle) { b.Layers[0].Out8 = false }, "not supported yet"},
		"no residual's":       {func(b *bundle.Bundle) { b.Layers[0].Res8 = !b.Layers[0].Residual }, "RES_8"},
		"a design of int16":   {func(b *bundle.Bundle) { b.Design.Type = "" }, "in a design of int16"},
		"a shift":             {func(b *bundle.Bundle) { b.Layers[0].Shift = 3 }, "SHIFT is 3"},
		"a clamp":             {func(b *bundle.Bundle) { b.Layers[0].ClampHi = 128 }, "a clamp from"},
		"rows of words":       {func(b *bundle.Bundle) { b.Layers[0].OutRowBytes *= 2 }, "OUT_ROW_BYTES"},
		"biases alone":        {func(b *bundle.Bundle) { b.Layers[0].BiasCount = b.Layers[0].OutC }, "BIAS_COUNT"},
		"a factor of 18 bits": {func(b *bundle.Bundle) { word(b, 1, 1<<17) }, "the factor of channel 0"},
		"a shift of 48":       {func(b *bundle.Bundle) { word(b, 1, 48<<24) }, "the factor of channel 0"},
		"no step":             {func(b *bundle.Bundle) { b.Network.Step = 0 }, "the network's input"},
		"an exit's zero":      {func(b *bundle.Bundle) { b.Network.Exits[0].Zero = 128 }, "exit 0"},
		"a fraction":          {func(b *bundle.Bundle) { b.Network.Exits[0].Frac = 1 }, "exit 0"},
		"a tensor's step":     {func(b *bundle.Bundle) { b.Slot.Tensors[0].Step = -1 }, "tensor"},
	} {
		b := inInt8(t)
		c.edit(b)
		if err := b.Validate(); !errors.Is(err, bundle.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", name, err, c.says)
		}
	}
	b := inInt8(t)
	if err := b.SetInput(make([]byte, b.Slot.Stride), []int16{128}); err == nil || !strings.Contains(err.Error(), "-128..127") {
		t.Errorf("an input beyond 8 bits: %v", err)
	}
}

// Pairs of channels alternate: a channel's int16 word becomes one byte of each channel of a pair.
func TestPackInt8(t *testing.T) {
	d := configs.Design{TP: 2, TC: 4, Type: configs.TypeInt8}
	w := []int16{1, 2, 3, -1, -2, -3, 11, 12, 13, 21, 22, 23, 31, 32, 33} // 5 channels of 3 elements
	packed, err := bundle.PackWeights(d, 0, w, 5, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 2*abi.WeightAlign)
	m := func(v int8) byte { return byte(v) }
	copy(want, []byte{1, m(-1), 2, m(-2), 11, 21, 12, 22, 3, m(-3), 0, 0, 13, 23, 0, 0})
	copy(want[abi.WeightAlign:], []byte{31, 0, 32, 0, 33, 0, 0, 0})
	if !bytes.Equal(packed, want) {
		t.Fatalf("packed %v, expected %v", packed, want)
	}
	for name, at := range map[string]int{"a chunk's end": 10, "a partner that is not there": abi.WeightAlign + 1} {
		bad := bytes.Clone(packed)
		bad[at] = 5
		if _, err := bundle.UnpackWeights(d, 0, bad, 5, 1, 3); err == nil {
			t.Errorf("%s is not zero, and nothing noticed", name)
		}
	}
	bad := bytes.Clone(packed)
	bad[0] = 0x80
	if _, err := bundle.UnpackWeights(d, 0, bad, 5, 1, 3); err == nil || !strings.Contains(err.Error(), "-128") {
		t.Errorf("a weight of -128: %v", err)
	}
	got, err := bundle.UnpackWeights(d, 0, packed, 5, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != w[i] {
			t.Fatalf("unpacked %v, expected %v", got, w)
		}
	}
}

// A served image has the codes that the network was quantised for, halves between two codes among them.
func TestInt8Input(t *testing.T) {
	n, c := inInt8(t).Network, quant.Codes{Step: float64(float32(4. / 255)), Zero: 0}
	n.Step, n.Zero = c.Step, c.Zero
	for p := range 256 {
		x := (float32(p)/255 - 0.5) / 0.25
		if got, want := n.Input([]float32{x})[0], c.Code(float64(x)); got != want {
			t.Errorf("pixel %d: element %d, code %d", p, got, want)
		}
	}
}
