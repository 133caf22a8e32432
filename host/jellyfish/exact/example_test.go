package exact_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/jellyfish/exact"
)

// How far a selection is from the best one: two workers for four clients, one of which has a slow link.
func ExampleSolve() {
	client := jellyfish.Client{Rate: 15, SLO: 100e6, Bandwidth: 20e6}
	slow := client
	slow.Bandwidth = 2e6
	p, err := jellyfish.NewProblem(jellyfish.Synthetic(1), []jellyfish.Client{client, client, client, slow}, 2, jellyfish.Aligned)
	if err != nil {
		fmt.Println(err)
		return
	}
	found := (&jellyfish.Search{}).Select(p, []int{0, 0}, 1).Mapping.Accuracy
	best, err := exact.Solve(p, found, 100_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("found %.3f, the best is %.3f, proved: %v\n", found, best.Accuracy, best.Proved)
	// Output: found 0.411, the best is 0.411, proved: true
}
