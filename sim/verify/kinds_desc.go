// Faults in memory or in the FBCB table: descriptors, weights, entries.

package verify

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
)

// descriptor plans a fault in one descriptor. The function change applies the fault to the bytes or the decoded fields,
// and returns a description. If the description is empty, the fault is not possible in this descriptor.
func descriptor(code abi.ErrCode, change func(c *Campaign, raw []byte, d *abi.Desc) string) func(*Campaign) *plan {
	return func(c *Campaign) *plan {
		return c.spoil(c.layer(), code, change)
	}
}

// spoil plans a fault in the descriptor of layer l. The function change is as in descriptor.
func (c *Campaign) spoil(l int, code abi.ErrCode, change func(c *Campaign, raw []byte, d *abi.Desc) string) *plan {
	c.target, c.addr = l, span{}
	before := slices.Clone(c.rig.image[l*abi.DescBytes:][:abi.DescBytes])
	d := c.rig.net.Bundle.Layers[l]
	raw := slices.Clone(before)
	what := change(c, raw, &d)
	if what == "" {
		return nil
	}
	if d != c.rig.net.Bundle.Layers[l] {
		enc, err := d.Encode()
		if err != nil {
			return nil
		}
		copy(raw, enc[:])
	}
	return &plan{
		what: fmt.Sprintf("layer %d, %s", l, what), codes: []abi.ErrCode{code}, layer: l, port: -1, addr: c.addr,
		before: func(*regs) (string, error) {
			copy(c.raw(l), raw)
			return "", nil
		},
	}
}

// moved marks a fault that can move outputs to other places in their slots.
func moved(f func(*Campaign) *plan) func(*Campaign) *plan {
	return func(c *Campaign) *plan {
		p := f(c)
		if p != nil {
			p.moved = true
		}
		return p
	}
}

func reservedBit(c *Campaign, raw []byte, _ *abi.Desc) string {
	var at []int
	for w, mask := range abi.DescReserved {
		for bit := range 32 {
			if mask>>bit&1 != 0 {
				at = append(at, 32*w+bit)
			}
		}
	}
	i := at[c.rng.IntN(len(at))]
	raw[i/8] |= 1 << (i % 8)
	return fmt.Sprintf("bit %d of word %d", i%32, i/32)
}

// change is one way to corrupt a descriptor.
type change struct {
	what string
	do   func()
}

// pick applies one of the changes.
func (c *Campaign) pick(all []change) string {
	if len(all) == 0 {
		return ""
	}
	x := all[c.rng.IntN(len(all))]
	x.do()
	return x.what
}

// elem returns the size of an element in bytes.
func (c *Campaign) elem() uint32 { return uint32(c.rig.design.ElemBytes()) }

// badOperator sets an operator that does not exist, or an option that the build lacks.
func badOperator(c *Campaign, raw []byte, d *abi.Desc) string {
	all := []change{{"OP", func() { raw[0] = raw[0]&0xF0 | byte(len(abi.Ops())+c.rng.IntN(16-len(abi.Ops()))) }}}
	if !c.rig.design.Depthwise {
		all = append(all, change{"OP of a depthwise layer", func() { raw[0] = raw[0]&0xF0 | byte(abi.OpDepthwise) }})
	}
	if d.In8 {
		all = append(all, change{"16 bits", func() { d.In8 = false }}, change{"a result of 16 bits", func() { d.Out8 = false }},
			change{"RES_8 of no residual, or none", func() { d.Res8 = !d.Res8 }})
	}
	if !c.rig.design.Post {
		all = append(all, change{"CURVE", func() { d.Curve = true }}, change{"PRODUCT", func() { d.Product = true }})
	}
	return c.pick(all)
}

