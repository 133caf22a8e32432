// Launches that are stopped and restored, compared bit for bit with undisturbed ones.

package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// How launches are stopped: inside a kernel, or, beside them, between two kernels of which nothing is killed: what
// differs there differs for another reason. And, on a network whose kernels work in place (cuda.InPlace), as no bundle's
// do, inside a kernel, then with what is to be seen as wrong: a boolean in place of the epoch, and groups that are one
// kernel short.
const (
	killed  = "killed"
	drained = "drained"
	inPlace = "killed-in-place"
	boolean = "boolean"
	short   = "short"
)

// manners are how many there are, which share the part's time.
const manners = 5

// redrawn is how often the second input is drawn anew while no exit tells it from the first: small ones may show the same.
const redrawn = 20

// controlled is how many launches a break has to be seen in.
const controlled = 1000

// Sides of the network in place: one whose rounds have blocks for several times what a GPU of 132 SMs holds, so that
// kills find some blocks of a kernel done, some under way and some not begun, and one that the fake has time for.
const (
	side     = 256
	sideFake = 8
)

// kills stops launches at random phases, goes on where the device says, and compares what every exit shows with an
// undisturbed launch of the same input, bit for bit. Two inputs take turns in one slot, which is cleared before each:
// what stands there of an earlier launch is no answer.
func (b *bench) kills(ctx context.Context) error {
	be, _ := b.pair()
	in := [2][]int16{b.noise(be), b.noise(be)}
	for _, how := range []string{killed, drained} {
		cfg := cuda.Config{}
		if how == drained { // with one kernel in the stream, so that it is between two of them that most leave
			cfg = cuda.Config{Drain: true, Capacity: 1}
		}
		err := b.with(ctx, cfg, 1, func(r *rig) error {
			return (&restorer{rig: r, be: be, in: in, drain: how == drained, id: 1 << 32}).all(ctx, how)
		})
		if err != nil {
			return err
		}
	}
	return b.controls(ctx)
}

// controls are the same on the network whose kernels work in place, and with each break until it is seen.
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
			load := &device.Work{Kind: device.Load, Artefact: device.Artefact{Network: net.Bundle.Network.Name, Kind: cuda.ArtefactDrawn, Data: net}}
			if _, err := r.do(ctx, load, nil); err != nil {
				return err
			}
			r.ids[net.Bundle.Network.Name] = make([]device.RequestID, 1) // each launch has its own
			s := &restorer{rig: r, be: net.Bundle, in: in, id: 1 << 32, counts: inPlaceKernel}
			if way.how != inPlace {
				s.over = b.untilWrong(time.Now())
			}
			return s.all(ctx, way.how)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untilWrong ends a control: with its first wrong launch, or when it should have been seen, or when its share of the
// part's time is over and a few kills have hit.
func (b *bench) untilWrong(began time.Time) func(launches, hits, wrong int) bool {
	return func(launches, hits, wrong int) bool {
		return wrong > 0 || launches >= controlled || b.For > 0 && hits >= few && time.Since(began) > b.For/manners
	}
}

// restorer stops launches of a network, of two inputs in turn.
type restorer struct {
	*rig
	be    *bundle.Bundle
	in    [2][]int16
	drain bool
	id    device.RequestID
	known int // kills so far
	// counts says which kernels a hit is to be in; nil: in any.
	counts func(kernel int64) bool
	// over says when that is enough, by launches, kills that hit, and launches that were hit and went wrong; nil: as many
	// hits as are asked for.
	over func(launches, hits, wrong int) bool
}

// restored is a launch that was stopped so many times and went on each time.
type restored struct {
	shown map[int][]int16
	tried int     // stops that were asked for
	at    []int64 // kernels of the network in which a block left; drained: where it was taken up
	again []int64 // where it was taken up
	ns    int64   // the last piece of it
}

// run runs an input, stops it up to so many times within ns, and says what it showed.
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
		c, err := s.rig.run(ctx, w, func() {
			if taken < stops {
				out.tried++
				for time.Since(began) < wait {
				}
				s.d.Abort(0, w.ID, true)
			}
		})
		if err != nil {
			return out, err
		}
		maps.Copy(out.shown, c.shown)
		next = c.ev.Resume
		again := int64(s.be.Network.Exits[next.Segment].First + next.Kernel)
		hit, at := c.ev.Kind == device.Aborted && again > 0, again // drained: at its begin nothing has run
		if !s.drain {                                              // who was told to leave between two kernels was not stopped inside one
			if hit, at, err = s.hit(); err != nil {
				return out, err
			}
		}
		if hit {
			out.at, out.again = append(out.at, at), append(out.again, again)
		}
		if c.ev.Kind != device.Aborted {
			out.ns = c.ns
			return out, nil
		}
		taken++
	}
}

// hit says whether a kill found a kernel since it was asked last, and which.
func (s *restorer) hit() (bool, int64, error) {
	c, err := s.d.Counts()
	if err != nil {
		return false, 0, err
	}
	hit := c.Kills > s.known
	s.known = c.Kills
	return hit, int64(c.Stopped), nil
}

