package npu_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/npu"
)

// Runs one image through a network on the co-simulated NPU.
func Example() {
	ctx := context.Background()
	path, err := npu.FindCosim("run")
	if err != nil {
		log.Fatal(err)
	}
	bus, err := npu.OpenCosim(ctx, npu.CosimOpts{Binary: path, BytesPerCycle: 8, Latency: 100})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := npu.New(bus, npu.Opts{Name: "cosim:run", ClockHz: 150e6})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	b, err := bundle.ReadFile("fashion.sluice")
	if err != nil {
		log.Fatal(err)
	}
	if err := dev.Load(ctx, b); err != nil {
		log.Fatal(err)
	}
	image := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
	if err := dev.Admit(ctx, b.Network.Name, 1, device.InWords(image)); err != nil {
		log.Fatal(err)
	}
	defer dev.Release(1)
	rep, err := dev.Run(ctx, &device.Launch{
		Network: b.Network.Name, Last: len(b.Network.Exits) - 1,
		Requests: []device.RequestID{1}, Theta: []float32{0.9},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit", rep.Results[0].Taken, "after", rep.Cycles, "cycles")
}