func badSize(c *Campaign, _ []byte, d *abi.Desc) string {
	all := []change{
		{"IN_H 0", func() { d.InH = 0 }},
		{"IN_W 0", func() { d.InW = 0 }},
		{"IN_C 0", func() { d.InC = 0 }},
		{"OUT_H 0", func() { d.OutH = 0 }},
		{"OUT_W 0", func() { d.OutW = 0 }},
		{"OUT_C 0", func() { d.OutC = 0 }},
		{"K_H 0", func() { d.KH = 0 }},
		{"K_W 0", func() { d.KW = 0 }},
		{"S_H 0", func() { d.SH = 0 }},
		{"S_W 0", func() { d.SW = 0 }},
		{"S_H 16", func() { d.SH = 16 }},
		{"S_W 255", func() { d.SW = 255 }},
		{"IN_PIX below IN_C", func() { d.InPix = d.InC - 1 }},
		{"OUT_PIX below OUT_C", func() { // also adjust the row's bytes, so that nothing else is wrong
			d.OutPix = d.OutC - 1
			d.OutRowBytes = c.elem() * uint32(d.OutW) * uint32(d.OutPix)
		}},
		{"BIAS_COUNT", func() { d.BiasCount ^= 1 << 15 }},
	}
	if d.Op == abi.OpGEMM {
		all = append(all,
			change{"OUT_C beyond C_MAX", func() {
				d.OutC = uint16(c.rig.design.CMax + 1)
				d.OutPix, d.ResPix, d.BiasCount = d.OutC, d.OutC, d.OutC
			}},
			change{"AVG_TABLE of a GEMM", func() { d.AvgTable = true }},
		)
	} else if d.Op == abi.OpDepthwise {
		all = append(all,
			change{"AVG_TABLE of a depthwise layer", func() { d.AvgTable = true }},
			change{"OUT_C of a depthwise layer", func() {
				d.OutC--
				d.BiasCount = d.OutC
			}},
			change{"W_TILE_1 of a depthwise layer", func() { d.WTile1 += abi.WeightAlign }},
		)
		nb := c.rig.design.NB()
		rows := (int(d.InC) + nb - 1) / nb * int(d.KH)
		if kw := abi.DwWords/rows + 1; kw <= 255 {
			all = append(all, change{"more weights than the depthwise unit holds", func() {
				d.KW, d.KWC = uint8(kw), uint32(kw)*uint32(d.InC)
				d.WBytes1 = uint32(rows*kw*nb*2+abi.WeightAlign-1) / abi.WeightAlign * abi.WeightAlign
				d.WTile1 = d.WBytes1
			}})
		}
	} else {
		all = append(all,
			change{"a residual of a pool", func() { d.Residual, d.Res8 = true, d.In8 }},
			change{"OUT_C of a pool", func() { d.OutC++; d.OutPix++ }},
		)
	}
	post := c.rig.design.Post
	if d.Residual {
		pix := func(pix uint16) func() {
			return func() { d.ResPix, d.ResRowBytes = pix, c.elem()*uint32(d.OutW)*uint32(pix) }
		}
		if d.OutC > 1 {
			all = append(all, change{"RES_PIX below OUT_C", pix(d.OutC - 1)})
		}
		if !post {
			all = append(all, change{"one pixel as the residual", pix(0)})
		}
	}
	if post {
		if d.Op == abi.OpGEMM || d.Op == abi.OpDepthwise {
			if !d.Residual {
				all = append(all, change{"PRODUCT without RESIDUAL", func() { d.Product = true }})
			}
			if d.Curve {
				all = append(all, change{"BIAS_COUNT without the curve", func() { d.BiasCount = d.OutC }},
					change{"CURVE and PRODUCT", func() { d.Product = true }})
			} else {
				all = append(all, change{"CURVE without its words", func() { d.Curve = true }})
			}
		} else {
			all = append(all, change{"CURVE of a pool", func() { d.Curve = true }}, change{"PRODUCT of a pool", func() { d.Product = true }})
		}
	}
	return c.pick(all)
}

func badProduct(c *Campaign, _ []byte, d *abi.Desc) string {
	all := []change{
		{"IN_ROW", func() { d.InRow ^= 1 << c.rng.IntN(24) }},
		{"KWC", func() { d.KWC ^= 1 << c.rng.IntN(24) }},
		{"STEP_ROW", func() { d.StepRow ^= 1 << c.rng.IntN(24) }},
		{"STEP_COL", func() { d.StepCol ^= 1 << c.rng.IntN(24) }},
		{"PAD_COL", func() { d.PadCol ^= 1 << c.rng.IntN(24) }},
		{"IN_ROW_BYTES", func() { d.InRowBytes = uint32(c.rng.IntN(int(c.elem()) * int(d.InW) * int(d.InPix))) }},
		{"OUT_ROW_BYTES", func() { d.OutRowBytes ^= 1 << c.rng.IntN(32) }},
	}
	if d.Residual {
		all = append(all, change{"RES_ROW_BYTES", func() { d.ResRowBytes ^= 1 << c.rng.IntN(32) }})
	}
	return c.pick(all)
}

// behind returns the smallest number of windows for which the last window begins after the input.
func behind(in uint16, pad, step uint8) uint16 {
	return uint16((int(in)+int(pad)+int(step)-1)/int(step) + 1)
}

