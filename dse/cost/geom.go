package cost

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// K is a stacking factor, as encoded in an FBCB entry.
type K uint8

// Stacking factors.
const (
	K1    K = abi.KOne  // k = 1
	KHalf K = abi.KHalf // k = 1/2
	K2    K = abi.KTwo  // k = 2
)

func (k K) String() string {
	switch k {
	case K1:
		return "1"
	case KHalf:
		return "1/2"
	case K2:
		return "2"
	}
	return fmt.Sprintf("K(%d)", uint8(k))
}

// Tree returns T_P' = floor(k T_P) and T_C' = floor(T_C / k) of a design.
func Tree(d configs.Design, k K) (tp, tc int) {
	switch k {
	case KHalf:
		return d.TP / 2, d.TC * 2
	case K2:
		return d.TP * 2, d.TC / 2
	}
	return d.TP, d.TC
}

// Chain is the number of MACs in a chain.
func Chain(d configs.Design, k K) int {
	return [...]int{K1: d.TP, KHalf: d.TP - d.TP/2, K2: 2 * d.TP}[k]
}

// ToSums is the number of cycles from a row's entry into the array until done_o allows the drain to read its sums. It
// depends on the chain in int16. In int8 the segments of the chain run in parallel (T0, T1 and T2 of pe_array_int8).
func ToSums(d configs.Design, k K) int {
	if !d.Int8() {
		return Chain(d, k) + rtl.ChainTail
	}
	half := d.TP - d.TP/2
	return min(half, rtl.Segment) + bits.Len(uint(ceil(half, rtl.Segment)-1)) + 4 + [...]int{K1: 2, KHalf: 0, K2: 6}[k]
}

// WordStages is the number of registers between a word and its result. The registers are in the post stage, in the
// requant stage of int8 (with curve and product for drained words), or in the pool unit.
func WordStages(d *configs.Design, drained bool) int {
	curves := d.Post && drained
	switch {
	case d.Int8() && curves:
		return rtl.CodeStages + rtl.CurveStages
	case d.Int8():
		return rtl.CodeStages
	case curves:
		return 2 * rtl.PostStages
	case drained:
		return rtl.PostStages
	}
	return rtl.PoolStages
}

// Checks is the number of cycles in which layer_fetch computes its products, for row tiles with the given input rows,
// samples and output rows. A product needs one cycle per bit of one factor, and two more (StMul and the last
// StMulWait).
func Checks(d configs.Design, g *Geom, rows, tileB, tileRows int) (n int) {
	res, words := 0, 0
	if g.Residual {
		res = g.OutW
	}
	if g.Op == abi.OpDepthwise { // factors: words of weights, and bytes of these words (one bit)
		words, n = ceil(g.InC, d.NB()), 2*2+1
	}
	for _, b := range [...]int{g.InW, g.KW, g.SH, g.SW, g.PadL, g.InW, g.OutW, res, g.SH, rows, tileB, tileRows, tileB, g.KW, words} {
		n += bits.Len(uint(b))
	}
	return n + 2*rtl.Products
}

// Geom contains the fields of a descriptor that the time of a layer depends on.
type Geom struct {
	Op                  abi.Op
	Residual            bool
	Product             bool `json:",omitzero"` // multiplies by the residual
	Curve               bool `json:",omitzero"`
	Int8                bool `json:",omitzero"` // one byte per element
	InH, InW, InC       int
	InPix               int // distance between neighbouring input pixels, in elements
	OutH, OutW, OutC    int
	OutPix, ResPix      int
	KH, KW, SH, SW      int
	PadT, PadL          int
	BiasCount           int
	InOffset, OutOffset int64
	ResOffset           int64

	First bool `json:",omitzero"` // first layer of its start
}

// InStart sets the field First of all layers of a start.
func InStart(layers []Geom) {
	for i := range layers {
		layers[i].First = i == 0
	}
}

// GeomOf reads the geometry of a descriptor.
func GeomOf(l *abi.Desc) Geom {
	return Geom{
		Op: l.Op, Residual: l.Residual, Product: l.Product, Curve: l.Curve, Int8: l.In8,
		InH: int(l.InH), InW: int(l.InW), InC: int(l.InC), InPix: int(l.InPix),
		OutH: int(l.OutH), OutW: int(l.OutW), OutC: int(l.OutC),
		OutPix: int(l.OutPix), ResPix: int(l.ResPix),
		KH: int(l.KH), KW: int(l.KW), SH: int(l.SH), SW: int(l.SW),
		PadT: int(l.PadT), PadL: int(l.PadL), BiasCount: int(l.BiasCount),
		InOffset: int64(l.InOffset), OutOffset: int64(l.OutOffset), ResOffset: int64(l.ResOffset),
	}
}

