// The memory of a network under test has random timing, since results must not depend on when data arrive.

package verify

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bus is the part of a co-simulation that random layers use besides the driver.
type Bus interface {
	ReadReg(offset uint32) (uint32, error)
	Info() npu.CosimInfo
	Stats(port int) (npu.PortStats, error)
	SetTiming(npu.MemoryTiming) error
	AddFault(npu.Fault) error
	ClearFaults() error
}

// memory is the memory timing for a network. A stall is a rule that delays some bursts.
type memory struct {
	npu.MemoryTiming
	stalls []npu.Fault
}

// drawMemory draws the timing from the network's seed. Bandwidth is at most one beat per cycle on each port. Half of the
// memories accept 16 outstanding bursts, like the boards' controllers. The other memories accept 1 to 16.
func drawMemory(seed uint64, d configs.Design) memory {
	rng := rand.New(rand.NewPCG(seed, 0x736c75696365000d))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	whole := func(low, high float64) int { return int(log(low, high+1)) }
	full := float64(d.NAXI * d.AXIBytes)
	m := memory{MemoryTiming: npu.MemoryTiming{
		BytesPerCycle: log(full/16, full), ReadLatency: whole(1, 300), WriteLatency: whole(1, 300), Reads: 16, Writes: 16,
	}}
	if rng.IntN(2) == 0 {
		m.Reads, m.Writes = whole(1, 16), whole(1, 16)
	}
	for range rng.IntN(4) {
		port := rng.IntN(d.NAXI + 1)
		if port == d.NAXI {
			port = npu.AnyPort
		}
		m.stalls = append(m.stalls, npu.Fault{
			Port: uint8(port), Dir: npu.FaultDir(rng.IntN(3)), Kind: npu.FaultDelay,
			First: uint32(whole(1, 200)), Count: uint32(whole(1, 16)), Delay: uint32(whole(1, 3000)),
		})
	}
	return m
}

// set applies the timing to a bus.
func (m *memory) set(bus Bus) error {
	if err := bus.ClearFaults(); err != nil {
		return err
	}
	for _, f := range m.stalls {
		if err := bus.AddFault(f); err != nil {
			return err
		}
	}
	return bus.SetTiming(m.MemoryTiming)
}

func (m *memory) String() string {
	return fmt.Sprintf("memory of %.2f bytes a cycle, %d and %d cycles, %d and %d bursts a port, %d stalls",
		m.BytesPerCycle, m.ReadLatency, m.WriteLatency, m.Reads, m.Writes, len(m.stalls))
}

// Memories describes the drawn memories.
type Memories struct {
	Networks      int        `json:"networks"`
	BytesPerCycle [2]float64 `json:"bytes_per_cycle"` // minimum and maximum
	Latency       [2]int     `json:"latency_cycles"`  // minimum and maximum, over reads and writes
	Stalls        int        `json:"stalls"`          // number of rules
}

func (x *Memories) add(m *memory) {
	x.join(&Memories{
		Networks: 1, BytesPerCycle: [2]float64{m.BytesPerCycle, m.BytesPerCycle}, Stalls: len(m.stalls),
		Latency: [2]int{min(m.ReadLatency, m.WriteLatency), max(m.ReadLatency, m.WriteLatency)},
	})
}

// join adds the description of other memories.
func (x *Memories) join(o *Memories) {
	if x.Networks == 0 {
		x.BytesPerCycle, x.Latency = o.BytesPerCycle, o.Latency
	}
	if o.Networks > 0 {
		x.BytesPerCycle = [2]float64{min(x.BytesPerCycle[0], o.BytesPerCycle[0]), max(x.BytesPerCycle[1], o.BytesPerCycle[1])}
		x.Latency = [2]int{min(x.Latency[0], o.Latency[0]), max(x.Latency[1], o.Latency[1])}
	}
	x.Networks += o.Networks
	x.Stalls += o.Stalls
}

// readCounters reads all counters of an NPU.
func readCounters(bus interface {
	ReadReg(offset uint32) (uint32, error)
},
) (c [abi.CntCount]uint64, err error) {
	for i := range c {
		lo, err := bus.ReadReg(abi.CounterLo(i)) // latches the upper half
		if err != nil {
			return c, err
		}
		hi, err := bus.ReadReg(abi.CounterLo(i) + 4)
		if err != nil {
			return c, err
		}
		c[i] = uint64(hi)<<32 | uint64(lo)
	}
	return c, nil
}
