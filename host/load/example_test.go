package load_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/load"
)

// Equal seeds give equal arrivals.
func ExamplePoisson() {
	a, err := load.Poisson(100, 1000, 7)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := load.Poisson(100, 1000, 7)
	fmt.Println(a[999] == b[999], load.Check(a), err)
	// Output: true <nil> <nil>
}

// A process in the form of a flag.
func ExampleParseProcess() {
	p, err := load.ParseProcess("markov:high=4:share=0.1")
	fmt.Println(p.Kind, p.High, p.Share, p.Dwell, err)
	// Output: markov 4 0.1 2 <nil>
}
