package seeb_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/seeb"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

var (
	seed = flag.Uint64("seed", 1, "of the random loads")
	runs = flag.Int("n", 4, "random loads")
)

func edge(t *testing.T, images float64) *seeb.Edge {
	t.Helper()
	f, err := params.Of("rtx3090")
	if err != nil {
		t.Fatal(err)
	}
	o := seeb.DefaultOpen()
	o["images"] = images
	e, err := seeb.NewEdge(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// watched is a policy that checks every answer of another policy.
type watched struct {
	sched.Policy
	t        *testing.T
	launches int
	together int // most at a time
	grouped  int // number of launches beside a group of an earlier period
	period   sched.Time
	began    map[device.LaunchID]sched.Time
}

func (w *watched) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = w.Policy.Decide(now, s, ev, buf)
	d := &s.Devices[0]
	var taken device.Units
	live := 0
	earlier := false
	for _, l := range d.Launches {
		taken = taken.Union(l.Units)
		live++
		if _, ok := w.began[l.ID]; !ok {
			w.began[l.ID] = l.Since
		}
		earlier = earlier || w.began[l.ID]/w.period < now/w.period
	}
	for i := range buf {
		a := &buf[i]
		if a.Kind != sched.Launch {
			continue
		}
		w.launches++
		live++
		switch {
		case a.Units.Empty() || a.Units.Without(device.UnitRange(0, d.Units)) != device.Units{}:
			w.t.Errorf("at %d: units %s of %d", now, a.Units, d.Units)
		case a.Units.Without(taken) != a.Units:
			w.t.Errorf("at %d: units %s, of which %s are given", now, a.Units, taken)
		case len(a.Requests) > d.MaxBatch:
			w.t.Errorf("at %d: a batch of %d, at most %d", now, len(a.Requests), d.MaxBatch)
		}
		if earlier && now%w.period == 0 {
			w.grouped++
		}
		taken = taken.Union(a.Units)
	}
	if live > d.Places || d.Used > d.Slots {
		w.t.Errorf("at %d: %d launches in %d places, %d samples in %d slots", now, live, d.Places, d.Used, d.Slots)
	}
	w.together = max(w.together, live)
	return buf
}

// For any load, seeb assigns no TPC twice, masks are within the GPU, queues do not exceed their limits, and every task
// ends.
func TestUnits(t *testing.T) {
	e := edge(t, 64)
	grouped := 0
	for i := range uint64(*runs) {
		w := &watched{t: t, period: 100e6, began: map[device.LaunchID]sched.Time{}}
		name := fmt.Sprintf("poisson:%d+window", 20*(1+(*seed+i)%3)) // as written, deadlines leave algorithm 2 no time
		t.Logf("%s, seed %d", name, *seed+i)
		if err := e.Under("seeb", name, 1e9, *seed+i, func(p sched.Policy) sched.Policy { w.Policy = p; return w }); err != nil {
			t.Error(err)
		}
		if w.launches == 0 || w.together < 2 {
			t.Errorf("%d launches, %d at a time: nothing was looked at", w.launches, w.together)
		}
		grouped += w.grouped
	}
	if grouped == 0 {
		t.Error("no group was given units while one of an earlier period had some: nothing was looked at")
	}
}

// The latency model is found again where there is one; the least that was seen bounds it.
func TestFit(t *testing.T) {
	want := sched.LatencyModel{Alpha: 2e6, Beta1: 3e5, Beta2: 4e6, Beta3: 5e7}
	var x [][4]float64
	var y []float64
	for _, s := range []int{1, 7, 100} {
		for _, theta := range []float64{0.1, 0.9} {
			for _, units := range []int{1, 5, 41} {
				x = append(x, [4]float64{1, float64(s), theta, 1 / float64(units)})
				y = append(y, want.At(s, theta, units))
			}
		}
	}
	f, err := seeb.FitTo(x, y)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]float64{{f.Model.Alpha, want.Alpha}, {f.Model.Beta1, want.Beta1}, {f.Model.Beta2, want.Beta2}, {f.Model.Beta3, want.Beta3}} {
		if math.Abs(c[0]/c[1]-1) > 1e-6 {
			t.Errorf("%+v, expected %+v", f.Model, want)
		}
	}
	if f.Worst > 1e-6 || f.R2 < 1-1e-9 || f.Model.At(0, 0, 1000) != f.Model.Least || f.Model.Least != y[2] {
		t.Errorf("%+v", f)
	}
}

// The models of the four networks are close to the profiles that they were fitted to. The simulation shows the effects
// of partitions and of more TPCs and, over half a minute, the order of the systems.
func TestEdge(t *testing.T) {
	e := edge(t, 128)
	for n, f := range e.Fits {
		if f.Mean > 0.2 || f.R2 < 0.95 {
			t.Errorf("%s: %+v", n, f)
		}
	}
	for _, id := range []string{
		"table1/overlapping", "table1/order", "fig4a/shufflenet", "fig4a/resnet34", "fig4a/mobilenetv2",
		"fig4a/resnet34-first", "fig4b/resnet34", "fig4c/resnet34",
	} {
		if s, err := e.Statement(id, 1e9, 1); err != nil || s.Side() != "within the bounds" {
			t.Errorf("%s: %v, %v", id, s, err)
		}
	}
	got := map[string]*seeb.EdgeOutcome{}
	for _, s := range []string{"seeb", "seeb-literal", "batch", "triton", "deeprt", "gslice", "branchynet"} {
		o, err := e.Run(context.Background(), s, "pai+window", 30e9, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		got[s] = o
	}
	for _, s := range []string{"batch", "deeprt", "gslice", "seeb-literal"} {
		if got["seeb"].Latency >= got[s].Latency || got["seeb"].Accuracy >= got[s].Accuracy || got["seeb"].Efficacy <= got[s].Efficacy {
			t.Errorf("seeb %+v, %s %+v", got["seeb"], s, got[s])
		}
	}
	if got["seeb"].Accuracy <= got["branchynet"].Accuracy || got["seeb"].Violations > 0 {
		t.Errorf("seeb %+v, branchynet %+v", got["seeb"], got["branchynet"])
	}
	// With the publication's deadlines, the window alone makes most tasks late, and SEEB serves them as well as it can.
	written, err := e.Run(context.Background(), "seeb", "pai", 30e9, 1, nil)
	if err != nil || written.Violations < 0.5 || written.Accuracy >= got["seeb"].Accuracy {
		t.Errorf("as written: %+v, with the window added: %+v, %v", written, got["seeb"], err)
	}
	if got["batch"].Accuracy != got["deeprt"].Accuracy {
		t.Errorf("two samples of one load: %v and %v", got["batch"].Accuracy, got["deeprt"].Accuracy)
	}

	// A published table's arrivals, at the bench's rate.
	row := "j,worker,1.0,Terminated,%d,%d,600.0,29.3,50.0,V100\n"
	tr, err := load.PAI("tasks.csv", strings.NewReader(fmt.Sprintf(row+row+row+row, 1, 9, 4, 7, 8, 20, 20, 300)))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := e.Run(context.Background(), "seeb", "pai", 5e9, 2, tr.Times()); err != nil || o.Tasks < 2 {
		t.Errorf("%+v, %v", o, err)
	}
}
