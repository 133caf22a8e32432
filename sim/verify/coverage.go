// This file defines the coverage table of a run of checks. Bins come from the definitions in other packages: operators,
// flags and error codes from hw/abi, <k, s> from dse/mapping, ports from the designs under test. Only the important
// shapes of layers have bins.

package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Groups of bins.
const (
	covOps     = "operator"
	covFlags   = "flag"
	covPoints  = "k_s"
	covBatches = "batch"
	covOrders  = "loop_order"
	covShapes  = "shape"
	covErrors  = "error"
	covReads   = "read_port"
	covWrites  = "write_port"
	covCross   = "cross"       // operator, <k, s>, loop order and number of ports
	covBehind  = "behind"      // step after the shift, operator and <k, s>
	covStalls  = "stall"       // counters of the NPU
	covClients = "arbitration" // at the read ports: served client > waiting client
	covPorts   = "port_stall"  // channels that wait for each port
	covDrain   = "drain"       // queue of the drain
)

// stalls are the counters of stall cycles.
var stalls = []struct {
	name    string
	counter int
}{
	{"weights", abi.CntStallWeights},
	{"activations", abi.CntStallActivations},
	{"drain", abi.CntStallDrain},
	{"depth", abi.CntStallDepth},
	{"read", abi.CntStallRead},
	{"write", abi.CntStallWrite},
}

// Names in sim/checkers: the clients of the read ports, and those channels of a port that can wait.
var (
	clients  = []string{"descriptors", "activations", "weights", "residual"}
	channels = []string{"ar", "r", "aw", "w"}
)

// Coverage counts events by group and bin.
type Coverage struct {
	groups []string
	bins   map[string][]string
	hits   Hits
}

// NewCoverage creates the bins for the designs under test.
func NewCoverage(designs []configs.Design) *Coverage {
	c := &Coverage{bins: map[string][]string{}, hits: map[string]map[string]uint64{}}
	for _, op := range abi.Ops() {
		if slices.ContainsFunc(designs, func(d configs.Design) bool { return runs(d, op) }) {
			c.bin(covOps, op.String())
		}
	}
	option := map[string]func(configs.Design) bool{
		"Curve": func(d configs.Design) bool { return d.Post }, "Product": func(d configs.Design) bool { return d.Post },
		"In8": configs.Design.Int8, "Out8": configs.Design.Int8, "Res8": configs.Design.Int8,
	}
	for _, f := range descFlags() {
		if has := option[f]; has == nil || slices.ContainsFunc(designs, has) {
			c.bin(covFlags, f)
		}
	}
	for _, p := range mapping.Points {
		for _, d := range designs {
			if mapping.Built(d, p) {
				c.bin(covPoints, pointName(p))
				break
			}
		}
	}
	for b := 1; b <= abi.BMax; b++ {
		c.bin(covBatches, strconv.Itoa(b))
	}
	for _, o := range []bool{false, true} {
		c.bin(covOrders, orderName(o))
	}
	for _, s := range shapes {
		// in int8, a residual has a factor instead of a shift
		if s.name != "residual_rs" || slices.ContainsFunc(designs, func(d configs.Design) bool { return !d.Int8() }) {
			c.bin(covShapes, s.name)
		}
	}
	if slices.ContainsFunc(designs, func(d configs.Design) bool { return d.Depthwise }) {
		for _, s := range depthwiseShapes {
			c.bin(covShapes, s.name)
		}
	}
	for _, e := range abi.ErrCodes() {
		c.bin(covErrors, e.String())
	}
	for _, d := range designs {
		for p := range d.NAXI {
			c.bin(covReads, portName(d, p))
			c.bin(covWrites, portName(d, p))
		}
		for _, s := range stalls {
			c.bin(covStalls, d.Name+"."+s.name)
		}
		for _, op := range abi.Ops() {
			if !runs(d, op) {
				continue
			}
			if op != abi.OpGEMM {
				c.bin(covCross, crossName(d, op, mapping.Point{}, false))
				continue
			}
			for _, p := range mapping.Points {
				if mapping.Built(d, p) {
					c.bin(covCross, crossName(d, op, p, false))
					c.bin(covCross, crossName(d, op, p, true))
				}
			}
		}
		c.behind(d)
	}
	return c
}

// runs reports whether a design has the operator.
func runs(d configs.Design, op abi.Op) bool { return op != abi.OpDepthwise || d.Depthwise }

