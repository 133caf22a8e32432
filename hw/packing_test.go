package hw

import "testing"

// Two int8 MACs in one DSP, as the int8 array computes them (INT8.md). Two weights of one row share
// a multiplier, (w1 << S) + w2, with one input x, along a chain that begins with 2^(S-1):
//
//	P = sum (w1*2^S + w2)*x + 2^(S-1) = 2^S*A + (B + 2^(S-1)),  A = sum w1*x, B = sum w2*x
//
// so the fields above and below bit S are A and B + 2^(S-1), exactly if 0 <= B + 2^(S-1) < 2^S: P's upper field is A
// without a correction, its lower field is B with an inverted sign bit. The tests show which values B can have.

// dsp describes a DSP slice with packed weights: the shift, the width of the multiplier port for the weights, and the
// number of products in a segment of the chain.
type dsp struct {
	name                  string
	shift, port, products int
}

var dsps = []dsp{
	{"DSP48E1", 17, 25, 4},
	{"DSP48E2", 18, 27, 8},
}

const (
	wMin, wMax = -127, 127 // symmetric weights
	xMin, xMax = -128, 127
	pBits      = 48
)

func (d dsp) packed(w1, w2 int) int64 { return int64(w1)<<d.shift + int64(w2) }

// fields splits a segment's P into A and B.
func (d dsp) fields(p int64) (a, b int64) {
	low := p & (1<<d.shift - 1)
	low ^= 1 << (d.shift - 1)                                    // the sign bit, inverted by the chain's constant
	return p >> d.shift, low << (64 - d.shift) >> (64 - d.shift) // as a signed field
}

func (d dsp) holds(a, b int64) bool {
	p := a<<d.shift + b + 1<<(d.shift-1)
	gotA, gotB := d.fields(p)
	return gotA == a && gotB == b && p == p<<(64-pBits)>>(64-pBits)
}

// One product: every weight pair fits its port and splits into both products, with every input.
func TestPackedProduct(t *testing.T) {
	for _, d := range dsps {
		for w1 := wMin; w1 <= wMax; w1++ {
			for w2 := wMin; w2 <= wMax; w2++ {
				w := d.packed(w1, w2)
				if w != w<<(64-d.port)>>(64-d.port) {
					t.Fatalf("%s: %d and %d packed need more than %d bits", d.name, w1, w2, d.port)
				}
				for x := xMin; x <= xMax; x++ {
					if a, b := d.fields(w*int64(x) + 1<<(d.shift-1)); a != int64(w1*x) || b != int64(w2*x) {
						t.Fatalf("%s: weights %d, %d by %d: %d and %d", d.name, w1, w2, x, a, b)
					}
				}
			}
		}
		if w := d.packed(-128, wMin); d.port == 25 && w == w<<(64-d.port)>>(64-d.port) {
			t.Errorf("%s: a weight of -128 fits the port of %d bits", d.name, d.port)
		}
	}
}

// A segment: P depends only on A and B, which are at most n products of the extremes. All B are tried, each with the
// extremes of A. One more product fails, and so does a weight of -128.
func TestPackedSegment(t *testing.T) {
	const most = -wMin * -xMin // 16,256: the largest product, of either sign
	every := func(d dsp, reach int64) bool {
		for b := -reach; b <= reach; b++ {
			for _, a := range []int64{-reach, -1, 0, 1, reach} {
				if !d.holds(a, b) {
					return false
				}
			}
		}
		return true
	}
	for _, d := range dsps {
		n := int64(d.products)
		if !every(d, n*most) {
			t.Errorf("%s: %d products do not fit", d.name, n)
		}
		if every(d, (n+1)*most) {
			t.Errorf("%s: %d products fit, one more than the chain is cut at", d.name, n+1)
		}
		// Products can reach the first lost value: all of them are the largest.
		if a, b := d.fields((n+1)*(d.packed(wMin, wMin)*xMin) + 1<<(d.shift-1)); a == (n+1)*most && b == (n+1)*most {
			t.Errorf("%s: %d of the largest products are %d and %d", d.name, n+1, a, b)
		}
		if d.holds(0, n*-128*xMin) {
			t.Errorf("%s: %d products with weights of -128 fit", d.name, n)
		}
	}
}
