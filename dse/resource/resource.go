// Package resource estimates the resources that a design needs on a device. It computes DSPs and memories from the
// structure of the RTL and the rules of yosys, and the results match yosys exactly. If Vivado needs more blocks for a
// memory, the package uses the rule of Vivado. The law computes LUTs and registers: it is a linear function of the
// sizes of parts, fitted on stored runs of yosys. The band of an estimate is the law's error on runs that it was not
// fitted on.
package resource

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrBudget is wrapped by errors about designs that do not fit their board.
var ErrBudget = errors.New("does not fit the board")

// Estimate contains the resources of a design. Label describes how they were determined.
type Estimate struct {
	DSP    int     `json:"dsp"`
	BRAM36 float64 `json:"bram36"` // number of blocks of 36 Kibit; two blocks of 18 Kibit count as one
	URAM   int     `json:"uram"`
	LUT    Banded  `json:"lut"` // LUTs for logic, memory and shift registers
	FF     Banded  `json:"ff"`
	Label  string  `json:"label"` // always "estimated"
}

// Banded is an estimate with the largest relative error of its law on held runs.
type Banded struct {
	Value int     `json:"value"`
	Band  float64 `json:"band"` // 0.05: plus or minus five percent; 1: unknown
	// Stale reports whether the RTL of the runs differs from the RTL of this program.
	Stale bool `json:"stale"`
}

func (b Banded) String() string {
	switch {
	case b.Stale:
		return fmt.Sprintf("%d (law fitted on another RTL)", b.Value)
	case b.Band >= 1:
		return fmt.Sprintf("%d (not calibrated)", b.Value)
	}
	return fmt.Sprintf("%d +-%.1f%%", b.Value, 100*b.Band)
}

// Of estimates design d on board b. It does not use synthesis runs of d itself.
func Of(b boards.Board, d configs.Design) Estimate {
	e := memories(b.Family, d, Memory.Place)
	l := lawOf(b.Family, d)
	lut, ff := l.logic(b.Family, topWhole, d)
	moreLUT, moreFF := options(b.Family, d)
	e.LUT = Banded{Value: int(math.Round(lut + moreLUT)), Band: l.LUTBand}
	e.FF = Banded{Value: int(math.Round(ff + moreFF)), Band: l.FFBand}
	if d.Depthwise || d.Post || d.Int8() { // no stored run of the whole NPU has these options
		e.LUT.Band, e.FF.Band = bound, bound
	}
	if stale()[b.Family] {
		e.LUT.Band, e.LUT.Stale, e.FF.Band, e.FF.Stale = bound, true, bound, true
	}
	return e
}

// memories returns the exact part of the estimate: DSPs and memories. The function place maps memories to blocks.
func memories(family string, d configs.Design, place func(Memory, string) Blocks) Estimate {
	e := Estimate{DSP: d.PoolDSPs(), Label: "estimated"}
	if !d.Stub {
		e.DSP += d.MACs() / d.PerDSP()
	}
	if d.Depthwise {
		e.DSP += d.DepthwiseMuls()
	}
	half := 0
	for _, m := range Memories(d) {
		p := place(m, family)
		half += m.Count * p.half()
		e.URAM += m.Count * p.URAM
	}
	e.BRAM36 = float64(half) / 2
	return e
}

// Short is a resource that a design exceeds. It wraps ErrBudget.
type Short struct {
	What, Device string
	Need, Have   float64
}

func (s *Short) Error() string {
	return fmt.Sprintf("%v: it needs %g %s, %s has %g", ErrBudget, s.Need, s.What, s.Device, s.Have)
}

func (*Short) Unwrap() error { return ErrBudget }

// Least returns the estimate with LUTs and registers at the lower end of their bands, or 0 if the band is unknown.
func (e Estimate) Least() Estimate {
	for _, v := range []*Banded{&e.LUT, &e.FF} {
		v.Value = int(float64(v.Value) * (1 - v.Band))
	}
	return e
}

