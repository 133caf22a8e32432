// This file measures what padding costs the priority network, and what best-effort work gains.

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// leastPadded is the smallest share of padded priority kernels at which a cost is reported.
const leastPadded = 0.1

// rounds is the number of measurements of each way to run (type way). The ways alternate.
const rounds = 4

// inTurn returns the indices 0 to n-1 for each round, alternately in forward and backward order. So a slow change of
// the GPU's clock affects all indices equally.
func inTurn(rounds, n int) (order []int) {
	for round := range rounds {
		for i := range n {
			if round%2 == 1 {
				i = n - 1 - i
			}
			order = append(order, i)
		}
	}
	return order
}

// way is a way to run the priority network: alone, beside best-effort work that is put aside, or beside best-effort
// work that pads the network's kernels. The fields are the values of a round.
type way struct {
	name                                  string
	ns, looks                             []int64
	padded, beside, priority, ended, span []int64
}

// padding measures the priority network in all three ways, and the throughput of the best-effort work. The GPU's clock
// is read before and after each way.
func (b *bench) padding(ctx context.Context) error {
	be, rt := b.pair()
	batch, err := b.fill(ctx, be)
	if err != nil {
		return err
	}
	ways := []*way{{name: "alone"}, {name: "reset"}, {name: "reef"}}
	all := min(rounds, b.N)
	for turn, i := range inTurn(all, len(ways)) {
		w, round := ways[i], turn/len(ways)
		mode := w.name
		if mode == "alone" {
			mode = "reset"
		}
		m, err := gpu.ModeOf(mode)
		if err != nil {
			return err
		}
		share := Config{N: b.N*(round+1)/all - b.N*round/all, For: b.For / time.Duration(len(ways)*all)}
		err = b.with(ctx, cuda.Config{Mode: m}, batch+1, func(r *rig) error {
			if err := errors.Join(r.d.Learn(be.Network.Name, batch), r.d.Learn(rt.Network.Name, 1)); err != nil {
				return err
			}
			before, err := r.alone(ctx, be, batch)
			b.add(Padding, "best effort alone", "ns", before...)
			if err != nil {
				return err
			}
			if err := r.beside(ctx, w, be, rt, batch, share); err != nil {
				return err
			}
			after, err := r.alone(ctx, be, batch)
			b.add(Padding, "best effort alone", "ns", after...)
			return err
		})
		if err != nil {
			b.addWay(w)
			return err
		}
		w.looks = append(w.looks, b.paces.before[len(b.paces.before)-1], b.paces.after[len(b.paces.after)-1])
		b.addWay(w)
		b.keep()
	}
	return nil
}

// addWay stores the runs of one round, if there are any, and then clears all fields of w except its name.
func (b *bench) addWay(w *way) {
	if len(w.ns) == 0 {
		return
	}
	defer func() { *w = way{name: w.name} }()
	for _, x := range []struct {
		what, unit string
		runs       []int64
	}{
		{"", "ns", w.ns},
		{" padded", "kernels", w.padded},
		{" beside others", "kernels", w.beside},
		{" of priority", "kernels", w.priority},
		{" ended", "launches", w.ended},
		{" span", "ns", w.span},
		{looked, "ns", w.looks},
	} {
		b.add(Padding, w.name+x.what, x.unit, x.runs...)
	}
}

// looked ends the keys of clock readings before and after a way.
const looked = " looks"

// within counts the end times after "from" and up to "to".
func within(ended []time.Time, from, to time.Time) (n int64) {
	for _, at := range ended {
		if at.After(from) && !at.After(to) {
			n++
		}
	}
	return n
}

