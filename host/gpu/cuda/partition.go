package cuda

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// partitions makes streams that stay on units: how the GPU is divided, and the way that the driver has to do
// it. A unit is the least that is given away.
type partitions struct {
	units      int // 0: the GPU cannot be divided
	each       int // SMs of a unit; the last has the rest too
	total      int // SMs; 0: nobody asked
	alike      int // SMs that the probe takes for one
	neighbours bool
	lib        *driver.Lib
	way        way
}

// way is one to divide a GPU: green contexts, masks of CUs, masks of streams.
type way interface {
	// stream is a new one on units, never on none.
	stream(u device.Units, priority int) (driver.Stream, error)
	// back makes the GPU's own context the thread's again, where a stream has left another.
	back() error
	// close gives the partitions back, whose streams are gone.
	close() error
}

// newPartitions asks the GPU how it can be divided, by what its driver offers.
func newPartitions(lib *driver.Lib, dev driver.Device, main driver.Context) (p *partitions, err error) {
	switch {
	case lib.HasGreen():
		p, err = newGreens(lib, dev, main)
	case lib.HasCUMasks():
		p, err = newCUMasks(lib, dev)
	default:
		return &partitions{lib: lib}, nil
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

// sms is how many SMs units have; of the empty set: all.
func (p *partitions) sms(u device.Units) int {
	if u.Empty() {
		return p.total
	}
	n := u.Count() * p.each
	if u.Has(p.units - 1) {
		n += p.total - p.units*p.each
	}
	return n
}

// stream is a new stream on units, or on the whole GPU. The context is the thread's again afterwards.
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

// greens are green contexts: a unit is eight SMs on an H200, so that its 132 are sixteen, the last of twelve.
type greens struct {
	*partitions
	dev   driver.Device
	main  driver.Context
	all   driver.Resource
	green map[device.Units]driver.Green
	made  []driver.Green // all, in order
	away  bool           // a partition's context is the thread's
}

func newGreens(lib *driver.Lib, dev driver.Device, main driver.Context) (*partitions, error) {
	p := &partitions{lib: lib, alike: 1, neighbours: true}
	g := &greens{partitions: p, dev: dev, main: main, green: map[device.Units]driver.Green{}}
	p.way = g
	var err error
	if g.all, err = lib.SMs(dev); err != nil {
		return nil, err
	}
	p.total = int(g.all.SMs)
	p.units, p.each, err = lib.Groups(g.all, 1)
	return p, err
}

// context is a green context of units. Neighbours are cut out of the GPU in two steps, since no driver
// promises more: what stands before them is split off, then they are.
func (p *greens) context(u device.Units) (driver.Green, error) {
	if g, ok := p.green[u]; ok {
		return g, nil
	}
	first := 0
	for !u.Has(first) {
		first++
	}
	n := u.Count()
	if u != device.UnitRange(first, n) || first+n > p.units {
		return 0, fmt.Errorf("%w: units %v: neighbours of 0 to %d are expected", device.ErrRequest, u, p.units-1)
	}
	of := p.all
	if first > 0 {
		_, rest, err := p.lib.Split(of, first*p.each)
		if err != nil {
			return 0, err
		}
		g, err := p.make(rest)
		if err != nil {
			return 0, err
		}
		if of, err = p.lib.GreenSMs(g); err != nil {
			return 0, err
		}
	}
	if want := p.sms(u); want < int(of.SMs) {
		var err error
		if of, _, err = p.lib.Split(of, want); err != nil {
			return 0, err
		}
		if int(of.SMs) != want {
			return 0, fmt.Errorf("%w: units %v are %d SMs, the driver gives %d", device.ErrRequest, u, want, of.SMs)
		}
	}
	g, err := p.make(of)
	if err == nil {
		p.green[u] = g
	}
	return g, err
}

func (p *greens) make(of driver.Resource) (driver.Green, error) {
	g, err := p.lib.NewGreen(p.dev, []driver.Resource{of})
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
	c, err := p.lib.Context(g)
	if err != nil {
		return 0, err
	}
	if err := p.lib.SetCurrent(c); err != nil {
		return 0, err
	}
	p.away = true
	s, err := p.lib.NewStream(priority)
	if e := p.back(); e != nil {
		return s, e
	}
	return s, err
}

// errAway is a thread whose context is not its own any more.
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

// cuMasks are streams that have been given a mask of CUs for good: a unit is a CU, or what must be given with
// it. Any set of units can be had.
type cuMasks struct {
	*partitions
	step int
}

func newCUMasks(lib *driver.Lib, dev driver.Device) (*partitions, error) {
	n, step, alike, err := lib.CUs(dev)
	if err != nil {
		return nil, err
	}
	p := &partitions{lib: lib, units: n / step, each: step, total: n, alike: alike}
	p.way = &cuMasks{partitions: p, step: step}
	return p, nil
}

// mask has the bits of units.
func (p *cuMasks) mask(u device.Units) []uint32 {
	out := make([]uint32, (p.total+31)/32)
	for cu := range p.total {
		if u.Has(min(cu/p.each, p.units-1)) {
			out[cu/32] |= 1 << (cu % 32)
		}
	}
	return out
}

// A stream with a mask has no priority of its own: what of launches of priority is left to the hardware is not
// done on partitions of this way.
func (p *cuMasks) stream(u device.Units, _ int) (driver.Stream, error) {
	return p.lib.NewMaskedStream(p.mask(u), p.total, p.step)
}

func (p *cuMasks) back() error  { return nil }
func (p *cuMasks) close() error { return nil }
