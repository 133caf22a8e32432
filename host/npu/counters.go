// The hardware's counters and clock.

package npu

import (
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/hw/abi"
)

func (d *Driver) readCounters() (c [abi.CntCount]uint64, err error) {
	for i := range c {
		lo, err := d.bus.ReadReg(abi.CounterLo(i)) // reading the lower half latches the upper half
		if err != nil {
			return c, err
		}
		hi, err := d.bus.ReadReg(abi.CounterLo(i) + 4)
		if err != nil {
			return c, err
		}
		c[i] = uint64(hi)<<32 | uint64(lo)
	}
	return c, nil
}

// Counters returns the hardware's counters after the last launch, by index (abi.Cnt...).
func (d *Driver) Counters() [abi.CntCount]uint64 {
	d.hw.Lock()
	defer d.hw.Unlock()
	return d.counters
}

// ns converts cycles to ns, rounded down. The result is correct even if the product exceeds 64 bits.
func (d *Driver) ns(cycles uint64) int64 {
	hi, lo := bits.Mul64(cycles, 1e9)
	if hi >= uint64(d.opts.ClockHz) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(d.opts.ClockHz))
	return int64(min(q, 1<<63-1))
}

// cycles converts ns to cycles, rounded up.
func (d *Driver) cycles(ns int64) uint64 {
	hi, lo := bits.Mul64(uint64(ns), uint64(d.opts.ClockHz))
	if hi >= 1e9 {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, 1e9)
	if r > 0 {
		q++
	}
	return q
}
