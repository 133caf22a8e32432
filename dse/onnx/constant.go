package onnx

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// ONNX element types, TensorProto.DataType.
const (
	typeFloat    = 1
	typeUint8    = 2
	typeInt8     = 3
	typeInt32    = 6
	typeInt64    = 7
	typeBool     = 9
	typeFloat16  = 10
	typeDouble   = 11
	typeBFloat16 = 16
)

// constant is a tensor with known values: an initializer, a Constant node, or computed from constants and shapes.
type constant struct {
	name  string
	dims  []int
	elems int
	kind  int32
	ints  []int64             // values of integer types
	proto *onnxpb.TensorProto // floats are decoded when they are used
	float []float32
}

// newConstant checks a tensor's type, size and amount of data. The data may be in an outside file; if seeded is true,
// they may be missing.
func newConstant(name string, t *onnxpb.TensorProto, seeded bool, o *outside) (*constant, error) {
	c := &constant{name: name, elems: 1, kind: t.GetDataType(), proto: t}
	for i, d := range t.GetDims() {
		if d < 0 {
			return nil, fmt.Errorf("tensor %q: %w: dimension %d is %d", name, ErrShape, i, d)
		}
		if d > maxElems || d > 0 && c.elems > maxElems/int(d) {
			return nil, fmt.Errorf("tensor %q: %w: dimensions %v make more than %d elements",
				name, ErrTooLarge, t.GetDims(), maxElems)
		}
		c.dims = append(c.dims, int(d))
		c.elems *= int(d)
	}
	width, listed := stored(t)
	if width == 0 {
		return c, nil // the type is unsupported: an error only if the values are read
	}
	if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL || len(t.GetExternalData()) > 0 {
		if listed > 0 || len(t.GetRawData()) > 0 {
			return nil, fmt.Errorf("tensor %q: %w: given twice, in the file and outside it", name, ErrData)
		}
		data, err := o.read(t, int64(c.elems)*int64(width))
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		t = &onnxpb.TensorProto{DataType: t.DataType, Dims: t.Dims, RawData: data}
		c.proto = t
	}
	raw := len(t.GetRawData())
	absent := raw == 0 && listed == 0 && c.elems > 0
	switch {
	case absent && seeded && len(c.dims) > 0 && !whole(c.kind):
	case raw > 0 && listed > 0:
		return nil, fmt.Errorf("tensor %q: %w: given twice, raw and as a list", name, ErrData)
	case raw > 0 && raw != c.elems*width:
		return nil, fmt.Errorf("tensor %q: %w: %d bytes, dimensions %v need %d",
			name, ErrData, raw, c.dims, c.elems*width)
	case raw == 0 && listed != c.elems:
		return nil, fmt.Errorf("tensor %q: %w: %d values, dimensions %v need %d",
			name, ErrData, listed, c.dims, c.elems)
	}
	if whole(c.kind) {
		c.readInts(t, width)
	}
	return c, nil
}

// stored returns the bytes per element of RawData, and the number of elements in the type's own list. Both are 0 for an
// unsupported type.
func stored(t *onnxpb.TensorProto) (width, listed int) {
	switch t.GetDataType() {
	case typeFloat:
		return 4, len(t.GetFloatData())
	case typeFloat16, typeBFloat16:
		return 2, len(t.GetInt32Data())
	case typeDouble:
		return 8, len(t.GetDoubleData())
	case typeInt64:
		return 8, len(t.GetInt64Data())
	case typeInt32:
		return 4, len(t.GetInt32Data())
	case typeInt8, typeUint8, typeBool:
		return 1, len(t.GetInt32Data())
	}
	return 0, 0
}

func (c *constant) readInts(t *onnxpb.TensorProto, width int) {
	c.ints = make([]int64, c.elems)
	copy(c.ints, t.GetInt64Data())
	for i, v := range t.GetInt32Data() {
		c.ints[i] = cut(c.kind, int64(v))
	}
	for i := range len(t.GetRawData()) / width {
		var b [8]byte
		copy(b[:], t.GetRawData()[width*i:width*(i+1)])
		c.ints[i] = cut(c.kind, int64(binary.LittleEndian.Uint64(b[:])))
	}
}

