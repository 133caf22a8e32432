package timing

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Unit is a module with its parameters in a configuration.
type Unit struct {
	Module string
	Set    []string // parameters as NAME=VALUE, without the parameters that npu_top has under the same names
}

// Flags returns the arguments of hw/syn's scripts for parameters.
func Flags(set []string) []string {
	var args []string
	for _, s := range set {
		args = append(args, "--set", s)
	}
	return args
}

// Flow returns a hash of a module's parameters and of the script that synthesises it.
func Flow(script []byte, family, module string, d configs.Design, set []string) string {
	h := sha256.New()
	fmt.Fprintln(h, family, module, d.VerilatorParams(), set)
	h.Write(script)
	return hex.EncodeToString(h.Sum(nil))
}

// Top returns the parameters of npu_top that come from the board, not from the configuration, as in hw/vivado/ip.
func Top(b boards.Board, d configs.Design) []string {
	if b.Folds(d.ABufWords) {
		return []string{"FOLD=1"}
	}
	return nil
}

// Units returns the modules of npu_core and npu_top that are analysed separately. It computes their parameters as
// npu_core.sv does.
func Units(b boards.Board, d configs.Design) []Unit {
	wide := d.WideBytes()
	lanes := wide / d.AXIBytes
	words := wide / 2
	nb := d.NB()
	stripe := 1
	for stripe < 16 && 2*stripe <= d.MaxBurst {
		stripe *= 2
	}
	keep := d.WRingBeats*d.AXIBytes - abi.RingSpare
	index := func(n int) int { return bits.Len(uint(n - 1)) } // width of an index below n
	element := index(nb * d.ABufWords)
	set := func(kv ...any) []string {
		var list []string
		for i := 0; i < len(kv); i += 2 {
			list = append(list, fmt.Sprintf("%s=%d", kv[i], kv[i+1]))
		}
		return list
	}
	units := []Unit{
		{"npu_regs", nil},
		{"fbcb", nil},
		{"read_ports", set("N", 4, "LANES", lanes, "STRIPE", stripe)},
		{"write_ports", set("LANES", lanes, "STRIPE", stripe)},
		{"layer_fetch", set("NB", nb, "AXI_BYTES", wide, "KEEP", keep, "UNITS", 8)},
		{"act_loader", set("NB", nb, "AXI_BYTES", wide)},
		{"weight_fetch", set("AXI_BYTES", wide, "WRING_BEATS", d.WRingBeats/lanes)},
		{"weight_feed", set("AXI_BYTES", wide, "KEEP", keep)},
		{"gemm_seq", set("NB", nb)},
		{"pool_seq", set("NB", nb, "ROOM", 8)},
		{"pool", set("NB", nb, "OUT", d.Drain, "MULS", d.PoolMuls(), "ROOM", 8)},
		{"drain", set("LANES", d.Drain, "RES_CW", bits.Len(uint(2*words+d.Drain)))},
		{"res_loader", set("AXI_BYTES", wide, "LANES", d.Drain)},
		{"keep_writer", set("IN_WORDS", d.Drain, "EW", element)},
		{"run_gen", nil},
		{"out_writer", set("IN_WORDS", d.Drain, "AXI_BYTES", wide)},
	}
	if d.Depthwise {
		units = append(units, Unit{"depthwise", set("NB", nb, "LANES", d.Drain, "AXI_BYTES", wide, "ROOM", 8, "GROUPS", 64)})
	}
	return units
}
