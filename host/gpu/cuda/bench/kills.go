// The part "kills" stops and resumes launches. Their outputs are compared bit for bit with those of undisturbed
// launches.

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// These are ways to stop launches. Each deliberate fault must give wrong results.
const (
	killed  = "killed"          // inside a kernel
	drained = "drained"         // between two kernels: a control without kills, so any error has another cause
	ahead   = "reset-ahead"     // inside a kernel, by a priority launch that does not wait until the launch has left
	inPlace = "killed-in-place" // inside a kernel of the network whose kernels work in place (cuda.InPlace)
	boolean = "boolean"         // killed-in-place with a deliberate fault: a boolean replaces the epoch
	short   = "short"           // killed-in-place with a deliberate fault: groups are one kernel too short
)

// manners is the number of ways to stop a launch. Each way uses an equal share of the part's time.
const manners = 6

// redrawn is the maximum number of redraws of the second input. A redraw is necessary if every exit has the same output
// for both inputs.
const redrawn = 20

// controlled is the number of launches within which a deliberate fault must give a wrong result.
const controlled = 1000

// The in-place network's image has these sides, in pixels. With "side", kernels have blocks for several times 132 SMs,
// so that a kill finds finished, running and waiting blocks. sideFake is small enough for the fake driver.
const (
	side     = 256
	sideFake = 8
)

// kills stops launches at random times and resumes them at the kernel that the device returns. It compares the outputs
// of every exit bit for bit with those of an undisturbed launch of the same input. Two inputs alternate in one slot,
// and the slot is cleared before each launch. So a stale result is noticed.
func (b *bench) kills(ctx context.Context) error {
	be, rt := b.pair()
	in := [2][]int16{b.noise(be), b.noise(be)}
	for _, how := range []string{killed, drained, ahead} {
		cfg, stop := cuda.Config{}, (*restorer).abort
		switch how {
		case drained: // the stream holds one kernel at a time, so that most launches stop between two kernels
			cfg = cuda.Config{Drain: true, Capacity: 1}
		case ahead:
			m, err := gpu.ModeOf(ahead)
			if err != nil {
				return err
			}
			cfg, stop = cuda.Config{Mode: m}, (&preempter{rt: rt}).stop
		}
		err := b.with(ctx, cfg, 1, func(r *rig) error {
			return (&restorer{rig: r, be: be, in: in, stop: stop, drain: how == drained, id: 1 << 32}).all(ctx, how)
		})
		if err != nil {
			return err
		}
	}
	return b.controls(ctx)
}

