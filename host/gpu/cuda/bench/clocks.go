// This file checks that the GPU's clock is steady during a measurement. Before the measurement, launches run until
// their times are steady. The same kernels are timed before and after the measurement.

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

// Clocks is the part name of all series about the GPU's clock. Every part has such series, so Clocks is not in Parts.
const Clocks = "clocks"

const (
	mostMoved = 0.05 // largest accepted change of the same kernels' times within a part
	settled   = 0.02 // largest accepted difference between the medians of two groups of launches
	group     = 5    // maximum number of launches in a group
	groups    = 40   // number of groups with enough load after which waiting ends
)

// paces are the readings of a part: one for every device that the part opened.
type paces struct {
	steady        []int64 // number of launches until the time was steady
	load          []int64 // total ns of these launches, also if the time never became steady
	never         int64   // number of devices whose time did not become steady
	before, after []int64 // ns of the same kernels before and after the measurement
	mhz           []int64 // SM clock from NVML, alternately before and after; empty if unknown
	pauses        []int64 // ns of the launcher's longest pause while launches were running
}

// around runs a measurement between two readings of the clock.
func (r *rig) around(ctx context.Context, do func(*rig) error) error {
	if err := r.steady(ctx); err != nil {
		return err
	}
	if err := r.look(&r.paces.before); err != nil {
		return err
	}
	defer func() { r.busy = time.Now() }()
	if err := do(r); err != nil {
		return err
	}
	c, err := r.d.Counts()
	if err != nil {
		return err
	}
	r.paces.pauses = append(r.paces.pauses, c.Pauses.Longest.Nanoseconds())
	return r.look(&r.paces.after)
}

// settling detects when the clocks of a GPU no longer rise under load.
type settling struct {
	enough, load int64 // sum of the launches' times in ns: required, and so far
	was          float64
	mhz          int // last SM clock; 0: unknown
}

// loaded reports whether there was enough load. A steady time is not sufficient, because the times of a GPU that has
// just left its idle state are steady too.
func (s *settling) loaded() bool { return s.load >= s.enough }

// group adds the times of a group of launches and reports whether the GPU is steady. This requires enough load and a
// median close to that of the previous group. Also, the SM clock, if known, must no longer rise.
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

// still is the longest idle time after which a GPU counts as warm.
const still = 2 * time.Second

// warmth returns for how many ns launches must keep the GPU busy before a measurement. By default this is a second on a
// real GPU. If the GPU is still warm, the time is a twentieth of this.
func (b *bench) warmth() int64 {
	warm := b.Warm
	if warm == 0 && !b.raw.Facts.Fake {
		warm = time.Second
	}
	if !b.busy.IsZero() && time.Since(b.busy) < still {
		warm /= 20
	}
	return warm.Nanoseconds()
}

// steady launches the best-effort network until the clocks are steady. The load is the sum of the launches' times.
func (r *rig) steady(ctx context.Context) error {
	be, _ := r.pair()
	s, began := settling{enough: r.warmth()}, r.Clock.Now()
	launches, after := 0, 0 // after: number of groups since there was enough load
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
		if after >= 2 && (after >= min(groups, r.N) || r.For > 0 && r.Clock.Since(began) >= r.For/few) {
			r.paces.never++
			break
		}
	}
	r.paces.load = append(r.paces.load, s.load)
	return nil
}

// clock returns the SM clock from NVML, if available.
func (r *rig) clock() (mhz int, known bool) { return clockOf(r.d) }

func clockOf(d *cuda.Device) (mhz int, known bool) {
	h, err := d.Health()
	if err != nil || h == nil || h.SMMHz < 0 {
		return 0, false
	}
	return h.SMMHz, true
}

// paceRuns is how often one reading (look) times each kernel. On an H100, two readings of the same kernels differed by
// 0.3 %.
const paceRuns = 3

// look takes a reading of the clock: it times the best-effort network's kernels.
func (r *rig) look(to *[]int64) error {
	be, _ := r.pair()
	return look(r.d, be.Network.Name, min(paceRuns, r.N), to, &r.paces.mhz)
}

// look times a network's kernels one by one and reads the SM clock. Many launches run between two events, so the times
// do not include the host's time.
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

// Looks stores readings of the clock for a caller that opens the GPU without Run. They are stored by network, because
// only times of the same kernels can be compared.
type Looks struct {
	Runs int // runs of each kernel, at most paceRuns; 0: no readings
	of   []string
	seen map[string]*paces
}

// Look times a loaded network's kernels, before or after a measurement.
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
	return look(d, network, min(paceRuns, l.Runs), to, &p.mhz)
}

// Series returns the readings of each network as series of a part.
func (l *Looks) Series(part string) []Series {
	b := &bench{raw: &Raw{}}
	for _, network := range l.of {
		b.addLooks(part+" "+network, l.seen[network])
	}
	return b.raw.Series
}

// addPaces stores a part's readings when the part ends.
func (b *bench) addPaces(part string) {
	p := b.paces
	b.paces = paces{}
	if len(p.before) > 0 { // a device was opened and its clock was read
		b.addReadings(part, &p)
		b.add(Clocks, part+" never steady", "devices", p.never)
	}
}

// addReadings stores the lists of readings, which only grow. It omits the field `never`, a count that can still change.
func (b *bench) addReadings(part string, p *paces) {
	if len(p.before) == 0 {
		return
	}
	b.add(Clocks, part+" launches until steady", "launches", p.steady...)
	b.add(Clocks, part+" load until steady", "ns", p.load...)
	b.add(Clocks, part+" longest pause of the launcher", "ns", p.pauses...)
	b.addLooks(part, p)
}

// addLooks stores the kernels' times before and after a measurement, and the SM clock.
func (b *bench) addLooks(part string, p *paces) {
	b.add(Clocks, part+" before", "ns", p.before...)
	b.add(Clocks, part+" after", "ns", p.after...)
	if len(p.mhz) > 0 {
		b.add(Clocks, part+" sm clock", "MHz", p.mhz...)
	}
}

// Moved lists the parts in which the times of the same kernels changed by more than 5 %. The figures of such a part
// were measured at different clock rates.
func (r *Raw) Moved() (parts []string) {
	for _, x := range r.moved() {
		if x.Note != "" {
			parts = append(parts, strings.TrimSuffix(x.Key, movedKey))
		}
	}
	return parts
}

const movedKey = " moved by"

// moved returns, for each part, how much its readings changed.
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
