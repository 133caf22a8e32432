package abi

import "fmt"

// Layout of the bias memory of an int8 layer (IN_8, OUT_8). hw/INT8.md describes it.
const (
	ResWords    = 4  // words of the residual: two factors, shift, addend
	FactorBits  = 17 // width of a factor, in the low bits of its word
	FactorShift = 24 // lowest bit of the shift in that word
)

// Scaling is a factor Mul / 2^Shift.
type Scaling struct {
	Mul   int32 // below 2^17
	Shift uint8 // at most ShiftMax
}

// Of returns x * s, rounded to the nearest integer, ties to even.
func (s Scaling) Of(x int64) int64 { return RoundEven(x*int64(s.Mul), s.Shift) }

// RoundEven returns x / 2^n, rounded to the nearest integer, ties to even.
func RoundEven(x int64, n uint8) int64 {
	if n == 0 {
		return x
	}
	return (x + 1<<(n-1) - 1 + x>>n&1) >> n
}

// Word returns the factor as stored in the bias memory.
func (s Scaling) Word() int32 { return s.Mul | int32(s.Shift)<<FactorShift }

// ScalingOf is the inverse of Word. It returns false if other bits are set or the shift exceeds ShiftMax.
func ScalingOf(word int32) (Scaling, bool) {
	s := Scaling{word & (1<<FactorBits - 1), uint8(uint32(word) >> FactorShift)}
	return s, s.Word() == word && s.Shift <= ShiftMax
}

// Operand applies a layer's residual r to a value t. The result is RoundEven(t*A + r*B + Add, Shift). For a layer with
// PRODUCT, the result is RoundEven(t * (r + Add) * A, Shift).
type Operand struct {
	A, B  int32 // below 2^17; B is 0 with PRODUCT
	Shift uint8
	Add   int32 // corrects for the residual's zero point
}

// Of returns the result for a value t of 16 bits.
func (o *Operand) Of(t, r int64, product bool) int64 {
	if product {
		return RoundEven(t*(r+int64(o.Add))*int64(o.A), o.Shift)
	}
	return RoundEven(t*int64(o.A)+r*int64(o.B)+int64(o.Add), o.Shift)
}

// Post8 describes how an int8 layer computes its output from its sums.
type Post8 struct {
	Bias    []int32   // by output channel
	Scales  []Scaling // by output channel
	Operand *Operand  // nil without RESIDUAL
	Curve   *Curve    // nil without CURVE
}

// Words returns the content of the layer's bias memory.
func (p *Post8) Words() []int32 {
	words := make([]int32, 0, 2*len(p.Bias)+ResWords+CurveWords)
	for c, b := range p.Bias {
		words = append(words, b, p.Scales[c].Word())
	}
	if o := p.Operand; o != nil {
		words = append(words, o.A, o.B, int32(o.Shift), o.Add)
	}
	if p.Curve != nil {
		words = append(words, p.Curve.Words()...)
	}
	return words
}

// Post8Words returns the number of words in the bias memory of an int8 layer.
func Post8Words(d *Desc) int {
	n := 2 * int(d.OutC)
	if d.Residual {
		n += ResWords
	}
	if d.Curve {
		n += CurveWords
	}
	return n
}

// Post8Of is the inverse of Words. It rejects values that do not fit the hardware's fields.
func Post8Of(d *Desc, words []int32) (*Post8, error) {
	if want := Post8Words(d); len(words) != want {
		return nil, fmt.Errorf("%d words of bias, expected %d", len(words), want)
	}
	p := &Post8{}
	for c := range int(d.OutC) {
		s, ok := ScalingOf(words[2*c+1])
		if !ok {
			return nil, fmt.Errorf("the factor of channel %d is 0x%08X, expected %d bits and from bit %d on a shift up to %d", c, uint32(words[2*c+1]), FactorBits, FactorShift, ShiftMax)
		}
		p.Bias, p.Scales = append(p.Bias, words[2*c]), append(p.Scales, s)
	}
	words = words[2*int(d.OutC):]
	if d.Residual {
		o := Operand{A: words[0], B: words[1], Shift: uint8(words[2]), Add: words[3]}
		switch most := int32(1)<<FactorBits - 1; {
		case o.A < 0 || o.A > most || o.B < 0 || o.B > most || d.Product && o.B != 0:
			return nil, fmt.Errorf("the residual's factors are %d and %d, expected 0..%d, of a product the second 0", o.A, o.B, most)
		case words[2] < 0 || words[2] > ShiftMax:
			return nil, fmt.Errorf("the residual's shift is %d, expected 0..%d", words[2], ShiftMax)
		case d.Product && (o.Add < -127 || o.Add > 128):
			return nil, fmt.Errorf("the addend of a factor of 8 bits is %d, expected -127..128", o.Add)
		}
		p.Operand, words = &o, words[ResWords:]
	}
	if d.Curve {
		c, ok := CurveOf(d, words)
		if !ok {
			return nil, ErrSlope
		}
		p.Curve = &c
	}
	return p, nil
}
