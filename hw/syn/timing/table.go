package timing

import "math"

// Table contains the delays of a fabric at a speed grade, in ns. The letters after the values below are sources:
//
//	R  Vivado's reports of routed designs on parts of the grade (hw/syn/REFERENCE.md, "What the tables rest on"): for a
//	   LUT the mean of its pins, for other cells the larger values
//	W  RapidWright's model of UltraScale+, made from a -2 part (timing/ultrascaleplus/intrasite_delay_terms.txt), and its
//	   dump of a DSP
//	Y  cells_sim.v of yosys 0.23, which quotes project X-Ray's delays of Artix-7 -1 (prjxray-db, artix7/timings)
//	E  an estimate, because no public figure of the grade was found. NetFar and NetMost are estimates because the core of
//	   source C has no net with more than 64 loads; in reports, such nets need 2 to 3 times the table's delay. For a7-1,
//	   cells_sim.v has other setup times for DSPToM, DSPToP and DSPCToP (1.416, 2.739, 1.244). For a7-1, DSPAdd, DSPFromM
//	   and DSPFromAB are cells_sim.v's delays to PCOUT. These estimates are pessimistic, or no path here depends on them.
//	C  calibrated: with the delays of nets of up to 64 loads, picorv32_axi (TWO_CYCLE_ALU) is not faster than Vivado's
//	   results in its README (2.4 ns on Kintex-7 -2, 1.4 ns on Kintex UltraScale+ -2). `timing -core` checks both.
//
// The delay of a net is Net + NetLog2 log2(fan-out up to 64) + NetFar log2(fan-out / 64), at most NetMost.
type Table struct {
	Name   string  // grade: k7-2, a7-1, usp-2
	Family string  // family of parts, as in synth.sh
	Part   string  // part that has these delays
	Clock  float64 // target clock in MHz for a configuration without a target

	FFOut, FFIn, FFEnable, FFReset    float64 // clock to Q; D; enable; set and reset
	LUT                               float64 // any input to the output
	Mux                               float64 // MUXF7, MUXF8, with the extra delay of the LUT before it
	CarryIn, CarryPass, CarryOut, Sum float64 // S/DI to CO; CI to CO of one cell; CI to O; S to its O
	CarryInit                         float64 // a chain's carry in from the fabric, to CO and O
	ShiftOut, ShiftIn                 float64 // SRL16E: clock to Q; D and CE
	LUTRAM, LUTRAMOut, LUTRAMIn       float64 // address to output; clock to output (write); data, address, WE
	RAMOut, RAMOutReg                 float64 // block RAM: clock to output without and with its output register
	RAMAddr, RAMEnable, RAMData       float64
	URAMOut, URAMOutReg               float64
	URAMAddr, URAMEnable, URAMData    float64
	DSPOut, DSPCascade                float64 // clock to P, PCOUT with PREG
	DSPFromM, DSPFromAB               float64 // clock to P without PREG: from M, from A and B through the product
	DSPAdd                            float64 // C or PCIN to P or PCOUT, combinational
	DSPIn                             float64 // A, B, C, D to their first register
	DSPToM, DSPToP                    float64 // A, B through the product to M, to P
	DSPCToP, DSPPCToP                 float64 // C, PCIN to P
	DSPEnable                         float64
	Net, NetLog2, NetFar, NetMost     float64
	NetIn, NetLocal                   float64 // LUT to the adjacent register; LUT to the adjacent carry chain
}