// controls stops and resumes launches of the in-place network. It then repeats this with each deliberate fault until a
// result is wrong.
func (b *bench) controls(ctx context.Context) error {
	n := side
	if b.raw.Facts.Fake {
		n = sideFake
	}
	net := cuda.InPlace(b.Seed, n)
	in := [2][]int16{b.noise(net.Bundle), b.noise(net.Bundle)}
	for _, way := range []struct {
		how string
		cfg cuda.Config
	}{{inPlace, cuda.Config{}}, {boolean, cuda.Config{Boolean: true}}, {short, cuda.Config{Short: true}}} {
		err := b.with(ctx, way.cfg, 1, func(r *rig) error {
			load := &device.Work{Kind: device.Load, Network: net.Bundle.Network.Name, Artefact: net}
			if _, err := r.do(ctx, load, nil); err != nil {
				return err
			}
			r.ids[net.Bundle.Network.Name] = make([]device.RequestID, 1) // each launch has its own request
			s := &restorer{rig: r, be: net.Bundle, in: in, stop: (*restorer).abort, id: 1 << 32, counts: inPlaceKernel}
			if way.how != inPlace {
				s.over = b.untilWrong(b.Clock.Now())
			}
			return s.all(ctx, way.how)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untilWrong returns a function that reports whether a control must end. A control ends after its first wrong launch,
// or after 1000 launches (controlled). It also ends when its time is over and there were at least ten hits (few).
func (b *bench) untilWrong(began time.Time) func(launches, hits, wrong int) bool {
	return func(launches, hits, wrong int) bool {
		return wrong > 0 || launches >= controlled || b.For > 0 && hits >= few && b.Clock.Since(began) > b.For/manners
	}
}

// restorer stops launches of a network, with two alternating inputs.
type restorer struct {
	*rig
	be    *bundle.Bundle
	in    [2][]int16
	stop  func(*restorer, context.Context, device.WorkID) (tries int, err error)
	drain bool
	id    device.RequestID
	known int // number of kills at the last call of hit
	// counts reports whether hits in a kernel count; nil: all hits count
	counts func(kernel int64) bool
	// over reports whether the method "all" must end. Its arguments are the numbers of launches, of hits, and of wrong
	// launches with a hit. If it is nil, "all" ends at the required number of hits.
	over func(launches, hits, wrong int) bool
}

// abort aborts a launch.
func (s *restorer) abort(_ context.Context, id device.WorkID) (int, error) {
	s.d.Abort(0, id, true)
	return 1, nil
}

// preempter stops a launch with a series of priority launches. After each of them, the launch resumes.
type preempter struct {
	rt   *bundle.Bundle
	want map[int][]int16 // expected outputs of a priority launch
}

// errBeside is the error of a priority launch with wrong outputs.
var errBeside = errors.New("a launch of priority shows other outputs than the first one")

func (p *preempter) stop(s *restorer, ctx context.Context, _ device.WorkID) (tries int, err error) {
	for tries < 3 {
		c, err := s.rig.run(ctx, s.work(p.rt, 0, 1, 1, device.Units{}), nil)
		if err != nil {
			return tries, err
		}
		tries++
		if p.want == nil {
			p.want = c.shown
		}
		if exit, output := differs(p.want, c.shown); exit > 0 {
			return tries, fmt.Errorf("%w: exit %d, output %d", errBeside, exit-1, output-1)
		}
		pause(ctx, time.Duration(s.rng.Int64N(c.ns+1)))
	}
	return tries, nil
}

// restored is a launch that was stopped several times and resumed.
type restored struct {
	shown map[int][]int16
	tried int     // number of requested stops
	at    []int64 // indices of the stopped kernels; if drained, of the kernels at which the launch resumed
	again []int64 // indices of the kernels at which the launch resumed
	ns    int64   // time from its last resumption to its end
}

// run launches the network for input k and returns the outputs. It stops the launch at most `stops` times, each time at
// a random moment within ns nanoseconds.
func (s *restorer) run(ctx context.Context, k, stops int, ns int64) (out restored, err error) {
	s.id++
	defer func() { s.d.Release(s.id) }()
	if err = s.d.Clear(s.be.Network.Name); err != nil {
		return out, err
	}
	if err = s.admit(ctx, s.be, s.id, s.in[k]); err != nil {
		return out, err
	}
	out.shown = map[int][]int16{}
	taken := 0
	for next := (device.ResumePoint{}); ; {
		w := s.work(s.be, 0, 1, 0, device.Units{})
		w.Launch.Requests, w.Launch.First, w.Launch.Kernel = []device.RequestID{s.id}, next.Segment, next.Kernel
		began, wait := time.Now(), time.Duration(s.rng.Int64N(ns+1))
		var stopped error
		c, err := s.rig.run(ctx, w, func() {
			if taken < stops {
				if wait > 2*time.Millisecond { // a sleep can be a millisecond too long, which may be longer than the whole launch
					time.Sleep(wait - 3*time.Millisecond/2)
				}
				for time.Since(began) < wait {
				}
				var tries int
				tries, stopped = s.stop(s, ctx, w.ID)
				out.tried += tries
			}
		})
		if err = cmp.Or(err, stopped); err != nil {
			return out, err
		}
		maps.Copy(out.shown, c.shown)
		next = c.ev.Resume
		again := int64(s.be.Network.Exits[next.Segment].First + next.Kernel)
		hit, at := c.ev.Kind == device.Aborted && again > 0, again // if drained, the launch must have run a kernel
		if !s.drain {                                              // if not drained, only a stop inside a kernel counts
			if hit, at, err = s.hit(); err != nil {
				return out, err
			}
		}
		if hit {
			out.at = append(out.at, at)
			if c.ev.Kind == device.Aborted { // otherwise only the device knows at which kernel the launch resumed
				out.again = append(out.again, again)
			}
		}
		if c.ev.Kind != device.Aborted {
			out.ns = c.ns
			return out, nil
		}
		taken++
	}
}

// hit reports whether a kill has stopped a kernel since the last call, and returns the index of that kernel.
func (s *restorer) hit() (bool, int64, error) {
	c, err := s.d.Counts()
	if err != nil {
		return false, 0, err
	}
	hit := c.Kills > s.known
	s.known = c.Kills
	return hit, int64(c.Stopped), nil
}

// all runs and stops launches until there are enough hits. After an error, the runs of completed launches remain
// stored. The interrupted launch is left out, because its result is unknown.
func (s *restorer) all(ctx context.Context, how string) error {
	var want [2]map[int][]int16
	var ns int64
	for k := range 4 { // the first launches create the stream
		one, err := s.run(ctx, k%2, 0, 0)
		if err != nil {
			return err
		}
		want[k%2], ns = one.shown, one.ns
	}
	apart := s.apart(want)
	for n := 0; apart == 0 && n < redrawn; n++ { // if both inputs gave equal outputs, a swap of them would not be noticed
		s.in[1] = s.noise(s.be)
		one, err := s.run(ctx, 1, 0, 0)
		if err != nil {
			return err
		}
		want[1] = one.shown
		apart = s.apart(want)
	}
	add := func(what, unit string, v ...int64) { s.add(Kills, how+" "+what, unit, v...) }
	add("exits that tell the inputs apart", "exits", apart)
	hits, wrong := 0, 0
	if s.over == nil {
		enough := s.enough(manners)
		s.over = func(_, hits, _ int) bool { return enough(hits) }
	}
	for k, since := 0, 0; !s.over(k, hits, wrong) && since < fruitless; k++ {
		one, err := s.run(ctx, k%2, 3, ns)
		if err != nil {
			return err
		}
		hit := s.hits(one.at)
		if since++; hit > 0 {
			since = 0
		}
		hits += hit
		exit, output := differs(want[k%2], one.shown)
		if exit > 0 && hit > 0 {
			wrong++
		}
		last := int64(0)
		if len(one.at) > 0 {
			last = one.at[len(one.at)-1] + 1
		}
		add(triedKills, "kills", int64(one.tried))
		add(hitKills, "kills", int64(hit))
		add(wrongExit, "exit", exit)
		add(wrongOutput, "output", output)
		add(lastKernel, "kernel", last)
		if !s.drain {
			add(stoppedIn, "kernel from 0", one.at...)
		}
		if how != ahead {
			add("taken up at", "kernel from 0", one.again...)
		}
		s.keep()
	}
	return nil
}

// apart counts the exits whose outputs differ between the inputs.
func (s *restorer) apart(shown [2]map[int][]int16) (n int64) {
	for e := range s.be.Network.Exits {
		if !slices.Equal(shown[0][e], shown[1][e]) {
			n++
		}
	}
	return n
}

// These series of stopped launches have one value per launch. Positions count from 1; 0 means none.
const (
	triedKills  = "tried"
	hitKills    = "hit"
	wrongExit   = "first wrong exit"
	wrongOutput = "first wrong output"
	lastKernel  = "last stopped in"
)

// differs returns the first exit whose output differs, and the position of the first wrong element in this output. Both
// numbers count from 1. Both are 0 if nothing differs.
func differs(want, got map[int][]int16) (exit, output int64) {
	for _, e := range slices.Sorted(maps.Keys(want)) {
		w, g := want[e], got[e]
		if slices.Equal(w, g) {
			continue
		}
		i := 0
		for i < min(len(w), len(g)) && w[i] == g[i] {
			i++
		}
		return int64(e) + 1, int64(i) + 1
	}
	return 0, 0
}

// Restores counts the outcomes of launches that were stopped and resumed.
type Restores struct {
	How      string `json:"how"` // killed, drained, reset-ahead, killed-in-place; for controls boolean, short
	Network  string `json:"network"`
	Launches int    `json:"launches"`
	Tried    int    `json:"tried"` // requested kills
	// Hit counts the kills that stopped a kernel before its end: at least one block left the kernel at a poll after the
	// kill, so kernels.Control contains the kernel's index. For the in-place network, only in-place kernels count,
	// because a launch stopped in another kernel computes everything again. If How is "drained", Hit counts launches
	// that stopped between two kernels.
	Hit      int    `json:"hit"`
	Restored int    `json:"restored"`              // hits in launches in which every exit is correct
	InWrong  int    `json:"in_wrong"`              // hits in wrong launches; it is unknown which hit caused the error
	Spoilt   int    `json:"wrong_launches"`        // number of launches with wrong outputs, with or without a hit
	First    *Wrong `json:"first_wrong,omitempty"` // the first of the wrong launches
}

// Wrong is a launch whose outputs differ from those of an undisturbed launch.
type Wrong struct {
	Launch int `json:"launch"` // positions count from 0
	Exit   int `json:"exit"`
	Output int `json:"output"` // position of the exit's first wrong output
	Kernel int `json:"kernel"` // index of the kernel of the last hit; -1: no hit
}

// String describes the counts in a line.
func (r *Restores) String() string {
	what := "made blocks of a kernel leave"
	if r.How == drained {
		what = "stopped it between kernels"
	}
	s := fmt.Sprintf("%s %s: %d tried, %d %s, %d restored bit for bit, %d launches wrong", r.Network, r.How, r.Tried, r.Hit, what, r.Restored, r.Spoilt)
	switch f := r.First; {
	case f != nil && f.Kernel < 0:
		s += fmt.Sprintf(" (with %d of these stops; the first at exit %d, output %d, where no kill hit)", r.InWrong, f.Exit, f.Output)
	case f != nil:
		s += fmt.Sprintf(" (with %d of these stops; the first at exit %d, output %d, stopped in kernel %d)", r.InWrong, f.Exit, f.Output, f.Kernel)
	case r.Hit == 0:
		s += ": nothing is shown"
	}
	return s
}

// Restores computes the counts from the runs.
func (r *Raw) Restores() []Restores { return r.restores(killed, drained, ahead, inPlace) }

// Controls counts launches with a deliberate fault. At least one launch with each fault must be wrong, or Restores
// proves nothing.
func (r *Raw) Controls() []Restores { return r.restores(boolean, short) }

// Unseen reports whether the fault of a control was not noticed: no wrong launch has a hit.
func (r *Restores) Unseen() bool { return r.InWrong == 0 }

func (r *Raw) restores(hows ...string) (out []Restores) {
	for _, how := range hows {
		of := func(what string) []int64 { return r.find(Kills, how+" "+what) }
		hits, tried, exits, outputs, kernels := of(hitKills), of(triedKills), of(wrongExit), of(wrongOutput), of(lastKernel)
		n := min(len(hits), len(tried), len(exits), len(outputs), len(kernels))
		if n == 0 {
			continue
		}
		one := Restores{How: how, Launches: n}
		if slices.Contains([]string{inPlace, boolean, short}, how) {
			one.Network = cuda.InPlaceName
		} else if len(r.Made.Networks) > 0 {
			one.Network = r.Made.Networks[0].Name
		}
		for i := range n {
			hit := int(hits[i])
			one.Tried += int(tried[i])
			one.Hit += hit
			if exits[i] == 0 {
				one.Restored += hit
				continue
			}
			one.InWrong += hit
			if one.Spoilt++; one.First == nil {
				one.First = &Wrong{i, int(exits[i]) - 1, int(outputs[i]) - 1, int(kernels[i]) - 1}
			}
		}
		out = append(out, one)
	}
	return out
}

// rows converts the counts to figures.
func (r *Restores) rows() (out []Row) {
	for _, x := range []struct {
		what, unit string
		n          int
	}{{"tried", "kills", r.Tried}, {"hit", "kills", r.Hit}, {"restored bit for bit", "kills", r.Restored}, {"in wrong launches", "kills", r.InWrong}, {"wrong launches", "launches", r.Spoilt}} {
		out = append(out, row(Kills, r.How+" "+x.what, x.unit, []float64{float64(x.n)}))
	}
	return out
}

// perLaunch reports whether a series has one value per stopped launch. Restores is computed from such series.
func perLaunch(key string) bool {
	_, what, _ := strings.Cut(key, " ")
	return slices.Contains([]string{triedKills, hitKills, wrongExit, wrongOutput, lastKernel}, what)
}
