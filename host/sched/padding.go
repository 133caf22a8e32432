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
	Threads   int // of a block
	Regs      int // of a thread
	Shared    int // bytes of a block
	Occupancy int // blocks that one unit holds at the same time
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
// where the queue is empty. All blocks of a padded kernel run at the same time, as many to a unit as its
// units need, and a version may be taken if there are units for them, and
//
//  1. a block of it, packed like that, takes less time than the real-time kernel (the padded kernel lasts
//     as long as its slowest block), and
//  2. a unit can hold no fewer of its blocks than of the real-time kernel's, and does not hold more than
//     those (the padded kernel's occupancy is the least of its parts').
//
// Of the versions of one kernel that may be taken the one with the shortest kernel time is. Each gets the
// fewest units that both rules let it have, so that the next finds some; those that nobody takes go to the
// chosen ones, in their order, up to a unit a block.
//
// The publication selects blocks: its code lets as many blocks of a best-effort kernel go along as there is room
// and time for, the rest later, keeps fewer units for a real-time kernel of several waves, and asks of rule 2 no
// more than those waves. Here a kernel goes whole or not at all. What that costs is in host/gpu/RESULTS.md.
//
// The answer is appended to buf; nothing is allocated where it has room.
func Pad(rt *Version, n int, heads [][]Version, buf []Padding) []Padding {
	free := n - rt.Reserve(n)
	from := len(buf)
	for q := range heads {
		if free <= 0 {
			break
		}
		best, units := -1, 0
		for i := range heads[q] {
			v := &heads[q][i]
			if v.Occupancy < rt.Occupancy || best >= 0 && v.KernelNs >= heads[q][best].KernelNs {
				continue
			}
			per := v.densest(rt.Occupancy, rt.KernelNs)
			if per == 0 {
				continue
			}
			if u := v.Units(per); u <= free {
				best, units = i, u
			}
		}
		if best >= 0 {
			free -= units
			buf = append(buf, Padding{q, best, units})
		}
	}
	for i := range buf[from:] {
		p := &buf[from+i]
		more := min(free, heads[p.Queue][p.Version].Blocks-p.Units)
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