// behind adds the bins of a design's steps after the shift. If a design has the depthwise unit, the compiler converts
// products to depthwise layers.
func (c *Coverage) behind(d configs.Design) {
	if !d.Post {
		return
	}
	for _, p := range mapping.Points {
		if !mapping.Built(d, p) {
			continue
		}
		c.bin(covBehind, behindName("curve", abi.OpGEMM, p))
		if !d.Depthwise {
			c.bin(covBehind, behindName("product", abi.OpGEMM, p))
			c.bin(covBehind, behindName("product by a pixel", abi.OpGEMM, p))
		}
	}
	if d.Depthwise {
		for _, what := range []string{"curve", "product", "product by a pixel"} {
			c.bin(covBehind, behindName(what, abi.OpDepthwise, mapping.Point{}))
		}
	}
}

// behindName returns the bin of a step after the shift; only a GEMM has <k, s>.
func behindName(what string, op abi.Op, p mapping.Point) string {
	if op != abi.OpGEMM {
		return fmt.Sprintf("%v:%s", op, what)
	}
	return fmt.Sprintf("%v:%s:%s", op, pointName(p), what)
}

// Checked adds the bins that only a build with sim/checkers counts.
func (c *Coverage) Checked(d configs.Design) {
	c.bin(covDrain, d.Name+".queue_full")
	for _, one := range clients {
		for _, other := range clients {
			if one != other {
				c.bin(covClients, passing(one+">"+other))
			}
		}
	}
	for p := range d.NAXI {
		for _, ch := range channels {
			c.bin(covPorts, d.Name+"."+ch+"."+strconv.Itoa(p))
		}
	}
}

// passing returns the bin for a client that is served while another client waits. Descriptors have priority: another
// client is served before them only if it requested earlier. This is rare, so all clients share one bin.
func passing(pair string) string {
	if strings.HasSuffix(pair, ">"+clients[0]) {
		return "any>" + clients[0]
	}
	return pair
}

// AddCheckerCounts adds the counts in the final output of a build with sim/checkers: lines "cover: GROUP BIN COUNT".
func (c *Coverage) AddCheckerCounts(d configs.Design, said string) error {
	for line := range strings.Lines(said) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "cover: ")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 3 {
			return fmt.Errorf("%s: %q: expected a group, a bin and a count", d.Name, line)
		}
		n, err := strconv.ParseUint(f[2], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", d.Name, line, err)
		}
		switch f[0] {
		case covPorts, covDrain:
			f[1] = d.Name + "." + f[1]
		case covClients:
			f[1] = passing(f[1])
		}
		if _, ok := c.hits[f[0]][f[1]]; !ok {
			return fmt.Errorf("%s: there is no bin %s/%s", d.Name, f[0], f[1])
		}
		c.hit(f[0], f[1], n)
	}
	return nil
}

// crossName returns the bin for a kind of layer and the design's number of ports. Only a GEMM has <k, s> and an order.
func crossName(d configs.Design, op abi.Op, p mapping.Point, order bool) string {
	if op != abi.OpGEMM {
		return fmt.Sprintf("%v:%dp", op, d.NAXI)
	}
	return fmt.Sprintf("%v:%s:%s:%dp", op, pointName(p), orderName(order), d.NAXI)
}

// LayersOnly removes the groups for error codes, ports and stalls, because some devices do not report these.
func (c *Coverage) LayersOnly() {
	for _, g := range []string{covErrors, covReads, covWrites, covStalls} {
		delete(c.bins, g)
		delete(c.hits, g)
		c.groups = slices.DeleteFunc(c.groups, func(have string) bool { return have == g })
	}
}

// descFlags returns the one-bit fields of a descriptor.
func descFlags() []string {
	var out []string
	t := reflect.TypeFor[abi.Desc]()
	for i := range t.NumField() {
		if t.Field(i).Type.Kind() == reflect.Bool {
			out = append(out, t.Field(i).Name)
		}
	}
	return out
}

func pointName(p mapping.Point) string { return fmt.Sprintf("%v,%d", p.K, p.S) }

func portName(d configs.Design, port int) string { return fmt.Sprintf("%s.%d", d.Name, port) }

