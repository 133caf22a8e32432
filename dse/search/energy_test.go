package search

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Each part of the energy includes what it should, the bound is a lower bound, and requests that leave early need less
// energy.
func TestEnergy(t *testing.T) {
	for _, name := range []string{"tiny", "fashion"} {
		w := load(t, name)
		early := make([]float64, w.Segments)
		for i := range early {
			early[i] = 1 / float64(1+i)
		}
		for _, config := range []string{"run", "v7", "v13", "v13 int8"} {
			config, kind, _ := strings.Cut(config, " ")
			d, err := configs.Load(config)
			if err != nil {
				t.Fatal(err)
			}
			d = d.Typed(cmp.Or(kind, "int16"))
			of := func(m Energy, weights Weights, reach []float64) float64 {
				v, err := m.Of(w, d, mapping.RTL(), weights, reach)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			layers, err := w.Lower(d)
			if err != nil {
				t.Fatal(err)
			}
			chosen, err := Choose(d, layers, 4, mapping.RTL())
			if err != nil {
				t.Fatal(err)
			}
			macs, bytes, stays := int64(0), 0.0, 0.0
			for i, l := range layers {
				macs += l.Geom.MACs()
				x := chosen[i].Time
				if chosen[i].Entry.KeepOut {
					stays += float64(l.Geom.OutH * l.Geom.OutW * l.Geom.OutC)
				}
				bytes += float64(x.BytesRead+x.BytesWritten) / 4
			}
			four := Weights{3: 1}
			if v := of(Energy{MAC: 1, MAC8: 1}, Uniform(), nil); v != float64(macs) {
				t.Errorf("%s on %s: %v multiplications, the layers have %d", name, config, v, macs)
			}
			if v := of(Energy{Byte: 1}, four, nil); math.Abs(v/bytes-1) > 1e-12 {
				t.Errorf("%s on %s: %v bytes at B = 4, the law says %v", name, config, v, bytes)
			}
			// a word of weights feeds at most T_P T_C multiplications, one of activations at most T_C
			if v := of(Energy{Word: 1}, four, nil); v < bytes/2+stays*float64(d.ElemBytes())/2 || v > 6*float64(macs) {
				t.Errorf("%s on %s: %v words for %v bytes and %d multiplications", name, config, v, bytes, macs)
			}
			m := Horowitz()
			all, _ := classes(d, layers, w.Segments)
			for b := range abi.BMax {
				var only Weights
				only[b] = 1
				if least, v := m.Least(w, d, all, nil), of(*m, only, nil); least > v || least < v/20 {
					t.Errorf("%s on %s at B = %d: %v pJ, at least %v", name, config, b+1, v, least)
				}
			}
			if a, b := of(*m, Uniform(), early), of(*m, Uniform(), nil); w.Segments > 1 && a >= b {
				t.Errorf("%s on %s: %v pJ with early exits, %v without", name, config, a, b)
			}
		}
	}
}

// A result that stays on chip is written there and not to the DRAM, also in the bound.
func TestEnergyOfWhatStays(t *testing.T) {
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := load(t, "fashion").Lower(d)
	if err != nil {
		t.Fatal(err)
	}
	words, bytes := &Energy{Word: 1}, &Energy{Byte: 1}
	kept, telling := 0, 0
	for batch := 1; batch <= abi.BMax; batch++ {
		chosen, err := Choose(d, layers, batch, mapping.RTL())
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range layers {
			e, x := chosen[i].Entry, chosen[i].Time
			through := e
			through.KeepIn, through.KeepOut, through.OnChip = false, false, false
			want := 0.0
			if e.KeepOut {
				kept++
				want = float64(l.Geom.OutH * l.Geom.OutW * l.Geom.OutC)
			}
			if got := words.layer(d, l.Geom, batch, e, x) - words.layer(d, l.Geom, batch, through, x); math.Abs(got-want) > 1e-6*(1+want) {
				t.Errorf("%s at B = %d: %v more words, %v results stay", l.Name, batch, got, want)
			}
			took := bytes.layer(d, l.Geom, batch, e, x)
			if least := bytes.least(d, l.Geom, l.Next == mapping.Only); least > took {
				t.Errorf("%s at B = %d: %v bytes, at least %v", l.Name, batch, took, least)
			}
			if bytes.least(d, l.Geom, false) > took {
				telling++
			}
		}
	}
	if kept == 0 || telling == 0 {
		t.Errorf("%d results stay, the bound of those that do not would be wrong of %d", kept, telling)
	}
}

// Computed by hand: 16 pixels, 3 x ceil(9 / 4) passes; each pass moves T_P words into the array and reads and writes
// eight accumulators of 36 bits. A pool reads its windows.
func TestOnChip(t *testing.T) {
	d := configs.Design{TP: 4, TC: 8}
	g := cost.Geom{Op: abi.OpGEMM, InH: 4, InW: 4, InC: 3, OutH: 4, OutW: 4, OutC: 8, KH: 3, KW: 3, SH: 1, SW: 1}
	if v := onChip(d, g, cost.K1, 1); v != 16*9*(4+2*2.25*8) {
		t.Errorf("%v words, by hand %v", v, 16*9*(4+2*2.25*8))
	}
	if v := onChip(d, g, cost.K1, 2); v != 16*9*(2*4+2*2.25*8) {
		t.Errorf("in two groups %v words", v)
	}
	if v := onChip(configs.Design{TP: 4, TC: 8, Type: configs.TypeInt8}, g, cost.K1, 1); v != 16*9*(4./2+2*2*8) {
		t.Errorf("%v words in int8, by hand %v", v, 16*9*(4./2+2*2*8))
	}
	g.Op = abi.OpMaxPool
	if v := onChip(d, g, cost.K1, 1); v != 16*9*8 {
		t.Errorf("of a pool %v words", v)
	}
}
