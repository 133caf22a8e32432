package cuda

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// partitions makes streams that stay on units. A unit is the least that the driver gives away: eight SMs
// on an H200, so that its 132 are sixteen units, the last of twelve.
type partitions struct {
	lib   *driver.Lib
	dev   driver.Device
	main  driver.Context
	all   driver.Resource
	units int // 0: the driver cannot divide the GPU
	each  int // SMs of a unit; the last has the rest too
	green map[device.Units]driver.Green
	made  []driver.Green // all, in order
	away  bool           // a partition's context is the thread's
}

// newPartitions asks the GPU how it can be divided.
func newPartitions(lib *driver.Lib, dev driver.Device, main driver.Context) (*partitions, error) {
	p := &partitions{lib: lib, dev: dev, main: main, green: map[device.Units]driver.Green{}}
	if !lib.HasGreen() {
		return p, nil
	}
	var err error
	if p.all, err = lib.SMs(dev); err != nil {
		return nil, fmt.Errorf("partitions: %w", err)
	}
	if p.units, p.each, err = lib.Groups(p.all, 1); err != nil {
		return nil, fmt.Errorf("partitions: %w", err)
	}
	if p.units > device.MaxUnits || p.each < 1 {
		return nil, fmt.Errorf("partitions: the GPU has %d units of %d SMs, at most %d units are known", p.units, p.each, device.MaxUnits)
	}
	return p, nil
}

// sms is how many SMs units have; of the empty set: all.
func (p *partitions) sms(u device.Units) int {
	if u.Empty() {
		return int(p.all.SMs)
	}
	n := u.Count() * p.each
	if u.Has(p.units - 1) {
		n += int(p.all.SMs) - p.units*p.each
	}
	return n
}

// context is a green context of units. Neighbours are cut out of the GPU in two steps, since no driver
// promises more: what stands before them is split off, then they are.
func (p *partitions) context(u device.Units) (driver.Green, error) {
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

func (p *partitions) make(of driver.Resource) (driver.Green, error) {
	g, err := p.lib.NewGreen(p.dev, []driver.Resource{of})
	if err == nil {
		p.made = append(p.made, g)
	}
	return g, err
}

// stream is a new stream on units, or on the whole GPU. The context is the thread's again afterwards.
func (p *partitions) stream(u device.Units, priority int) (driver.Stream, error) {
	if u.Empty() {
		return p.lib.NewStream(priority)
	}
	g, err := p.context(u)
	if err != nil {
		return 0, fmt.Errorf("partition %v: %w", u, err)
	}
	c, err := p.lib.Context(g)
	if err != nil {
		return 0, fmt.Errorf("partition %v: %w", u, err)
	}
	if err := p.lib.SetCurrent(c); err != nil {
		return 0, fmt.Errorf("partition %v: %w", u, err)
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

// back makes the GPU's own context the thread's again.
func (p *partitions) back() error {
	if err := p.lib.SetCurrent(p.main); err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	p.away = false
	return nil
}

// close gives the partitions back, whose streams are gone.
func (p *partitions) close() (err error) {
	for i := len(p.made) - 1; i >= 0; i-- {
		if e := p.lib.FreeGreen(p.made[i]); err == nil {
			err = e
		}
	}
	p.made = nil
	clear(p.green)
	return err
}
