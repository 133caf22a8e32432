package evaluate

import "testing"

// A distance is a number whatever the logits are: JSON has no other.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		got, want []float32
		apart     float64
	}{
		{[]float32{1, 2}, []float32{1, 4}, 0.5},
		{[]float32{0, 0}, []float32{0, 0}, 0},
		{[]float32{0, -3}, []float32{0, 0}, 1},
	} {
		if d := Apart(c.got, c.want); d != c.apart {
			t.Errorf("%v is %v from %v, expected %v", c.got, d, c.want, c.apart)
		}
	}
}