func (c *Coverage) bin(group, name string) {
	if c.hits[group] == nil {
		c.groups = append(c.groups, group)
		c.hits[group] = map[string]uint64{}
	}
	if _, dup := c.hits[group][name]; !dup {
		c.bins[group] = append(c.bins[group], name)
		c.hits[group][name] = 0
	}
}

// hit adds n to a bin; an unknown bin is ignored.
func (c *Coverage) hit(group, name string, n uint64) {
	if _, ok := c.hits[group][name]; ok {
		c.hits[group][name] += n
	}
}

// shape is a property of a layer with an FBCB entry.
type shape struct {
	name string
	is   func(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) bool
}

func gemm(l *abi.Desc) bool { return l.Op == abi.OpGEMM }

func pool(l *abi.Desc) bool { return l.Op == abi.OpMaxPool || l.Op == abi.OpAvgPool }

// depthwise returns a shape that only depthwise layers can have.
func depthwise(name string, is func(d configs.Design, l *abi.Desc, e abi.FBCB) bool) shape {
	return shape{name, func(d configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool {
		return l.Op == abi.OpDepthwise && is(d, l, e)
	}}
}

func groupsOf(e abi.FBCB, batch int) int { return cost.Groups(e, batch) }

// padded reports whether some window extends beyond the image.
func padded(l *abi.Desc) bool {
	return l.PadT > 0 || l.PadL > 0 ||
		(int(l.OutH)-1)*int(l.SH)+int(l.KH) > int(l.InH)+int(l.PadT) || (int(l.OutW)-1)*int(l.SW)+int(l.KW) > int(l.InW)+int(l.PadL)
}

// longStride reports whether the stride is four pixels or more, so that it uses the field's upper bits.
func longStride(l *abi.Desc) bool { return l.SH >= 4 && l.OutH > 1 || l.SW >= 4 && l.OutW > 1 }

var shapes = []shape{
	{"conv_padded", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return gemm(l) && padded(l) }},
	{"max_padded", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return l.Op == abi.OpMaxPool && padded(l) }},
	{"avg_padded", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return l.Op == abi.OpAvgPool && padded(l) && !l.AvgTable
	}},
	{"avg_table_padded", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return l.Op == abi.OpAvgPool && padded(l) && l.AvgTable
	}},
	{"pool_by_columns", func(d configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return pool(l) && cost.GeomOf(l).ByColumns(d)
	}},
	{"pool_by_windows", func(d configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return pool(l) && !cost.GeomOf(l).ByColumns(d)
	}},
	{"avg_narrow", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return l.Op == abi.OpAvgPool && !cost.GeomOf(l).WideAverage()
	}},
	{"avg_wide", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return l.Op == abi.OpAvgPool && cost.GeomOf(l).WideAverage()
	}},
	{"strided", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return gemm(l) && (l.SH > 1 || l.SW > 1) }},
	{"strided_far", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return gemm(l) && longStride(l) }},
	{"pool_strided_far", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return pool(l) && longStride(l) }},
	{"kernel_1xn_nx1", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return gemm(l) && (l.KH == 1) != (l.KW == 1)
	}},
	{"residual_rs_0", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return l.Residual && l.ResShift == 0 }},
	{"residual_rs", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return l.Residual && l.ResShift > 0 }},
	{"fully_connected", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool {
		return gemm(l) && l.OutH == 1 && l.OutW == 1 && int(l.KH) == int(l.InH) && int(l.KW) == int(l.InW)
	}},
	{"concat_window", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return l.OutPix > l.OutC }},
	{"group_window", func(_ configs.Design, l *abi.Desc, _ abi.FBCB, _ int) bool { return l.InPix > l.InC }},
	{"r_1", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool {
		return gemm(l) && int(e.TileB)*int(e.TileRows)*int(l.OutW) == 1
	}},
	{"odd_channels_k_half", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool {
		return gemm(l) && cost.K(e.K) == cost.KHalf && l.OutC%2 == 1
	}},
	{"groups_unequal", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, batch int) bool {
		return groupsOf(e, batch) == 2 && batch%2 == 1
	}},
	{"row_tiles", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool { return e.TileRows < l.OutH }},
	{"row_tiles_short_last", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool {
		return e.TileRows > 0 && l.OutH%e.TileRows != 0
	}},
	{"c_tiles", func(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) bool {
		return gemm(l) && int(l.OutC) > cost.CTile(d, cost.K(e.K), groupsOf(e, batch))
	}},
	{"sample_tiles", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, _ int) bool { return e.TileB < e.BR }},
	{"sample_tiles_short_last", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, _ int) bool {
		return e.TileB > 0 && e.BR%e.TileB != 0
	}},
	{"c_outermost_replayed", func(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) bool {
		return e.Order && tilesOfC(d, l, e, batch) > 1 && e.TileRows < l.OutH
	}},
	{"c_outermost_tiles_stay", func(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) bool {
		two := e.TileB == e.BR && e.TileRows < l.OutH && 2*e.TileRows >= l.OutH ||
			e.TileRows == l.OutH && e.TileB < e.BR && 2*e.TileB >= e.BR
		return e.Order && two && tilesOfC(d, l, e, batch) > 1
	}},
	{"kept_in", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool { return e.KeepIn && gemm(l) }},
	{"kept_in_padded", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool { return e.KeepIn && gemm(l) && l.PadT > 0 }},
	{"kept_in_pool", func(_ configs.Design, l *abi.Desc, e abi.FBCB, _ int) bool { return e.KeepIn && pool(l) }},
	{"kept_out", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, _ int) bool { return e.KeepOut && !e.OnChip }},
	{"kept_out_on_chip", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, _ int) bool { return e.OnChip }},
	{"kept_through", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, _ int) bool { return e.KeepIn && e.KeepOut }},
	{"kept_batch", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, batch int) bool { return e.KeepOut && batch > 1 }},
	{"sample_tiles_s_2", func(_ configs.Design, _ *abi.Desc, e abi.FBCB, batch int) bool {
		return e.TileB < e.BR && groupsOf(e, batch) == 2
	}},
}

