// Update of networks (section IV-D): which worker gets which network of a new set, and what to load in advance.

package jellyfish

import "slices"

// Match assigns a new set of networks, in descending order, to the workers, so that each worker's network changes
// little. It sorts both sets and assigns them element by element. at[i] is the worker of nets[i].
func Match(old, nets []int) (at []int) {
	for w := range nets {
		at = append(at, w)
	}
	slices.SortStableFunc(at, func(a, b int) int { return old[b] - old[a] })
	return at
}

// Neighbours returns the n networks that a worker with net keeps loaded. They are the nearest in size, and net is the
// first. Of two networks at equal distance the smaller comes first, since it is needed sooner when a link gets worse.
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