// GeomsOf reads the geometries of a start's layers.
func GeomsOf(layers []abi.Desc) []Geom {
	out := make([]Geom, len(layers))
	for i := range layers {
		out[i] = GeomOf(&layers[i])
	}
	InStart(out)
	return out
}

// View returns the geometry that the hardware receives, and the distance between input rows in bytes. A strided window
// of one row or column skips rows or columns. The view does not contain them, so they are never fetched.
func (g Geom) View() (view Geom, rowBytes int) {
	rowBytes = g.InW * g.InPix * g.elemBytes()
	view = g
	if g.KH == 1 && g.SH > 1 && g.PadT == 0 && (g.OutH-1)*g.SH < g.InH {
		view.InH, view.SH, rowBytes = g.OutH, 1, rowBytes*g.SH
	}
	pix := g.SW * g.InPix
	if g.KW == 1 && g.SW > 1 && g.PadL == 0 && (g.OutW-1)*g.SW < g.InW && g.OutW*pix*g.elemBytes() <= rowBytes && pix <= maxField16 {
		view.InW, view.SW, view.InPix = g.OutW, 1, pix
	}
	return view, rowBytes
}

func (g Geom) elemBytes() int {
	if g.Int8 {
		return 1
	}
	return rtl.WordBytes
}

// GEMM reports whether the layer runs on the array (pools and depthwise convolutions do not).
func (g Geom) GEMM() bool { return g.Op == abi.OpGEMM }

// Drained reports whether the layer's results pass the drain and its post stage. Results of a pool do not.
func (g Geom) Drained() bool { return g.GEMM() || g.Op == abi.OpDepthwise }

// Broadcast reports whether a single residual pixel is used at all positions.
func (g Geom) Broadcast() bool { return g.Residual && g.ResPix == 0 }

// DepthwiseWords is the number of words of NB weights that a depthwise layer has.
func (g Geom) DepthwiseWords(d configs.Design) int { return ceil(g.OutC, d.NB()) * g.KH * g.KW }

// ByColumns reports whether the pool or depthwise unit processes the input column by column instead of window by window
// (by_columns in hw/rtl/pool_seq.sv). The unit then reads each column once per output row.
func (g Geom) ByColumns(d configs.Design) bool {
	if g.Op == abi.OpDepthwise {
		return g.KW == 3 && g.SW < 3 && g.InC <= rtl.PoolGroups*d.NB()
	}
	return !g.GEMM() && g.KW >= 2 && g.KW <= 3 && g.SW < g.KW && g.KH >= 2 && g.KH <= 4 && g.InC <= rtl.PoolGroups*d.NB()
}

// PoolTaps is the number of taps of NB lanes per output row of a pool or depthwise layer. Each tap needs one cycle or
// more.
func (g Geom) PoolTaps(d configs.Design) int64 {
	columns := int64(g.OutW) * int64(g.KW)
	if g.ByColumns(d) {
		columns = int64(g.OutW-1)*int64(g.SW) + int64(g.KW)
	}
	return columns * int64(g.KH) * int64(ceil(g.InC, d.NB()))
}

// InRow is the number of elements of an input row on chip.
func (g Geom) InRow() int { return g.InW * g.InC }

// KWC is the number of elements of one kernel row.
func (g Geom) KWC() int { return g.KW * g.InC }

// P is the number of elements under a window. It includes all channels if the operation adds up channels.
func (g Geom) P() int {
	if g.Op == abi.OpDepthwise {
		return g.KH * g.KW
	}
	return g.KH * g.KWC()
}

// WideAverage reports whether the hardware uses two multipliers per word. Windows of more than 512 taps need two.
func (g Geom) WideAverage() bool {
	return bits.Len(uint(g.KH-1))+bits.Len(uint(g.KW-1)) > rtl.AvgBits
}

// PoolWords is the number of words per cycle that the pool unit outputs. For a depthwise layer, it is the number that
// the drain outputs. Averages need multipliers, and in int8 maxima need them too.
func (g Geom) PoolWords(d configs.Design) int {
	if g.Op != abi.OpAvgPool && (g.Drained() || !d.Int8()) {
		return d.Drain
	}
	muls := d.PoolMuls()
	if g.WideAverage() && !d.Int8() {
		return muls / 2
	}
	return min(muls, d.Drain)
}

