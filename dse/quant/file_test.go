package quant

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Maps that are rounded once more than in a quantised file are named.
func TestFileNotes(t *testing.T) {
	file := graph.Scale{Step: 0.02, Zero: 3}
	for _, c := range []struct {
		name  string
		steps []float64
		scale bool // of the map between
		want  []string
	}{
		{"kept", []float64{0.125, 0.125}, true, nil},
		{"no quantised file", nil, false, nil},
		{"rounded once more", []float64{0.125, 0.125}, false, []string{"rounds", "Conv0"}},
	} {
		b := newNet(1, 4, 4, 1)
		mid := b.conv(0, 2, 1, 1, func(n *graph.Node) { n.Weights, n.Bias, n.Steps = []float32{0.25, 0.5}, []float32{0, 0}, c.steps })
		last := b.conv(mid, 1, 1, 1, func(n *graph.Node) { n.Weights, n.Bias = []float32{1, 1}, []float32{0} })
		b.g.Exits = []graph.Exit{{Name: "last", Tensor: last}}
		if c.steps != nil {
			b.g.Scales = map[graph.TensorID]graph.Scale{0: file, last: file}
			if c.scale {
				b.g.Scales[mid] = file
			}
		}
		s, err := See(b.done(t), 1, func(int) ([]float32, error) { return b.random(16, 1), nil }, Options{Headroom: 1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Network(nil)
		if err != nil {
			t.Fatal(err)
		}
		notes := n.Notes()
		got := strings.Join(notes, "\n")
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: notes %q, expected %q in them", c.name, notes, w)
			}
		}
		if (len(notes) > 0) != (c.want != nil) || len(notes) > 1 {
			t.Errorf("%s: notes %q", c.name, notes)
		}
	}
}

// Values halfway between two codes go where onnxruntime puts them: it divides in float32.
func TestCodeOfHalves(t *testing.T) {
	c := Codes{Step: float64(float32(4. / 255))}
	for p, want := range map[int]int16{32: -96, 34: -94, 36: -92, 255: 127} { // numpy.rint(x / step) in float32, clamped
		x := (float32(p)/255 - 0.5) / 0.25
		if got := c.Code(float64(x)); got != want {
			t.Errorf("pixel %d: code %d, expected %d (%v steps)", p, got, want, float64(x)/c.Step)
		}
	}
}