// tooLarge makes a size exceed its counter, or adds windows outside the input. All other fields remain consistent.
func tooLarge(c *Campaign, _ []byte, d *abi.Desc) string {
	run := uint32(abi.RunBeatsMax) * uint32(c.rig.design.WideBytes())
	out := func(w, pix uint32) {
		d.OutW, d.OutPix = uint16(w), uint16(pix)
		d.OutRowBytes = c.elem() * w * pix
		if d.Residual {
			d.ResRowBytes = c.elem() * w * uint32(d.ResPix)
		}
	}
	// wide sets an input with w columns and a stride of one. Gaps between its pixels keep all runs short enough.
	wide := func(w uint32) {
		d.InW, d.SW, d.SH = uint16(w), 1, 1
		d.InPix = d.InC + 1
		d.InRow = w * uint32(d.InC)
		d.StepRow, d.StepCol = d.InRow, uint32(d.InC)
		d.InRowBytes = c.elem() * w * uint32(d.InPix)
	}
	fits := func(w uint32) bool { return w <= 65535 && c.elem()*w*(uint32(d.InC)+1) < 1<<25 }
	all := []change{
		{"OUT_H", func() { d.InH, d.SH, d.StepRow, d.OutH = 65535, 1, d.InRow, uint16(0xF000+c.rng.IntN(0x1000)) }},
		{"a window below the input", func() { d.OutH = behind(d.InH, d.PadT, d.SH) }},
		{"a window behind the input", func() { out(uint32(behind(d.InW, d.PadL, d.SW)), uint32(d.OutC)+1) }},
		{"IN_ROW_BYTES", func() { d.InRowBytes = 1<<25 + 2*c.rng.Uint32N(1<<30) }},
	}
	if fits(2047) {
		all = append(all, change{"OUT_ROW_BYTES", func() {
			w := uint32(1024 + c.rng.IntN(1024))
			wide(w)
			out(w, 1<<15/c.elem())
		}})
	}
	if w := run/(c.elem()*uint32(d.OutC)) + 1; fits(w) {
		all = append(all, change{"beats of an output row", func() {
			wide(w)
			out(w, uint32(d.OutC))
		}})
	}
	return c.pick(all)
}

func badShift(c *Campaign, _ []byte, d *abi.Desc) string {
	all := []change{{"SHIFT", func() { d.Shift = uint8(48 + c.rng.IntN(16)) }}}
	if d.Curve {
		all = append(all, change{"CURVE_STEP", func() { d.CurveStep = uint8(abi.CurveStepMax + 1 + c.rng.IntN(15-abi.CurveStepMax)) }})
	}
	if d.Op == abi.OpAvgPool && !d.In8 {
		all = append(all, change{"AVG_SHIFT 0", func() { d.AvgShift = 0 }})
	}
	if d.Op == abi.OpAvgPool {
		all = append(all,
			change{"AVG_SHIFT", func() { d.AvgShift = uint8(48 + c.rng.IntN(16)) }})
	}
	return c.pick(all)
}

// packed returns the weight fields that a layer's entry uses.
func packed(d *abi.Desc, k cost.K) (offset, size *uint32) {
	switch k {
	case cost.KHalf:
		return &d.WOffsetH, &d.WBytesH
	case cost.K2:
		return &d.WOffset2, &d.WBytes2
	}
	return &d.WOffset1, &d.WBytes1
}

func badAlignment(c *Campaign, raw []byte, d *abi.Desc) string {
	all := []change{{"BIAS_OFFSET", func() { d.BiasOffset += 4 }}}
	if !d.In8 {
		all = append(all,
			change{"IN_OFFSET odd", func() { d.InOffset++ }},
			change{"OUT_OFFSET odd", func() { d.OutOffset++ }},
			change{"RES_OFFSET odd", func() { d.ResOffset++ }})
	}
	if d.Op == abi.OpGEMM || d.Op == abi.OpDepthwise {
		offset, size := packed(d, cost.K(c.entry(c.layerOf(raw)).K))
		all = append(all, change{"W_OFFSET", func() { *offset += 1 << c.rng.IntN(4) }})
		if d.Op == abi.OpGEMM {
			all = append(all, change{"W_BYTES", func() { *size += 1 << c.rng.IntN(4) }})
		}
	}
	return c.pick(all)
}

// layerOf finds the layer of a descriptor.
func (c *Campaign) layerOf(raw []byte) int {
	for l := c.rig.trial.first; l < c.rig.trial.last; l++ {
		if string(c.rig.image[l*abi.DescBytes:][:abi.DescBytes]) == string(raw) {
			return l
		}
	}
	return c.rig.trial.last
}

