package timing

import "math"

// Table is the delays of a fabric at a speed grade, in ns. Sources, by the letter behind each field:
//
//	D  the part's data sheet, switching characteristics of the speed grade: DS191 (Zynq-7000, Z-7045 -2),
//	   DS926 (Zynq UltraScale+, -2); rounded up from what is remembered of them: nobody has held these
//	   values against the sheets
//	Y  cells_sim.v of yosys 0.23, which quotes project X-Ray's delays of Artix-7 -1 (prjxray-db, artix7/timings)
//	E  an estimate: the data sheet has no figure for it on its own (logic inside a URAM, a DSP's product
//	   without its registers); nets of more than 64 loads (NetFar, NetMost), of which the core of C has none;
//	   and for a7-1 the DSP ways beside Y's: DSPToM, DSPToP and DSPCToP are not cells_sim.v's setups (1.416, 2.739,
//	   1.244), DSPAdd, DSPFromM and DSPFromAB are its figures to PCOUT; all pessimistic, or of no path here
//	C  calibrated: the nets of up to 64 loads, so that picorv32_axi (TWO_CYCLE_ALU) reads no less than its README publishes
//	   for Vivado (2.4 ns on Kintex-7 -2, 1.4 ns on Kintex UltraScale+ -2); the test holds both
//
// A net costs Net + NetLog2 log2(fan-out up to 64) + NetFar log2(fan-out / 64), NetMost at most.
type Table struct {
	Name   string  // grade: k7-2, a7-1, usp-2
	Family string  // of synth.sh
	Part   string  // what it stands for
	Clock  float64 // MHz that is asked of it where the configuration names none

	FFOut, FFIn, FFEnable             float64 // clock to Q; D; enable, set and reset
	LUT                               float64 // any input to the output
	Mux                               float64 // MUXF7, MUXF8
	CarryIn, CarryPass, CarryOut, Sum float64 // S/DI to CO; CI to CO of one cell; CI to O; S to its O
	ShiftOut, ShiftIn                 float64 // SRL16E: clock to Q; D and CE
	LUTRAM, LUTRAMOut, LUTRAMIn       float64 // address to output; clock to output (write); data, address, WE
	RAMOut, RAMOutReg                 float64 // block RAM: clock to output without and with its output register
	RAMAddr, RAMEnable, RAMData       float64
	URAMOut, URAMOutReg               float64
	DSPOut, DSPCascade                float64 // clock to P, PCOUT with PREG
	DSPFromM, DSPFromAB               float64 // clock to P without PREG: from M, from A and B through the product
	DSPAdd                            float64 // C or PCIN to P or PCOUT, combinational
	DSPIn                             float64 // A, B, C, D to their first register
	DSPToM, DSPToP                    float64 // A, B through the product to M, to P
	DSPCToP, DSPPCToP                 float64 // C, PCIN to P
	DSPEnable                         float64
	Net, NetLog2, NetFar, NetMost     float64
	NetIn, NetLocal                   float64 // LUT to the register, to the carry chain beside it
}

