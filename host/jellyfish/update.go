// This file assigns a new set of networks to workers, and selects networks to load early (section IV-D).

package jellyfish

import "slices"

// Match assigns nets, in descending order, to the workers, so that the size of each worker's network changes little. It
// sorts the workers by their networks in old. at[i] is the worker of nets[i].
func Match(old, nets []int) (at []int) {
	for w := range nets {
		at = append(at, w)
	}
	slices.SortStableFunc(at, func(a, b int) int { return old[b] - old[a] })
	return at
}

// Neighbours returns the network net and the n-1 networks nearest in size. They remain loaded on a worker that runs
// net. Of two networks at equal distance the smaller is first, because it is needed sooner if a link becomes slower.
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
