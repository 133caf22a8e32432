package drawn_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/sched"
)

// The rates of ResNet-50 in Kouris et al., section IV.
var rates50 = []float64{0.051, 0.169, 0.090, 0.690}

func table(t *testing.T) *sched.Table {
	t.Helper()
	tab, err := sched.Uniform("net", 4, 8, 10)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestRates(t *testing.T) {
	tab := table(t)
	d, err := drawn.New(tab, rates50, 7, 3)
	if err != nil || d.Info().MaxBatch != 3 {
		t.Fatalf("%+v, %v", d.Info(), err)
	}
	count := make([]float64, 4)
	for id := range 200_000 {
		count[d.Exit(device.RequestID(id+1))]++
	}
	for i, r := range rates50 {
		if math.Abs(count[i]/200_000-r) > 0.004 {
			t.Errorf("exit %d: %g of the requests, want %g", i, count[i]/200_000, r)
		}
	}
	// Theta above 1: no request leaves before the end.
	w := device.Work{ID: 1, Launch: device.Launch{First: 0, Last: 3, Requests: []device.RequestID{1, 2}, Theta: []float32{0.8, 2}}}
	if done, err := d.Begin(context.Background(), 5, &w); done || err != nil {
		t.Fatal(done, err)
	}
	due, ok := d.Next()
	if early := d.Take(due - 1); early != nil {
		t.Errorf("before it is due: %+v", early)
	}
	ev := d.Take(due)
	if !ok || due != 5+tab.At(0, 3, 2) || ev == nil || !ev.Over || ev.Work != 1 || ev.Report.Results[0].Taken != d.Exit(1) || ev.Report.Results[1].Taken != 3 {
		t.Errorf("%d, %t, %+v", due, ok, ev)
	}
	for name, l := range map[string]device.Launch{
		"no request": {Last: 3}, "too many": {Last: 3, Requests: make([]device.RequestID, 4), Theta: make([]float32, 4)},
		"a fifth segment": {Last: 4, Requests: []device.RequestID{1}, Theta: []float32{0}}, "backwards": {First: 2, Last: 1, Requests: []device.RequestID{1}, Theta: []float32{0}},
		"no threshold": {Last: 3, Requests: []device.RequestID{1}},
	} {
		if _, err := d.Begin(context.Background(), due, &device.Work{ID: 2, Launch: l}); !errors.Is(err, device.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, rates := range map[string][]float64{
		"none": nil, "three": {0.5, 0.25, 0.25}, "five": {0, 0, 0, 0, 1}, "too much": {0.5, 0.5, 0.5, 0}, "too little": {0.1, 0.1, 0.1, 0.1}, "negative": {-0.5, 0.5, 0.5, 0.5}, "nan": {math.NaN(), 0, 0, 1},
	} {
		if _, err := drawn.New(tab, rates, 7, 0); !errors.Is(err, sched.ErrRates) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExits(t *testing.T) {
	rates := []float64{0.145, 0.186, 0.222, 0.447} // Inception-v3
	a, b := drawn.Exits(rates, 200_000, 1), drawn.Exits(rates, 200_000, 1)
	if !bytes.Equal(a, b) || bytes.Equal(a, drawn.Exits(rates, 200_000, 2)) {
		t.Error("equal seeds must give equal exits, others must not")
	}
	count := make([]float64, 4)
	for _, e := range a {
		count[e]++
	}
	for i, r := range rates {
		if math.Abs(count[i]/200_000-r) > 0.005 {
			t.Errorf("a share of %g leaves at exit %d, expected %g", count[i]/200_000, i, r)
		}
	}
	// Pinned: a change would silently change the exits of every published seed.
	if d := cmp.Diff([]byte{3, 2, 3, 3, 2, 3, 2, 3}, a[:8]); d != "" {
		t.Error(d)
	}
}

// Known exits: a request leaves at an exit where its confidence reaches its threshold, at no place without an exit,
// and always at the end. Reports count the MACs that were done.
func TestKnown(t *testing.T) {
	shows := [][]float32{{0.2, -1, 0.9, 0.1}, {0.6, -1, 0.7, 0.1}, {0.1, -1, 0.2, 0.3}}
	d := drawn.NewKnown(table(t), drawn.Known{
		Requests: 3, Slots: 9, MACs: []int64{1, 10, 100, 1000},
		Show: func(id device.RequestID, segment int) float32 { return shows[id-1][segment] },
	})
	if i := d.Info(); i.Slots != 9 || i.MaxBatch != 8 {
		t.Errorf("%+v", i)
	}
	for id, want := range map[device.RequestID]bool{0: false, 1: true, 3: true, 4: false} {
		if done, err := d.Begin(context.Background(), 0, &device.Work{ID: 1, Kind: device.Copy, Request: id}); done != want || want == errors.Is(err, device.ErrRequest) {
			t.Errorf("copy of request %d: %t, %v", id, done, err)
		}
	}
	w := device.Work{ID: 2, Launch: device.Launch{First: 0, Last: 2, Requests: []device.RequestID{1, 2, 3}, Theta: []float32{0.5, 0.5, 0.5}}}
	if _, err := d.Begin(context.Background(), 0, &w); err != nil {
		t.Fatal(err)
	}
	due, _ := d.Next()
	rep := d.Take(due).Report
	for i, want := range []int{2, 0, -1} {
		r := rep.Results[i]
		exits := want + 1
		if want < 0 {
			exits = 3
		}
		if r.Taken != want || len(r.Exits) != exits || r.Exits[exits-1].Exit != exits-1 || r.Exits[exits-1].Confidence != shows[i][exits-1] {
			t.Errorf("request %d: %+v, expected to leave at %d", i+1, r, want)
		}
	}
	if m := rep.Stats.MACs; m != 111+1+111 {
		t.Errorf("%d MACs", m)
	}
	w = device.Work{ID: 3, Launch: device.Launch{First: 3, Last: 3, Requests: []device.RequestID{3}, Theta: []float32{0.5}}}
	if _, err := d.Begin(context.Background(), due, &w); err != nil {
		t.Fatal(err)
	}
	due, _ = d.Next()
	if r := d.Take(due).Report.Results[0]; r.Taken != 3 {
		t.Errorf("%+v: nobody stays behind the last segment", r)
	}
}
