package syn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/boards"
)

// Device holds the resources of a part.
type Device struct {
	Part   string
	Family string // name of the family in synth.sh
	DSP    int
	BRAM   int // number of blocks of 36 Kibit
	URAM   int
	LUT    int
	FF     int
}

// DeviceOf returns the part of a board in package boards; ok is false for an unknown or empty name. For a user's board
// file use Part.
func DeviceOf(board string) (d Device, ok bool) {
	if !slices.Contains(boards.Names(), board) {
		return Device{}, false
	}
	b, err := boards.Load(board)
	return Part(b), err == nil
}

// Part returns a board's part.
func Part(b boards.Board) Device {
	return Device{Part: b.Device, Family: b.Family, DSP: b.DSP, BRAM: b.BRAM36, URAM: b.URAM, LUT: b.LUT, FF: b.FF}
}

// Fits returns an error for every resource that exceeds the device.
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
