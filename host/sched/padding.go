package sched

import "slices"

// Version describes one implementation of a kernel for padding (REEF, sections 5.2 and 5.3). The times were measured
// offline, with the kernel alone on the device.
type Version struct {
	Name      string
	KernelNs  int64 // time of all blocks
	BlockNs   int64 // time of a block that is alone on its unit, while the other blocks run on other units
	FullNs    int64 // time of a block on a unit with Occupancy blocks
	Blocks    int
	Threads   int // number of threads per block
	Regs      int // number of registers per thread
	Shared    int // shared memory, in bytes per block
	Occupancy int // maximum number of blocks on one unit at once
	Done      int // number of blocks that earlier launches have computed; the next launch begins after these blocks
}

// Units returns how many units the kernel needs to run all its blocks at once, if each unit runs `occupancy` blocks.
func (v *Version) Units(occupancy int) int { return (v.Blocks + occupancy - 1) / occupancy }

// At returns the time of a block in ns if its unit runs `per` blocks at once. These blocks share the issue slots.
func (v *Version) At(per int) int64 {
	return max(v.BlockNs, v.FullNs*int64(per)/int64(max(1, v.Occupancy)))
}

// densest returns the maximum number of blocks on a unit for which the time of each block is below a limit (before, in
// ns). The result does not exceed the parameter most. It is 0 if a block alone takes longer.
func (v *Version) densest(most int, before int64) int {
	switch {
	case v.BlockNs >= before:
		return 0
	case v.FullNs == 0:
		return most
	}
	return int(min(int64(most), (before*int64(max(1, v.Occupancy))-1)/v.FullNs))
}

// Padding is a range of blocks of one kernel, which run beside a real-time kernel.
type Padding struct {
	Queue   int // index of the best-effort queue with this kernel at its head
	Version int
	Units   int
	From    int // index of the first block
	Blocks  int
}

// Waves returns the number of blocks of a real-time kernel on each unit, if the kernel may use all n units.
func (v *Version) Waves(n int) int {
	return max(1, min((v.Blocks+n-1)/n, v.Occupancy))
}

// Reserve returns the smallest number of units for a real-time kernel with Waves(n) blocks on each unit.
func (v *Version) Reserve(n int) int {
	return min(n, v.Units(v.Waves(n)))
}

// Pad selects blocks to run beside a real-time kernel, on those of the n units that this kernel does not use (REEF,
// section 5.2). The argument heads has an entry for each best-effort queue, in the order of selection. The entry has
// the versions of the kernel at the head of the queue, and is empty if the queue is empty. If some blocks of a kernel
// are done, its entry must have only the version that computed these blocks. A version may be selected if there is a
// free unit and both conditions are true:
//
//  1. Time: the blocks of the version that run at the same time on a unit take less time than the real-time kernel. The
//     padded kernel takes as long as its slowest block.
//  2. Occupancy: the occupancy of the version is not less than the number of blocks per unit of the real-time kernel
//     and of each version selected before. The smallest of these kernels' occupancies also limits the blocks of the
//     version per unit. The occupancy of the padded kernel is the minimum over its parts.
//
// If several versions of one kernel may be selected, Pad selects the version with the shortest kernel time. It selects
// as many blocks as the free units can run, also one after another, within the real-time kernel's time. The other
// blocks run later. Each kernel uses the smallest number of units for its blocks, so that units are left for the next
// kernel. The units left at the end are assigned to the selected kernels in order, up to one unit per block.
//
// The result is appended to buf. Pad allocates memory only if buf has no room.
func Pad(rt *Version, n int, heads [][]Version, buf []Padding) []Padding {
	free := n - rt.Reserve(n)
	least, most := rt.Waves(n), max(1, rt.Occupancy) // number of blocks per unit: required minimum, and maximum
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

// Prune removes every dominated version. A version is dominated if another version needs less of at least one time or
// resource, and not more of any (section 5.3).
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
