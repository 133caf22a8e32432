// Whether the GPU runs at one pace while something is measured: launches until their time is steady, and the same
// kernels timed before and after.

package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// Clocks are the series of it, of every part; no part by itself.
const Clocks = "clocks"

const (
	mostMoved = 0.05 // by which the same kernels may take longer or shorter within a part
	settled   = 0.02 // by which the medians of two groups of launches may differ
	group     = 5    // launches, at most
	groups    = 40   // after which, and after load for long enough, nobody waits for it any more
)

// paces are those of a part, a run for every device that it opens.
type paces struct {
	steady        []int64 // launches until they were steady
	load          []int64 // ns that those took, and those that never were
	never         int64   // devices on which they were not
	before, after []int64 // ns of the same kernels
	mhz           []int64 // of the SMs, as NVML says it, before and after in turn; none where it says nothing
}

// around measures between two looks at the GPU's pace.
func (r *rig) around(ctx context.Context, do func(*rig) error) error {
	if err := r.steady(ctx); err != nil {
		return err
	}
	if err := r.look(&r.paces.before); err != nil {
		return err
	}
	if err := do(r); err != nil {
		return err
	}
	return r.look(&r.paces.after)
}

// settling is a GPU whose clocks come up under load.
type settling struct {
	enough, load int64 // ns of launches: those that are asked for, and those so far
	was          float64
	mhz          int // of the SMs, when it was asked last; 0: it was not
}

// loaded tells whether there was load for long enough, whatever it looked like: a GPU that has just been woken is as
// steady as one whose clocks are up.
func (s *settling) loaded() bool { return s.load >= s.enough }

// group takes in what the launches of one more group took, and says whether they are steady: they took what those before
// them did, after load for long enough, and the SMs' clock, where something says what it is, no longer rises.
func (s *settling) group(took []float64, clock func() (mhz int, known bool)) bool {
	for _, ns := range took {
		s.load += int64(ns)
	}
	slices.Sort(took)
	was, now := s.was, median(took)
	s.was = now
	if !s.loaded() {
		return false
	}
	if mhz, known := clock(); known {
		before := s.mhz
		if s.mhz = mhz; before == 0 || float64(mhz) > (1+settled)*float64(before) {
			return false
		}
	}
	return was > 0 && math.Abs(now/was-1) <= settled
}

// warmth is for how long launches keep the GPU busy before anything is looked at: a second, on a GPU that has clocks.
func (b *bench) warmth() int64 {
	switch {
	case b.Warm > 0:
		return b.Warm.Nanoseconds()
	case b.raw.Facts.Fake:
		return 0
	}
	return time.Second.Nanoseconds()
}

// steady launches the best-effort network until the clocks have come up. What it asks for of load counts by what the
// launches took themselves.
func (r *rig) steady(ctx context.Context) error {
	be, _ := r.pair()
	s, began := settling{enough: r.warmth()}, time.Now()
	launches, after := 0, 0 // groups with load for long enough before them
	for {
		var took []float64
		for range min(group, r.N) {
			ns, err := r.took(ctx, r.work(be, 0, 1, 0, device.Units{}))
			if err != nil {
				return err
			}
			took = append(took, float64(ns))
		}
		launches += len(took)
		if s.group(took, r.clock) {
			r.paces.steady = append(r.paces.steady, int64(launches))
			break
		}
		if s.loaded() {
			after++
		}
		if after >= 2 && (after >= min(groups, r.N) || r.For > 0 && time.Since(began) >= r.For/few) {
			r.paces.never++
			break
		}
	}
	r.paces.load = append(r.paces.load, s.load)
	return nil
}

// clock is that of the SMs, where NVML says it.
func (r *rig) clock() (mhz int, known bool) { return clockOf(r.d) }

func clockOf(d *cuda.Device) (mhz int, known bool) {
	h, err := d.Health()
	if err != nil || h == nil || h.SMMHz < 0 {
		return 0, false
	}
	return h.SMMHz, true
}

