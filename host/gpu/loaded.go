package gpu

import (
	"context"

	"github.com/sluice-npu/sluice/host/device"
)

// Loaded creates a device in the given mode and loads networks. of(i) returns the i-th network.
func Loaded(cfg Config, mode string, names []string, of func(i int) *Network) (*Device, error) {
	var err error
	if cfg.Mode, err = ModeOf(mode); err != nil {
		return nil, err
	}
	d, err := New(cfg)
	if err != nil {
		return nil, err
	}
	for i, n := range names {
		if _, err := d.Begin(context.Background(), 0, &device.Work{ID: 1<<60 + device.WorkID(i), Kind: device.Load, Network: n, Artefact: of(i)}); err != nil {
			return nil, err
		}
	}
	return d, nil
}
