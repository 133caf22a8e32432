package onnx

import (
	"fmt"
	"sort"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// attributes reads a node's attributes. The map byName contains the attributes that were not yet read.
type attributes struct {
	byName map[string]*onnxpb.AttributeProto
	op     string
	err    error // the first error
}

func newAttributes(n *onnxpb.NodeProto) (*attributes, error) {
	a := &attributes{byName: map[string]*onnxpb.AttributeProto{}, op: opName(n)}
	for _, p := range n.GetAttribute() {
		if a.byName[p.GetName()] != nil {
			return nil, fmt.Errorf("attribute %q: %w", p.GetName(), ErrDuplicate)
		}
		if p.GetRefAttrName() != "" {
			return nil, fmt.Errorf("attribute %q: %w: it refers to a function's attribute", p.GetName(), ErrAttribute)
		}
		a.byName[p.GetName()] = p
	}
	return a, nil
}

func (a *attributes) take(name string, kind onnxpb.AttributeProto_AttributeType) *onnxpb.AttributeProto {
	p := a.byName[name]
	delete(a.byName, name)
	if p == nil {
		return nil
	}
	if p.GetType() != kind {
		a.fail("attribute %q: %w: type %v, expected %v", name, ErrAttribute, p.GetType(), kind)
		return nil
	}
	return p
}

func (a *attributes) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

func (a *attributes) int(name string, absent int64) int64 {
	if p := a.take(name, onnxpb.AttributeProto_INT); p != nil {
		return p.GetI()
	}
	return absent
}

func (a *attributes) float(name string, absent float32) float32 {
	if p := a.take(name, onnxpb.AttributeProto_FLOAT); p != nil {
		return p.GetF()
	}
	return absent
}

func (a *attributes) string(name, absent string) string {
	if p := a.take(name, onnxpb.AttributeProto_STRING); p != nil {
		return string(p.GetS())
	}
	return absent
}

// ints returns an attribute that is a list of integers; nil if the attribute is absent.
func (a *attributes) ints(name string) []int64 {
	if p := a.take(name, onnxpb.AttributeProto_INTS); p != nil {
		return append([]int64{}, p.GetInts()...)
	}
	return nil
}

// sizes returns an attribute that is a list of n numbers, each from `least` to maxDim. If the node has no such
// attribute, each of the n numbers is `absent`.
func (a *attributes) sizes(name string, n int, least int64, absent int) []int {
	list := a.ints(name)
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = absent
	}
	if list == nil {
		return sizes
	}
	if len(list) != n {
		a.fail("attribute %q: %w: %v, expected %d numbers", name, ErrAttribute, list, n)
		return sizes
	}
	for i, v := range list {
		if v < least || v > maxDim {
			a.fail("attribute %q: %w: %v, expected numbers from %d to %d", name, ErrAttribute, list, least, maxDim)
			return sizes
		}
		sizes[i] = int(v)
	}
	return sizes
}

// only checks an integer attribute that has a single supported value, `want`.
func (a *attributes) only(name string, want int64) {
	if got := a.int(name, want); got != want {
		a.fail("attribute %q: %w: %d, only %d is supported", name, ErrAttribute, got, want)
	}
}

// done returns the first error, or an error that names attributes which were not read.
func (a *attributes) done() error {
	if a.err != nil {
		return a.err
	}
	left := make([]string, 0, len(a.byName))
	for name := range a.byName {
		left = append(left, name)
	}
	if len(left) == 0 {
		return nil
	}
	sort.Strings(left)
	return fmt.Errorf("%w: %q of %s is not known; an export with another opset (7 to 17) may do without", ErrAttribute, left, a.op)
}
