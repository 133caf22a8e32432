package prefix_test

import (
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/hw/prefix"
)

// The RTL with a prefix on all modules and packages, for a project that has modules of the same names.
func ExampleFiles() {
	files, err := prefix.Files("acme_", map[string][]byte{"board.v": []byte("module board; npu_top u_npu (); endmodule\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(files["board.v"]))
	fmt.Println(strings.Contains(string(files["acme_npu_top.sv"]), "module acme_npu_top"))
	fmt.Println(strings.Contains(string(files[prefix.List]), "acme_npu_top.sv"))
	// Output:
	// module board; acme_npu_top u_npu (); endmodule
	// true
	// true
}
