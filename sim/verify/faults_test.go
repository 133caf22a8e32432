package verify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// tinyRig returns a rig for the simulated tiny configuration, accessed through spoil if that is set.
func tinyRig(t *testing.T, spoil func(Machine) Machine) *Rig {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	o := RigMemory()
	if o.Binary, err = npu.FindCosim("tiny"); err != nil {
		t.Fatal(err)
	}
	o.BytesPerCycle, o.Latency = d.DRAM.BytesPerCycle, d.DRAM.LatencyCycles
	bus, err := npu.OpenCosim(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	var m Machine = bus
	if spoil != nil {
		m = spoil(bus)
	}
	return NewRig(m, d)
}

func campaignOf(r *Rig, n int, seed uint64, only string) *Campaign {
	return &Campaign{N: n, Seed: seed, Only: only, Coverage: NewCoverage([]configs.Design{r.design})}
}

// Every error code is reached, no rule is violated, and the same seed gives the same endings.
func TestFaultsReachEveryCode(t *testing.T) {
	var first map[string]map[string]int
	for range 2 {
		r := tinyRig(t, nil)
		c := campaignOf(r, DirectedKinds(), 11, "")
		if err := c.Run(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if len(c.Violations) > 0 {
			t.Fatalf("%s", strings.Join(c.Violations, "\n"))
		}
		for _, e := range abi.ErrCodes() {
			if c.Coverage.hits[covErrors][e.String()] == 0 {
				t.Errorf("no fault ends in %v", e)
			}
		}
		if first == nil {
			first = c.Tally
			continue
		}
		for k, endings := range c.Tally {
			for name, n := range endings {
				if first[k][name] != n {
					t.Errorf("%s: %s %d times, then %d times", k, name, first[k][name], n)
				}
			}
		}
	}
}

// spoiled is a bus with a deliberate error.
type spoiled struct {
	Machine
	write  func(s *spoiled, off, v uint32) error
	read   func(s *spoiled, off uint32) (uint32, error)
	ended  func(s *spoiled, n int) // after the n-th interrupt
	never  int                     // number of the interrupt that is suppressed
	starts int
}

func (s *spoiled) WriteReg(off, v uint32) error {
	if s.write != nil {
		return s.write(s, off, v)
	}
	return s.Machine.WriteReg(off, v)
}

func (s *spoiled) ReadReg(off uint32) (uint32, error) {
	if s.read != nil {
		return s.read(s, off)
	}
	return s.Machine.ReadReg(off)
}

func (s *spoiled) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	s.starts++
	n, err := s.Machine.WaitIRQ(ctx, limit)
	if s.starts == s.never {
		return limit, npu.ErrNoIRQ
	}
	if err == nil && s.ended != nil {
		s.ended(s, s.starts)
	}
	return n, err
}

// Errors that a campaign must notice. Start 1 is the clean one, 2 the fault, 3 the next one.
func TestFaultsNotice(t *testing.T) {
	flip := func(s *spoiled, at func(r []byte) int) {
		mem, _ := s.DRAM()
		mem[at(mem)] ^= 0x40
	}
	still := func(counter int) spoiled { // a counter that stops at the fault
		return spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			if off == abi.CounterLo(counter) && s.starts >= 2 {
				return 0, nil
			}
			return s.Machine.ReadReg(off)
		}}
	}
	over := func(counter int, by uint32) spoiled { // a counter that is too high in the third start
		return spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.CounterLo(counter) && s.starts == 3 {
				v += by
			}
			return v, err
		}}
	}
	for _, c := range []struct {
		name, kind, want string
		spoil            spoiled
	}{
		{"MACs", "batch range", "the next start went wrong: macs counts", over(abi.CntMACs, 1)},
		{"bytes read", "batch range", "the next start went wrong: bytes_read counts", over(abi.CntBytesRead, 1)},
		{"bytes written", "batch range", "the next start went wrong: bytes_written counts", over(abi.CntBytesWritten, 1)},
		{"cycles", "batch range", "the next start went wrong: cycles_busy counts 0 in", still(abi.CntCyclesBusy)},
		{"cycles of the array", "batch range", "the next start went wrong: mac_cycles stands still", still(abi.CntMACCycles)},
		{"more cycles than went by", "batch range", "the next start went wrong: cycles_busy counts", over(abi.CntCyclesBusy, 1<<20)},
		{"a port without a bus error", "batch range", "names port 1", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegError && v != 0 {
				v |= 1 << abi.RegErrorPortLSB
			}
			return v, err
		}}},
		{"a wrong code", "slot out of range", "expected [SLOT_RANGE]", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegError && v == uint32(abi.ErrSlotRange) {
				v = uint32(abi.ErrBatchRange)
			}
			return v, err
		}}},
		{"a wrong layer", "descriptor magic", "expected", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegError && v != 0 {
				v ^= 1 << abi.RegErrorLayerLSB
			}
			return v, err
		}}},
		{"a wrong port", "read SLVERR", "names port 1, expected 0", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegError && v != 0 {
				v |= 1 << abi.RegErrorPortLSB
			}
			return v, err
		}}},
		{"a wrong address", "tensor leaves its slot", "names address", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegErrorAddr && v != 0 {
				v += 1 << 20
			}
			return v, err
		}}},
		{"an address of nothing", "batch range", "names address 0x1, expected 0x0", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegErrorAddr && s.starts == 2 {
				v = 1
			}
			return v, err
		}}},
		{"no end", "read never answered", "no end after", spoiled{never: 2}},
		{"the status", "batch range", "STATUS", spoiled{read: func(s *spoiled, off uint32) (uint32, error) {
			v, err := s.Machine.ReadReg(off)
			if off == abi.RegStatus && v == abi.RegStatusErrorMask {
				v |= abi.RegStatusDoneMask
			}
			return v, err
		}}},
		{"a register that can be written while busy", "registers while busy", "expected SLVERR", spoiled{write: func(s *spoiled, off, v uint32) error {
			err := s.Machine.WriteReg(off, v)
			if refused := (*npu.BusError)(nil); errors.As(err, &refused) {
				return nil
			}
			return err
		}}},
		{"a byte of the guard", "soft reset", "memory at", spoiled{ended: func(s *spoiled, n int) {
			if n == 2 { // after all slots
				flip(s, func(m []byte) int { return lastUsed(m) })
			}
		}}},
		{"weights overwritten", "write SLVERR", "memory at", spoiled{ended: func(s *spoiled, n int) {
			if n == 2 {
				flip(s, func([]byte) int { return abi.DescBytes - 1 })
			}
		}}},
		{"the next start", "batch range", "the next start went wrong", spoiled{ended: func(s *spoiled, n int) {
			if n == 3 {
				flip(s, func([]byte) int { return 4 })
			}
		}}},
		{"the clean start", "batch range", "before any fault", spoiled{ended: func(s *spoiled, n int) {
			if n == 1 {
				flip(s, func([]byte) int { return 4 })
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tinyRig(t, func(m Machine) Machine {
				c.spoil.Machine = m
				return &c.spoil
			})
			f := campaignOf(r, 1, 3, c.kind)
			if err := f.Run(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if len(f.Violations) != 1 || !strings.Contains(f.Violations[0], c.want) {
				t.Errorf("violations %q, want one with %q", f.Violations, c.want)
			}
		})
	}
}

// lastUsed returns the index of a byte in the guard area after the slots: the one after the last byte that is not zero.
func lastUsed(m []byte) int {
	for i := len(m) - 1; i > 0; i-- {
		if m[i] != 0 {
			return i + rigGuard/2
		}
	}
	return 0
}

// A count that is off by one is found and named.
func TestStubNoticesACounter(t *testing.T) {
	for _, off := range []int{-1, abi.CntStallDepth} {
		full := tinyRig(t, nil)
		other := tinyRig(t, func(m Machine) Machine {
			starts := 0
			return &spoiled{Machine: m, ended: func(*spoiled, int) { starts++ }, read: func(s *spoiled, at uint32) (uint32, error) {
				v, err := s.Machine.ReadReg(at)
				if off >= 0 && at == abi.CounterLo(off) && starts > 2 {
					v++
				}
				return v, err
			}}
		})
		n, wrong, err := compareCounters(t.Context(), full, other, 20, 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		if off < 0 {
			if wrong != "" || n < 20 {
				t.Errorf("%d layers, wrong: %q", n, wrong)
			}
			continue
		}
		if !strings.Contains(wrong, abi.CounterNames[off]) {
			t.Errorf("wrong is %q, want %s", wrong, abi.CounterNames[off])
		}
	}
}

func TestKindsHaveNames(t *testing.T) {
	var names []string
	for _, k := range kinds {
		if slices.Contains(names, k.name) || k.name == "" || k.plan == nil {
			t.Errorf("kind %q is there twice, or empty", k.name)
		}
		names = append(names, k.name)
	}
}