// Check returns an error that lists every resource of the board that the estimate exceeds. It does not use the bands.
func (e Estimate) Check(b boards.Board) error {
	var errs []error
	over := func(what string, need, have float64) {
		if need > have {
			errs = append(errs, &Short{what, b.Device, need, have})
		}
	}
	over("DSPs", float64(e.DSP), float64(b.DSP))
	over("BRAM36", e.BRAM36, float64(b.BRAM36))
	over("URAMs", float64(e.URAM), float64(b.URAM))
	over("LUTs", float64(e.LUT.Value), float64(b.LUT))
	over("registers", float64(e.FF.Value), float64(b.FF))
	return errors.Join(errs...)
}

const (
	// unit is the step and the minimum of the activation buffer's depth: the 16-bit words in a block of 18 Kibit.
	unit = 1024
	// maxWords is the deepest bank that a configuration allows.
	maxWords = 1 << 16
)

// FillABuf returns d with the deepest activation buffer that fits the board, in steps of 1,024 words. The parameter
// most limits the words per bank (0: no limit). If the smallest buffer does not fit, the error describes which resource
// is too small.
func FillABuf(b boards.Board, d configs.Design, most int) (configs.Design, error) {
	if most == 0 || most > maxWords {
		most = maxWords
	}
	half, uram, ringHalf, ringURAM := 0, 0, 0, 0
	for _, m := range Memories(d) {
		if m.Name != activations {
			p := m.Place(b.Family)
			half += m.Count * p.half()
			uram += m.Count * p.URAM
			if m.Name == weightsRing {
				ringHalf, ringURAM = m.Count*p.half(), m.Count*p.URAM
			}
		}
	}
	n := banks(d)
	for words := most / unit * unit; words >= unit; words -= unit {
		p := bankOf(b.Family, words)
		if half+n*p.half() <= 2*b.BRAM36 && uram+n*p.URAM <= b.URAM {
			d.ABufWords = words
			return d, nil
		}
	}
	d.ABufWords = unit
	p := bankOf(b.Family, unit)
	return d, fmt.Errorf("%w: with the smallest activation buffer, %d banks of %d words, the memories take %g BRAM36 and %d URAMs, of which the ring of %d beats is %g and %d; %s has %d and %d",
		ErrBudget, n, unit, float64(half+n*p.half())/2, uram+n*p.URAM, d.WRingBeats, float64(ringHalf)/2, ringURAM, b.Device, b.BRAM36, b.URAM)
}

// Ring returns the number of beats of the weights ring of d, halved until the ring fits the URAM of the board. yosys
// maps large memories to URAM even if the device has no URAM.
func Ring(b boards.Board, d configs.Design) int {
	for ; d.WRingBeats > 32; d.WRingBeats /= 2 {
		uram := 0
		for _, m := range Memories(d) {
			if m.Name == weightsRing {
				uram += m.Count * m.Place(b.Family).URAM
			}
		}
		if uram <= b.URAM {
			break
		}
	}
	return d.WRingBeats
}

// bankOf returns the blocks of one bank of the activation buffer.
func bankOf(family string, words int) Blocks { return banksOf[family][words/unit] }

var banksOf = func() map[string][]Blocks {
	out := map[string][]Blocks{}
	for family := range rams {
		for words := 0; words <= maxWords; words += unit {
			out[family] = append(out[family], Memory{activations, 1, words, bankBits, false}.Place(family))
		}
	}
	return out
}()

// Utilisation returns the share of each resource of the board that the design uses, by name: 0..1.
func (e Estimate) Utilisation(b boards.Board) map[string]float64 {
	share := func(n, of float64) float64 {
		if of == 0 {
			return 0
		}
		return math.Round(1e4*n/of) / 1e4
	}
	return map[string]float64{
		"dsp": share(float64(e.DSP), float64(b.DSP)), "bram36": share(e.BRAM36, float64(b.BRAM36)),
		"uram": share(float64(e.URAM), float64(b.URAM)), "lut": share(float64(e.LUT.Value), float64(b.LUT)),
		"ff": share(float64(e.FF.Value), float64(b.FF)),
	}
}
