package kernel_test

import (
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// A network's kernels from a list of one's own, and how many blocks of one fit an SM at the same time.
func ExampleReadCSV() {
	const list = `network,name,kind,blocks,threads,registers,shared,issue,block_ns,bytes,reads,writes,exit
wide,in,memcpy_up,,,,,,,602112,,0-602112,
wide,conv,kernel,240,256,64,16384,1,90000,1000000,0-602112,602112-700000,1
`
	programs, err := kernel.ReadCSV("list.csv", strings.NewReader(list))
	if err != nil {
		fmt.Println(err)
		return
	}
	sm := kernel.Occupancy{Threads: 2560, Blocks: 40, Regs: 65536, Shared: 65536}
	for _, p := range programs {
		conv := &p.Kernels[p.Exits[0]]
		fmt.Printf("%s: %d kernels, %d bytes; %s: %d of %d blocks on an SM\n", p.Name, len(p.Kernels), p.Memory, conv.Name, sm.Of(conv), conv.Blocks)
	}
	// Output: wide: 2 kernels, 700000 bytes; conv: 4 of 240 blocks on an SM
}
