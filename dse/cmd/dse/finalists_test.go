package main

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/search"
)

// The law orders the finalists as their counted cycles do, and is at most 1.1 % off. A count takes half an hour, so the
// file is of the RTL that it names. The machine, which is held to today's RTL on many starts, must still have the cycles
// of the best of each board.
func TestCountedFinalists(t *testing.T) {
	text, err := os.ReadFile("../../counted/finalists.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		RTL       string `json:"rtl"`
		Network   string `json:"network"` // at B = 1
		Finalists []struct {
			Board  string `json:"board"`
			TR     int    `json:"TR"`
			TP     int    `json:"TP"`
			TC     int    `json:"TC"`
			Cycles int64  `json:"cycles"`
		} `json:"finalists"` // of each board, the best first
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.RTL) != 64 {
		t.Errorf("the finalists were counted on RTL %q", f.RTL)
	}
	w, err := (&target{Network: f.Network, Seed: 1}).workload()
	if err != nil {
		t.Fatal(err)
	}
	var board string
	var was, counts int64
	for _, x := range f.Finalists {
		b, err := boards.Load(x.Board)
		if err != nil {
			t.Fatal(err)
		}
		g, err := (&place{}).grid(b)
		if err != nil {
			t.Fatal(err)
		}
		d, err := g.At(x.TR, x.TP, x.TC)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := w.Lower(d)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := search.Choose(d, layers, 1, mapping.RTL())
		if err != nil {
			t.Fatal(err)
		}
		law := int64(w.Segments) * cost.Start(d)
		for _, c := range chosen {
			law += c.Time.Total
		}
		if off := float64(law-x.Cycles) / float64(x.Cycles); math.Abs(off) > 0.011 {
			t.Errorf("%s: %d cycles by the law, %d counted, %+.2f %%", d.Name, law, x.Cycles, 100*off)
		}
		if board == x.Board && (law < was || x.Cycles < counts) {
			t.Errorf("%s: %d cycles by the law after %d, %d counted after %d", d.Name, law, was, x.Cycles, counts)
		}
		if board != x.Board {
			steps, err := machineCycles(t.Context(), w, d, 1, mapping.RTL())
			if err != nil || steps != x.Cycles {
				t.Errorf("%s: %d cycles by the machine, %d counted (%v): count again, dse/counted/count.sh says how", d.Name, steps, x.Cycles, err)
			}
		}
		board, was, counts = x.Board, law, x.Cycles
	}
	if len(f.Finalists) != 6 {
		t.Errorf("%d finalists, expected three on each of two boards", len(f.Finalists))
	}
}
