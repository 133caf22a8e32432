// Update of networks (section IV-D): which worker gets which network of a new set, and what to load in advance.

package jellyfish

import "slices"

// Match assigns the networks of a new set, in descending order, to the workers with the old ones at small distances:
// both sorted, element by element. at[i] is the worker of nets[i].
func Match(old, nets []int) (at []int) {
	for w := range nets {
		at = append(at, w)
	}
	slices.SortStableFunc(at, func(a, b int) int { return old[b] - old[a] })
	return at
}

// Neighbours returns the n networks that a worker with net keeps loaded: the nearest ones, net first. At equal
// distance the smaller one comes first, since it is needed sooner when a link gets worse.
func Neighbours(zoo, net, n int) []int {
	out := []int{net}
	for d := 1; len(out) < min(n, zoo); d++ {
		if net-d >= 0 {
			out = append(out, net-d)
		}
		if net+d < zoo && len(out) < n {
			out = append(out, net+d)
		}
	}
	return out
}