// MACs is the number of MACs per sample: 0 for pools.
func (g Geom) MACs() int64 {
	if !g.Drained() {
		return 0
	}
	return int64(g.OutH) * int64(g.OutW) * int64(g.OutC) * int64(g.P())
}

// InRowsOnChip is n_ih: the number of input rows that tileRows output rows depend on, including padding.
func (g Geom) InRowsOnChip(tileRows int) int { return (tileRows-1)*g.SH + g.KH }

// inRows is the number of input rows, without padding, that the output rows [oh0, oh0+n) depend on.
func (g Geom) inRows(oh0, n int) int {
	lo := max(0, oh0*g.SH-g.PadT)
	hi := min(g.InH, (oh0+n-1)*g.SH-g.PadT+g.KH)
	return max(0, hi-lo)
}

// lateRows is the number of rows counted by inRows that the first kernel row does not need.
func (g Geom) lateRows(oh0, n int) int {
	last := (oh0+n-1)*g.SH - g.PadT // the last input row that the first kernel row needs
	lo := max(0, oh0*g.SH-g.PadT)
	return max(0, min(g.InH, last+g.KH)-max(lo, last+1))
}

// alike is the number of consecutive row tiles that read no padding and have equal cost. The first of these tiles
// begins at output row `at`. The result is 1 if it reads padding or is the layer's first tile.
func (g Geom) alike(at, rows int) int {
	inside := (g.InH+g.PadT-g.KH)/g.SH + 1 // output rows with a lower number read no padding at the bottom
	if at == 0 || at*g.SH < g.PadT {
		return 1
	}
	return max(1, (min(g.OutH, inside)-at)/rows)
}

// RowsAhead is the number of the first tile's input rows that the first kernel row needs.
func (g Geom) RowsAhead(tileRows int) int {
	return max(0, min(g.InH, (min(tileRows, g.OutH)-1)*g.SH-g.PadT+1))
}

// Groups returns the number of sample groups of an entry: s = ceil(B_act / B_R).
func Groups(e abi.FBCB, bact int) int {
	if e.BR == 0 {
		return 0
	}
	return ceil(bact, int(e.BR))
}

// CTile is the number of output channels of a full C tile: T_C' for one sample group, half of it for two.
func CTile(d configs.Design, k K, s int) int {
	_, tc := Tree(d, k)
	return tc / s
}

// DrainStep is the number of words drained per cycle for s sample groups.
func DrainStep(d configs.Design, k K, s int) int {
	if k == K2 || s == 2 && k == K1 {
		return d.Drain / 2 // only every second PE stores channels of a group
	}
	return d.Drain
}

// Stays reports whether both halves of the activation buffer together can store all row tiles of br samples and outH
// output rows. If the C tile is the outer loop, the row tiles are then loaded only once.
func Stays(br, outH, tileB, tileRows int) bool {
	return tileB >= br && 2*tileRows >= outH || tileRows >= outH && 2*tileB >= br
}

// RingKeeps is the number of bytes that the weights ring can keep for replay.
func RingKeeps(d configs.Design) int64 { return int64(d.WRingBeats*d.AXIBytes) - abi.RingSpare }

// Passes is the number of passes of one C tile. A pass processes up to T_P' elements of one kernel row.
func Passes(d configs.Design, g Geom, k K) int {
	tp, _ := Tree(d, k)
	return g.KH * ceil(g.KWC(), tp)
}

// WeightBytes returns W_BYTES and W_TILE of a layer whose weights are packed for k.
func WeightBytes(d configs.Design, g Geom, k K) (all, tile int64) {
	if g.Op == abi.OpDepthwise {
		all = round(int64(g.DepthwiseWords(d))*int64(d.NB()*d.ElemBytes()), abi.WeightAlign)
		return all, all
	}
	tp, tc := Tree(d, k)
	perChannel := int64(Passes(d, g, k)) * int64(tp)
	tile = round(packed(d, tc, perChannel), abi.WeightAlign)
	all = int64(g.OutC/tc) * tile
	if rest := g.OutC % tc; rest != 0 {
		all += round(packed(d, rest, perChannel), abi.WeightAlign)
	}
	return all, tile
}

// packed is the number of bytes of n channels that have `elements` elements each. In int8 two channels share words.
func packed(d configs.Design, n int, elements int64) int64 {
	if d.Int8() {
		n = ceil(n, 2)
	}
	return elements * rtl.WordBytes * int64(n)
}

