package sched

import "slices"

// Version is one implementation of a kernel as padding sees it (REEF, sections 5.2 and 5.3): profiled
// alone on the device, offline.
type Version struct {
	Name      string
	KernelNs  int64 // all blocks
	BlockNs   int64 // one block, its unit holding Occupancy of them
	Blocks    int
	Threads   int // of a block
	Regs      int // of a thread
	Shared    int // bytes of a block
	Occupancy int // blocks that one unit holds at the same time
}

// Units is how many units the kernel needs so that all its blocks run at the same time, where occupancy
// of them go to each.
func (v *Version) Units(occupancy int) int { return (v.Blocks + occupancy - 1) / occupancy }

// Padding is one kernel put beside a real-time one.
type Padding struct {
	Queue   int // best-effort queue whose head it is
	Version int
	Units   int
}

// Reserve is how many of n units a real-time kernel is left alone with: one a block, as a device spreads
// the blocks of a kernel that runs alone.
func (v *Version) Reserve(n int) int { return min(n, v.Blocks) }

// Pad selects what runs beside a real-time kernel on the units it leaves free, of n. Heads are, by
// best-effort queue in the order in which they are asked, the versions of the kernel at its head; none
// where the queue is empty. A version may be taken if it fits into what is left, and
//
//  1. a block of it takes less time than the real-time kernel (the padded kernel lasts as long as its
//     slowest block), and
//  2. a unit holds no fewer of its blocks than of the real-time kernel's (the padded kernel's
//     occupancy is the least of its parts').
//
// Of the versions of one kernel that may be taken the one with the shortest kernel time is. The answer
// is appended to buf; nothing is allocated where it has room.
func Pad(rt *Version, n int, heads [][]Version, buf []Padding) []Padding {
	free := n - rt.Reserve(n)
	for q := range heads {
		if free <= 0 {
			break
		}
		best := -1
		for i := range heads[q] {
			v := &heads[q][i]
			if v.BlockNs < rt.KernelNs && v.Occupancy >= rt.Occupancy && v.Units(rt.Occupancy) <= free &&
				(best < 0 || v.KernelNs < heads[q][best].KernelNs) {
				best = i
			}
		}
		if best >= 0 {
			units := heads[q][best].Units(rt.Occupancy)
			free -= units
			buf = append(buf, Padding{q, best, units})
		}
	}
	return buf
}

// Prune leaves out every version that another one dominates: one that is worse in nothing that padding
// or a unit asks about, and better in something (section 5.3).
func Prune(all []Version) []Version {
	var out []Version
	for i := range all {
		if !slices.ContainsFunc(all, func(o Version) bool { return dominates(&o, &all[i]) }) {
			out = append(out, all[i])
		}
	}
	return out
}

func dominates(a, b *Version) bool {
	better := false
	for _, d := range [...]int64{
		b.KernelNs - a.KernelNs, b.BlockNs - a.BlockNs, int64(b.Regs - a.Regs),
		int64(b.Shared - a.Shared), int64(b.Threads - a.Threads), int64(b.Blocks - a.Blocks),
	} {
		if d < 0 {
			return false
		}
		better = better || d > 0
	}
	return better
}