// Tables lists the fabrics of the boards' parts, and of the Z-7020 and similar parts (a7-1). No configuration here
// targets a7-1. Its figures help to port a configuration.
var Tables = []*Table{
	{
		Name: "k7-2", Family: "xc7", Part: "Zynq-7000 Z-7045 -2 (Kintex-7 fabric)", Clock: 150,
		FFOut: 0.26, FFIn: 0.05, FFEnable: 0.20, FFReset: 0.31, // R
		LUT: 0.07, Mux: 0.20, // R
		CarryIn: 0.27, CarryPass: 0.055, CarryOut: 0.20, Sum: 0.22, CarryInit: 0.39, // R
		ShiftOut: 1.15, ShiftIn: 0.30, // R (one report: 0.98, 0.03); In E
		LUTRAM: 0.13, LUTRAMOut: 0.85, LUTRAMIn: 0.40, // R; In E
		RAMOut: 1.80, RAMOutReg: 0.63, RAMAddr: 0.45, RAMEnable: 0.43, RAMData: 0.57, // R
		URAMOut: 1.80, URAMOutReg: 0.63, URAMAddr: 0.45, URAMEnable: 0.43, URAMData: 0.57, // the part has no URAM
		DSPOut: 0.40, DSPCascade: 0.50, DSPFromM: 1.45, DSPFromAB: 3.40, DSPAdd: 1.22, // Out E, a -1 has 0.383; FromAB, Add R (3.00, 1.22)
		DSPIn: 0.27, DSPToM: 2.34, DSPToP: 3.40, DSPCToP: 1.30, DSPPCToP: 1.22, DSPEnable: 0.35, // E; ToP, PCToP R (2.88, 1.08)
		Net: 0.40 * k7Nets, NetLog2: 0.08 * k7Nets, NetFar: 0.25, NetMost: 2.4, // C; NetFar, NetMost E
		NetIn: 0.20 * k7Nets, NetLocal: 0.05, // C
	},
	{
		Name: "a7-1", Family: "xc7", Part: "Zynq-7000 Z-7020 -1 (Artix-7 fabric)", Clock: 100,
		FFOut: 0.303, FFIn: 0.05, FFEnable: 0.404, FFReset: 0.404, // Y
		LUT: 0.124, Mux: 0.296, // Y
		CarryIn: 0.54, CarryPass: 0.114, CarryOut: 0.334, Sum: 0.23, CarryInit: 0.642, // Y
		ShiftOut: 1.472, ShiftIn: 0.173, // Y
		LUTRAM: 0.20, LUTRAMOut: 1.163, LUTRAMIn: 0.654, // E; Y
		RAMOut: 2.454, RAMOutReg: 0.882, RAMAddr: 0.57, RAMEnable: 0.44, RAMData: 0.74, // Y
		URAMOut: 2.454, URAMOutReg: 0.882, URAMAddr: 0.57, URAMEnable: 0.44, URAMData: 0.74, // the part has no URAM
		DSPOut: 0.329, DSPCascade: 0.435, DSPFromM: 1.819, DSPFromAB: 3.098, DSPAdd: 1.835, // Y; FromM, FromAB, Add E
		DSPIn: 0.35, DSPToM: 2.8, DSPToP: 4.0, DSPCToP: 1.687, DSPPCToP: 1.5, DSPEnable: 0.45, // E
		Net: 0.50 * k7Nets, NetLog2: 0.10 * k7Nets, NetFar: 0.30, NetMost: 3.0, // C, scaled from k7-2 by the grades' ratio; NetFar, NetMost E
		NetIn: 0.25 * k7Nets, NetLocal: 0.05,
	},
	{
		Name: "usp-2", Family: "xcup", Part: "Zynq UltraScale+ ZU7EV -2", Clock: 200,
		FFOut: 0.081, FFIn: 0.03, FFEnable: 0.061, FFReset: 0.075, // R
		LUT: 0.10, Mux: 0.12, // R; W
		CarryIn: 0.19, CarryPass: 0.03, CarryOut: 0.14, Sum: 0.10, CarryInit: 0.19, // R, W; Init E
		ShiftOut: 0.45, ShiftIn: 0.10, // W (0.31, 0.08)
		LUTRAM: 0.14, LUTRAMOut: 0.40, LUTRAMIn: 0.18, // R, W
		RAMOut: 1.02, RAMOutReg: 0.30, RAMAddr: 0.38, RAMEnable: 0.40, RAMData: 0.31, // R, W
		URAMOut: 1.35, URAMOutReg: 0.77, URAMAddr: 0.52, URAMEnable: 0.49, URAMData: 0.57, // W, without ECC and input registers
		DSPOut: 0.28, DSPCascade: 0.30, DSPFromM: 0.96, DSPFromAB: 1.70, DSPAdd: 0.72, // W; Cascade E; FromM R
		DSPIn: 0.30, DSPToM: 1.45, DSPToP: 1.70, DSPCToP: 0.80, DSPPCToP: 0.75, DSPEnable: 0.22, // R, W; ToM, CToP E
		Net: 0.24 * uspNets, NetLog2: 0.05 * uspNets, NetFar: 0.16, NetMost: 1.5, // C; NetFar, NetMost E
		NetIn: 0.12 * uspNets, NetLocal: 0.03, // C; R
	},
}

// Factors of the calibration for net delays, by family.
const (
	k7Nets  = 0.5
	uspNets = 0.5
)

// ByFamily returns the tables of a family.
func ByFamily(family string) []*Table {
	var list []*Table
	for _, t := range Tables {
		if t.Family == family {
			list = append(list, t)
		}
	}
	return list
}

func (t *Table) net(fanout int32) float64 {
	n := math.Max(1, float64(fanout))
	d := t.Net + t.NetLog2*math.Log2(math.Min(n, 64))
	if n > 64 {
		d = math.Min(t.NetMost, d+t.NetFar*math.Log2(n/64))
	}
	return d
}
