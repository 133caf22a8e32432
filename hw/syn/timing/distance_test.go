package timing

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
)

// distanceOf returns the first table of a board's family, and the board's distances for it.
func distanceOf(t *testing.T, board string) (*Table, *Distance) {
	t.Helper()
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	table := ByFamily(b.Family)[0]
	d, err := DistanceOn(b, table)
	if err != nil {
		t.Fatal(err)
	}
	return table, d
}

// Between 10 % and 20 % of the long nets of routed designs are faster than the table with distances.
func TestLongNets(t *testing.T) {
	text, err := os.ReadFile("testdata/longnets.txt")
	if err != nil {
		t.Fatal(err)
	}
	ratios := map[string][]float64{} // by grade: a net's delay divided by the table's
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var grade, source string
		var columns, rows, ns float64
		var fanout int32
		if _, err := fmt.Sscan(line, &grade, &columns, &rows, &fanout, &ns, &source); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, table := range Tables {
			if table.Name == grade {
				ratios[grade] = append(ratios[grade], ns/(table.net(min(fanout, 64))+columns*tiles[grade][0]+rows*tiles[grade][1]))
			}
		}
	}
	for grade, median := range map[string]string{"k7-2": "1.70", "usp-2": "1.16"} { // README.md, Timing
		list := slices.Sorted(slices.Values(ratios[grade]))
		quicker, _ := slices.BinarySearch(list, 1)
		if share := float64(quicker) / float64(len(list)); !(share > 0.1 && share < 0.2) {
			t.Errorf("%s: %d of %d nets are quicker than the table", grade, quicker, len(list))
		}
		if got := fmt.Sprintf("%.2f", (list[(len(list)-1)/2]+list[len(list)/2])/2); got != median {
			t.Errorf("%s: nets are in the median %s times the table's, expected %s", grade, got, median)
		}
	}
}

// array returns a netlist in which a register drives the first DSPs of chains of seven DSPs, through one register per
// group; with 0 groups it drives them directly.
func array(chains, groups int) string {
	net := 100
	next := func() int { net++; return net }
	root := next()
	cells := []string{fmt.Sprintf("FDRE root *Q=%d D=%d C=1", root, next())}
	from := []int{root}
	if groups > 0 {
		from = nil
		for g := range groups {
			q := next()
			cells = append(cells, fmt.Sprintf("FDRE g%d *Q=%d D=%d C=1", g, q, root))
			from = append(from, q)
		}
	}
	for c := range chains {
		a, cascade := from[c*len(from)/chains], 0
		for j := range 7 {
			cell := fmt.Sprintf("DSP48E1 d%d_%d #AREG=1 #MREG=1 #PREG=1 A=%d *PCOUT=%d", c, j, a, next())
			if j > 0 {
				cell = fmt.Sprintf("DSP48E1 d%d_%d #AREG=1 #MREG=1 #PREG=1 A=%d PCIN=%d *PCOUT=%d", c, j, next(), cascade, next())
			}
			cascade = net
			cells = append(cells, cell)
		}
	}
	return netlist(cells...)
}

// A net's length follows from the area of the chains that it reaches: if there are four times as many chains, the net is
// twice as long. Registers split the distance; without them the path is too long.
func TestDistance(t *testing.T) {
	longest := func(board, text string) float64 {
		table, d := distanceOf(t, board)
		a, err := read(t, text).AnalyseOn(table, d, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := read(t, text).Analyse(table, 1, false)
		if err != nil || a.Ends != plain.Ends {
			t.Fatalf("%d ends, without distances %d: %v", a.Ends, plain.Ends, err)
		}
		return a.MaxNS
	}
	table, d := distanceOf(t, "zc706")
	way := func(chains int) float64 {
		return longest("zc706", array(chains, 0)) - table.FFOut - table.net(int32(min(chains, 64))) - table.DSPIn
	}
	edge := d.Step * math.Sqrt(7*d.CLBs/d.DSP) // delay over the edge of one chain's area
	for _, chains := range []int{16, 64, 100} {
		if got, want := way(chains), edge*(math.Sqrt(float64(chains))-1); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d chains: %.3f ns away, expected %.3f", chains, got, want)
		}
	}
	plain := array(16, 0)
	linked := strings.NewReplacer("*PCOUT", "*P", "PCIN", "C").Replace(plain)
	if a, b := longest("zc706", plain), longest("zc706", linked); a != b {
		t.Errorf("chains over PCIN %.3f ns, over C %.3f", a, b)
	}
	d.Fill = true
	n := read(t, plain)
	filled, err := n.AnalyseOn(table, d, 1, false)
	if err != nil || math.Abs(filled.MaxNS-longest("zc706", plain)-d.Step*math.Sqrt(d.CLBs)*(1-1/4.0)+edge*3) > 1e-9 {
		t.Errorf("16 chains that fill the die: %.3f ns, %v", filled.MaxNS, err)
	}
	with, without := longest("zc706", array(128, 8)), longest("zc706", array(128, 0))
	root := table.FFOut + table.net(8) + edge*(math.Sqrt(128)-math.Sqrt(16)) + table.FFIn // from the root to the middle of a group
	if math.Abs(with-root) > 1e-9 || without < 4.8 {
		t.Errorf("128 chains: %.2f ns over eight registers, expected %.2f; %.2f without", with, root, without)
	}
	// picorv32_axi has no DSP or memory block, so the table's calibration holds with distances too
	logic := netlist("FDRE a *Q=10 D=20 C=1", "LUT1 l *O=11 I0=10", "FDRE b *Q=12 D=11 C=1", "RAM32M m ADDRA=10 *DOA=13", "FDRE c *Q=14 D=13 C=1")
	if plain, err := read(t, logic).Analyse(table, 1, false); err != nil || longest("zc706", logic) != plain.MaxNS {
		t.Errorf("cells that are near no block: %.3f ns, without distances %.3f, %v", longest("zc706", logic), plain.MaxNS, err)
	}
	// a two-level multiplexer of 16 memories lies in their middle
	join := []string{"LUT4 top *O=91 I0=80 I1=81 I2=82 I3=83", "FDRE f *Q=92 D=91 C=1"}
	for i := range 16 {
		join = append(join, fmt.Sprintf("RAMB36E1 m%d ADDRARDADDR=%d *DOADO=%d", i, 40+i, 60+i))
	}
	for i := range 4 {
		join = append(join, fmt.Sprintf("LUT4 l%d *O=%d I0=%d I1=%d I2=%d I3=%d", i, 80+i, 60+4*i, 61+4*i, 62+4*i, 63+4*i))
	}
	want := table.RAMOut + 2*table.net(1) + 2*table.LUT + table.NetLocal + table.FFIn + d.Step*math.Sqrt(d.CLBs/d.BRAM36)*(4-1)
	if got := longest("zc706", netlist(join...)); math.Abs(got-want) > 1e-9 {
		t.Errorf("16 memories to a register: %.3f ns, expected %.3f", got, want)
	}
	b, err := boards.Load("zcu104")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DistanceOn(b, table); err == nil {
		t.Error("a part of another family has distances")
	}
}
