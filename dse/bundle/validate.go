package bundle

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
)

// ErrInvalid is wrapped by the errors of Validate.
var ErrInvalid = errors.New("invalid bundle")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Limits of the descriptor fields that cannot use all values of their bits.
const (
	maxShift  = abi.ShiftMax
	MaxFrac   = 255       // maximum number of fraction bits of a tensor; the minimum is -MaxFrac
	maxAvgMul = 1<<17 - 1 // maximum of AVG_MUL
	slotAlign = 64
)

// Validate checks that every reference in a bundle points into the bundle. It also checks that the design can run every
// layer at every batch size. Drivers and simulators rely on these checks.
func (b *Bundle) Validate() error {
	if err := b.Design.Elaborates(); err != nil {
		return invalid("design: %w", err)
	}
	if b.ABIHash != abi.Hash {
		return fmt.Errorf("%w: %016x, this build has %016x", ErrABI, b.ABIHash, abi.Hash)
	}
	n := len(b.Layers)
	switch {
	case n < 1 || n > abi.LMax:
		return invalid("%d layers, must be 1..%d", n, abi.LMax)
	case len(b.FBCB) != n:
		return invalid("FBCB of %d layers for %d", len(b.FBCB), n)
	case len(b.Names) != n:
		return invalid("%d layer names for %d layers", len(b.Names), n)
	case len(b.Weights) > MaxWeights:
		return invalid("%d bytes of weights, at most %d", len(b.Weights), MaxWeights)
	case b.Slot.Stride < slotAlign || b.Slot.Stride > MaxSlot || b.Slot.Stride%slotAlign != 0:
		return invalid("slot stride is %d, must be a multiple of %d up to %d", b.Slot.Stride, slotAlign, MaxSlot)
	}
	if err := b.checkStrings(); err != nil {
		return err
	}
	if err := b.checkNetwork(); err != nil {
		return err
	}
	for i := range b.Layers {
		if err := b.checkLayer(i); err != nil {
			return invalid("layer %d (%s): %w", i, b.Names[i], err)
		}
	}
	if err := b.checkLifetimes(); err != nil {
		return err
	}
	if err := b.checkKept(); err != nil {
		return err
	}
	return b.checkLatency()
}

func ok(s string) bool { return len(s) <= MaxString && utf8.ValidString(s) }

