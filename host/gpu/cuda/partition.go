package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// partitions creates streams that use only certain units. A unit is the smallest part of the GPU that can be assigned.
type partitions struct {
	units      int // 0: the GPU cannot be divided
	each       int // SMs of a unit
	last       int // SMs of the last unit
	total      int // SMs of the GPU
	alike      int // number of SMs that a probe cannot distinguish; 2 if CUs are reported in pairs
	neighbours bool
	lib        *driver.Lib
	way        way
}

// way is a method to divide a GPU: green contexts, CU masks, or stream masks.
type way interface {
	// stream creates a stream on a non-empty set of units.
	stream(u device.Units, priority int) (driver.Stream, error)
	// enter makes the context of units the current context. back makes the GPU's own context current again.
	enter(u device.Units) error
	back() error
	// close frees the partitions. Their streams must have been destroyed.
	close() error
}

// newPartitions finds out how the driver can divide the GPU, and prepares this method.
func newPartitions(lib *driver.Lib, dev driver.Device, main driver.Context, masks *Masks, look look) (p *partitions, err error) {
	total, err := lib.Attribute(dev, driver.Multiprocessors)
	if err != nil {
		return nil, fmt.Errorf("partitions: %w", err)
	}
	none := &partitions{lib: lib, total: total}
	switch {
	case masks != nil:
		p, err = newStreamMasks(lib, masks, total, look)
	case lib.HasGreen():
		p, err = newGreens(lib, dev, main, look)
	case lib.HasCUMasks():
		p, err = newCUMasks(lib, dev)
	default:
		return none, nil
	}
	if driver.Undivided(err) {
		return none, nil
	}
	if err == nil && (p.units > device.MaxUnits || p.units > 0 && p.each < 1) {
		err = fmt.Errorf("the GPU has %d units of %d SMs, at most %d units are known", p.units, p.each, device.MaxUnits)
	}
	if err != nil {
		return nil, fmt.Errorf("partitions: %w", err)
	}
	p.lib = lib
	return p, nil
}

// sms returns the number of SMs of units. The empty set means the whole GPU.
func (p *partitions) sms(u device.Units) int {
	if u.Empty() {
		return p.total
	}
	n := u.Count() * p.each
	if u.Has(p.units - 1) {
		n += p.last - p.each
	}
	return n
}

// look is a function that returns the SMs on which a stream's kernels run.
type look func(s driver.Stream) ([]int, error)

// stream creates a stream on units, or on the whole GPU. The thread's own context remains current.
func (p *partitions) stream(u device.Units, priority int) (driver.Stream, error) {
	if u.Empty() {
		return p.lib.NewStream(priority)
	}
	s, err := p.way.stream(u, priority)
	if err != nil {
		err = fmt.Errorf("partition %v: %w", u, err)
	}
	return s, err
}

// within makes the context of units current, calls f, and makes the thread's own context current again. An event must
// be created in the context of the stream on which it is recorded (otherwise cuEventRecord returns
// CUDA_ERROR_INVALID_HANDLE).
func (p *partitions) within(u device.Units, f func() error) error {
	if p.way == nil || u.Empty() {
		return f()
	}
	err := p.way.enter(u)
	if err == nil {
		err = f()
	}
	return errors.Join(err, p.way.back())
}

func (p *partitions) back() error {
	if p.way == nil {
		return nil
	}
	return p.way.back()
}

func (p *partitions) close() error {
	if p.way == nil {
		return nil
	}
	return p.way.close()
}

// greens divides the GPU with green contexts. The whole GPU is split once into disjoint sets, and each set is a unit.
// On an H100 or H200 there are fifteen sets of eight SMs and one set of the remaining twelve SMs. If the driver can
// merge these sets, several units can become one partition. If not, a partition of neighbouring units is split off the
// whole GPU separately, and probed before its first use.
type greens struct {
	*partitions
	dev   driver.Device
	main  driver.Context
	look  look
	all   driver.Resource
	sets  [][]driver.Resource // sets of each unit
	green map[device.Units]driver.Green
	made  []driver.Green // all green contexts, in order of their creation
	seen  map[int][]int  // SMs by unit
	away  bool           // a partition's context is current
}