func leaves(c *Campaign, _ []byte, d *abi.Desc) string {
	stride := uint32(c.rig.stride())
	out := func(offset uint32) func() {
		return func() {
			d.OutOffset = offset
			c.addr = c.beyond(d, d.OutOffset, d.OutRowBytes)
		}
	}
	in := func(offset uint32) func() { // less than one pixel fits after offset, so the first run leaves the slot
		return func() { d.InOffset, c.addr = offset, span{offset, offset} }
	}
	all := []change{
		{"OUT_OFFSET", out(stride - c.elem()*uint32(c.rng.IntN(int(d.OutC))))},
		{"OUT_OFFSET, far", out(1<<31 + 2*c.rng.Uint32N(1<<29))},
		{"OUT_OFFSET, -2", out(^uint32(1))},
	}
	if !c.entry(c.target).KeepIn { // with KeepIn, IN_OFFSET is not checked
		all = append(all,
			change{"IN_OFFSET", in(stride - c.elem()*uint32(c.rng.IntN(int(d.InC))))},
			change{"IN_OFFSET, far", in(1<<31 + 2*c.rng.Uint32N(1<<29))})
	}
	if d.Residual {
		all = append(all, change{"RES_OFFSET", func() { resLeaves(c, nil, d) }})
	}
	return c.pick(all)
}

func resLeaves(c *Campaign, _ []byte, d *abi.Desc) string {
	d.ResOffset = uint32(c.rig.stride()) - c.elem()*uint32(c.rng.IntN(int(d.OutC)))
	c.addr = c.beyond(d, d.ResOffset, d.ResRowBytes)
	return "RES_OFFSET"
}

// residualLeaves plans a residual that leaves its slot. The layer before has no residual, so the residual loader runs
// ahead, but the hardware must not report the error before it runs the faulty layer.
func residualLeaves(c *Campaign) *plan {
	var at []int
	layers := c.rig.net.Bundle.Layers
	for l := c.rig.trial.first + 1; l <= c.rig.trial.last; l++ {
		if layers[l].Residual && !layers[l-1].Residual {
			at = append(at, l)
		}
	}
	if len(at) == 0 {
		return nil
	}
	return c.spoil(at[c.rng.IntN(len(at))], abi.ErrDescAddress, resLeaves)
}

// beyond returns the range in which the first run outside the slot can start, for an output or residual whose first
// pixel leaves the slot. This run starts at the offset itself, or later if the pixel has several C tiles and the first
// C tile fits in the slot.
func (c *Campaign) beyond(d *abi.Desc, offset, rowBytes uint32) span {
	run := int(d.OutC)
	if e := c.entry(c.target); d.Op == abi.OpGEMM {
		run = min(run, cost.CTile(c.rig.design, cost.K(e.K), cost.Groups(e, len(c.rig.trial.table))))
	}
	if uint64(offset)+uint64(c.elem())*uint64(run) > uint64(c.rig.stride()) {
		return span{offset, offset}
	}
	return span{offset + c.elem()*uint32(run), offset + max(uint32(d.OutH)*rowBytes, c.elem()*uint32(d.OutC))}
}

// weights plans a weight stream that is too long (sign 1) or too short (sign -1) by whole beats. In a depthwise layer,
// the stream is one tile.
func weights(sign int) func(*Campaign) *plan {
	return func(c *Campaign) *plan {
		l := c.layer()
		d := c.rig.net.Bundle.Layers[l]
		if d.Op != abi.OpGEMM && d.Op != abi.OpDepthwise {
			return nil
		}
		_, size := packed(&d, cost.K(c.entry(l).K))
		most := 16
		if sign < 0 {
			most = int(*size / abi.WeightAlign)
		}
		by := sign * abi.WeightAlign * (1 + c.rng.IntN(most))
		*size += uint32(by)
		if d.Op == abi.OpDepthwise {
			d.WTile1 = *size
		}
		enc, err := d.Encode()
		if err != nil {
			return nil
		}
		codes := []abi.ErrCode{abi.ErrDescShape}
		if c.entry(l).Order { // possibly, the weights do not fit in the ring
			codes = append(codes, abi.ErrFBCBRange)
		}
		return &plan{
			what: fmt.Sprintf("layer %d, W_BYTES %+d", l, by), codes: codes, layer: l, port: -1,
			before: func(*regs) (string, error) {
				copy(c.raw(l), enc[:])
				return "", nil
			},
		}
	}
}

