package sched

import "slices"

// Version is one implementation of a kernel, described for padding (REEF, sections 5.2 and 5.3). Its times were
// measured offline, alone on the device.
type Version struct {
	Name      string
	KernelNs  int64 // all blocks
	BlockNs   int64 // time of a block that has its unit to itself, while all others run on other units
	FullNs    int64 // time of a block on a unit that holds Occupancy of them
	Blocks    int
	Threads   int // per block
	Regs      int // per thread
	Shared    int // bytes per block
	Occupancy int // blocks that one unit can hold at once
	Done      int // blocks that earlier launches have computed: the next launch begins after them
}

// Units is the number of units that hold all blocks of the kernel at once, with occupancy blocks on each.
func (v *Version) Units(occupancy int) int { return (v.Blocks + occupancy - 1) / occupancy }

// At is the time of a block, in ns, if its unit holds per blocks at once and they share its issue slots.
func (v *Version) At(per int) int64 {
	return max(v.BlockNs, v.FullNs*int64(per)/int64(max(1, v.Occupancy)))
}

// densest returns how many blocks a unit can hold, up to most, so that each block takes less than before ns. It returns 0
// if even a block alone takes longer.
func (v *Version) densest(most int, before int64) int {
	switch {
	case v.BlockNs >= before:
		return 0
	case v.FullNs == 0:
		return most
	}
	return int(min(int64(most), (before*int64(max(1, v.Occupancy))-1)/v.FullNs))
}

// Padding is a range of blocks of one kernel that runs beside a real-time kernel.
type Padding struct {
	Queue   int // index of the best-effort queue that has the kernel at its head
	Version int
	Units   int
	From    int // its first block
	Blocks  int
}

// Waves is the number of blocks of a real-time kernel on each unit, if the kernel has all n units.
func (v *Version) Waves(n int) int {
	return max(1, min((v.Blocks+n-1)/n, v.Occupancy))
}

// Reserve is how many of n units a real-time kernel keeps: the fewest on which it has no more blocks per unit than on all n.
func (v *Version) Reserve(n int) int {
	return min(n, v.Units(v.Waves(n)))
}

// Pad selects blocks to run beside a real-time kernel, on those of the n units that this kernel leaves free (REEF,
// section 5.2). The argument heads has an entry for each best-effort queue, in the order of selection: the versions of the kernel
// at its head, none if the queue is empty. If some blocks of a kernel are done, only the version that did them may be given. A version may be selected if there
// is a free unit and both conditions hold:
//
//  1. Time: the blocks of the version that run at the same time on a unit take less time than the real-time kernel. The
//     padded kernel lasts as long as its slowest block.
//  2. Occupancy: a unit can hold at least as many blocks of the version as it has blocks of the real-time kernel and of
//     each version selected before. Pad puts no more blocks of a version on a unit than the smallest occupancy of these.
//     The occupancy of the padded kernel is the minimum over its parts.
//
// Of the versions of one kernel that may be selected, Pad takes the one with the shortest kernel time. It takes as many of
// its blocks as there is room and time for, one after the other on a unit; the rest run later. Each kernel gets the fewest
// units that its blocks need, so that units remain for the next. Units that nobody takes go to the selected kernels, in their
// order, up to one unit per block.
//
// The result is appended to buf; nothing is allocated if it has room.
func Pad(rt *Version, n int, heads [][]Version, buf []Padding) []Padding {
	free := n - rt.Reserve(n)
	least, most := rt.Waves(n), max(1, rt.Occupancy) // blocks on a unit: that must be held at least, and that may be held at most
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
			onUnit := per * int(rt.KernelNs/max(1, v.At(per)))
			units := min((left+onUnit-1)/onUnit, free)
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

// Prune removes every dominated version: another one is at least as good in everything that padding or a unit depends on,
// and better in something (section 5.3).
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
