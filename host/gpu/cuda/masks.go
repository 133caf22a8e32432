package cuda

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Masks configures partitions that are made with stream masks. A mask is written into the driver's internal data of a
// stream. A wrong offset would corrupt the driver's memory. Therefore the driver's exact version must be known, and the
// mask bit of every TPC is tested before the first launch.
type Masks struct {
	Offsets driver.Offsets
	Driver  string // exact driver version, from NVML
}

// streamMasks creates streams with a mask. A unit is a TPC, which has two SMs. Every set of units is possible.
type streamMasks struct {
	*partitions
	offset, width int
	bits          []int // by unit: its mask bit; TPCs that were disabled in manufacture are not units
}

// newStreamMasks finds the mask bit of each TPC. It sets one bit at a time and probes which SMs no longer run kernels.
// A mask with a single clear bit would be faster to probe, but the probe hangs if no TPC belongs to this bit.
func newStreamMasks(lib *driver.Lib, m *Masks, total int, look look) (*partitions, error) {
	offset, ok := m.Offsets[m.Driver]
	if !ok {
		return nil, fmt.Errorf("%w: where driver %q keeps them is not known; it is of %s, and a file may name others", driver.ErrOffset, m.Driver, strings.Join(slices.Sorted(maps.Keys(m.Offsets)), ", "))
	}
	width, err := driver.MaskBits(m.Driver, (total+1)/2)
	if err != nil {
		return nil, err
	}
	p := &partitions{lib: lib, total: total, alike: 1}
	s := &streamMasks{partitions: p, offset: offset, width: width}
	p.way = s
	whole, err := s.seen(driver.Mask{}, look)
	if err != nil {
		return nil, err
	}
	if len(whole) != total {
		return nil, fmt.Errorf("%w: without a bit kernels run on %d SMs of %d", driver.ErrOffset, len(whole), total)
	}
	owner := map[int]int{}
	for bit := range width {
		var one driver.Mask
		one.Disable(bit)
		left, err := s.seen(one, look)
		if err != nil {
			return nil, err
		}
		gone := slices.DeleteFunc(slices.Clone(whole), func(sm int) bool { return slices.Contains(left, sm) })
		if len(gone) == 0 {
			continue // no TPC belongs to this bit
		}
		for _, sm := range gone {
			if other, ok := owner[sm]; ok {
				return nil, fmt.Errorf("%w: bits %d and %d both disable SM %d", driver.ErrOffset, other, bit, sm)
			}
			owner[sm] = bit
		}
		if p.units > 0 && len(gone) != p.each {
			return nil, fmt.Errorf("%w: bit %d disables SMs %v, others %d each", driver.ErrOffset, bit, gone, p.each)
		}
		p.each, p.last = len(gone), len(gone)
		s.bits = append(s.bits, bit)
		p.units++
	}
	if len(owner) != total {
		return nil, fmt.Errorf("%w: all bits at offset %#x disable %d SMs of %d: it is not that of driver %s", driver.ErrOffset, offset, len(owner), total, m.Driver)
	}
	return p, nil
}

// seen probes on which SMs kernels run under a mask.
func (s *streamMasks) seen(m driver.Mask, look look) ([]int, error) {
	at, err := s.masked(m, 0)
	if err != nil {
		return nil, err
	}
	sms, err := look(at)
	if e := s.lib.FreeStream(at); err == nil {
		err = e
	}
	return sms, err
}

func (s *streamMasks) masked(m driver.Mask, priority int) (driver.Stream, error) {
	at, err := s.lib.NewStream(priority)
	if err != nil {
		return 0, err
	}
	if err := s.lib.SetMask(at, s.offset, s.width, m); err != nil {
		_ = s.lib.FreeStream(at)
		return 0, err
	}
	return at, nil
}

// mask returns a mask that disables all units except the given units.
func (s *streamMasks) mask(u device.Units) driver.Mask {
	m := driver.Mask{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}
	for i, bit := range s.bits {
		if u.Has(i) {
			m[bit/32] &^= 1 << (bit % 32)
		}
	}
	return m
}

func (s *streamMasks) stream(u device.Units, priority int) (driver.Stream, error) {
	return s.masked(s.mask(u), priority)
}

func (s *streamMasks) enter(device.Units) error { return nil }
func (s *streamMasks) back() error              { return nil }
func (s *streamMasks) close() error             { return nil }
