// This file has inputs and results.

package device

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the type of a tensor's elements.
type DType uint8

const (
	Int8 DType = iota
	Uint8
	Int16
	Int32
	Float16
	BFloat16
	Float32
)

// Size returns the size of an element in bytes.
func (d DType) Size() int {
	if d > Float32 {
		return 0
	}
	return [...]int{1, 1, 2, 4, 2, 2, 4}[d]
}

// String returns the name of a type.
func (d DType) String() string {
	if d > Float32 {
		return "unknown"
	}
	return [...]string{"int8", "uint8", "int16", "int32", "float16", "bfloat16", "float32"}[d]
}

// Tensor is an array with a name. A tensor must not change after it has been passed to other code.
type Tensor struct {
	Name  string // name of the tensor in the network
	Type  DType
	Shape []int  // sizes of the dimensions; the last index is the fastest
	Data  []byte // little-endian elements; nil if words or floats has the elements

	words  []int16
	floats []float32
}

// Words creates a tensor of int16 without copying.
func Words(name string, v []int16, shape ...int) Tensor {
	return Tensor{Name: name, Type: Int16, Shape: shape, words: v}
}

// Floats creates a tensor of float32 without copying.
func Floats(name string, v []float32, shape ...int) Tensor {
	return Tensor{Name: name, Type: Float32, Shape: shape, floats: v}
}

// Len returns the number of elements by the shape, or by the data if there is no shape; -1 if the shape is impossible.
func (t *Tensor) Len() int {
	if t.Shape == nil {
		switch {
		case t.words != nil:
			return len(t.words)
		case t.floats != nil:
			return len(t.floats)
		case t.Type.Size() > 0:
			return len(t.Data) / t.Type.Size()
		}
		return 0
	}
	n := 1
	for _, v := range t.Shape {
		if v < 0 || v > 0 && n > math.MaxInt/v {
			return -1
		}
		n *= v
	}
	return n
}

// Check returns an error if the shape of a tensor does not match its data.
func (t *Tensor) Check() error {
	have, size := len(t.Data), t.Type.Size()
	switch {
	case t.words != nil:
		have = 2 * len(t.words)
	case t.floats != nil:
		have = 4 * len(t.floats)
	}
	if n := t.Len(); size == 0 || n < 0 || n > math.MaxInt/size || n*size != have {
		return fmt.Errorf("%w: tensor %q of %s has the shape %v and %d bytes", ErrRequest, t.Name, t.Type, t.Shape, have)
	}
	return nil
}

// Bytes returns the elements in little-endian order.
func (t *Tensor) Bytes() []byte {
	switch {
	case t.words != nil:
		out := make([]byte, 0, 2*len(t.words))
		for _, v := range t.words {
			out = binary.LittleEndian.AppendUint16(out, uint16(v))
		}
		return out
	case t.floats != nil:
		out := make([]byte, 0, 4*len(t.floats))
		for _, v := range t.floats {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
		return out
	}
	return t.Data
}

// Int16s returns the elements of an int16 tensor.
func (t *Tensor) Int16s() ([]int16, error) {
	if t.words != nil {
		return t.words, nil
	}
	return elements(t, Int16, func(b []byte) int16 { return int16(binary.LittleEndian.Uint16(b)) })
}

// Float32s returns the elements of a float32 tensor.
func (t *Tensor) Float32s() ([]float32, error) {
	if t.floats != nil {
		return t.floats, nil
	}
	return elements(t, Float32, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// elements decodes a tensor. The tensor must have the type want.
func elements[T int16 | float32](t *Tensor, want DType, one func([]byte) T) ([]T, error) {
	if t.Type != want {
		return nil, fmt.Errorf("%w: tensor %q is of %s, expected %s", ErrRequest, t.Name, t.Type, want)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	size := want.Size()
	out := make([]T, len(t.Data)/size)
	for i := range out {
		out[i] = one(t.Data[i*size:])
	}
	return out, nil
}

// InWords returns an input that consists of one int16 tensor, without copying.
func InWords(v []int16) []Tensor { return []Tensor{Words("input", v, len(v))} }

// WordInput returns the elements of an input that consists of one int16 tensor; nil if there is no input.
func WordInput(in []Tensor) ([]int16, error) {
	switch len(in) {
	case 0:
		return nil, nil
	case 1:
		return in[0].Int16s()
	}
	return nil, fmt.Errorf("%w: %d input tensors, expected one", ErrRequest, len(in))
}
