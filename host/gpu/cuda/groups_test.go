package cuda_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/hw/abi"
)

// grouped returns the network of long with layers that work in place. Some scale the output of the layer before, so they
// can only be repeated together with it. With never, the second segment begins with one that scales the first segment's
// output, and so cannot be repeated at all.
func grouped(t testing.TB, never bool) (*bundle.Bundle, *golden.Program) {
	t.Helper()
	was, _ := long(t)
	b := *was
	b.Layers, b.Names, b.Network.Exits = nil, nil, slices.Clone(was.Network.Exits)
	add := func(d abi.Desc, name string) { b.Layers, b.Names = append(b.Layers, d), append(b.Names, name) }
	scale := func(at uint32, h, w, c, pix uint16, row uint32, name string) {
		add(abi.Desc{
			Op: abi.OpAvgPool, InOffset: at, OutOffset: at, InH: h, InW: w, InC: c, InPix: pix, OutH: h, OutW: w, OutC: c, OutPix: pix,
			InRowBytes: row, OutRowBytes: row, KH: 1, KW: 1, SH: 1, SW: 1, AvgMul: 3, AvgShift: 2, ClampLo: -32768, ClampHi: 32767,
		}, name)
	}
	for s := range b.Network.Exits {
		e := &b.Network.Exits[s]
		first := len(b.Layers)
		for i := e.First; i <= e.Last; i++ {
			d := was.Layers[i]
			if never && s == 1 && i == e.First {
				scale(d.InOffset, d.InH, d.InW, d.InC, d.InPix, d.InRowBytes, "in place of no return")
			}
			add(d, was.Names[i])
			if !never && i < e.Last && d.Op == abi.OpGEMM {
				scale(d.OutOffset, d.OutH, d.OutW, d.OutC, d.OutPix, d.OutRowBytes, "in place")
			}
		}
		e.First, e.Last = first, len(b.Layers)-1
	}
	p, err := golden.New(&b)
	if err != nil {
		t.Fatal(err)
	}
	return &b, p
}

// A launch that is killed in an in-place kernel resumes at the kernel before it. A kernel that cannot be repeated is
// awaited. Results are golden's.
func TestGroups(t *testing.T) {
	for _, never := range []bool{false, true} {
		t.Run(fmt.Sprintf("never %v", never), func(t *testing.T) {
			enough := func(_, aborts, inside int) bool { return aborts >= *kills/4 && inside > 0 }
			differ, aborts, inside := killedUntil(t, cuda.Config{}, 2**kills, func(t testing.TB) (*bundle.Bundle, *golden.Program) { return grouped(t, never) }, enough)
			t.Logf("%d aborts, %d of them behind the first kernel: %d differ", aborts, inside, differ)
			if differ != 0 || !enough(differ, aborts, inside) {
				t.Errorf("%d differ, %d aborts, %d behind the first kernel", differ, aborts, inside)
			}
		})
	}
}
