package verify

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Every name in the sources is a bin, and no bin has a hit before its event.
func TestCoverageBinsComeFromTheSources(t *testing.T) {
	designs, err := loadDesigns("tiny", "v13")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCoverage(designs)
	if got, want := c.bins[covOps], []string{"GEMM", "MAX_POOL", "AVG_POOL"}; !slices.Equal(got, want) {
		t.Errorf("operators %v, want %v", got, want)
	}
	if got, want := c.bins[covFlags], []string{"Residual", "AvgTable"}; !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	if got, want := c.bins[covPoints], []string{"1,1", "1/2,1", "2,1", "1,2", "1/2,2"}; !slices.Equal(got, want) || len(want) != len(mapping.Points) {
		t.Errorf("points %v, want %v", got, want)
	}
	if got := c.bins[covErrors]; len(got) != int(abi.ErrSoftReset)+1 || got[abi.ErrWatchdog] != "WATCHDOG" {
		t.Errorf("errors %v", got)
	}
	if got, want := c.bins[covReads], []string{"tiny.0", "v13.0", "v13.1", "v13.2", "v13.3"}; !slices.Equal(got, want) {
		t.Errorf("read ports %v, want %v", got, want)
	}
	if got, want := c.bins[covWrites], []string{"tiny.0", "v13.0", "v13.1", "v13.2", "v13.3"}; !slices.Equal(got, want) {
		t.Errorf("write ports %v, want %v", got, want)
	}
	// two kinds of pools, and five <k, s> in two orders, with one port and with four
	if got := c.bins[covCross]; len(got) != 2*(2+5*2) || !slices.Contains(got, "GEMM:1/2,2:c_outermost:4p") || !slices.Contains(got, "MAX_POOL:1p") {
		t.Errorf("crosses %v", got)
	}
	if got := c.bins[covStalls]; len(got) != 2*6 || !slices.Contains(got, "v13.write") {
		t.Errorf("stalls %v", got)
	}
	if len(c.bins[covClients])+len(c.bins[covPorts]) != 0 {
		t.Error("bins of checkers without a build that has them")
	}
	c.Checked(designs[1])
	if len(c.bins[covClients]) != 10 || len(c.bins[covPorts]) != 16 {
		t.Errorf("arbitration %v, ports %v", c.bins[covClients], c.bins[covPorts])
	}
	hit, all := c.share()
	if hit != 0 || all != len(c.Missing()) || len(c.bins[covBatches]) != abi.BMax {
		t.Errorf("%d of %d bins are hit, %d missing", hit, all, len(c.Missing()))
	}
	// options of designs are bins if one of the designs has them
	options := NewCoverage([]configs.Design{designs[1], {Post: true, Depthwise: true}})
	if got, want := options.bins[covOps], []string{"GEMM", "MAX_POOL", "AVG_POOL", "DEPTHWISE"}; !slices.Equal(got, want) {
		t.Errorf("operators %v, want %v", got, want)
	}
	if got, want := options.bins[covFlags], []string{"Residual", "AvgTable", "Curve", "Product"}; !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	if got := options.bins[covCross]; slices.Contains(got, "DEPTHWISE:4p") || !slices.Contains(got, "DEPTHWISE:0p") {
		t.Errorf("crosses %v", got)
	}
	if got := len(options.bins[covShapes]) - len(c.bins[covShapes]); got != len(depthwiseShapes) {
		t.Errorf("%d shapes of depthwise layers, want %d", got, len(depthwiseShapes))
	}
	// with int8 designs only, no residual has a shift
	eight := designs[1].Typed(configs.TypeInt8)
	for n, all := range [][]configs.Design{{eight}, {eight, designs[1]}} {
		if got := slices.Contains(NewCoverage(all).bins[covShapes], "residual_rs"); got != (n == 1) {
			t.Errorf("a residual's shift is a bin of %v: %t", all, got)
		}
	}
	// without stacking and groups these points are not bins
	plain := designs[0]
	plain.Stack, plain.Fluid = false, false
	if got := NewCoverage(designs[:0:0]).bins[covPoints]; len(got) != 0 {
		t.Errorf("without designs: points %v", got)
	}
	if got, want := NewCoverage(append(designs[:0:0], plain)).bins[covPoints], []string{"1,1"}; !slices.Equal(got, want) {
		t.Errorf("without stacking: points %v, want %v", got, want)
	}
	// steps after the shift are bins if some design has them
	if got := c.bins[covBehind]; len(got) != 0 {
		t.Errorf("without post: behind the shift %v", got)
	}
	plain.Post = true
	c = NewCoverage(append(designs[:0:0], plain))
	if got, want := c.bins[covBehind], []string{"GEMM:1,1:curve", "GEMM:1,1:product", "GEMM:1,1:product by a pixel"}; !slices.Equal(got, want) {
		t.Errorf("behind the shift: %v, want %v", got, want)
	}
	if got, want := c.bins[covFlags], []string{"Residual", "AvgTable", "Curve", "Product"}; !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	product := abi.Desc{Op: abi.OpGEMM, Residual: true, Product: true, OutC: 3}
	c.layer(plain, &product, abi.FBCB{BR: 1}, 1)
	product.ResPix = 3
	c.layer(plain, &product, abi.FBCB{BR: 1}, 1)
	c.layer(plain, &abi.Desc{Op: abi.OpGEMM, Curve: true}, abi.FBCB{BR: 1}, 1)
	for _, bin := range c.bins[covBehind] {
		if c.hits[covBehind][bin] != 1 {
			t.Errorf("behind the shift: %v, want 1 of each", c.hits[covBehind])
		}
	}
	plain.Depthwise = true
	if got, want := NewCoverage(append(designs[:0:0], plain)).bins[covBehind], []string{
		"GEMM:1,1:curve", "DEPTHWISE:curve", "DEPTHWISE:product", "DEPTHWISE:product by a pixel",
	}; !slices.Equal(got, want) {
		t.Errorf("behind the shift, with depthwise: %v, want %v", got, want)
	}
}