// beside runs the priority network in one way, for one share of the runs. It records the run times, and the number of
// best-effort launches that ended during the runs.
func (r *rig) beside(ctx context.Context, w *way, be, rt *bundle.Bundle, batch int, share Config) error {
	var began, over time.Time
	n := 0
	runs := func() error {
		// The first launch creates the streams.
		if _, err := r.took(ctx, r.work(rt, batch, 1, 1, device.Units{})); err != nil {
			return err
		}
		began = time.Now()
		defer func() { over = time.Now() }()
		for enough := (&bench{Config: share}).enough(1); !enough(n); n++ {
			took, err := r.took(ctx, r.work(rt, batch, 1, 1, device.Units{}))
			if err != nil {
				return err
			}
			w.ns = append(w.ns, took)
		}
		return nil
	}
	var ended []time.Time
	var err error
	if w.name == "alone" {
		err = runs()
	} else {
		ended, err = r.behind(ctx, be, batch, runs)
	}
	if err != nil { // an incomplete round is dropped
		return err
	}
	c, err := r.d.Counts()
	if err != nil {
		return err
	}
	beside := 0
	for _, n := range c.Proxies {
		beside += n
	}
	w.padded, w.beside = append(w.padded, int64(c.Padded)), append(w.beside, int64(beside))
	w.priority = append(w.priority, int64((n+1)*len(rt.Layers)))
	w.ended, w.span = append(w.ended, within(ended, began, over)), append(w.span, over.Sub(began).Nanoseconds())
	return nil
}

// padding returns the figures of padding. The cost is the time beside padding work, divided by the time beside work
// that is put aside. In both cases, the priority network interrupts best-effort work. The gain is the number of
// best-effort launches, divided by their number in the same time without the priority network. The number of launches
// can be wrong by one, so no gain is reported for few launches.
func (r *Raw) padding() (out []Row) {
	of := func(key string) []float64 { return floats(r.find(Padding, key)) }
	why := ""
	if beside, all := of("reef beside others"), of("reef of priority"); len(beside) > 0 && sum(all) > 0 {
		share := sum(beside) / sum(all)
		out = append(out, row(Padding, "reef beside others of priority's", "share", []float64{share}))
		if share < leastPadded {
			why = fmt.Sprintf("not shown: %.1f %% of priority's kernels ran beside others, %.0f %% are expected", 100*share, 100*leastPadded)
		}
	}
	add := func(x Row, padded bool) {
		if padded && why != "" {
			x = Row{Part: x.Part, Key: x.Key, Unit: x.Unit, Note: why}
		}
		out = append(out, x)
	}
	for _, x := range [][2]string{{"reset", "alone"}, {"reef", "alone"}, {"reef", "reset"}} {
		if v, base := of(x[0]), of(x[1]); len(v) > 0 && row("", "", "", base).Median > 0 {
			add(atOnePace(ratio(Padding, x[0]+" of "+x[1], v, base), of(x[0]+looked), of(x[1]+looked)), x[0] == "reef")
		}
	}
	one := row("", "", "", of("best effort alone"))
	for _, name := range []string{"reset", "reef"} {
		if ended, span := of(name+" ended"), of(name+" span"); one.N > 0 && len(ended) > 0 && sum(span) > 0 {
			x := row(Padding, name+" best effort keeps", "share", []float64{sum(ended) * one.Median / sum(span)})
			if least := few * len(ended); sum(ended) < float64(least) {
				x = Row{Part: x.Part, Key: x.Key, Unit: x.Unit, Note: fmt.Sprintf("not shown: %.0f launches ended meanwhile, %d are expected", sum(ended), least)}
			}
			add(x, name == "reef")
		}
	}
	return out
}

// partOf limits the change of the clock, as a share of the corrected effect. A larger change causes a note.
const partOf = 1. / 3

// atOnePace corrects a ratio whose two sides may have been measured at different clock rates. It adds a note if the
// clock changed by more than the share partOf of the corrected effect.
func atOnePace(x Row, looks, base []float64) Row {
	all := slices.Concat(looks, base)
	if len(looks) == 0 || len(base) == 0 || slices.Min(all) < 1 {
		x.Note = "nothing says at which pace the GPU ran"
		return x
	}
	x.scale(mean(base) / mean(looks))
	if moved := slices.Max(all)/slices.Min(all) - 1; moved > partOf*math.Abs(x.Median-1) {
		x.Note = fmt.Sprintf("the same kernels moved by %.1f %% meanwhile, more than a third of the effect", 100*moved)
	}
	return x
}

// scale multiplies a figure.
func (r *Row) scale(by float64) {
	for _, v := range []*float64{&r.Median, &r.Least, &r.Most, r.P95, r.P99} {
		if v != nil {
			*v *= by
		}
	}
	for _, in := range []*Interval{r.MedianIn, r.P99In} {
		if in != nil {
			in[0], in[1] = in[0]*by, in[1]*by
		}
	}
}