// name reports whether a string can be printed on a terminal without risk.
func name(s string) bool {
	return ok(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0
}

func (b *Bundle) checkStrings() error {
	if len(b.Meta) > MaxMeta {
		return invalid("%d Meta entries, at most %d", len(b.Meta), MaxMeta)
	}
	for k, v := range b.Meta {
		if !ok(k) || !ok(v) {
			return invalid("Meta %.40q: longer than %d bytes or no UTF-8", k, MaxString)
		}
	}
	for i, s := range b.Names {
		if !name(s) {
			return invalid("name of layer %d, %.40q: longer than %d bytes, no UTF-8 or not printable", i, s, MaxString)
		}
	}
	if !name(b.Network.Name) || b.Network.Name == "" {
		return invalid("network name %.40q: empty, longer than %d bytes, no UTF-8 or not printable", b.Network.Name, MaxString)
	}
	return nil
}

func (b *Bundle) checkNetwork() error {
	net := &b.Network
	if !b.inSlot(b.view(net.InH, net.InW, net.InC, net.InPix, int64(net.InOffset))) {
		return invalid("network input %d x %d x %d at %d leaves the slot of %d bytes", net.InH, net.InW, net.InC, net.InOffset, b.Slot.Stride)
	}
	if net.InFrac < -MaxFrac || net.InFrac > MaxFrac {
		return invalid("fraction of the network's input is %d", net.InFrac)
	}
	if err := b.checkCodes("the network's input", net.InFrac, net.Codes); err != nil {
		return err
	}
	if len(net.Exits) < 1 || len(net.Exits) > MaxExits {
		return invalid("%d exits, must be 1..%d", len(net.Exits), MaxExits)
	}
	next := 0
	for i, e := range net.Exits {
		if e.First != next || e.Last < e.First || e.Last >= len(b.Layers) {
			return invalid("exit %d has layers %d..%d, expected %d.. of %d", i, e.First, e.Last, next, len(b.Layers))
		}
		next = e.Last + 1
		if !b.inSlot(b.view(1, 1, e.Classes, e.Classes, int64(e.Offset))) {
			return invalid("logits of exit %d: %d at %d leave the slot of %d bytes", i, e.Classes, e.Offset, b.Slot.Stride)
		}
		if e.MACs < 0 || e.MACs > MaxMACs || e.Frac < -MaxFrac || e.Frac > MaxFrac || !name(e.Name) {
			return invalid("exit %d: MACs %d, fraction %d, name %.40q", i, e.MACs, e.Frac, e.Name)
		}
		if err := b.checkCodes(fmt.Sprintf("exit %d", i), e.Frac, e.Codes); err != nil {
			return err
		}
		if err := graph.CheckConfidence(e.Confidence, e.Classes); err != nil {
			return invalid("exit %d: %w", i, err)
		}
	}
	if next != len(b.Layers) {
		return invalid("the exits cover %d layers of %d", next, len(b.Layers))
	}
	if len(b.Slot.Tensors) > MaxTensors {
		return invalid("%d tensors, at most %d", len(b.Slot.Tensors), MaxTensors)
	}
	for i, t := range b.Slot.Tensors {
		if len(t.Name) > MaxString || !utf8.ValidString(t.Name) {
			return invalid("name of tensor %d: longer than %d bytes or no UTF-8", i, MaxString)
		}
		if !b.inSlot(b.view(t.H, t.W, t.C, t.Pix, int64(t.Offset))) {
			return invalid("tensor %q: %d x %d x %d at %d leaves the slot of %d bytes", t.Name, t.H, t.W, t.C, t.Offset, b.Slot.Stride)
		}
		if t.Frac < -MaxFrac || t.Frac > MaxFrac {
			return invalid("tensor %q: fraction %d", t.Name, t.Frac)
		}
		if err := b.checkCodes(fmt.Sprintf("tensor %q", t.Name), t.Frac, t.Codes); err != nil {
			return err
		}
	}
	return nil
}

// checkCodes checks that a map has a fraction (int16) or a step (int8), as the type of the design requires.
func (b *Bundle) checkCodes(what string, frac int, c Codes) error {
	switch {
	case !b.Design.Int8() && c != Codes{}:
		return invalid("%s has a step of %g and the zero %d in a design of int16", what, c.Step, c.Zero)
	case b.Design.Int8() && (frac != 0 || !(c.Step >= math.SmallestNonzeroFloat32 && c.Step <= math.MaxFloat32) || c.Zero != int(int8(c.Zero))):
		return invalid("%s has the fraction %d, a step of %g and the zero %d in a design of int8: expected 0, more than 0, and -128..127", what, frac, c.Step, c.Zero)
	}
	return nil
}

// region is the place of a tensor in a slot. It consists of rows of pixels with c channels.
type region struct {
	h, w, c      int
	pix          int   // distance between pixels in elements
	row, off     int64 // distance between rows, and offset in the slot, in bytes
	elem         int64 // bytes of an element
	sound, empty bool
}

// view returns a region. If an argument is invalid or a sum could overflow, the region is invalid.
func (b *Bundle) view(h, w, c, pix int, off int64) region {
	const limit = 1 << 20
	r := region{h: h, w: w, c: c, pix: pix, off: off, elem: int64(b.Design.ElemBytes())}
	r.sound = h > 0 && w > 0 && c > 0 && h < limit && w < limit && pix < limit && c <= pix && off >= 0 && off < MaxSlot && off%r.elem == 0
	r.row = int64(w) * int64(pix) * r.elem
	return r
}

// end returns the offset of the first byte after the region.
func (r region) end() int64 {
	return r.off + int64(r.h-1)*r.row + (int64(r.w-1)*int64(r.pix)+int64(r.c))*r.elem
}

func (b *Bundle) inSlot(r region) bool { return r.sound && r.end() <= b.Slot.Stride }

// overlaps reports whether two regions share a byte. Regions with different channels of the same pixels, as in a
// concatenation, share no byte.
func (r region) overlaps(o region) bool {
	if r.empty || o.empty || r.end() <= o.off || o.end() <= r.off {
		return false
	}
	if r.pix != o.pix || r.row != o.row {
		return true
	}
	pix := int64(r.pix) * r.elem
	if r.row%pix != 0 {
		return true
	}
	// In each pixel, r begins at byte 0 and o at byte shift; o can continue in the next pixel.
	shift := ((o.off-r.off)%pix + pix) % pix
	return shift < int64(r.c)*r.elem || shift+int64(o.c)*r.elem > pix
}

func (b *Bundle) inRegion(l *abi.Desc) region {
	r := b.view(int(l.InH), int(l.InW), int(l.InC), int(l.InPix), int64(l.InOffset))
	r.row = int64(l.InRowBytes)
	return r
}

func (b *Bundle) outRegion(l *abi.Desc) region {
	return b.view(int(l.OutH), int(l.OutW), int(l.OutC), int(l.OutPix), int64(l.OutOffset))
}

func (b *Bundle) resRegion(l *abi.Desc) region {
	if !l.Residual {
		return region{sound: true, empty: true}
	}
	if l.ResPix == 0 { // the residual is one pixel
		return b.view(1, 1, int(l.OutC), int(l.OutC), int64(l.ResOffset))
	}
	return b.view(int(l.OutH), int(l.OutW), int(l.OutC), int(l.ResPix), int64(l.ResOffset))
}

func (b *Bundle) checkLayer(i int) error {
	l := &b.Layers[i]
	if !l.Op.Valid() {
		return fmt.Errorf("operator %d", l.Op)
	}
	g := cost.GeomOf(l)
	if err := b.checkType(l); err != nil {
		return err
	}
	if err := mapping.Limits(b.Design, g); err != nil {
		return err
	}
	if err := checkProducts(l, uint32(b.Design.ElemBytes())); err != nil {
		return err
	}
	in, out, res := b.inRegion(l), b.outRegion(l), b.resRegion(l)
	for _, r := range []struct {
		name string
		r    region
	}{{"input", in}, {"output", out}, {"residual", res}} {
		if !r.r.empty && !b.inSlot(r.r) {
			return fmt.Errorf("%s of %d x %d x %d at %d leaves the slot of %d bytes or is misaligned",
				r.name, r.r.h, r.r.w, r.r.c, r.r.off, b.Slot.Stride)
		}
	}
	if out.overlaps(in) || out.overlaps(res) {
		return errors.New("the output overlaps what the layer reads")
	}
	if err := checkNumbers(l); err != nil {
		return err
	}
	return b.checkStored(i, g)
}

// checkType checks that the maps and weights of the layer have the type of the design. No hardware supports both types.
func (b *Bundle) checkType(l *abi.Desc) error {
	eight := b.Design.Int8()
	switch {
	case l.In8 != eight || l.Out8 != eight || l.Res8 != (eight && l.Residual):
		return fmt.Errorf("IN_8, OUT_8, RES_8 are %t, %t, %t in a design of int8 = %t: layers of the other type are not supported yet", l.In8, l.Out8, l.Res8, eight)
	case !eight && (l.InZero != 0 || l.OutZero != 0):
		return fmt.Errorf("IN_ZERO is %d, OUT_ZERO %d in a layer of 16 bits", l.InZero, l.OutZero)
	}
	return nil
}

// checkProducts checks fields that must be products of other fields.
func checkProducts(l *abi.Desc, elem uint32) error {
	res := uint32(0)
	if l.Residual {
		res = uint32(l.OutW) * uint32(l.ResPix) * elem
	}
	for _, f := range []struct {
		name      string
		got, want uint32
	}{
		{"IN_ROW", l.InRow, uint32(l.InW) * uint32(l.InC)},
		{"OUT_ROW_BYTES", l.OutRowBytes, uint32(l.OutW) * uint32(l.OutPix) * elem},
		{"RES_ROW_BYTES", l.ResRowBytes, res},
		{"STEP_ROW", l.StepRow, uint32(l.SH) * l.InRow},
		{"STEP_COL", l.StepCol, uint32(l.SW) * uint32(l.InC)},
		{"PAD_COL", l.PadCol, uint32(l.PadL) * uint32(l.InC)},
		{"KWC", l.KWC, uint32(l.KW) * uint32(l.InC)},
	} {
		if f.got != f.want {
			return fmt.Errorf("%s is %d, the other fields make it %d", f.name, f.got, f.want)
		}
	}
	// Rows can be further apart than their length, for example in a view of every second row.
	if row := uint64(l.InW) * uint64(l.InPix) * uint64(elem); uint64(l.InRowBytes) < row {
		return fmt.Errorf("IN_ROW_BYTES is %d, a row has %d", l.InRowBytes, row)
	}
	if l.InRowBytes >= cost.MaxRowBytes {
		return fmt.Errorf("IN_ROW_BYTES is %d, must be below %d", l.InRowBytes, cost.MaxRowBytes)
	}
	return nil
}

func checkNumbers(l *abi.Desc) error {
	switch {
	case l.Shift > maxShift:
		return fmt.Errorf("SHIFT is %d, at most %d", l.Shift, maxShift)
	case l.In8 && (l.Shift != 0 || l.ResShift != 0):
		return fmt.Errorf("SHIFT is %d, RES_SHIFT %d in a layer of int8, whose shifts stand behind the biases", l.Shift, l.ResShift)
	case l.In8 && (l.ClampLo < math.MinInt8 || l.ClampHi > math.MaxInt8):
		return fmt.Errorf("a clamp from %d to %d in int8", l.ClampLo, l.ClampHi)
	case l.ClampLo > l.ClampHi:
		return fmt.Errorf("clamp from %d to %d", l.ClampLo, l.ClampHi)
	case l.Curve && l.CurveStep > abi.CurveStepMax:
		return fmt.Errorf("CURVE_STEP is %d, at most %d", l.CurveStep, abi.CurveStepMax)
	case !l.Curve && (l.CurveStep != 0 || l.CurveShift != 0 || l.CurveLo != 0):
		return errors.New("numbers of a curve without CURVE")
	case l.Op != abi.OpAvgPool && l.AvgTable:
		return errors.New("AVG_TABLE without an average pool")
	case l.In8 && l.AvgShift > maxShift || !l.In8 && l.Op == abi.OpAvgPool && (l.AvgShift < 1 || l.AvgShift > maxShift):
		return fmt.Errorf("AVG_SHIFT is %d, must be 1..%d, in int8 0..%d", l.AvgShift, maxShift, maxShift)
	}
	if want := biasWords(l); int(l.BiasCount) != want {
		return fmt.Errorf("BIAS_COUNT is %d, must be %d", l.BiasCount, want)
	}
	return nil
}

// biasWords returns the number of words of a layer's bias memory: biases and words after them, or a table of factors.
func biasWords(l *abi.Desc) int {
	switch {
	case l.In8 && (l.Op == abi.OpGEMM || l.Op == abi.OpDepthwise):
		return abi.Post8Words(l)
	case (l.Op == abi.OpGEMM || l.Op == abi.OpDepthwise) && l.Curve:
		return int(l.OutC) + abi.CurveWords
	case l.Op == abi.OpGEMM || l.Op == abi.OpDepthwise:
		return int(l.OutC)
	case l.AvgTable:
		return int(l.KH)*int(l.KW) + 1
	}
	return 0
}

// checkStored checks the weights, the biases and the FBCB entries of layer i.
func (b *Bundle) checkStored(i int, g cost.Geom) error {
	l := &b.Layers[i]
	for _, k := range Ks {
		if err := b.checkPacking(PackingOf(l, k), k, g); err != nil {
			return err
		}
	}
	if err := b.checkBias(i, g); err != nil {
		return err
	}
	if len(b.FBCB[i]) != abi.BMax {
		return fmt.Errorf("%d FBCB entries, must be %d", len(b.FBCB[i]), abi.BMax)
	}
	for j, e := range b.FBCB[i] {
		if err := mapping.Check(b.Design, g, j+1, e); err != nil {
			return fmt.Errorf("batch %d: %w", j+1, err)
		}
		if g.Drained() && PackingOf(l, cost.K(e.K)).Bytes == 0 {
			return fmt.Errorf("batch %d: k = %v, but no weights are packed for it", j+1, cost.K(e.K))
		}
	}
	return nil
}

// checkPacking checks the place of a layer's weights that are packed for k.
func (b *Bundle) checkPacking(p Packing, k cost.K, g cost.Geom) error {
	if p.Bytes == 0 {
		if p != (Packing{}) {
			return fmt.Errorf("weights for k = %v have no bytes, but a place", k)
		}
		return nil
	}
	if !g.Drained() {
		return errors.New("a pool with weights")
	}
	if !g.GEMM() && k != cost.K1 {
		return fmt.Errorf("a depthwise layer with weights for k = %v", k)
	}
	if _, _, err := tree(b.Design, k); err != nil {
		return err
	}
	all, tile := cost.WeightBytes(b.Design, g, k)
	if int64(p.Bytes) != all || int64(p.Tile) != tile {
		return fmt.Errorf("W_BYTES, W_TILE are %d, %d for k = %v, must be %d, %d", p.Bytes, p.Tile, k, all, tile)
	}
	if p.Offset%abi.WeightAlign != 0 || int64(p.Offset)+int64(p.Bytes) > int64(len(b.Weights)) {
		return fmt.Errorf("weights for k = %v at %d..%d: misaligned or beyond %d", k, p.Offset, int64(p.Offset)+int64(p.Bytes), len(b.Weights))
	}
	return nil
}

// checkBias checks the words of the bias memory of layer i.
func (b *Bundle) checkBias(i int, g cost.Geom) error {
	l := &b.Layers[i]
	bias, err := b.LayerBias(i)
	if err != nil {
		return err
	}
	if l.BiasOffset%abi.WeightAlign != 0 {
		return fmt.Errorf("BIAS_OFFSET is %d, no multiple of %d", l.BiasOffset, abi.WeightAlign)
	}
	switch {
	case l.In8 && g.Drained():
		if _, err := abi.Post8Of(l, bias); err != nil {
			return err
		}
	case l.Curve:
		if _, ok := abi.CurveOf(l, bias[l.OutC:]); !ok {
			return abi.ErrSlope
		}
	case l.AvgTable:
		for n, m := range bias {
			if _, ok := abi.ScalingOf(m); l.In8 && !ok {
				return fmt.Errorf("the factor of %d pixels is 0x%08X, expected 17 bits and from bit 24 on a shift up to %d", n, uint32(m), maxShift)
			}
			if l.In8 {
				continue
			}
			if m < 0 || m > maxAvgMul {
				return fmt.Errorf("multiplier M[%d] is %d, must be 0..%d", n, m, maxAvgMul)
			}
		}
	}
	return nil
}

// checkLifetimes checks that no layer overwrites the network's input or the logits of an earlier exit.
func (b *Bundle) checkLifetimes() error {
	net := &b.Network
	input := b.view(net.InH, net.InW, net.InC, net.InPix, int64(net.InOffset))
	for i := range b.Layers {
		out := b.outRegion(&b.Layers[i])
		if out.overlaps(input) {
			return invalid("layer %d (%s) writes the network's input", i, b.Names[i])
		}
		for j, e := range net.Exits {
			if i > e.Last && out.overlaps(b.view(1, 1, e.Classes, e.Classes, int64(e.Offset))) {
				return invalid("layer %d (%s) writes the logits of exit %d", i, b.Names[i], j)
			}
		}
	}
	return nil
}

// checkKept checks that the next layer of the segment reads a tensor that is kept on chip. If a tensor is only on chip,
// it checks that no other layer reads the tensor.
func (b *Bundle) checkKept() error {
	for x, exit := range b.Network.Exits {
		layers := make([]cost.Geom, 0, exit.Last+1-exit.First)
		for i := exit.First; i <= exit.Last; i++ {
			layers = append(layers, cost.GeomOf(&b.Layers[i]))
		}
		for batch := 1; batch <= abi.BMax; batch++ {
			entries := make([]abi.FBCB, len(layers))
			for i := range entries {
				entries[i] = b.FBCB[exit.First+i][batch-1]
			}
			if err := mapping.CheckLinks(layers, entries); err != nil {
				return invalid("exit %d, batch %d: %w", x, batch, err)
			}
			for i, e := range entries {
				if err := b.checkLink(exit.First+i, e); err != nil {
					return invalid("layer %d (%s), batch %d: %w", exit.First+i, b.Names[exit.First+i], batch, err)
				}
			}
		}
	}
	return nil
}

func (b *Bundle) checkLink(i int, e abi.FBCB) error {
	if !e.KeepOut {
		return nil
	}
	l, next := &b.Layers[i], &b.Layers[i+1] // i+1 exists, because CheckLinks rejects a last layer that keeps its output
	if next.InOffset != l.OutOffset || next.InPix != l.OutPix || next.InRowBytes != l.OutRowBytes {
		return errors.New("KEEP_OUT, but the next layer reads something else")
	}
	if !e.OnChip {
		return nil
	}
	out := b.outRegion(l)
	for _, x := range b.Network.Exits {
		if out.overlaps(b.view(1, 1, x.Classes, x.Classes, int64(x.Offset))) {
			return errors.New("ON_CHIP, but the host reads it")
		}
	}
	if out.overlaps(b.resRegion(next)) {
		return errors.New("ON_CHIP, but it is the next layer's residual too")
	}
	for j := i + 2; j < len(b.Layers); j++ {
		if out.overlaps(b.inRegion(&b.Layers[j])) || out.overlaps(b.resRegion(&b.Layers[j])) {
			return fmt.Errorf("ON_CHIP, but layer %d reads it too", j)
		}
		if out.overlaps(b.outRegion(&b.Layers[j])) {
			break
		}
	}
	return nil
}

func (b *Bundle) checkLatency() error {
	if len(b.Latency) > MaxLatency {
		return invalid("%d latency entries, at most %d", len(b.Latency), MaxLatency)
	}
	type cell struct {
		network, device    string
		first, last, batch int
	}
	seen := make(map[cell]bool, len(b.Latency))
	for i, e := range b.Latency {
		c := cell{e.Network, e.Device, e.First, e.Last, e.Batch}
		switch {
		case e.First < 0 || e.Last < e.First || e.Last >= len(b.Network.Exits) || e.Batch < 1 || e.Batch > abi.BMax:
			return invalid("latency entry %d: segments %d..%d of %d, batch %d", i, e.First, e.Last, len(b.Network.Exits), e.Batch)
		case e.P50 <= 0 || e.P99 < e.P50 || e.P99 > MaxNs:
			return invalid("latency entry %d: p50 %d ns, p99 %d ns; expected 1..%d", i, e.P50, e.P99, int64(MaxNs))
		case len(e.Network) > MaxString || len(e.Device) > MaxString || !utf8.ValidString(e.Network) || !utf8.ValidString(e.Device):
			return invalid("latency entry %d: a name is longer than %d bytes or no UTF-8", i, MaxString)
		case seen[c]:
			return invalid("latency entry %d: segments %d..%d, batch %d are a duplicate", i, e.First, e.Last, e.Batch)
		}
		seen[c] = true
	}
	return nil
}
