package sim_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// Two kernels on a GPU of 8 SMs. Each has a block for every SM and needs all of the DRAM, so together they take twice as
// long as one.
func Example() {
	params := sim.Params{
		SMs: 8, Unit: 1, SM: kernel.Occupancy{Threads: 1024, Blocks: 8, Regs: 65536, Shared: 65536},
		Bandwidth: 100, Up: 10, Down: 10, Queue: 4,
	}
	program, err := sim.Load(&kernel.Program{Name: "copy", Memory: 64, Exits: []int{0}, Kernels: []kernel.Kernel{
		{Name: "copy", Blocks: 8, Threads: 256, Regs: 32, Issue: 0.5, BlockNs: 1000, Bytes: 100_000},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range []int{1, 2} {
		gpu, err := sim.New(params)
		if err != nil {
			fmt.Println(err)
			return
		}
		for range n {
			gpu.Launch(gpu.Stream(0), &sim.Item{Parts: []sim.Part{{Program: program, Memory: program.Memory(1)}}})
		}
		for gpu.Next() != sim.Never {
			for _, e := range gpu.Advance(gpu.Next(), nil) {
				fmt.Println(n, "in flight: one has ended at", e.At, "ns")
			}
		}
	}
	// Output:
	// 1 in flight: one has ended at 1000 ns
	// 2 in flight: one has ended at 2000 ns
	// 2 in flight: one has ended at 2000 ns
}
