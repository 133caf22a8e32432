// Shapes describe the networks' kernels as operations on tensors, for a real GPU.

package catalogue

import (
	"cmp"
	"fmt"
)

// Place is a tensor in a program's memory. It has H x W pixels of C elements and begins at the element with index At.
type Place struct {
	At      int64
	H, W, C int
}

// Elements returns the number of elements.
func (p *Place) Elements() int64 { return int64(p.H) * int64(p.W) * int64(p.C) }

// Shape is the operation of a kernel.
type Shape struct {
	Name string
	// Product means a matrix product or convolution. Otherwise the kernel computes means over a window or, if there is
	// no window, an elementwise operation.
	Product bool
	In, Out Place
	Add     *Place // tensor that is added to the product
	K       int    // number of elements that the product reads from each pixel
	// Size and stride of the window; 0: there is no window.
	KH, KW, Stride int
	Pad            bool // the window extends beyond the tensor's edges
	Exit           bool // a segment ends here
}

// Shaped is a program with kernels that are described by shapes.
type Shaped struct {
	Name    string
	In      Place
	Kernels []Shape
	Memory  int64 // number of elements
}

// Shapes returns a network's kernels in Program's order, with all sides of the tensors divided by shrink. Tensors share
// memory as in the full-size program. A convolution's work is divided by the fourth power of shrink.
func Shapes(spec Spec, shrink int) (*Shaped, error) {
	style, err := StyleOf(cmp.Or(spec.Style, "tvm"))
	if err != nil {
		return nil, err
	}
	if shrink < 1 || shrink > 64 || spec.Batch > 1 {
		return nil, fmt.Errorf("%s: shrink %d, batch %d: shrink 1..64 and a batch of 1 are expected", spec.Network, shrink, spec.Batch)
	}
	b, err := layers(spec)
	if err != nil {
		return nil, err
	}
	less := func(n int) int { return (n + shrink - 1) / shrink }
	for i := range b.tensors {
		t := &b.tensors[i]
		t.c, t.h, t.w = less(t.c), less(t.h), less(t.w)
	}
	b.arrange(&Machine{}, style)
	at := func(t int) Place {
		x := &b.tensors[t]
		return Place{x.span.From / wordBytes, x.h, x.w, x.c}
	}
	out := &Shaped{Name: b.name, In: at(0)}
	for i := range b.ops {
		o := &b.ops[i]
		s := Shape{Name: o.name, Product: o.m > 0, In: at(o.in[0]), Out: at(o.out), Exit: o.exitsHere || i == len(b.ops)-1}
		switch {
		case s.Product && o.window[0] == 0:
			s.K = min(s.In.C, less(o.k))
		case s.Product:
			s.K = s.In.C
		case s.In.C != s.Out.C: // a mean over a window cannot mix channels
			o.window = [3]int{}
		}
		if o.window[0] > 0 {
			s.KH, s.KW, s.Stride = o.window[0], o.window[1], o.window[2]
			if !s.Product {
				s.KH, s.KW = min(s.KH, s.In.H), min(s.KW, s.In.W)
			}
			s.Pad = s.Out.H >= (s.In.H+s.Stride-1)/s.Stride
		}
		for _, t := range o.in[1:] {
			if x := at(t); s.Product && s.Add == nil && x.H == s.Out.H && x.W == s.Out.W && x.C == s.Out.C {
				s.Add = &x
			}
		}
		out.Kernels = append(out.Kernels, s)
		for _, t := range append([]int{o.out}, o.in...) {
			out.Memory = max(out.Memory, b.tensors[t].span.To/wordBytes)
		}
	}
	return out, nil
}