// Tables are the fabrics of the parts on the boards. Z-7020 and its like are Artix fabric at -1, which no
// configuration here asks 150 MHz of: its figures are for whoever ports there.
var Tables = []*Table{
	{
		Name: "k7-2", Family: "xc7", Part: "Zynq-7000 Z-7045 -2 (Kintex-7 fabric)", Clock: 150,
		FFOut: 0.25, FFIn: 0.05, FFEnable: 0.20, // D
		LUT: 0.05, Mux: 0.20, // D
		CarryIn: 0.25, CarryPass: 0.05, CarryOut: 0.20, Sum: 0.20, // D
		ShiftOut: 1.15, ShiftIn: 0.30, // D
		LUTRAM: 0.10, LUTRAMOut: 0.85, LUTRAMIn: 0.40, // D
		RAMOut: 1.80, RAMOutReg: 0.63, RAMAddr: 0.45, RAMEnable: 0.35, RAMData: 0.57, // D
		URAMOut: 1.80, URAMOutReg: 0.63, // none on this part
		DSPOut: 0.33, DSPCascade: 0.45, DSPFromM: 1.45, DSPFromAB: 3.40, DSPAdd: 1.10, // D; FromAB, Add E (a7-1 has them the other way round)
		DSPIn: 0.27, DSPToM: 2.34, DSPToP: 3.40, DSPCToP: 1.30, DSPPCToP: 1.22, DSPEnable: 0.35, // D
		Net: 0.40 * k7Nets, NetLog2: 0.08 * k7Nets, NetFar: 0.25 * k7Nets, NetMost: 2.4 * k7Nets, // C; NetFar, NetMost E
		NetIn: 0.20 * k7Nets, NetLocal: 0.05, // C
	},
	{
		Name: "a7-1", Family: "xc7", Part: "Zynq-7000 Z-7020 -1 (Artix-7 fabric)", Clock: 100,
		FFOut: 0.303, FFIn: 0.05, FFEnable: 0.404, // Y
		LUT: 0.124, Mux: 0.296, // D; Y
		CarryIn: 0.54, CarryPass: 0.114, CarryOut: 0.334, Sum: 0.23, // Y
		ShiftOut: 1.472, ShiftIn: 0.173, // Y
		LUTRAM: 0.20, LUTRAMOut: 1.163, LUTRAMIn: 0.654, // D; Y
		RAMOut: 2.454, RAMOutReg: 0.882, RAMAddr: 0.57, RAMEnable: 0.44, RAMData: 0.74, // Y
		URAMOut: 2.454, URAMOutReg: 0.882, // none on this part
		DSPOut: 0.329, DSPCascade: 0.435, DSPFromM: 1.819, DSPFromAB: 3.098, DSPAdd: 1.835, // Y; FromM, FromAB, Add E
		DSPIn: 0.35, DSPToM: 2.8, DSPToP: 4.0, DSPCToP: 1.687, DSPPCToP: 1.5, DSPEnable: 0.45, // E; D
		Net: 0.50 * k7Nets, NetLog2: 0.10 * k7Nets, NetFar: 0.30 * k7Nets, NetMost: 3.0 * k7Nets, // C, as Kintex-7's by the grades' ratio; NetFar, NetMost E
		NetIn: 0.25 * k7Nets, NetLocal: 0.05,
	},
	{
		Name: "usp-2", Family: "xcup", Part: "Zynq UltraScale+ ZU7EV -2", Clock: 200,
		FFOut: 0.08, FFIn: 0.03, FFEnable: 0.06, // D
		LUT: 0.06, Mux: 0.08, // D
		CarryIn: 0.13, CarryPass: 0.03, CarryOut: 0.10, Sum: 0.10, // D
		ShiftOut: 0.45, ShiftIn: 0.10, // D
		LUTRAM: 0.11, LUTRAMOut: 0.40, LUTRAMIn: 0.15, // D
		RAMOut: 1.00, RAMOutReg: 0.30, RAMAddr: 0.30, RAMEnable: 0.30, RAMData: 0.25, // D
		URAMOut: 1.35, URAMOutReg: 0.50, // E
		DSPOut: 0.20, DSPCascade: 0.25, DSPFromM: 0.90, DSPFromAB: 2.10, DSPAdd: 0.70, // D; FromAB E
		DSPIn: 0.15, DSPToM: 1.45, DSPToP: 2.10, DSPCToP: 0.80, DSPPCToP: 0.75, DSPEnable: 0.20, // D
		Net: 0.24 * uspNets, NetLog2: 0.05 * uspNets, NetFar: 0.16 * uspNets, NetMost: 1.5 * uspNets, // C; NetFar, NetMost E
		NetIn: 0.12 * uspNets, NetLocal: 0.02, // C
	},
}

// What the nets of the calibration core are multiplied with, by family.
const (
	k7Nets  = 0.5
	uspNets = 0.5
)

// ByFamily are the tables of a family of parts.
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
