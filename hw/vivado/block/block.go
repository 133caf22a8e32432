// Package block writes the Tcl that builds a design's bitstream for a board. The Tcl creates a block design around the
// IP of hw/vivado/ip: processing system, MMCM, reset, registers, memory ports and interrupt. Then it runs all steps up
// to the bitstream. All values come from board.yaml. The Tcl has never run in Vivado; tests compare every call with the
// list in hw/vivado.
package block

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/ip"
)

//go:embed build.tcl.tmpl
var text string

var tmpl = template.Must(template.New("build.tcl").Parse(text))

// TclFile is the file name for the output of Generate.
const TclFile = "build.tcl"

type memory struct{ Master, Port, Clock string }

type values struct {
	Board, Config, Module, Vendor, Part, BoardPart string

	PS, PSConfig      string
	PSProperties      []string
	PLClock, PLReset  string
	PLMHz, ClockMHz   string
	ClockWhy          string
	Interrupt         string
	Line              int
	RegPort, RegBus   string
	RegClock          string
	RegBase, RegBytes string
	Memory            []memory
}

// masters maps names of UltraScale+'s ports into the fabric to the names of their pins.
var masters = map[string]string{"HPM0": "HPM0_FPD", "HPM1": "HPM1_FPD", "HPM0_LPD": "HPM0_LPD"}

// Generate writes the Tcl for a design that hw/vivado/ip accepts on the board.
func Generate(b boards.Board, d configs.Design) ([]byte, error) {
	if err := ip.Check(b, d); err != nil {
		return nil, fmt.Errorf("block design: %w", err)
	}
	v := values{
		Board: b.Name, Config: d.Name, Module: ip.Module(b, d), Vendor: "sluice-npu", Part: b.Part, BoardPart: b.BoardPart,
		PLMHz: fmt.Sprintf("%g", b.Clocks.PLMHz), ClockMHz: fmt.Sprintf("%g", b.ClockMHz), RegPort: b.Registers.Port,
		RegBase: fmt.Sprintf("%#x", b.Registers.Base), RegBytes: fmt.Sprintf("%#x", b.Registers.Bytes),
		ClockWhy: fmt.Sprintf("An MMCM makes the design's %g MHz of %g: the processing system's dividers reach few frequencies, and reset waits for a lock.", b.ClockMHz, b.Clocks.PLMHz),
		Line:     b.Interrupt.Line,
	}
	preset := "0"
	if b.BoardPart != "" {
		preset = "1"
	}
	property := func(name string, value any) {
		v.PSProperties = append(v.PSProperties, fmt.Sprintf("CONFIG.%s %v", name, value))
	}
	ports := b.Ports.Names[:d.NAXI]
	if b.Family == boards.UltraScalePlus {
		v.PS = "zynq_ultra_ps_e"
		v.PSConfig = fmt.Sprintf(`apply_board_preset "%s"`, preset)
		// pl_ps_irq0 has lines 0 to 7, and a board file must not name another line.
		v.PLClock, v.PLReset, v.Interrupt = "pl_clk0", "pl_resetn0", "pl_ps_irq0"
		v.RegBus = "M_AXI_" + masters[b.Registers.Port]
		v.RegClock = strings.ToLower("maxi" + masters[b.Registers.Port] + "_aclk")
		property("PSU__PSS_REF_CLK__FREQMHZ", b.Clocks.PSRefMHz)
		property("PSU__FPGA_PL0_ENABLE", 1)
		property("PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ", v.PLMHz)
		property("PSU__USE__IRQ0", 1)
		// An enabled master without a clock fails validation.
		for n, p := range []string{"HPM0", "HPM1", "HPM0_LPD"} {
			if p != b.Registers.Port {
				property(fmt.Sprintf("PSU__USE__M_AXI_GP%d", n), 0)
				continue
			}
			property(fmt.Sprintf("PSU__USE__M_AXI_GP%d", n), 1)
			property(fmt.Sprintf("PSU__MAXIGP%d__DATA_WIDTH", n), 32)
		}
		for i, p := range ports {
			// HP0..HP3 are slave ports 2..5 of the processing system.
			var n int
			if _, err := fmt.Sscanf(p, "HP%d", &n); err != nil {
				return nil, fmt.Errorf("block design: port %q: %w", p, err)
			}
			property(fmt.Sprintf("PSU__USE__S_AXI_GP%d", n+2), 1)
			property(fmt.Sprintf("PSU__SAXIGP%d__DATA_WIDTH", n+2), 8*d.AXIBytes)
			v.Memory = append(v.Memory, memory{fmt.Sprintf("M%02d_AXI", i), "S_AXI_" + p + "_FPD", "saxi" + strings.ToLower(p) + "_fpd_aclk"})
		}
	} else {
		v.PS = "processing_system7"
		v.PSConfig = fmt.Sprintf(`make_external "FIXED_IO, DDR" apply_board_preset "%s"`, preset)
		v.PLClock, v.PLReset, v.Interrupt = "FCLK_CLK0", "FCLK_RESET0_N", "IRQ_F2P"
		v.RegBus, v.RegClock = "M_AXI_"+b.Registers.Port, "M_AXI_"+b.Registers.Port+"_ACLK"
		property("PCW_CRYSTAL_PERIPHERAL_FREQMHZ", b.Clocks.PSRefMHz)
		property("PCW_EN_CLK0_PORT", 1)
		property("PCW_FPGA0_PERIPHERAL_FREQMHZ", v.PLMHz)
		property("PCW_USE_FABRIC_INTERRUPT", 1)
		property("PCW_IRQ_F2P_INTR", 1)
		for _, p := range []string{"GP0", "GP1"} {
			on := 0
			if p == b.Registers.Port {
				on = 1
			}
			property("PCW_USE_M_AXI_"+p, on)
		}
		for i, p := range ports {
			property("PCW_USE_S_AXI_"+p, 1)
			property("PCW_S_AXI_"+p+"_DATA_WIDTH", 8*d.AXIBytes)
			v.Memory = append(v.Memory, memory{fmt.Sprintf("M%02d_AXI", i), "S_AXI_" + p, "S_AXI_" + p + "_ACLK"})
		}
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("block design: %w", err)
	}
	return out.Bytes(), nil
}
