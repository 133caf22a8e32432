// This file counts stops inside each kernel of the in-place network. Only stops inside in-place kernels count, because
// all other kernels can always be repeated.

package bench

import (
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// inPlaceKernel reports whether a kernel of the in-place network works in place.
func inPlaceKernel(kernel int64) bool {
	_, in := cuda.InPlaceKind(int(kernel))
	return in
}

// hits counts the stops inside the kernels that restorer.counts selects.
func (s *restorer) hits(at []int64) (n int) {
	for _, k := range at {
		if s.counts == nil || s.counts(k) {
			n++
		}
	}
	return n
}

// stoppedIn ends the keys of series that list stopped kernels.
const stoppedIn = "stopped in"

// kinds counts the stops of a series by the kind of kernel.
func kinds(s *Series) (out []Row) {
	if !slices.ContainsFunc([]string{inPlace, boolean, short}, func(how string) bool { return s.Key == how+" "+stoppedIn }) {
		return nil
	}
	count := map[string]float64{}
	for _, k := range s.Runs {
		kind, _ := cuda.InPlaceKind(int(k))
		count[kind]++
	}
	for _, kind := range cuda.InPlaceKinds {
		out = append(out, row(Kills, s.Key+" "+kind, "kills", []float64{count[kind]}))
	}
	return out
}
