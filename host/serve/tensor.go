// Tensor elements: their sizes, and conversion to and from a network's elements.

package serve

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// sizeOf returns the size of an element in bytes, or 0 if the datatype is unknown or has no fixed size.
func sizeOf(datatype string) int {
	switch datatype {
	case "BOOL", "UINT8", "INT8":
		return 1
	case "UINT16", "INT16", "FP16", "BF16":
		return 2
	case "UINT32", "INT32", "FP32":
		return 4
	case "UINT64", "INT64", "FP64":
		return 8
	}
	return 0
}

// elements returns the number of elements of a shape, or -1 if the shape is impossible or too large.
func elements(shape []int64) int {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt32/d {
			return -1
		}
		n *= d
	}
	return int(n)
}

// infinite is the mask of a float32's exponent bits. Only infinities and NaN have all of them set.
const infinite = 0x7f800000

var errNaN = errors.New("it holds a value that is no number: expected finite values")

// inputTypes returns the datatypes that are allowed for inputs.
func inputTypes() []string { return []string{"FP32", "UINT8", "INT16", "INT8"} }

// toWords converts values to the network's elements. Values outside the elements' range are clipped; cut reports
// whether this occurred. INT16 and INT8 values already are elements. UINT8 values are indices in the table "pixels".
func toWords(datatype string, data []byte, net *bundle.Network, pixels []float32) (out []int16, cut bool, err error) {
	out = make([]int16, len(data)/sizeOf(datatype))
	switch datatype {
	case "INT16":
		for i := range out {
			out[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
		}
		return out, false, net.Holds(out)
	case "INT8":
		for i := range out {
			out[i] = int16(int8(data[i]))
		}
		return out, false, net.Holds(out)
	}
	var values [256]float32 // the conversion uses parts of this length, because an input may contain a million values
	for at := 0; at < len(out); at += len(values) {
		part := values[:min(len(values), len(out)-at)]
		finite := true
		if datatype == "UINT8" {
			for i, v := range data[at:][:len(part)] {
				part[i] = pixels[((at+i)*256+int(v))%len(pixels)]
				finite = finite && part[i]-part[i] == 0
			}
		} else {
			raw := data[4*at:][:4*len(part)]
			for i := range part {
				bits := binary.LittleEndian.Uint32(raw[4*i:])
				finite = finite && bits&infinite != infinite
				part[i] = math.Float32frombits(bits)
			}
		}
		if !finite {
			return nil, false, errNaN
		}
		cut = net.Elements(out[at:], part) || cut
	}
	return out, cut, nil
}

func int32s(name string, v []int32, shape ...int64) Tensor {
	t := Tensor{Name: name, Datatype: "INT32", Shape: shape, Data: make([]byte, 0, 4*len(v))}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(x))
	}
	return t
}

func float32s(name string, v []float32, shape ...int64) Tensor {
	t := Tensor{Name: name, Datatype: "FP32", Shape: shape, Data: make([]byte, 0, 4*len(v))}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

// texts returns a tensor of datatype BYTES. Each element is the length of a text, followed by the text.
func texts(name string, v []string, shape ...int64) Tensor {
	t := Tensor{Name: name, Datatype: "BYTES", Shape: shape}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(len(x)))
		t.Data = append(t.Data, x...)
	}
	return t
}

// ranked returns Triton's classification output: the k highest values of each row, as value:index or value:index:name.
func ranked(t Tensor, k int, names []string) Tensor {
	rows, width := int(t.Shape[0]), int(t.Shape[1])
	k = min(k, width)
	var out []string
	for r := range rows {
		at := func(i int) float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*(r*width+i):]))
		}
		order := make([]int, width)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(b), at(a)) })
		for _, i := range order[:k] {
			text := fmt.Sprintf("%f:%d", at(i), i)
			if i < len(names) {
				text += ":" + names[i]
			}
			out = append(out, text)
		}
	}
	return texts(t.Name, out, int64(rows), int64(k))
}

// appendNumber appends a JSON number as an element.
func appendNumber(out []byte, datatype, v string) ([]byte, error) {
	switch datatype {
	case "UINT8":
		i, err := strconv.ParseUint(v, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("%s is no UINT8", v)
		}
		return append(out, byte(i)), nil
	case "INT16", "INT8":
		i, err := strconv.ParseInt(v, 10, 8*sizeOf(datatype))
		if err != nil {
			return nil, fmt.Errorf("%s is no %s", v, datatype)
		}
		if datatype == "INT8" {
			return append(out, byte(i)), nil
		}
		return binary.LittleEndian.AppendUint16(out, uint16(i)), nil
	}
	f, err := strconv.ParseFloat(v, 32)
	if err != nil {
		return nil, fmt.Errorf("%s is no FP32", v)
	}
	return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(f))), nil
}