// all stops launches until enough stops have hit. What was seen of whole launches is kept, whatever ends it; of one that
// is broken off nobody can tell what it would have shown.
func (s *restorer) all(ctx context.Context, how string) error {
	var want [2]map[int][]int16
	var ns int64
	for k := range 4 { // the first ones make the stream
		one, err := s.run(ctx, k%2, 0, 0)
		if err != nil {
			return err
		}
		want[k%2], ns = one.shown, one.ns
	}
	apart := s.apart(want)
	for n := 0; apart == 0 && n < redrawn; n++ { // inputs that no exit tells apart would hide one in the other's place
		s.in[1] = s.noise(s.be)
		one, err := s.run(ctx, 1, 0, 0)
		if err != nil {
			return err
		}
		want[1] = one.shown
		apart = s.apart(want)
	}
	series := map[string][]int64{}
	add := func(what string, v ...int64) { series[what] = append(series[what], v...) }
	hits, wrong := 0, 0
	defer func() { s.keep(how, series, apart) }()
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
		add(triedKills, int64(one.tried))
		add(hitKills, int64(hit))
		add(wrongExit, exit)
		add(wrongOutput, output)
		add(lastKernel, last)
		if !s.drain {
			add(stoppedIn, one.at...)
		}
		add("taken up at", one.again...)
	}
	return nil
}

// apart is how many exits tell the inputs apart.
func (s *restorer) apart(shown [2]map[int][]int16) (n int64) {
	for e := range s.be.Network.Exits {
		if !slices.Equal(shown[0][e], shown[1][e]) {
			n++
		}
	}
	return n
}

// keep adds what was seen of launches that were stopped, and how many exits tell the inputs apart.
func (s *restorer) keep(how string, series map[string][]int64, apart int64) {
	for _, x := range []struct{ what, unit string }{
		{triedKills, "kills"},
		{hitKills, "kills"},
		{wrongExit, "exit"},
		{wrongOutput, "output"},
		{lastKernel, "kernel"},
		{stoppedIn, "kernel from 0"},
		{"taken up at", "kernel from 0"},
	} {
		if s.drain && x.what == stoppedIn {
			continue
		}
		s.add(Kills, how+" "+x.what, x.unit, series[x.what]...)
	}
	s.add(Kills, how+" exits that tell the inputs apart", "exits", apart)
}

// Series of launches that were stopped, one run a launch; what is a place counts from 1, and 0 is none.
const (
	triedKills  = "tried"
	hitKills    = "hit"
	wrongExit   = "first wrong exit"
	wrongOutput = "first wrong output"
	lastKernel  = "last stopped in"
)

// differs is the first exit that does not show what is expected, and the first of its outputs; 0, 0: there is none.
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

// Restores are what became of launches that were stopped and went on.
type Restores struct {
	How      string `json:"how"` // killed, drained, killed-in-place; of controls boolean, short
	Network  string `json:"network"`
	Launches int    `json:"launches"`
	Tried    int    `json:"tried"` // kills that were asked for
	// Hit are those after which Control names a kernel: a block of it left, at its first look or a later one, which nothing
	// tells apart. On the network in place a kernel that works in place: what is stopped elsewhere is made anew wherever it
	// goes on. Drained: after which a launch left between two kernels.
	Hit      int    `json:"hit"`
	Restored int    `json:"restored"`              // of those: of launches whose every exit shows the undisturbed ones' bits
	InWrong  int    `json:"in_wrong"`              // of those: of others, of which nobody can tell after which kill they were wrong
	Spoilt   int    `json:"wrong_launches"`        // others, also without a kill that hit
	First    *Wrong `json:"first_wrong,omitempty"` // of them
}

// Wrong is a launch that showed something else than an undisturbed one.
type Wrong struct {
	Launch int `json:"launch"` // places count from 0
	Exit   int `json:"exit"`
	Output int `json:"output"` // the first one of the exit that differs
	Kernel int `json:"kernel"` // of the network, in which the last kill found it; -1: no kill hit
}

// String is a line of it.
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

// Restores are counted from the runs.
func (r *Raw) Restores() []Restores { return r.restores(killed, drained, inPlace) }

// Controls are launches under a break, of which one at least is to be wrong: else nothing is shown by those of Restores.
func (r *Raw) Controls() []Restores { return r.restores(boolean, short) }

// Unseen says of a control that it has seen nothing wrong where a kernel that works in place was stopped.
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
		if how != killed && how != drained {
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

// rows are the counts as figures.
func (r *Restores) rows() (out []Row) {
	for _, x := range []struct {
		what, unit string
		n          int
	}{{"tried", "kills", r.Tried}, {"hit", "kills", r.Hit}, {"restored bit for bit", "kills", r.Restored}, {"in wrong launches", "kills", r.InWrong}, {"wrong launches", "launches", r.Spoilt}} {
		out = append(out, row(Kills, r.How+" "+x.what, x.unit, []float64{float64(x.n)}))
	}
	return out
}

// perLaunch tells a series that stands in Restores from one that is a figure by itself.
func perLaunch(key string) bool {
	_, what, _ := strings.Cut(key, " ")
	return slices.Contains([]string{triedKills, hitKills, wrongExit, wrongOutput, lastKernel}, what)
}
