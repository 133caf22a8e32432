package catalogue_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/gpu/catalogue"
)

// The kernels of a well-known network for a GPU of 60 SMs, with four exits. Frameworks fuse differently.
func ExampleProgram() {
	machine := catalogue.Machine{MACs: 110, Bandwidth: 1024, SMs: 60}
	macs, err := catalogue.MACs("resnet50")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f GMAC\n", macs/1e9)
	for _, style := range []string{"tvm", "pytorch"} {
		p, err := catalogue.Program(catalogue.Spec{Network: "resnet50", Style: style, Exits: 4}, machine)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(style, len(p.Kernels), "kernels; segments end at", p.Exits)
	}
	// Output:
	// 4.1 GMAC
	// tvm 66 kernels; segments end at [19 35 49 65]
	// pytorch 147 kernels; segments end at [40 76 110 146]
}
