package capacity_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/capacity"
)

// How many deadlines a design misses at a rate. The design takes 10 ms for a segment, and 5 ms more a sample; half of the
// requests leave at the first exit.
func ExampleService_At() {
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	work, err := search.NewWorkload(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	flags := capacity.Flags{Rate: 15, SLO: 100, Policy: "fluid", N: 500, Seeds: []uint64{1}, MaxViolations: 0.01, RateStep: 0.02}
	service, err := flags.Service(work, search.Rate, []float64{0.5, 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ns search.Cycles
	for i := range ns {
		segment := int64(10e6 + 5e6*(i+1))
		ns[i] = []int64{segment, segment}
	}
	for _, rate := range []float64{10, 200} {
		served, err := service.At(context.Background(), rate, ns)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%g a second: %.0f %% miss their deadline\n", rate, 100*served.Violations)
	}
	// Output:
	// 10 a second: 0 % miss their deadline
	// 200 a second: 99 % miss their deadline
}