// depthwiseShapes lists the shapes that have bins only if a design has the depthwise unit.
var depthwiseShapes = []shape{
	depthwise("depthwise_by_columns", func(d configs.Design, l *abi.Desc, _ abi.FBCB) bool {
		return cost.GeomOf(l).ByColumns(d) && l.SW == 1 && int(l.InC) <= d.NB()
	}),
	depthwise("depthwise_by_columns_strided", func(d configs.Design, l *abi.Desc, _ abi.FBCB) bool {
		return cost.GeomOf(l).ByColumns(d) && l.SW == 2
	}),
	depthwise("depthwise_by_columns_groups", func(d configs.Design, l *abi.Desc, _ abi.FBCB) bool {
		return cost.GeomOf(l).ByColumns(d) && int(l.InC) > d.NB() && int(l.InC)%d.NB() != 0
	}),
	depthwise("depthwise_by_taps", func(d configs.Design, l *abi.Desc, _ abi.FBCB) bool { return !cost.GeomOf(l).ByColumns(d) }),
	depthwise("depthwise_by_taps_groups", func(d configs.Design, l *abi.Desc, _ abi.FBCB) bool {
		return !cost.GeomOf(l).ByColumns(d) && int(l.InC) > d.NB() && int(l.InC)%d.NB() != 0
	}),
	depthwise("depthwise_padded", func(_ configs.Design, l *abi.Desc, _ abi.FBCB) bool { return padded(l) }),
	depthwise("depthwise_residual", func(_ configs.Design, l *abi.Desc, _ abi.FBCB) bool { return l.Residual }),
	depthwise("depthwise_window", func(_ configs.Design, l *abi.Desc, _ abi.FBCB) bool { return l.InPix > l.InC || l.OutPix > l.OutC }),
	depthwise("depthwise_kept_in", func(_ configs.Design, _ *abi.Desc, e abi.FBCB) bool { return e.KeepIn }),
	depthwise("depthwise_kept_out", func(_ configs.Design, _ *abi.Desc, e abi.FBCB) bool { return e.KeepOut && !e.OnChip }),
	depthwise("depthwise_on_chip", func(_ configs.Design, _ *abi.Desc, e abi.FBCB) bool { return e.OnChip }),
	depthwise("depthwise_row_tiles", func(_ configs.Design, l *abi.Desc, e abi.FBCB) bool { return e.TileRows < l.OutH }),
}

// tilesOfC returns the number of C tiles of a layer.
func tilesOfC(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) int {
	tile := cost.CTile(d, cost.K(e.K), groupsOf(e, batch))
	return (int(l.OutC) + tile - 1) / tile
}