func TestCoverageCounts(t *testing.T) {
	designs, err := loadDesigns("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCoverage(designs)
	// a 3 x 3 convolution with a residual, padded only at the right and at the bottom, in a concatenation
	conv := abi.Desc{
		Op: abi.OpGEMM, Residual: true, InH: 8, InW: 8, InC: 2, InPix: 6, OutH: 8, OutW: 8, OutC: 3, OutPix: 7,
		KH: 3, KW: 3, SH: 1, SW: 1,
	}
	c.layer(designs[0], &conv, abi.FBCB{BR: 3, K: uint8(cost.KHalf), TileB: 2, TileRows: 3}, 5)
	want := []string{
		"operator/GEMM", "flag/Residual", "k_s/1/2,2", "batch/5", "loop_order/rows_outermost", "shape/conv_padded", "shape/residual_rs_0", "shape/concat_window", "shape/group_window",
		"shape/odd_channels_k_half", "shape/groups_unequal", "shape/row_tiles", "shape/row_tiles_short_last", "shape/sample_tiles",
		"shape/sample_tiles_short_last", "shape/sample_tiles_s_2", "cross/GEMM:1/2,2:rows_outermost:1p",
	}
	seen := func() (out []string) {
		for _, g := range c.groups {
			for _, b := range c.bins[g] {
				if c.hits[g][b] > 0 {
					out = append(out, g+"/"+b)
				}
			}
		}
		return out
	}
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("seen\n%v, want\n%v", got, want)
	}
	// a fully connected layer with more channels than PEs, and no other layer
	c = NewCoverage(designs)
	fc := abi.Desc{Op: abi.OpGEMM, Residual: true, ResShift: 1, InH: 1, InW: 1, InC: 9, InPix: 9, OutH: 1, OutW: 1, OutC: 5, OutPix: 5, KH: 1, KW: 1, SH: 1, SW: 1}
	c.layer(designs[0], &fc, abi.FBCB{BR: 1, TileB: 1, TileRows: 1}, 1)
	want = []string{"operator/GEMM", "flag/Residual", "k_s/1,1", "batch/1", "loop_order/rows_outermost", "shape/residual_rs", "shape/fully_connected", "shape/r_1", "shape/c_tiles", "cross/GEMM:1,1:rows_outermost:1p"}
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("seen\n%v, want\n%v", got, want)
	}
	// pools hit no bin of a <k, s>
	c = NewCoverage(designs)
	pool := abi.Desc{Op: abi.OpAvgPool, AvgTable: true, InH: 4, InW: 4, InC: 1, InPix: 1, OutH: 4, OutW: 4, OutC: 1, OutPix: 1, KH: 2, KW: 2, SH: 1, SW: 1, PadL: 1}
	c.layer(designs[0], &pool, abi.FBCB{BR: 1, TileB: 1, TileRows: 4}, 1)
	want = []string{"operator/AVG_POOL", "flag/AvgTable", "batch/1", "shape/avg_table_padded", "shape/pool_by_columns", "shape/avg_narrow", "cross/AVG_POOL:1p"}
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("seen\n%v, want\n%v", got, want)
	}

	// two equal groups; several hits in one call
	c = NewCoverage(designs)
	c.layer(designs[0], &conv, abi.FBCB{BR: 2, TileB: 2, TileRows: 8}, 4)
	c.hit(covReads, "tiny.0", 7)
	c.hit(covReads, "tiny.0", 2)
	if c.hits[covShapes]["groups_unequal"] != 0 || c.hits[covPoints]["1,2"] != 1 || c.hits[covReads]["tiny.0"] != 9 {
		t.Errorf("%v", c.hits)
	}
	c = NewCoverage(designs)
	c.hit(covOps, "AVG_POOL", 1)

	c.hit(covErrors, "NO_SUCH_CODE", 1)
	c.hit("nothing", "NONE", 1)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]map[string]int
	if err := json.Unmarshal(text, &doc); err != nil || doc["operator"]["AVG_POOL"] != 1 || doc["operator"]["GEMM"] != 0 {
		t.Errorf("%s: %v", text, err)
	}
	if strings.Contains(string(text), "NO_SUCH") || strings.Contains(string(text), "nothing") {
		t.Errorf("what is no bin is counted: %s", text)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil || !strings.Contains(out.String(), "missing: operator/GEMM, operator/MAX_POOL, flag/Residual") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func loadDesigns(names ...string) ([]configs.Design, error) {
	var all []configs.Design
	for _, n := range names {
		d, err := configs.Load(n)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
