package frame_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// A published claim, and our values with three seeds. It holds if the 95 % interval is within the bounds.
func ExampleClaim_Judge() {
	claims, err := frame.Book([]byte(`claims:
  - {id: fig1/speed, source: figure 1, text: twice as fast, published: 2, rule: near}
  - {id: fig2/misses, source: figure 2, text: few deadlines are missed, most: 0.05}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ours := [][]float64{{1.9, 2.0, 1.95}, {0.04, 0.09, 0.02}}
	var all []frame.Statement
	for i := range claims {
		all = append(all, *claims[i].Judge(ours[i]))
		fmt.Println(all[i].ID, all[i].Verdict)
	}
	fmt.Println(frame.Count(all))
	// Output:
	// fig1/speed holds
	// fig2/misses undecided
	// 1 of 2 statements hold, 0 fail, 1 are undecided (simulated)
}
