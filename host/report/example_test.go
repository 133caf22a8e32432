package report_test

import (
	"fmt"
	"os"

	"github.com/sluice-npu/sluice/host/report"
)

func ExampleTable() {
	t := report.Table{Head: []string{"policy", "p50", "violations"}}
	t.Add("serial", report.Ns(687_900), report.Percent(0.023))
	t.Add("fluid", report.Ns(322_400), report.Percent(0.008))
	if err := t.Write(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// policy       p50  violations
	// serial  687.9 us       2.3 %
	// fluid   322.4 us       0.8 %
}
