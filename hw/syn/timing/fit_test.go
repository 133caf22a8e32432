package timing

import (
	"math"
	"strings"
	"testing"
)

// Delays and levels of paths through inverters, wide multiplexers and registers, added up by hand.
func TestFit(t *testing.T) {
	const a, b = "FDRE a *Q=10 D=20 C=1", "FDRE b *Q=11 D=12 C=1"
	type sum func(t *Table) float64
	in := func(rest sum) sum { return func(t *Table) float64 { return t.FFOut + rest(t) } }
	for _, tc := range []struct {
		name   string
		family string // empty: both families
		cells  []string
		ns     sum
		levels int
	}{
		{
			"the LUT before it inverts", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "INV i *O=12 I=13"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetLocal + t.FFIn }), 1,
		},
		{
			"the LUT before an enable inverts", "",
			[]string{a, "FDRE b *Q=11 D=20 C=1 CE=12", "LUT1 l *O=13 I0=10", "INV i *O=12 I=13"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.FFEnable }), 1,
		},
		{
			"a LUT that has it both ways", "",
			[]string{a, b, "LUT2 l *O=12 I0=10 I1=13", "LUT1 m *O=30 I0=10", "INV i *O=13 I=10"},
			in(func(t *Table) float64 { return t.net(2) + t.LUT + t.NetLocal + t.FFIn }), 1,
		},
		{
			"the LUT before it drives more", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "INV i *O=12 I=13", "LUT1 m *O=30 I0=13"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(2) + t.LUT + t.NetLocal + t.FFIn }), 2,
		},
		{
			"the LUT behind it inverts", "",
			[]string{a, b, "INV i *O=13 I=10", "LUT1 l *O=12 I0=13"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetLocal + t.FFIn }), 1,
		},
		{
			"before a register", "",
			[]string{a, b, "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetLocal + t.FFIn }), 1,
		},
		{
			"one behind it inverts, one does not", "",
			[]string{a, b, "INV i *O=13 I=10", "LUT1 l *O=12 I0=13", "FDRE c *Q=14 D=30 C=1 CE=13"},
			in(func(t *Table) float64 {
				return t.net(2) + max(t.LUT+t.NetLocal+t.FFIn, t.LUT+t.net(1)+t.FFEnable)
			}), 1,
		},
		{
			"an enable", "",
			[]string{a, "FDRE b *Q=11 D=20 C=1 CE=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.FFEnable }), 1,
		},
		{
			"a reset of series 7", "xc7",
			[]string{a, "FDRE b *Q=11 D=20 C=1 R=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.FFReset }), 1,
		},
		{
			"a reset of UltraScale+", "xcup",
			[]string{a, "FDRE b *Q=11 D=20 C=1 R=12", "FDSE c *Q=14 D=20 C=1 S=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(2) + t.FFReset }), 0,
		},
		{
			"a block RAM's enable", "",
			[]string{a, "RAMB18E1 r *DOADO=11 CLKARDCLK=1 ENARDEN=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.RAMEnable }), 0,
		},
		{
			"a block RAM's write enable", "",
			[]string{a, "RAMB18E1 r *DOADO=11 CLKARDCLK=1 WEA=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.RAMEnable }), 1,
		},
		{
			"a block RAM's address", "",
			[]string{a, "RAMB18E1 r *DOADO=11 CLKARDCLK=1 ADDRARDADDR=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.RAMAddr }), 1,
		},
		{
			"a DSP's operation", "",
			[]string{a, "DSP48E1 d *P=11 CLK=1 OPMODE=12 #PREG=1", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.DSPCToP }), 0,
		},
		{
			"a DSP's reset, series 7", "xc7",
			[]string{a, "DSP48E1 d *P=11 CLK=1 RSTP=12 #PREG=1", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.DSPEnable }), 1,
		},
		{
			"a DSP's reset, UltraScale+", "xcup",
			[]string{a, "DSP48E1 d *P=11 CLK=1 RSTP=12 #PREG=1", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.DSPEnable }), 0,
		},
		{
			"a URAM's enable", "xcup",
			[]string{a, "URAM288 u *DOUT_A=11 CLK=1 EN_A=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.URAMEnable }), 0,
		},
		{
			"a LUT RAM's data", "",
			[]string{a, "RAM32M r *DOA=11 WCLK=1 DIA=12", "INV i *O=12 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.LUTRAMIn }), 1,
		},
		{
			"beside the carry chain", "",
			[]string{a, b, "CARRY4 c *CO=30,31,32,33 *O=12,35,36,37 S=13,21,22,23", "INV i *O=13 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetLocal + t.Sum + t.NetLocal + t.FFIn }), 1,
		},
		{
			"two in a row are one LUT", "",
			[]string{a, b, "INV i *O=12 I=13", "INV j *O=13 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetLocal + t.FFIn }), 1,
		},
		{
			"a wide multiplexer's select", "",
			[]string{a, b, "MUXF7 m *O=12 I0=21 I1=22 S=13", "INV i *O=13 I=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(1) + t.Mux + t.NetLocal + t.FFIn }), 2,
		},

		{
			"a register into a wide multiplexer", "",
			[]string{a, b, "MUXF7 m *O=12 I0=10 I1=21 S=22"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.Mux + t.NetLocal + t.FFIn }), 2,
		},
		{
			"a LUT of two wide multiplexers", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "MUXF7 m *O=12 I0=13 I1=21 S=22", "MUXF7 n *O=30 I0=23 I1=13 S=24"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(2) + t.LUT + t.Mux + t.NetLocal + t.FFIn }), 3,
		},
		{
			"a LUT of a wide multiplexer and of a LUT", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "MUXF7 m *O=12 I0=13 I1=21 S=22", "LUT1 n *O=30 I0=13"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.Mux + t.NetLocal + t.FFIn }), 2,
		},
		{
			"an inverted LUT of a wide multiplexer", "",
			[]string{a, b, "LUT1 l *O=14 I0=10", "INV i *O=13 I=14", "MUXF7 m *O=12 I0=13 I1=21 S=22"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.Mux + t.NetLocal + t.FFIn }), 2,
		},
		{
			"MUXF7 and MUXF8", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "MUXF7 m *O=14 I0=13 I1=21 S=22", "MUXF8 n *O=12 I0=14 I1=23 S=24"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + 2*t.Mux + t.NetLocal + t.FFIn }), 3,
		},
		{
			"a MUXF7 of two MUXF8", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "MUXF7 m *O=14 I0=13 I1=21 S=22", "MUXF8 n *O=12 I0=14 I1=23 S=24", "MUXF8 o *O=30 I0=14 I1=25 S=26"},
			in(func(t *Table) float64 {
				return t.net(1) + t.LUT + t.Mux + t.net(2) + t.LUT + 2*t.Mux + t.NetLocal + t.FFIn
			}), 5,
		},
		{
			"a LUT into MUXF8", "",
			[]string{a, b, "LUT1 l *O=13 I0=10", "MUXF8 n *O=12 I0=13 I1=23 S=24"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + 2*t.Mux + t.NetLocal + t.FFIn }), 3,
		},

		{
			"one of two registers lies beside the LUT", "",
			[]string{a, b, "FDRE c *Q=14 D=12 C=1", "LUT1 l *O=12 I0=10"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.net(2) + t.FFIn }), 1,
		},
		{
			"a register and two LUTs", "",
			[]string{a, b, "LUT1 l *O=12 I0=10", "LUT1 m *O=30 I0=12", "LUT1 n *O=31 I0=12"},
			in(func(t *Table) float64 { return t.net(1) + t.LUT + t.NetIn + t.FFIn }), 1,
		},
	} {
		for _, table := range Tables {
			if tc.family != "" && tc.family != table.Family {
				continue
			}
			text := netlist(tc.cells...)
			if table.Family == "xcup" {
				text = strings.NewReplacer("CARRY4", "CARRY8", "RAMB18E1", "RAMB18E2", "DSP48E1", "DSP48E2").Replace(text)
			}
			n := read(t, text)
			for range 2 { // fit does not change the netlist
				r, err := n.Analyse(table, 5, false)
				if err != nil {
					t.Errorf("%s: %v", tc.name, err)
					break
				}
				if want := tc.ns(table); math.Abs(r.MaxNS-want) > 1e-9 || r.MaxLevels != tc.levels {
					t.Errorf("%s, %s: %.4f ns, %d levels; expected %.4f, %d", tc.name, table.Name, r.MaxNS, r.MaxLevels, want, tc.levels)
				}
			}
		}
	}
}
