// Faults of the bus.

package verify

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// burst picks a port with traffic in a direction, and one of its bursts.
func (c *Campaign) burst(dir npu.FaultDir) (port int, first uint32, ok bool) {
	counts := c.rig.trial.reads
	if dir == npu.FaultWrite {
		counts = c.rig.trial.writes
	}
	var ports []int
	for p, n := range counts {
		if n > 0 {
			ports = append(ports, p)
		}
	}
	if len(ports) == 0 {
		return 0, 0, false
	}
	port = ports[c.rng.IntN(len(ports))]
	return port, 1 + uint32(c.rng.Uint64N(counts[port])), true
}

func busFault(dir npu.FaultDir, fault npu.FaultKind, code abi.ErrCode) func(*Campaign) *plan {
	return func(c *Campaign) *plan {
		port, first, ok := c.burst(dir)
		if !ok {
			return nil
		}
		f := npu.Fault{Port: uint8(port), Dir: dir, Kind: fault, First: first, Count: 1}
		p := &plan{codes: []abi.ErrCode{code}, layer: -1, port: port}
		p.addr = span{rigBase & 0xFFFF_FFFF, rigBase&0xFFFF_FFFF + uint32(c.rig.used-1)}
		if code == abi.ErrWatchdog {
			p.port = -1
		}
		switch {
		case fault == npu.FaultDelay: // the watchdog does not expire if other ports make progress
			f.Delay = rigWatchdog + uint32(c.rng.IntN(rigWatchdog/2))
			p.codes = append(p.codes, abi.ErrNone)
		case dir == npu.FaultRead && !c.sure && c.rng.IntN(3) == 0: // no effect if the burst is shorter
			f.Beat = uint8(1 + c.rng.IntN(min(c.rig.design.MaxBurst, 255)))
			p.codes = append(p.codes, abi.ErrNone)
		}
		p.what = fmt.Sprintf("port %d, burst %d of direction %d, kind %d from beat %d, delay %d", port, first, dir, fault, f.Beat, f.Delay)
		p.before = func(*regs) (string, error) { return "", c.rig.bus.AddFault(f) }
		if code == abi.ErrWatchdog {
			p.after = func() error {
				c.lost[port][dir-npu.FaultRead]++
				return nil
			}
		}
		return p
	}
}

// slow delays responses, which is not an error.
func slow(c *Campaign) *plan {
	dir := []npu.FaultDir{npu.FaultRead, npu.FaultWrite}[c.rng.IntN(2)]
	port, first, ok := c.burst(dir)
	if !ok {
		return nil
	}
	f := npu.Fault{Port: uint8(port), Dir: dir, Kind: npu.FaultDelay, First: first, Count: uint32(1 + c.rng.IntN(4)), Delay: uint32(1 + c.rng.IntN(rigWatchdog/8))}
	return &plan{
		what:  fmt.Sprintf("port %d, %d bursts of direction %d from %d on, %d cycles late", port, f.Count, dir, first, f.Delay),
		codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) { return "", c.rig.bus.AddFault(f) },
	}
}

// twoFaults plans two bus errors, on any ports and directions.
func twoFaults(c *Campaign) *plan {
	var faults [2]npu.Fault
	what := "bus faults:"
	for i := range faults {
		dir := []npu.FaultDir{npu.FaultRead, npu.FaultWrite}[c.rng.IntN(2)]
		port, first, ok := c.burst(dir)
		if !ok {
			return nil
		}
		k := []npu.FaultKind{npu.FaultSLVERR, npu.FaultDECERR}[c.rng.IntN(2)]
		faults[i] = npu.Fault{Port: uint8(port), Dir: dir, Kind: k, First: first, Count: uint32(c.rng.IntN(3))}
		what += fmt.Sprintf(" (port %d, direction %d, kind %d, %d from burst %d on)", port, dir, k, faults[i].Count, first)
	}
	return &plan{
		what: what, codes: []abi.ErrCode{abi.ErrReadSLVERR, abi.ErrReadDECERR, abi.ErrWriteSLVERR, abi.ErrWriteDECERR}, layer: -1, port: -1,
		before: func(*regs) (string, error) {
			return "", errors.Join(c.rig.bus.AddFault(faults[0]), c.rig.bus.AddFault(faults[1]))
		},
	}
}
