package sched

import "slices"

// Version is one implementation of a kernel as padding sees it (REEF, sections 5.2 and 5.3): profiled
// alone on the device, offline.
type Version struct {
	Name      string
	KernelNs  int64 // all blocks
	BlockNs   int64 // one block that has its unit to itself, all others running at the same time elsewhere
	FullNs    int64 // one block, its unit holding Occupancy of them
	Blocks    int
	Threads   int  // of a block
	Regs      int  // of a thread
	Shared    int  // bytes of a block
	Occupancy int  // blocks that one unit holds at the same time
	Done      int  // blocks that earlier launches have taken: the next launch begins behind them
	Whole     bool // a launch takes no block offset: the kernel goes with all of its blocks or not at all
}

// Units is how many units the kernel needs so that all its blocks run at the same time, where occupancy
// of them go to each.
func (v *Version) Units(occupancy int) int { return (v.Blocks + occupancy - 1) / occupancy }

// At is how long a block takes where a unit holds per of them: they share what the unit issues.
func (v *Version) At(per int) int64 {
	return max(v.BlockNs, v.FullNs*int64(per)/int64(max(1, v.Occupancy)))
}

// densest is the most blocks on a unit, of those that may be there, that end before a time; 0: none do.
func (v *Version) densest(most int, before int64) int {
	switch {
	case v.BlockNs >= before:
		return 0
	case v.FullNs == 0:
		return most
	}
	return int(min(int64(most), (before*int64(max(1, v.Occupancy))-1)/v.FullNs))
}

// Padding is blocks of one kernel put beside a real-time one.
type Padding struct {
	Queue   int // best-effort queue whose head it is
	Version int
	Units   int
	From    int // its first block
	Blocks  int
}

// Waves is how many blocks of a real-time kernel share a unit: as many as there would be if it had all n units.
// A kernel that goes whole has one block on each unit as far as there are units.
func (v *Version) Waves(n int) int {
	if v.Whole {
		return max(1, v.Occupancy)
	}
	return max(1, min((v.Blocks+n-1)/n, v.Occupancy))
}

// Reserve is how many of n units a real-time kernel keeps: those that it needs to end in as many waves as
// on all n of them.
func (v *Version) Reserve(n int) int {
	if v.Whole {
		return min(n, v.Blocks)
	}
	return min(n, v.Units(v.Waves(n)))
}

// Pad selects which blocks run beside a real-time kernel on the units it leaves free, of n (REEF, section 5.2).
// Heads are, by best-effort queue in the order in which they are asked, the versions of the kernel at its
// head; none where the queue is empty. Of a kernel with blocks done only the version that did them may be given.
// A version may be taken if there is a unit, and
//
//  1. a block of it, with as many beside it as Pad puts on its unit, takes less time than the real-time kernel
//     (the padded kernel lasts as long as its slowest block), and
//  2. a unit can hold no fewer of its blocks than the real-time kernel, and what was chosen before it, have on
//     one, and has no more of them than any of these could (the padded kernel's occupancy is the least of its parts').
//
// Of the versions of one kernel that may be taken the one with the shortest kernel time is. As many of its blocks
// go along as there is room and time for, one behind the other on a unit; the rest go later. A Whole kernel goes
// with all of its blocks at the same time. Each gets the fewest units for its blocks, so that the next finds
// some; those that nobody takes go to the chosen ones, in their order, up to a unit a block.
//
// The answer is appended to buf; nothing is allocated where it has room.
func Pad(rt *Version, n int, heads [][]Version, buf []Padding) []Padding {
	free := n - rt.Reserve(n)
	least, most := rt.Waves(n), max(1, rt.Occupancy) // blocks on a unit: used already, and possible
	from := len(buf)
	for q := range heads {
		if free <= 0 {
			break
		}
		best, got, packed := -1, Padding{}, 0
		for i := range heads[q] {
			v := &heads[q][i]
			if v.Occupancy < least || best >= 0 && v.KernelNs >= heads[q][best].KernelNs {
				continue
			}
			per := v.densest(min(most, v.Occupancy), rt.KernelNs)
			left := v.Blocks - v.Done
			if per == 0 || left <= 0 {
				continue
			}
			onUnit := per
			if !v.Whole {
				onUnit *= int(rt.KernelNs / max(1, v.At(per)))
			}
			units := (left + onUnit - 1) / onUnit
			if v.Whole && units > free {
				continue
			}
			units = min(units, free)
			best, packed = i, per
			got = Padding{Queue: q, Version: i, Units: units, From: v.Done, Blocks: min(left, units*onUnit)}
		}
		if best >= 0 {
			free -= got.Units
			least, most = max(least, packed), min(most, heads[q][best].Occupancy)
			buf = append(buf, got)
		}
	}
	for i := range buf[from:] {
		p := &buf[from+i]
		more := min(free, p.Blocks-p.Units)
		p.Units += more
		free -= more
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
		b.KernelNs - a.KernelNs, b.BlockNs - a.BlockNs, b.FullNs - a.FullNs, int64(b.Regs - a.Regs),
		int64(b.Shared - a.Shared), int64(b.Threads - a.Threads), int64(b.Blocks - a.Blocks),
	} {
		if d < 0 {
			return false
		}
		better = better || d > 0
	}
	return better
}
