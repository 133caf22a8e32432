// DNN update (section IV-D): which worker gets which network of a new set, and what is loaded beforehand.

package jellyfish

import "slices"

// Match gives the networks of a new set, in descending order, to the workers that have the old ones, so
// that the distances are small: both sorted, element by element. at[i] is the worker of nets[i].
func Match(old, nets []int) (at []int) {
	for w := range nets {
		at = append(at, w)
	}
	slices.SortStableFunc(at, func(a, b int) int { return old[b] - old[a] })
	return at
}

// Neighbours are the networks that a worker which runs net has loaded, n of them: the nearest ones, net
// itself first, of two as near the smaller one, which is needed sooner when a link gets worse.
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