// fbcb plans a fault in one FBCB entry.
func (c *Campaign) fbcb(l int, v uint32, codes []abi.ErrCode, layer int) *plan {
	batch := len(c.rig.trial.table)
	write := func(v uint32) error {
		if err := c.rig.bus.WriteReg(abi.RegFBCBAddr, abi.FBCBAddr(l, batch)); err != nil {
			return err
		}
		return c.rig.bus.WriteReg(abi.RegFBCBData, v)
	}
	right, err := c.entry(l).Encode()
	if err != nil {
		return nil
	}
	return &plan{
		what: fmt.Sprintf("layer %d, FBCB entry %#08x instead of %#08x", l, v, right), codes: codes, layer: layer, port: -1,
		before: func(*regs) (string, error) { return "", write(v) },
		after:  func() error { return write(right) },
	}
}

func badEntry(c *Campaign) *plan {
	l := c.layer()
	e, d, batch := c.entry(l), &c.rig.net.Bundle.Layers[l], len(c.rig.trial.table)
	all := []change{
		{"", func() { e.KeepIn = !e.KeepIn }},
		{"", func() { e.OnChip, e.KeepOut = true, false }},
		{"", func() { e.TileB = 0 }},
		{"", func() { e.TileB = e.BR + 1 }},
		{"", func() { e.TileRows = 0 }},
		{"", func() { e.BR = 0 }},
		{"", func() { e.BR = uint8(batch + 1) }},
	}
	if d.OutH < 1<<12-1 {
		all = append(all, change{"", func() { e.TileRows = d.OutH + 1 }})
	}
	if d.Op != abi.OpGEMM {
		all = append(all, change{"", func() { e.K = 1 + uint8(c.rng.IntN(3)) }}, change{"", func() { e.Order = true }})
	} else if d.WBytes1 > 0 && d.WBytes1%abi.WeightAlign == 0 {
		all = append(all, change{"", func() { e.K = 3 }})
	}
	if (batch+1)/2 > 2 {
		all = append(all, change{"", func() { e.BR = 1 + uint8(c.rng.IntN((batch+1)/2-1)) }})
	}
	c.pick(all)
	v, err := e.Encode()
	if err != nil {
		return nil
	}
	return c.fbcb(l, v, []abi.ErrCode{abi.ErrFBCBRange}, l)
}

// badTile plans a tile that exceeds a memory and no other limit.
func badTile(c *Campaign) *plan {
	l := c.layer()
	d, batch := &c.rig.net.Bundle.Layers[l], len(c.rig.trial.table)
	e := c.entry(l)
	e.TileB, e.TileRows = e.BR, min(d.OutH, 1<<12-1)
	if mapping.Check(c.rig.design, cost.GeomOf(d), batch, e) == nil {
		return nil
	}
	v, err := e.Encode()
	if err != nil {
		return nil
	}
	return c.fbcb(l, v, []abi.ErrCode{abi.ErrTileRange}, l)
}

// randomDescriptor flips up to four bits or replaces a word.
func randomDescriptor(c *Campaign) *plan {
	l := c.layer()
	raw := slices.Clone(c.rig.image[l*abi.DescBytes:][:abi.DescBytes])
	p := &plan{layer: -1, port: -1}
	if c.rng.IntN(4) == 0 {
		w := c.rng.IntN(abi.DescBytes / 4)
		v := c.rng.Uint32() >> c.rng.IntN(32)
		binary.LittleEndian.PutUint32(raw[4*w:], v)
		p.what = fmt.Sprintf("layer %d, word %d of the descriptor %#x", l, w, v)
	} else {
		p.what = fmt.Sprintf("layer %d, bits of the descriptor flipped:", l)
		for range 1 + c.rng.IntN(4) {
			i := c.rng.IntN(8 * len(raw))
			raw[i/8] ^= 1 << (i % 8)
			p.what += fmt.Sprintf(" %d.%d", i/32, i%32)
		}
	}
	p.before = func(*regs) (string, error) {
		copy(c.raw(l), raw)
		return "", nil
	}
	return p
}

// randomEntry flips bits of an entry or replaces it.
func randomEntry(c *Campaign) *plan {
	l := c.layer()
	v, err := c.entry(l).Encode()
	if err != nil {
		return nil
	}
	if c.rng.IntN(2) == 0 {
		v ^= 1 << c.rng.IntN(32)
		v ^= 1 << c.rng.IntN(32)
	} else {
		v = c.rng.Uint32()
	}
	return c.fbcb(l, v&^abi.FBCBReserved, nil, -1)
}
