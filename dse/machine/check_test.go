package machine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func small(t *testing.T) (configs.Design, machine.Layer) {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	g := cost.Geom{
		InH: 6, InW: 6, InC: 4, InPix: 4, OutH: 6, OutW: 6, OutC: 4, OutPix: 4, KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1,
		BiasCount: 4, OutOffset: 4096,
	}
	return d, machine.Layer{Geom: g, Entry: abi.FBCB{BR: 2, TileB: 1, TileRows: 2, K: uint8(cost.K1)}}
}

// Starts that the RTL or the model of its memory rejects are rejected before the first cycle, without a panic or an
// endless loop.
func TestRefused(t *testing.T) {
	type start struct {
		d     configs.Design
		l     machine.Layer
		batch int
		n     int
	}
	d, l := small(t)
	if _, err := machine.Run(t.Context(), d, []machine.Layer{l, l}, 2); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*start){
		"no layers":         func(s *start) { s.n = 0 },
		"too many layers":   func(s *start) { s.n = abi.LMax + 1 },
		"TILE_ROWS 0":       func(s *start) { s.l.Entry.TileRows = 0 },
		"TILE_B 0":          func(s *start) { s.l.Entry.TileB = 0 },
		"B_R 0":             func(s *start) { s.l.Entry.BR = 0 },
		"k 3":               func(s *start) { s.l.Entry.K = 3 },
		"batch 0":           func(s *start) { s.batch = 0 },
		"batch 1, B_R 2":    func(s *start) { s.batch = 1 },
		"batch 100":         func(s *start) { s.batch = 100 },
		"no inputs":         func(s *start) { s.l.InC = 0 },
		"no outputs":        func(s *start) { s.l.OutC = 0 },
		"no biases":         func(s *start) { s.l.BiasCount = 0 },
		"KEEP_IN at first":  func(s *start) { s.l.Entry.KeepIn = true },
		"KEEP_OUT at last":  func(s *start) { s.l.Entry.KeepOut = true },
		"tile of no buffer": func(s *start) { s.l.InC, s.l.InPix = 4000, 4000 },
		"no depthwise unit": func(s *start) { s.l.Op = abi.OpDepthwise },
		"no post stage":     func(s *start) { s.l.Curve = true },
		"int8":              func(s *start) { s.l.Int8 = true },
		"bytes 0":           func(s *start) { s.d.DRAM.BytesPerCycle = 0 },
		"bytes 1e-6":        func(s *start) { s.d.DRAM.BytesPerCycle = 1e-6 },
		"bytes 1e18":        func(s *start) { s.d.DRAM.BytesPerCycle = 1e18 },
		"latency -5":        func(s *start) { s.d.DRAM.LatencyCycles = -5 },
		"no ports":          func(s *start) { s.d.NAXI = 0 },
		"ring of 8":         func(s *start) { s.d.WRingBeats = 8 },
		"odd rows":          func(s *start) { s.l.RowBytes = 49 },
		"short rows":        func(s *start) { s.l.RowBytes = 46 },
		"rows backwards":    func(s *start) { s.l.RowBytes = -64 },
	} {
		t.Run(name, func(t *testing.T) {
			s := start{d, l, 2, 1}
			change(&s)
			layers := make([]machine.Layer, s.n)
			for i := range layers {
				layers[i] = s.l
			}
			if r, err := machine.Run(t.Context(), s.d, layers, s.batch); err == nil || errors.Is(err, machine.ErrEndless) || r.Cycles != 0 {
				t.Errorf("%d cycles, %v, want a refusal", r.Cycles, err)
			}
		})
	}
}

func TestRunEnds(t *testing.T) {
	d, l := small(t)
	d.DRAM.BytesPerCycle = 1. / 65536 // a beat takes 2^19 cycles
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := machine.Run(ctx, d, []machine.Layer{l}, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
