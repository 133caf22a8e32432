// Package block writes the Tcl that makes a bitstream of a design on a board: a block design around the
// IP that boards/ip packages (processing system, MMCM, reset, registers, memory ports, interrupt), then
// synthesis to bitstream. Everything in it comes from board.yaml. It has never run in Vivado; its tests
// hold every call to the list of boards/vivado.
package block

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/boards/ip"
	"github.com/sluice-npu/sluice/hw/configs"
)

//go:embed build.tcl.tmpl
var text string

var tmpl = template.Must(template.New("build.tcl").Parse(text))

// TclFile is what Generate's text is called.
const TclFile = "build.tcl"

type memory struct{ Master, Port, Clock string }

type values struct {
	Board, Config, Module, Vendor, Part, BoardPart string

	PS, PSRule, PSConfig string
	PSProperties         []string
	PLClock, PLReset     string
	PLMHz, ClockMHz      string
	ClockWhy             string
	Interrupt            string
	RegPort, RegBus      string
	RegClock             string
	RegBase, RegBytes    string
	Memory               []memory
}

// Generate writes the Tcl for a design that boards/ip takes on the board.
func Generate(b boards.Board, d configs.Design) ([]byte, error) {
	if err := ip.Check(b, d); err != nil {
		return nil, fmt.Errorf("block design: %w", err)
	}
	v := values{
		Board: b.Name, Config: d.Name, Module: ip.Module(b, d), Vendor: "sluice-npu", Part: b.Part, BoardPart: b.BoardPart,
		PLMHz: fmt.Sprintf("%g", b.Clocks.PLMHz), ClockMHz: fmt.Sprintf("%g", b.ClockMHz), RegPort: b.Registers.Port,
		RegBase: fmt.Sprintf("%#x", b.Registers.Base), RegBytes: fmt.Sprintf("%#x", b.Registers.Bytes),
		ClockWhy: fmt.Sprintf("The processing system's dividers do not reach %g MHz, so an MMCM makes it of %g.", b.ClockMHz, b.Clocks.PLMHz),
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
		v.PS, v.PSRule = "zynq_ultra_ps_e:3.4", "zynq_ultra_ps_e"
		v.PSConfig = fmt.Sprintf(`apply_board_preset "%s"`, preset)
		v.PLClock, v.PLReset, v.Interrupt = "pl_clk0", "pl_resetn0", fmt.Sprintf("pl_ps_irq%d", b.Interrupt.Line/8)
		v.RegBus, v.RegClock = b.Registers.Port+"_FPD", strings.ToLower("maxi"+b.Registers.Port+"_fpd_aclk")
		v.RegBus = "M_AXI_" + v.RegBus
		property("PSU__FPGA_PL0_ENABLE", 1)
		property("PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ", v.PLMHz)
		property("PSU__USE__IRQ0", 1)
		property("PSU__USE__M_AXI_GP0", 1)
		property("PSU__MAXIGP0__DATA_WIDTH", 32)
		property("PSU__USE__M_AXI_GP1", 0)
		property("PSU__USE__M_AXI_GP2", 0)
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
		v.PS, v.PSRule = "processing_system7:5.5", "processing_system7"
		v.PSConfig = fmt.Sprintf(`make_external "FIXED_IO, DDR" apply_board_preset "%s"`, preset)
		v.PLClock, v.PLReset, v.Interrupt = "FCLK_CLK0", "FCLK_RESET0_N", "IRQ_F2P"
		v.RegBus, v.RegClock = "M_AXI_"+b.Registers.Port, "M_AXI_"+b.Registers.Port+"_ACLK"
		property("PCW_EN_CLK0_PORT", 1)
		property("PCW_FPGA0_PERIPHERAL_FREQMHZ", v.PLMHz)
		property("PCW_USE_FABRIC_INTERRUPT", 1)
		property("PCW_IRQ_F2P_INTR", 1)
		property("PCW_USE_M_AXI_"+b.Registers.Port, 1)
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
