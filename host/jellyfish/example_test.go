package jellyfish_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/jellyfish"
)

// Two workers choose networks for four clients, one of which has a slow link.
func ExampleSearch() {
	zoo := jellyfish.Synthetic(1)
	client := jellyfish.Client{Rate: 15, SLO: 100e6, Bandwidth: 20e6}
	slow := client
	slow.Bandwidth = 2e6
	p, err := jellyfish.NewProblem(zoo, []jellyfish.Client{client, client, client, slow}, 2, jellyfish.Aligned)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := (&jellyfish.Search{}).Select(p, []int{0, 0}, 1)
	for w, n := range c.Nets {
		fmt.Printf("worker %d: %s in batches of %d\n", w, zoo[n].Name, c.Mapping.Batch[w])
	}
	fmt.Println("workers of the clients:", c.Mapping.Worker)
	// Output:
	// worker 0: net448 in batches of 1
	// worker 1: net384 in batches of 1
	// workers of the clients: [0 0 1 1]
}