func newGreens(lib *driver.Lib, dev driver.Device, main driver.Context, look look) (*partitions, error) {
	p := &partitions{lib: lib, alike: 1}
	g := &greens{partitions: p, dev: dev, main: main, look: look, green: map[device.Units]driver.Green{}, seen: map[int][]int{}}
	p.way = g
	var err error
	if g.all, err = lib.SMs(dev); err != nil {
		return nil, err
	}
	p.total = int(g.all.SMs)
	sets, rest, err := lib.SplitAll(g.all)
	if err != nil {
		return nil, err
	}
	p.neighbours = true
	for _, s := range sets {
		if s.SMs != sets[0].SMs || s.SMs == 0 {
			return nil, fmt.Errorf("%w: the driver divides the GPU into sets of %d and %d SMs: equal ones are expected", device.ErrRequest, sets[0].SMs, s.SMs)
		}
		g.sets = append(g.sets, []driver.Resource{s})
	}
	if len(sets) == 0 {
		return p, nil
	}
	p.each, p.neighbours = int(sets[0].SMs), len(sets) < 2 || !lib.Merges(sets[:2])
	p.last = p.each
	switch n := int(rest.SMs); {
	case n >= p.each: // the remaining SMs are enough for one more unit
		g.sets = append(g.sets, []driver.Resource{rest})
		p.last = n
	case n > 0 && !p.neighbours:
		g.sets[len(sets)-1] = append(g.sets[len(sets)-1], rest)
		p.last += n
	}
	p.units = len(g.sets)
	return p, nil
}

// context returns a green context with exactly the SMs of the given units.
func (p *greens) context(u device.Units) (driver.Green, error) {
	if g, ok := p.green[u]; ok {
		return g, nil
	}
	var of []driver.Resource
	first := -1
	for i := range p.units {
		if u.Has(i) {
			of = append(of, p.sets[i]...)
			if first < 0 {
				first = i
			}
		}
	}
	n := u.Count()
	if first < 0 || u.Has(p.units) || p.neighbours && u != device.UnitRange(first, n) {
		return 0, fmt.Errorf("%w: units %v: some of 0 to %d are expected, neighbours where the driver merges none", device.ErrRequest, u, p.units-1)
	}
	cut := p.neighbours && n > 1
	if cut {
		one, err := p.cut(first, p.sms(u))
		if err != nil {
			return 0, err
		}
		of = []driver.Resource{one}
	}
	g, err := p.make(of)
	if err != nil {
		return 0, err
	}
	got, err := p.lib.GreenSMs(g)
	if err != nil {
		return 0, err
	}
	if int(got.SMs) != p.sms(u) {
		return 0, fmt.Errorf("%w: units %v are %d SMs, the driver gives %d", device.ErrRequest, u, p.sms(u), got.SMs)
	}
	if cut {
		if err := p.proven(g, u); err != nil {
			return 0, err
		}
	}
	p.green[u] = g
	return g, nil
}

// cut splits off neighbouring units in two steps: first the SMs before these units, then the units' own SMs. If the
// driver rounds a size up, cut returns an error.
func (p *greens) cut(first, want int) (driver.Resource, error) {
	of := p.all
	if first > 0 {
		before, rest, err := p.lib.Split(of, first*p.each)
		if err != nil {
			return of, err
		}
		if int(before.SMs) != first*p.each {
			return of, fmt.Errorf("%w: %d SMs are asked for, the driver gives %d", device.ErrRequest, first*p.each, before.SMs)
		}
		g, err := p.make([]driver.Resource{rest})
		if err != nil {
			return of, err
		}
		if of, err = p.lib.GreenSMs(g); err != nil {
			return of, err
		}
	}
	if want >= int(of.SMs) {
		return of, nil
	}
	of, _, err := p.lib.Split(of, want)
	return of, err
}

