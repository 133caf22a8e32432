package syn

import (
	"errors"
	"fmt"
)

// Device is what a part offers.
type Device struct {
	Part   string
	Family string // of synth.sh
	DSP    int
	BRAM   int // blocks of 36 Kibit
	URAM   int
	LUT    int
	FF     int
}

// DeviceOf says which part a board carries; ok is false where the configuration names no board.
func DeviceOf(board string) (d Device, ok bool) {
	switch board {
	case "zc706": // DS190
		return Device{Part: "Z7045", Family: "xc7", DSP: 900, BRAM: 545, LUT: 218600, FF: 437200}, true
	case "zcu104": // DS891
		return Device{Part: "ZU7EV", Family: "xcup", DSP: 1728, BRAM: 312, URAM: 96, LUT: 230400, FF: 460800}, true
	}
	return Device{}, false
}

// Fits gives every reason why resources are more than the device's.
func (d Device) Fits(r Resources) error {
	var errs []error
	for _, c := range []struct {
		what       string
		have, most float64
	}{
		{"DSPs", float64(r.DSP), float64(d.DSP)},
		{"block RAMs", r.BRAM(), float64(d.BRAM)},
		{"URAMs", float64(r.URAM), float64(d.URAM)},
		{"LUTs", float64(r.LUTs()), float64(d.LUT)},
		{"flip-flops", float64(r.FF), float64(d.FF)},
	} {
		if c.have > c.most {
			errs = append(errs, fmt.Errorf("%g %s, the %s has %g", c.have, c.what, d.Part, c.most))
		}
	}
	return errors.Join(errs...)
}