func (c *constant) readable() bool {
	return whole(c.kind) || c.kind == typeFloat || c.kind == typeFloat16 || c.kind == typeDouble || c.kind == typeBFloat16
}

func (c *constant) errType() error {
	return fmt.Errorf("tensor %q: %w %d; supported are 1 (float), 10 (float16), 11 (double), 16 (bfloat16) and integers of 8, 32 and 64 bits", c.name, ErrType, c.kind)
}

func (c *constant) absent() bool {
	t := c.proto
	return c.float == nil && c.ints == nil && c.elems > 0 && len(t.GetRawData())+len(t.GetFloatData())+
		len(t.GetInt32Data())+len(t.GetDoubleData()) == 0
}

// floats decodes the values and rounds doubles to float32. It allows infinities, but returns an error for NaNs.
func (c *constant) floats() ([]float32, error) {
	if c.float != nil {
		return c.float, nil
	}
	if !c.readable() {
		return nil, c.errType()
	}
	if whole(c.kind) {
		return nil, fmt.Errorf("tensor %q: %w %d: integers, expected numbers with a fraction", c.name, ErrType, c.kind)
	}
	if c.absent() {
		return nil, fmt.Errorf("tensor %q: %w: it has no data", c.name, ErrMissing)
	}
	values := make([]float32, c.elems)
	t, raw := c.proto, c.proto.GetRawData()
	for i := range values {
		switch {
		case c.kind == typeFloat && len(raw) > 0:
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		case c.kind == typeFloat:
			values[i] = t.GetFloatData()[i]
		case c.kind == typeDouble && len(raw) > 0:
			values[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		case c.kind == typeDouble:
			values[i] = float32(t.GetDoubleData()[i])
		case len(raw) > 0:
			values[i] = c.half(binary.LittleEndian.Uint16(raw[2*i:]))
		default:
			values[i] = c.half(uint16(t.GetInt32Data()[i]))
		}
		if v := float64(values[i]); math.IsNaN(v) {
			return nil, fmt.Errorf("tensor %q: %w: element %d is %v", c.name, ErrValue, i, v)
		}
	}
	c.float = values
	return values, nil
}

func (c *constant) finite(values []float32) error {
	for i, v := range values {
		if math.IsInf(float64(v), 0) {
			return fmt.Errorf("tensor %q: %w: element %d is %v", c.name, ErrValue, i, v)
		}
	}
	return nil
}

// half converts h, an IEEE 754 half or a bfloat16, to a float32.
func (c *constant) half(h uint16) float32 {
	if c.kind == typeBFloat16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	return float16(h)
}

// float16 converts an IEEE 754 half.
func float16(h uint16) float32 {
	exponent, fraction := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(fraction, -24)
	switch {
	case exponent == 31 && fraction == 0:
		v = math.Inf(1)
	case exponent == 31:
		v = math.NaN()
	case exponent > 0:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if h>>15 == 1 {
		v = -v
	}
	return float32(v)
}

// role is the purpose of a weight. If a model has no weights, it determines the distribution of the random weights.
type role int

const (
	kernel   role = iota // He-normal: variance 2 / fan-in
	offset               // a bias: small
	gain                 // a normalisation's scale: near one
	mean                 // a normalisation's mean: zero
	variance             // a normalisation's variance: one
)

// surveyed is the number of random values that a survey draws for a tensor; they repeat in the rest of the tensor.
const surveyed = 4093

// draw returns random values that depend only on the options, the role, fanIn and the tensor's name and size.
func (c *constant) draw(o Options, r role, fanIn int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(c.name))
	random := rand.New(rand.NewPCG(o.WeightSeed, h.Sum64()))
	values := make([]float32, c.elems)
	deviation := math.Sqrt(2 / float64(fanIn))
	for i := range values {
		if o.survey && i >= surveyed {
			for ; i < len(values); i *= 2 {
				copy(values[i:], values[:i])
			}
			break
		}
		switch r {
		case kernel:
			values[i] = float32(random.NormFloat64() * deviation)
		case offset:
			values[i] = float32(random.NormFloat64() * 0.05)
		case gain:
			values[i] = float32(1 + random.NormFloat64()*0.1)
		case variance:
			values[i] = 1
		}
	}
	return values
}