func orderName(order bool) string {
	if order {
		return "c_outermost"
	}
	return "rows_outermost"
}

// layer counts one layer of a start.
func (c *Coverage) layer(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) {
	for _, x := range c.of(d, l, e, batch) {
		c.hit(x[0], x[1], 1)
	}
}

// of returns the groups and bins of one layer of a start.
func (c *Coverage) of(d configs.Design, l *abi.Desc, e abi.FBCB, batch int) [][2]string {
	at := mapping.Point{K: cost.K(e.K), S: groupsOf(e, batch)}
	out := [][2]string{{covOps, l.Op.String()}, {covBatches, strconv.Itoa(batch)}, {covCross, crossName(d, l.Op, at, e.Order)}}
	switch {
	case l.Curve:
		out = append(out, [2]string{covBehind, behindName("curve", l.Op, at)})
	case l.Product && l.ResPix == 0:
		out = append(out, [2]string{covBehind, behindName("product by a pixel", l.Op, at)})
	case l.Product:
		out = append(out, [2]string{covBehind, behindName("product", l.Op, at)})
	}
	v := reflect.ValueOf(*l)
	for _, f := range c.bins[covFlags] {
		if v.FieldByName(f).Bool() {
			out = append(out, [2]string{covFlags, f})
		}
	}
	if gemm(l) {
		out = append(out, [2]string{covPoints, pointName(at)}, [2]string{covOrders, orderName(e.Order)})
	}
	for _, s := range slices.Concat(shapes, depthwiseShapes) {
		if s.is(d, l, e, batch) {
			out = append(out, [2]string{covShapes, s.name})
		}
	}
	return out
}

// LayersMissing reports whether a kind of layer has no hit.
func (c *Coverage) LayersMissing() bool {
	for _, g := range []string{covOps, covFlags, covPoints, covBatches, covOrders, covShapes, covCross} {
		for _, b := range c.bins[g] {
			if c.hits[g][b] == 0 {
				return true
			}
		}
	}
	return false
}

// Missing returns the bins without a hit, as group/bin, in the order of the table.
func (c *Coverage) Missing() []string {
	out := []string{}
	for _, g := range c.groups {
		for _, b := range c.bins[g] {
			if c.hits[g][b] == 0 {
				out = append(out, g+"/"+b)
			}
		}
	}
	return out
}

// share returns the number of bins with a hit, and the number of all bins.
func (c *Coverage) share() (hit, all int) {
	for _, g := range c.groups {
		all += len(c.bins[g])
	}
	return all - len(c.Missing()), all
}

// Empty returns a table of the same bins without hits.
func (c *Coverage) Empty() *Coverage {
	out := &Coverage{groups: c.groups, bins: c.bins, hits: Hits{}}
	for group, bins := range c.hits {
		out.hits[group] = map[string]uint64{}
		for name := range bins {
			out.hits[group][name] = 0
		}
	}
	return out
}

// Hits contains the number of hits, by group and bin.
type Hits map[string]map[string]uint64

// Hits returns the hits of all bins.
func (c *Coverage) Hits() Hits { return c.hits }

// Add adds the hits of another table.
func (c *Coverage) Add(h Hits) {
	for group, bins := range h {
		for name, n := range bins {
			c.hit(group, name, n)
		}
	}
}

// MarshalJSON writes {group: {bin: hits}}.
func (c *Coverage) MarshalJSON() ([]byte, error) { return json.Marshal(c.hits) }

// Print writes the table with one paragraph per group, and then the bins without a hit.
func (c *Coverage) Print(w io.Writer) error {
	var s strings.Builder
	hit, all := c.share()
	fmt.Fprintf(&s, "\ncoverage: %d of %d bins\n", hit, all)
	for _, g := range c.groups {
		fmt.Fprintf(&s, "  %-11s", g)
		used := 13
		for _, b := range c.bins[g] {
			cell := fmt.Sprintf("  %s %d", b, c.hits[g][b])
			if used+len(cell) > 110 {
				fmt.Fprintf(&s, "\n%13s", "")
				used = 13
			}
			used += len(cell)
			s.WriteString(cell)
		}
		s.WriteByte('\n')
	}
	if m := c.Missing(); len(m) > 0 {
		fmt.Fprintf(&s, "  missing: %s\n", strings.Join(m, ", "))
	}
	_, err := io.WriteString(w, s.String())
	return err
}
