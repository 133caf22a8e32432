package engine_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// Three requests on a device of two segments, in virtual time. A segment takes 10 ns, and 5 ns more a sample. The
// first is halted at the exit until the others have reached it too; then all go on as one batch.
func ExampleRun() {
	table, err := sched.NewTable(enginetest.Linear(2, 4, 10, 5), enginetest.Network)
	if err != nil {
		fmt.Println(err)
		return
	}
	dev, err := drawn.New(table, []float64{0.5, 0.5}, 1, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices:  []device.Device{dev},
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{table}}},
		Policy:   sched.Fluid{},
		Source: &load.Open{Times: []int64{0, 5, 6}, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: enginetest.Network, Deadline: at + 100}
		}},
		Inputs: engine.NoInputs,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range res.Steps {
		fmt.Println(s.At, s.Kind, s.Launch, s.Requests)
	}
	fmt.Println("late:", res.Summary().Late)
	// Output:
	// 0 launch 1 [1]
	// 15 preempt 1 [1]
	// 15 launch 2 [2 3]
	// 35 merge 2 [1 2 3]
	// 35 resume 1 [1 2 3]
	// late: 0
}
