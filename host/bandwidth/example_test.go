package bandwidth_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/bandwidth"
)

// The mean is harmonic: a slow transfer counts as long as it took. What is older than a second is forgotten.
func Example() {
	const ms = 1_000_000
	var e bandwidth.Estimator
	e.Add(0, 20e6)
	e.Add(500*ms, 5e6)
	fmt.Println(e.Rate(600*ms), e.Rate(1200*ms))
	// Output: 8e+06 5e+06
}
