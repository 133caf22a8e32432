package links_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/links"
)

// A megabyte over a link of 4 Mbit/s, which is away for a second.
func ExampleTrace_Arrive() {
	t, err := links.Read("mine", strings.NewReader("4\n0 # an outage\n4\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(time.Duration(t.Arrive(500e6, 1_000_000)))
	// Output: 3.5s
}
