package soft_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/golden/int8"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

// An int8 bundle has the exits of the int8 network, and refuses inputs beyond 8 bits.
func TestInt8(t *testing.T) {
	d, err := configs.Load("run-int8")
	if err != nil {
		t.Fatal(err)
	}
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	image := func(i int) []float32 {
		x := make([]float32, g.Tensors[g.Input].Elems())
		for k := range x {
			x[k] = float32((i*k*k+k)%23)/11 - 1
		}
		return x
	}
	seen, err := quant.See(g, 4, func(i int) ([]float32, error) { return image(i), nil }, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := seen.Network(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile.Int8(n, d, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := int8.New(n)
	if err != nil {
		t.Fatal(err)
	}
	dev, ctx, net := soft.New(d, soft.Options{}), context.Background(), &b.Network
	if err := dev.Load(ctx, b); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		in := net.Input(image(i))
		maps, err := p.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		id := device.RequestID(i + 1)
		if err := dev.Admit(ctx, net.Name, id, []device.Tensor{device.Words("x", in, net.InH, net.InW, net.InC)}); err != nil {
			t.Fatal(err)
		}
		rep, err := dev.Run(ctx, launch(b, 0, len(net.Exits)-1, 2, id))
		if err != nil {
			t.Fatal(err)
		}
		for x, e := range rep.Results[0].Exits {
			codes := maps[g.Exits[x].Tensor]
			if !slices.Equal(e.Raw, codes) {
				t.Fatalf("image %d, exit %d: %v, expected %v", i, x, e.Raw, codes)
			}
			for k, v := range e.Logits {
				if want := float32(n.Maps[g.Exits[x].Tensor].Value(codes[k])); v != want {
					t.Fatalf("image %d, exit %d, logit %d: %v, expected %v", i, x, k, v, want)
				}
			}
			if len(codes) > 1 && codes[e.Class] != slices.Max(codes) {
				t.Fatalf("image %d, exit %d: class %d of %v", i, x, e.Class, codes)
			}
		}
		dev.Release(id)
	}
	wide := make([]int16, net.InH*net.InW*net.InC)
	wide[0] = 128
	if err := dev.Admit(ctx, net.Name, 9, []device.Tensor{device.Words("x", wide, net.InH, net.InW, net.InC)}); !errors.Is(err, soft.ErrRequest) {
		t.Errorf("an input beyond 8 bits: %v", err)
	}
}
