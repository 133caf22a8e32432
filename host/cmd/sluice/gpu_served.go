//go:build !static

package main

import (
	"context"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/gpu/bundled"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/soft"
)

// simulatedGPU returns functions to open bundles on a simulated GPU and to compute its latency tables.
func simulatedGPU(name string) (serve.Opener, serve.Latency, error) {
	f, err := params.Of(name)
	if err != nil {
		return nil, nil, err
	}
	model, err := bundled.New(f, soft.Answers)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
		d, err := bundled.New(f, soft.Answers)
		if err == nil {
			_, err = d.Begin(ctx, 0, &device.Work{Kind: device.Load, Network: b.Network.Name, Artefact: b})
		}
		return &serve.Opened{Device: d, Timely: true, Watchdog: engine.Watchdog{Other: loads, Least: stalls}}, err
	}, model.Latency, nil
}
