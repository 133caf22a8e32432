package cuda_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Operations that the kernels lack are rejected.
func TestLacking(t *testing.T) {
	for name, change := range map[string]func(*abi.Desc){
		"depthwise": func(d *abi.Desc) { d.Op = abi.OpDepthwise },
		"curve":     func(d *abi.Desc) { d.Curve = true },
		"product":   func(d *abi.Desc) { d.Residual, d.Product, d.ResPix = true, true, d.OutC },
		"one pixel": func(d *abi.Desc) { d.Residual, d.ResPix, d.ResRowBytes = true, 0, 0 },
	} {
		b, _ := network(t, 1, 1)
		if _, err := cuda.Program(b, 1, h200(t)); err != nil {
			t.Fatal(err)
		}
		b.Layers = slices.Clone(b.Layers) // the tests' networks are shared
		change(&b.Layers[0])
		if _, err := cuda.Program(b, 1, h200(t)); err == nil || !strings.Contains(err.Error(), "layer 0") || !strings.Contains(err.Error(), "without depthwise and post") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A layer with more products per output than its sums can hold is rejected.
func TestDepth(t *testing.T) {
	was, _ := light(t)
	p := h200(t)
	b := *was
	b.Layers = slices.Clone(was.Layers)
	i := slices.IndexFunc(b.Layers, func(l abi.Desc) bool { return l.Op == abi.OpGEMM })
	d := &b.Layers[i]
	for c, good := range map[uint16]bool{kernels.MaxDepth / 2: true, kernels.MaxDepth/2 + 1: false} {
		d.KH, d.KW, d.InC = 1, 2, c
		if _, err := cuda.Program(&b, 1, p); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "products an output") {
			t.Errorf("%d products: %v", 2*int(c), err)
		}
	}
}