// look takes the pace of the best-effort network's kernels.
func (r *rig) look(to *[]int64) error {
	be, _ := r.pair()
	return look(r.d, be.Network.Name, min(few, r.N), to, &r.paces.mhz)
}

// look takes the pace of a network's kernels one by one, of many launches between two events, without the host's time, and
// asks how fast the SMs' clock is.
func look(d *cuda.Device, network string, runs int, to, mhz *[]int64) error {
	layers, err := d.Pace(network, runs)
	if err != nil {
		return err
	}
	all := 0.0
	for i := range layers {
		all += row("", "", "", floats(layers[i].Ns)).Median
	}
	*to = append(*to, int64(all))
	if now, known := clockOf(d); known {
		*mhz = append(*mhz, int64(now))
	}
	return nil
}

// Looks are those of somebody who opens the GPU in another way than a part of Run does: by network, since only the same
// kernels can be compared, and before and after.
type Looks struct {
	Runs int // of each kernel, few at most; 0: nobody looks
	of   []string
	seen map[string]*paces
}

// Look takes the pace of a network that is loaded, after what is measured or before.
func (l *Looks) Look(d *cuda.Device, network string, after bool) error {
	if l == nil || l.Runs < 1 {
		return nil
	}
	if l.seen == nil {
		l.seen = map[string]*paces{}
	}
	p := l.seen[network]
	if p == nil {
		p = &paces{}
		l.seen[network] = p
		l.of = append(l.of, network)
	}
	to := &p.before
	if after {
		to = &p.after
	}
	return look(d, network, min(few, l.Runs), to, &p.mhz)
}

// Series are what was seen, as those of a part, by network.
func (l *Looks) Series(part string) []Series {
	b := &bench{raw: &Raw{}}
	for _, network := range l.of {
		b.addLooks(part+" "+network, l.seen[network])
	}
	return b.raw.Series
}

// addPaces keeps a part's.
func (b *bench) addPaces(part string) {
	p := b.paces
	b.paces = paces{}
	if len(p.before) == 0 { // no device came so far
		return
	}
	b.add(Clocks, part+" launches until steady", "launches", p.steady...)
	b.add(Clocks, part+" load until steady", "ns", p.load...)
	b.add(Clocks, part+" never steady", "devices", p.never)
	b.addLooks(part, &p)
}

// addLooks keeps the looks of it.
func (b *bench) addLooks(part string, p *paces) {
	b.add(Clocks, part+" before", "ns", p.before...)
	b.add(Clocks, part+" after", "ns", p.after...)
	if len(p.mhz) > 0 {
		b.add(Clocks, part+" sm clock", "MHz", p.mhz...)
	}
}

// Moved are the parts within which the same kernels took by more than 5 % longer or shorter: their figures are of
// several clocks.
func (r *Raw) Moved() (parts []string) {
	for _, x := range r.moved() {
		if x.Note != "" {
			parts = append(parts, strings.TrimSuffix(x.Key, movedKey))
		}
	}
	return parts
}

const movedKey = " moved by"

// moved says by how much each part's pace did, of all its looks.
func (r *Raw) moved() (out []Row) {
	for i := range r.Series {
		s := &r.Series[i]
		part, ok := strings.CutSuffix(s.Key, " before")
		all := slices.Concat(s.Runs, r.find(Clocks, part+" after"))
		if s.Part != Clocks || !ok || len(all) == 0 || slices.Min(all) < 1 {
			continue
		}
		least, most := float64(slices.Min(all)), float64(slices.Max(all))
		x := row(Clocks, part+movedKey, "share", []float64{most/least - 1})
		if most > (1+mostMoved)*least {
			x.Note = fmt.Sprintf("more than %.0f %%: figures of %s are of several clocks", 100*mostMoved, part)
		}
		out = append(out, x)
	}
	return out
}
