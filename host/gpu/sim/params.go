package sim

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Time is the number of ns since the start of the run.
type Time = int64

// Never is later than any time.
const Never Time = math.MaxInt64

// ErrParams is wrapped by errors about parameters that no GPU can have.
var ErrParams = errors.New("GPU parameters")

// Params contains the parameters of a GPU. Each parameter is the cost or the size of one mechanism.
type Params struct {
	SMs       int // multiprocessors (AMD: compute units)
	Unit      int // number of SMs per unit of a mask (2 for a TPC; 1 for AMD)
	SM        kernel.Occupancy
	Bandwidth float64 // DRAM bandwidth, bytes/ns
	Up, Down  float64 // bandwidth of the link from the host, and to the host, in bytes/ns
	LinkNs    int64   // ns of a copy in addition to the time for its bytes

	LaunchNs   int64 // host time between two launches in a stream
	TransferNs int64 // time to transfer a kernel from the host queue to the device queue
	WakeNs     int64 // time until the transfer thread notices new room in a full device queue
	DispatchNs int64 // time from the command processor's fetch of a kernel to the kernel's first block
	Queue      int   // capacity of a device queue in kernels
	Fence      bool  // copies and memsets wait in the host queue until the device queue is empty
	Hardware   int   // number of hardware queues that streams share; 0: each stream has its own

	ResetNs   int64   // time to clear a host queue
	ReclaimNs int64   // time to free the memory of one kernel in a host queue, if the host waits for this
	EvictNs   int64   // time to remove the first kernel from a device queue
	EvictEach int64   // time to remove each further kernel
	KillNs    int64   // time to stop running blocks; 0: the GPU cannot stop them
	RestartNs int64   // host time before the first kernel of a resumed program
	PadShare  float64 // time of the padding code, as a share of a kernel's time without padding
}

// Check returns an error for parameters that no GPU can have.
func (p *Params) Check() error {
	for _, c := range []struct {
		name string
		bad  bool
	}{
		{"SMs", p.SMs < 1 || p.SMs > MaxUnits},
		{"unit", p.Unit < 1 || p.Unit > p.SMs},
		{"SM", p.SM.Threads < 1 || p.SM.Blocks < 1 || p.SM.Regs < 1 || p.SM.Shared < 0},
		{"bandwidth", !(p.Bandwidth > 0)},
		{"link", !(p.Up > 0 && p.Down > 0)},
		{"queue", p.Queue < 1},
		{"hardware queues", p.Hardware < 0},
		{"pad_share", !(p.PadShare >= 0 && p.PadShare < 1)},
		{"a time", min(p.LinkNs, p.LaunchNs, p.TransferNs, p.WakeNs, p.DispatchNs, p.ResetNs, p.ReclaimNs, p.EvictNs, p.EvictEach, p.KillNs, p.RestartNs) < 0},
	} {
		if c.bad {
			return fmt.Errorf("%w: %s out of range", ErrParams, c.name)
		}
	}
	return nil
}

// MaxUnits is the largest number of SMs (MI300X has 304).
const MaxUnits = 320

// Set is a set of SMs.
type Set [MaxUnits / 64]uint64

// All returns the set of the first n SMs.
func All(n int) (s Set) {
	for i := range n {
		s[i/64] |= 1 << (i % 64)
	}
	return s
}

func (s Set) and(o Set) Set {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// meets reports whether s and o have an SM in common.
func (s *Set) meets(o *Set) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// add adds to s the SMs that are in both a and b.
func (s *Set) add(a, b *Set) {
	for i := range s {
		s[i] |= a[i] & b[i]
	}
}

func (s Set) or(o Set) Set {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Without returns the SMs of s that are not in o.
func (s Set) Without(o Set) Set {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

// Len returns the number of SMs in the set.
func (s Set) Len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// First returns the n lowest SMs of the set.
func (s Set) First(n int) (out Set) {
	for i, w := range s {
		if k := bits.OnesCount64(w); k <= n {
			out[i], n = w, n-k
			continue
		}
		for ; w != 0 && n > 0; n-- {
			low := w & -w
			out[i] |= low
			w &^= low
		}
	}
	return out
}
