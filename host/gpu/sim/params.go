package sim

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Time is ns since the run began.
type Time = int64

// Never is a time that does not come.
const Never Time = math.MaxInt64

// ErrParams is a parameter file that describes no GPU.
var ErrParams = errors.New("GPU parameters")

// Params are a GPU's. Every one is a cost or a size of one mechanism; none stands for what several
// mechanisms give together.
type Params struct {
	SMs       int // multiprocessors (AMD: compute units)
	Unit      int // SMs of a unit that masks name (a TPC has 2; 1 on AMD)
	SM        kernel.Occupancy
	Bandwidth float64 // DRAM, bytes/ns
	Up, Down  float64 // link to and from the host, bytes/ns
	LinkNs    int64   // a copy's set-up

	LaunchNs   int64 // host: from one launch of a stream to the next
	TransferNs int64 // host queue to device queue, each kernel
	WakeNs     int64 // host: the transferring thread, when a device queue that was full has room again
	DispatchNs int64 // command processor: from the head of a device queue to its first block
	Queue      int   // kernels that a device queue holds
	Hardware   int   // queues that the command processor looks at, which streams share; 0: each has its own

	ResetNs   int64   // host queue: its head taken away
	ReclaimNs int64   // host queue: each kernel's memory given back, where that is waited for
	EvictNs   int64   // device queue: the first kernel that ends itself
	EvictEach int64   // device queue: each further one
	KillNs    int64   // running blocks stopped; 0: they cannot be
	RestartNs int64   // host: before the first kernel of a program that is taken up again
	PadShare  float64 // share of a padded kernel's time that the padding's own code takes
}

// Check says what of the parameters cannot be.
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

// MaxUnits is the most SMs that a GPU may have (MI300X has 304).
const MaxUnits = 320

// Set is a set of SMs.
type Set [MaxUnits / 64]uint64

// All is the first n.
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

func (s Set) or(o Set) Set {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Without is the SMs that are not in o.
func (s Set) Without(o Set) Set {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

// Len is how many SMs are in the set.
func (s Set) Len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// First is the lowest n of the set.
func (s Set) First(n int) (out Set) {
	for i, w := range s {
		for ; w != 0 && n > 0; n-- {
			low := w & -w
			out[i] |= low
			w &^= low
		}
	}
	return out
}
