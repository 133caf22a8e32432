package search

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
)

// The advice is the first change of the list that helps by the law.
func TestAdvise(t *testing.T) {
	g := grid(t, "zc706")
	d := g.Template
	fc := cost.Geom{Op: abi.OpGEMM, InH: 1, InW: 1, InC: 2048, InPix: 2048, OutH: 1, OutW: 1, OutC: 1000, OutPix: 1000, KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 1000}
	if a := Advise(&g.Board, d, fc, 1, mapping.RTL()); !strings.HasPrefix(a, "a DRAM of 23.0 bytes/cycle: ") {
		t.Errorf("a fully connected layer: %q", a)
	}
	wide := cost.Geom{Op: abi.OpGEMM, InH: 56, InW: 56, InC: 14, InPix: 14, OutH: 56, OutW: 56, OutC: 128, OutPix: 128, KH: 1, KW: 1, SH: 1, SW: 1, BiasCount: 128}
	slow := d
	slow.Drain, slow.DRAM.BytesPerCycle = 2, 1000
	slow.NAXI, slow.AXIBytes = 4, 16
	if a := Advise(&g.Board, slow, wide, 1, mapping.RTL()); !strings.HasPrefix(a, "DRAIN 4: ") {
		t.Errorf("a layer that drains: %q", a)
	}
	// two passes over the weights of a layer whose rows do not fit at once
	deep := cost.Geom{Op: abi.OpGEMM, InH: 14, InW: 14, InC: 512, InPix: 512, OutH: 14, OutW: 14, OutC: 128, OutPix: 128, KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 128}
	small := d
	small.TR, small.DRAM.BytesPerCycle = 64, 4
	small.ABufWords = 16384
	if a := Advise(nil, small, deep, 1, mapping.Options{Orders: []bool{false}}); !strings.Contains(a, "T_R 128") {
		t.Errorf("a layer in many row tiles: %q", a)
	}
	// channels and window that fill neither T_C nor a chain, and some that fill both
	narrow := cost.Geom{Op: abi.OpGEMM, InH: 37, InW: 53, InC: 1, InPix: 1, OutH: 37, OutW: 53, OutC: 4, OutPix: 4, KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 4}
	if a, b := Larger(d, narrow, 1), Larger(d, deep, 1); a != "" || b != "T_P x T_C" {
		t.Errorf("larger arrays help a narrow layer with %q, a deep one with %q", a, b)
	}
	// a depthwise layer on the array; a kernel that the unit cannot hold, and a layer as long on the unit as on the array
	each := deep
	each.OutC, each.OutPix, each.BiasCount = 512, 512, 512
	if a := AdviseUnit(nil, d, each, 1); !strings.HasPrefix(a, "a depthwise unit (depthwise: true): 9") {
		t.Errorf("a depthwise layer: %q", a)
	}
	large, pair := each, fc
	large.KH, large.KW, large.InH, large.InW = 255, 255, 255, 255
	pair.InC, pair.InPix, pair.OutC, pair.OutPix, pair.BiasCount = 2, 2, 2, 2, 2
	if a, b := AdviseUnit(nil, d, large, 1), AdviseUnit(nil, d, pair, 1); a != "" || b != "" {
		t.Errorf("a kernel that does not fit: %q, two pixels: %q", a, b)
	}
	tight := d
	tight.ABufWords = 16
	if a := Advise(&g.Board, tight, deep, 1, mapping.RTL()); !strings.HasPrefix(a, "infeasible: ") {
		t.Errorf("a layer that does not fit: %q", a)
	}
}