// proven probes on which SMs a separately split partition runs. It must run on exactly its units' SMs, because other
// partitions may use all remaining SMs.
func (p *greens) proven(g driver.Green, u device.Units) error {
	var want []int
	for i := range p.units {
		if !u.Has(i) {
			continue
		}
		if p.seen[i] == nil {
			one, err := p.context(device.UnitRange(i, 1))
			if err != nil {
				return err
			}
			if p.seen[i], err = p.runs(one); err != nil {
				return err
			}
		}
		want = append(want, p.seen[i]...)
	}
	slices.Sort(want)
	got, err := p.runs(g)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%w: units %v run on SMs %v, as one partition on %v", device.ErrRequest, u, want, got)
	}
	return nil
}

// runs returns the SMs on which a context's kernels run.
func (p *greens) runs(g driver.Green) ([]int, error) {
	s, err := p.in(g, 0)
	if err != nil {
		return nil, err
	}
	sms, err := p.look(s)
	if e := p.lib.FreeStream(s); err == nil {
		err = e
	}
	return sms, err
}

func (p *greens) make(of []driver.Resource) (driver.Green, error) {
	g, err := p.lib.NewGreen(p.dev, of)
	if err == nil {
		p.made = append(p.made, g)
	}
	return g, err
}

func (p *greens) stream(u device.Units, priority int) (driver.Stream, error) {
	g, err := p.context(u)
	if err != nil {
		return 0, err
	}
	return p.in(g, priority)
}

func (p *greens) enter(u device.Units) error {
	g, err := p.context(u)
	if err != nil {
		return err
	}
	return p.current(g)
}

func (p *greens) current(g driver.Green) error {
	c, err := p.lib.Context(g)
	if err == nil {
		err = p.lib.SetCurrent(c)
	}
	p.away = p.away || err == nil
	return err
}

// in creates a stream in a green context.
func (p *greens) in(g driver.Green, priority int) (driver.Stream, error) {
	if err := p.current(g); err != nil {
		return 0, err
	}
	s, err := p.lib.NewStream(priority)
	if e := p.back(); e != nil {
		return s, e
	}
	return s, err
}

// errAway reports that the thread's own context could not be made current again.
var errAway = errors.New("the launcher's context could not be made current again")

func (p *greens) back() error {
	if !p.away {
		return nil
	}
	if err := p.lib.SetCurrent(p.main); err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	p.away = false
	return nil
}

func (p *greens) close() (err error) {
	for i := len(p.made) - 1; i >= 0; i-- {
		if e := p.lib.FreeGreen(p.made[i]); err == nil {
			err = e
		}
	}
	p.made = nil
	clear(p.green)
	return err
}

// cuMasks creates streams with CU masks. The mask of a stream cannot be changed later. A unit is one CU, or several CUs
// whose bits must be set together. Every set of units is possible.
type cuMasks struct {
	*partitions
	step int
}

func newCUMasks(lib *driver.Lib, dev driver.Device) (*partitions, error) {
	n, step, alike, err := lib.CUs(dev)
	if err != nil {
		return nil, err
	}
	p := &partitions{lib: lib, units: n / step, each: step, last: step + n%step, total: n, alike: alike}
	p.way = &cuMasks{partitions: p, step: step}
	return p, nil
}

// mask returns a mask in which the bits of the given units are set.
func (p *cuMasks) mask(u device.Units) []uint32 {
	out := make([]uint32, (p.total+31)/32)
	for cu := range p.total {
		if u.Has(min(cu/p.each, p.units-1)) {
			out[cu/32] |= 1 << (cu % 32)
		}
	}
	return out
}

// stream creates a stream with a mask. Such a stream has no priority, so the hardware cannot prefer its launches.
func (p *cuMasks) stream(u device.Units, _ int) (driver.Stream, error) {
	return p.lib.NewMaskedStream(p.mask(u), p.total, p.step)
}

func (p *cuMasks) enter(device.Units) error { return nil }
func (p *cuMasks) back() error              { return nil }
func (p *cuMasks) close() error             { return nil }
