package params_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/gpu/params"
)

// The parameters of a GPU, each with its source. An assumed one is varied to see what depends on it.
func ExampleOf() {
	file, err := params.Of("mi50")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"sms", "launch_ns"} {
		v := file.Values[key]
		fmt.Printf("%s: %g (%s)\n", key, v.Value, v.Source)
	}
	fmt.Println(file.Values["launch_ns"].Assumed(), file.With("launch_ns", 2).Params().LaunchNs)
	// Output:
	// sms: 60 (AMD Radeon Instinct MI50 data sheet)
	// launch_ns: 3000 (assumed)
	// true 6000
}
