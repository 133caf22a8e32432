// Random exits for a known number of requests.

package drawn

import "math/rand/v2"

// exitStream is combined with a seed, so that exits are independent of arrivals that are drawn from the same seed.
const exitStream = 0x736c756963650003

// Exits returns random exits for n requests. With the same seed, the exits are the same under every policy.
func Exits(rates []float64, n int, seed uint64) []uint8 {
	rng := rand.New(rand.NewPCG(seed, exitStream))
	out := make([]uint8, n)
	last := len(rates) - 1
	for i := range out {
		u, e := rng.Float64(), 0
		for ; e < last; e++ {
			if u -= rates[e]; u < 0 {
				break
			}
		}
		out[i] = uint8(e)
	}
	return out
}