// ErrGeom is wrapped by errors about impossible geometry.
var ErrGeom = errors.New("impossible layer geometry")

const maxField16 = 65535

// MaxRowBytes is the smallest distance between a tensor's rows in DRAM, in bytes, that is too large.
const MaxRowBytes = abi.RowBytesMax + 1

// Check returns an error for geometry that no descriptor can represent or that no build can run.
func (g Geom) Check() error { return cmp.Or(g.checkSizes(), g.checkOperator()) }

func (g *Geom) checkSizes() error {
	for _, f := range []struct {
		name string
		v    int
		max  int
	}{
		{"IN_H", g.InH, maxField16},
		{"IN_W", g.InW, maxField16},
		{"IN_C", g.InC, maxField16},
		{"OUT_H", g.OutH, abi.OutHMax},
		{"OUT_W", g.OutW, maxField16},
		{"OUT_C", g.OutC, maxField16},
		{"IN_PIX", g.InPix, maxField16},
		{"OUT_PIX", g.OutPix, maxField16},
		{"K_H", g.KH, 255},
		{"K_W", g.KW, 255},
		{"S_H", g.SH, abi.StrideMax},
		{"S_W", g.SW, abi.StrideMax},
	} {
		if f.v < 1 || f.v > f.max {
			return fmt.Errorf("%w: %s is %d, must be 1..%d", ErrGeom, f.name, f.v, f.max)
		}
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"IN_ROW", g.InRow()},
		{"STEP_ROW", g.SH * g.InRow()},
		{"STEP_COL", g.SW * g.InC},
		{"PAD_COL", g.PadL * g.InC},
		{"KWC", g.KW * g.InC},
	} {
		if f.v >= 1<<24 {
			return fmt.Errorf("%w: %s is %d, must be below 2^24", ErrGeom, f.name, f.v)
		}
	}
	in, out, res := g.elemBytes()*g.InW*g.InPix, g.elemBytes()*g.OutW*g.OutPix, g.elemBytes()*g.OutW*g.ResPix
	switch {
	case g.PadT < 0 || g.PadT > 255 || g.PadL < 0 || g.PadL > 255:
		return fmt.Errorf("%w: padding %d, %d, must be 0..255", ErrGeom, g.PadT, g.PadL)
	case max(in, out) >= MaxRowBytes || g.Residual && res >= MaxRowBytes:
		return fmt.Errorf("%w: a row has %d, %d, %d bytes (input, output, residual), must be below 2^25", ErrGeom, in, out, res)
	case g.InPix < g.InC || g.OutPix < g.OutC:
		return fmt.Errorf("%w: a pixel stride (%d, %d) is below its channels (%d, %d)", ErrGeom, g.InPix, g.OutPix, g.InC, g.OutC)
	case (g.OutH-1)*g.SH >= g.InH+g.PadT || (g.OutW-1)*g.SW >= g.InW+g.PadL:
		return fmt.Errorf("%w: the last window of %d x %d begins behind the input of %d x %d (padding as large as the kernel has no build)", ErrGeom, g.OutH, g.OutW, g.InH, g.InW)
	}
	return nil
}

// checkOperator checks the fields that depend on the operator and its flags (residual, product, curve).
func (g *Geom) checkOperator() error {
	switch {
	case !g.Drained() && (g.Residual || g.Curve):
		return fmt.Errorf("%w: a pool with a residual or a curve", ErrGeom)
	case g.Product && (!g.Residual || g.Curve):
		return fmt.Errorf("%w: a product without a factor, or with a curve", ErrGeom)
	case g.Residual && !g.Broadcast() && (g.ResPix < g.OutC || g.ResPix > maxField16):
		return fmt.Errorf("%w: RES_PIX is %d, must be OUT_C = %d..%d", ErrGeom, g.ResPix, g.OutC, maxField16)
	case g.Op == abi.OpAvgPool && g.KH*g.KW > abi.AvgTaps:
		return fmt.Errorf("%w: an average of %d x %d, at most %d elements", ErrGeom, g.KH, g.KW, abi.AvgTaps)
	case g.Op == abi.OpAvgPool && g.BiasCount > abi.AvgTable:
		return fmt.Errorf("%w: an average with a table of %d entries, at most %d", ErrGeom, g.BiasCount, abi.AvgTable)
	case !g.GEMM() && g.InC != g.OutC:
		return fmt.Errorf("%w: a %v from %d to %d channels", ErrGeom, g.Op, g.InC, g.OutC)
	}
	return nil
}
