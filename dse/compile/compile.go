// Package compile converts a quantised network to a bundle for one design. For the layers of dse/lower, it computes
// descriptors, packed weights, the FBCB and the latency table.
package compile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrNetwork is wrapped by all errors of Compile except those of lower.Lower and graph.Check.
var ErrNetwork = errors.New("the quantised network is inconsistent")

// Options restrict the choices of the compiler.
type Options struct {
	Mapping mapping.Options   // options for FBCB entries; the zero value is mapping.RTL()
	Device  string            // device in the latency table; empty: the name of the design
	Meta    map[string]string // metadata that is copied into the bundle
	Stepped int64             // maximum number of cycles, over all batch sizes, to compute the table with the machine; otherwise by the law
}

// Compile compiles q to a bundle for an int16 design d. Errors describe the layer, its needs, and the available amount.
func Compile(q *quant.Network, d configs.Design, o Options) (*bundle.Bundle, error) {
	if d.Int8() {
		return nil, fmt.Errorf("compile: the design %q computes in int8, the network is of int16", d.Name)
	}
	if err := check(q); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return compile(&compiler{q: q, d: d, o: o}, alias.Of(q.Graph))
}

func compile(c *compiler, plan *alias.Plan) (*bundle.Bundle, error) {
	if err := c.d.Elaborates(); err != nil {
		return nil, fmt.Errorf("compile: the design %q cannot be built: %w", c.d.Name, err)
	}
	if c.o.Device == "" {
		c.o.Device = c.d.Name
	}
	c.g, c.b = c.q.Graph, &bundle.Bundle{Design: c.d, ABIHash: abi.Hash, Meta: maps.Clone(c.o.Meta)}
	net := lower.Of(c.g, plan)
	var err error
	if c.slot, err = net.Slot(c.d.ElemBytes()); err == nil {
		o := lower.Options{Together: c.alike, Table: func(n int) bool { return c.table(n) != nil }}
		if c.o.Mapping.Pick != nil { // draws an entry for the layer, so that seeds still generate the same networks
			o.Tried = func(g cost.Geom) { _, _, _ = mapping.Choose(c.d, g, 1, c.o.Mapping) }
		}
		c.layers, err = net.Lower(c.d, o)
	}
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	for i := range c.layers {
		c.b.Layers, c.b.Names = append(c.b.Layers, c.descriptor(&c.layers[i])), append(c.b.Names, c.layers[i].Name)
	}
	c.describe()
	if err := c.mapLayers(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if err := c.latency(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if err := c.b.Validate(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return c.b, nil
}

// check returns an error for a network that is inconsistent, or in which a sum could overflow.
func check(q *quant.Network) error {
	if q == nil || q.Graph == nil {
		return fmt.Errorf("%w: there is none", ErrNetwork)
	}
	if err := q.Graph.Check(); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	for n := range q.Graph.Nodes {
		node, l := &q.Graph.Nodes[n], &q.Layers[n]
		if want := node.Window.KH*node.Window.KW + 1; node.Op == graph.AvgPool && l.AvgTable != nil && len(l.AvgTable) != want {
			return fmt.Errorf("%w: node %q: a table of %d averages, expected %d", ErrNetwork, node.Name, len(l.AvgTable), want)
		}
	}
	return nil
}

type compiler struct {
	q      *quant.Network // in int8: the integers of the network, without factors
	eight  *quant.Int8    // nil for int16
	g      *graph.Graph
	d      configs.Design
	o      Options
	slot   *lower.Slot
	layers []lower.Layer
	b      *bundle.Bundle
	stored map[[32]byte]uint32 // by hash of the content: offset in b.Weights
	spread int64               // bytes of the weights of grouped convolutions, including zeros
}

// alike reports whether the nodes n and m need the same post-processing in a descriptor.
func (c *compiler) alike(n, m int) bool {
	a, b := &c.q.Layers[n], &c.q.Layers[m]
	return a.Shift == b.Shift && a.ClampLo == b.ClampLo && a.ClampHi == b.ClampHi &&
		c.zero(c.g.Nodes[n].Output) == c.zero(c.g.Nodes[m].Output)
}

// table returns the factors of an average pool by number of pixels. It returns nil if all windows have the same factor.
func (c *compiler) table(n int) []int32 {
	if c.eight != nil {
		_, table := c.pooled(n)
		return table
	}
	return c.q.Layers[n].AvgTable
}

// descriptor returns the descriptor of a layer, without weights and biases.
func (c *compiler) descriptor(x *lower.Layer) abi.Desc {
	g, l := &x.Geom, &c.q.Layers[x.Nodes[0]]
	elem := c.d.ElemBytes()
	d := abi.Desc{
		Op: g.Op, Magic: abi.DescMagic, AvgTable: g.Op == abi.OpAvgPool && g.BiasCount > 0,
		InOffset: uint32(g.InOffset), OutOffset: uint32(g.OutOffset),
		InH: uint16(g.InH), InW: uint16(g.InW), InC: uint16(g.InC), InPix: uint16(g.InPix),
		OutH: uint16(g.OutH), OutW: uint16(g.OutW), OutC: uint16(g.OutC), OutPix: uint16(g.OutPix),
		KH: uint8(g.KH), KW: uint8(g.KW), SH: uint8(g.SH), SW: uint8(g.SW), PadT: uint8(g.PadT), PadL: uint8(g.PadL),
		ClampLo: l.ClampLo, ClampHi: l.ClampHi, BiasCount: uint16(g.BiasCount),
		InRow: uint32(g.InRow()), InRowBytes: uint32(x.InRow), OutRowBytes: uint32(g.OutW * g.OutPix * elem),
		StepRow: uint32(g.SH * g.InRow()), StepCol: uint32(g.SW * g.InC),
		PadCol: uint32(g.PadL * g.InC), KWC: uint32(g.KWC()),
	}
	if g.Drained() {
		if d.Curve = g.Curve; d.Curve {
			d.CurveLo, d.CurveStep, d.CurveShift = l.Curve.Lo, l.Curve.Step, l.Curve.Shift
		}
		d.Shift = uint8(l.Shift)
		if g.Residual {
			d.Residual, d.Product = true, g.Product
			d.ResOffset, d.ResPix, d.ResRowBytes = uint32(g.ResOffset), uint16(g.ResPix), uint32(g.OutW*g.ResPix*elem)
			d.ResShift = uint8(l.ResShift)
		}
	} else if g.Op == abi.OpAvgPool {
		d.AvgMul, d.AvgShift = uint32(l.AvgMul), uint8(l.AvgShift)
	}
	if c.eight != nil {
		d.In8, d.Out8, d.Res8 = true, true, d.Residual
		d.InZero, d.OutZero = c.zero(x.In), c.zero(x.Out)
		if !g.Drained() {
			pooled := c.scaling(x)
			d.AvgMul, d.AvgShift = uint32(pooled.Mul), pooled.Shift
		}
	}
	return d
}

// words returns the bias memory of a layer: biases and the words after them, or the table of an average pool.
func (c *compiler) words(x *lower.Layer) []int32 {
	n := x.Nodes[0]
	node, curve := &c.g.Nodes[n], c.q.Layers[n].Curve
	if !x.Geom.Drained() {
		if x.Geom.BiasCount > 0 {
			return c.table(n)
		}
		return nil
	}
	bias, scales := make([]int32, 0, x.To), make([]abi.Scaling, 0, x.To)
	if node.Op != graph.Conv { // an Add or Mul: in int8 its sum is the first input minus the zero point
		bias = slices.Repeat([]int32{-int32(c.zero(x.In))}, x.To)
		scales = slices.Repeat([]abi.Scaling{{Mul: 1}}, x.To)
	} else {
		for _, m := range x.Nodes {
			if bias = append(bias, c.q.Layers[m].Bias...); c.eight != nil {
				scales = append(scales, c.eight.Layers[m].Scales...)
			}
		}
	}
	bias = bias[x.From:x.To]
	switch {
	case c.eight != nil:
		return (&abi.Post8{Bias: bias, Scales: scales[x.From:x.To], Operand: c.operand(n, x.Res), Curve: curve}).Words()
	case curve != nil:
		return slices.Concat(bias, curve.Words())
	}
	return bias
}

// weights returns a layer's weights as [C out][KH][KW][C in].
func (c *compiler) weights(x *lower.Layer) ([]int16, error) {
	n := x.Nodes[0]
	node, g := &c.g.Nodes[n], &x.Geom
	taps, groups, of := g.KH*g.KW, node.Groups, c.q.Layers[n].Weights
	if node.Op != graph.Conv {
		groups, of = c.g.Tensors[x.Out].C, slices.Repeat([]int16{1 << c.q.Layers[n].WFrac}, x.To)
	}
	inG, outG := c.g.Tensors[x.In].C/groups, c.g.Tensors[x.Out].C/groups
	each := taps * inG
	switch {
	case groups == 1:
		if len(x.Nodes) > 1 {
			of = nil
			for _, m := range x.Nodes {
				of = append(of, c.q.Layers[m].Weights...)
			}
		}
		fallthrough
	case g.Op == abi.OpDepthwise:
		return of[x.From*each : x.To*each], nil
	}
	// The sum includes zeros outside the diagonal blocks, because the limit of a bundle applies to packed weights.
	if c.spread += 2 * int64(g.OutC) * int64(taps) * int64(g.InC); c.spread > bundle.MaxWeights {
		return nil, fmt.Errorf("%w: more than %d bytes of weights once groups lie side by side", lower.ErrTooBig, bundle.MaxWeights)
	}
	out := make([]int16, g.OutC*taps*g.InC)
	for o := range g.OutC {
		group := o / outG
		for tap := range taps {
			copy(out[(o*taps+tap)*g.InC+group*inG:], of[((x.From+o)*taps+tap)*inG:][:inG])
		}
	}
	return out, nil
}

// mapLayers maps every layer for every batch size, and decides which tensors stay on chip. It stores the weights in the
// packings that the entries use.
func (c *compiler) mapLayers() error {
	layers, links := make([]cost.Geom, len(c.layers)), make([]mapping.Link, len(c.layers))
	for i := range c.layers {
		layers[i], links[i] = c.layers[i].Geom, c.layers[i].Next
	}
	c.b.FBCB = make([][]abi.FBCB, len(layers))
	for l := range layers {
		c.b.FBCB[l] = make([]abi.FBCB, abi.BMax)
		for b := range abi.BMax {
			var err error
			if c.b.FBCB[l][b], _, err = mapping.Choose(c.d, layers[l], b+1, c.o.Mapping); err != nil {
				return fmt.Errorf("layer %q: %w", c.b.Names[l], err)
			}
		}
	}
	for _, x := range c.b.Network.Exits {
		for b := range abi.BMax {
			row := make([]abi.FBCB, x.Last+1-x.First)
			for i := range row {
				row[i] = c.b.FBCB[x.First+i][b]
			}
			mapping.Keep(c.d, layers[x.First:x.Last+1], links[x.First:x.Last], b+1, row, c.o.Mapping)
			for i := range row {
				c.b.FBCB[x.First+i][b] = row[i]
			}
		}
	}
	c.stored = map[[32]byte]uint32{}
	for l := range c.layers {
		if err := c.pack(l, &c.layers[l]); err != nil {
			return fmt.Errorf("layer %q: %w", c.b.Names[l], err)
		}
	}
	return nil
}

// pack stores the weights and biases of a layer.
func (c *compiler) pack(l int, x *lower.Layer) error {
	d := &c.b.Layers[l]
	if words := c.words(x); len(words) > 0 {
		bytes := make([]byte, 0, 4*len(words))
		for _, v := range words {
			bytes = binary.LittleEndian.AppendUint32(bytes, uint32(v))
		}
		var err error
		if d.BiasOffset, err = c.store(bytes); err != nil {
			return err
		}
	}
	if !x.Geom.Drained() {
		return nil
	}
	weights, err := c.weights(x)
	if err != nil {
		return err
	}
	if !x.Geom.GEMM() {
		packed := bundle.PackDepthwise(c.d, weights, x.Geom.OutC)
		at, err := c.store(packed)
		if err != nil {
			return err
		}
		bundle.SetPacking(d, cost.K1, bundle.Packing{Offset: at, Bytes: uint32(len(packed)), Tile: uint32(len(packed))})
		return nil
	}
	used := map[cost.K]bool{}
	for _, e := range c.b.FBCB[l] {
		used[cost.K(e.K)] = true
	}
	for _, k := range bundle.Ks {
		if !used[k] {
			continue
		}
		packed, err := bundle.PackWeights(c.d, k, weights, x.Geom.OutC, x.Geom.KH, x.Geom.KWC())
		if err != nil {
			return err
		}
		_, tile := cost.WeightBytes(c.d, x.Geom, k)
		if tile > math.MaxUint32 {
			return fmt.Errorf("%w: a C tile of %d bytes", lower.ErrTooBig, tile)
		}
		at, err := c.store(packed)
		if err != nil {
			return err
		}
		bundle.SetPacking(d, k, bundle.Packing{Offset: at, Bytes: uint32(len(packed)), Tile: uint32(tile)})
	}
	return nil
}

// store appends bytes to the weights, unless equal bytes are already stored. It returns their offset.
func (c *compiler) store(data []byte) (uint32, error) {
	sum := sha256.Sum256(data)
	if at, ok := c.stored[sum]; ok {
		return at, nil
	}
	at := len(c.b.Weights)
	end := (at + len(data) + lower.TensorAlign - 1) / lower.TensorAlign * lower.TensorAlign
	if end > bundle.MaxWeights {
		return 0, fmt.Errorf("%w: more than %d bytes of weights", lower.ErrTooBig, bundle.MaxWeights)
	}
	c.b.Weights = append(c.b.Weights, data...)
	c.b.Weights = append(c.b.Weights, make([]byte, end-at-len(data))...)
	c.stored[sum] = uint32(at)
	return uint32(at), nil
}

// describe sets the network, its exits and the slot in the bundle.
func (c *compiler) describe() {
	g, b := c.g, c.b
	in := g.Tensors[g.Input]
	b.Network = bundle.Network{
		Name: g.Name, InH: in.H, InW: in.W, InC: in.C, InFrac: c.q.Frac[g.Input],
		InOffset: int(c.slot.At(g.Input, 0)), InPix: c.slot.Pix(g.Input), Codes: c.codes(g.Input),
	}
	b.Slot.Stride = c.slot.Stride
	for t, x := range g.Tensors {
		id := graph.TensorID(t)
		b.Slot.Tensors = append(b.Slot.Tensors, bundle.Tensor{
			Name: x.Name, H: x.H, W: x.W, C: x.C, Pix: c.slot.Pix(id), Offset: int(c.slot.At(id, 0)), Frac: c.q.Frac[t], Codes: c.codes(id),
		})
	}
	macs := g.SegmentMACs()
	layer := 0
	for i, e := range g.Exits {
		x := bundle.Exit{
			Name: e.Name, First: layer, Offset: int(c.slot.At(e.Tensor, 0)), Classes: g.Tensors[e.Tensor].Elems(),
			Frac: c.q.Frac[e.Tensor], MACs: macs[i], Confidence: g.ConfidenceOf(i), Codes: c.codes(e.Tensor),
		}
		for layer < len(c.layers) && c.layers[layer].Segment == i {
			layer++
		}
		x.Last = layer - 1
		b.Network.Exits = append(b.Network.Exits, x)
	}
}

// latency computes the latency table. Each segment is one start, because the driver starts one segment at a time.
func (c *compiler) latency() error {
	exits := c.b.Network.Exits
	by := func(count func(first, last, batch int) (int64, error)) (cycles [abi.BMax + 1][]int64, sum int64, err error) {
		for batch := 1; batch <= abi.BMax; batch++ {
			for _, e := range exits {
				n, err := count(e.First, e.Last, batch)
				if err != nil {
					return cycles, 0, fmt.Errorf("exit %q: %w", e.Name, err)
				}
				cycles[batch], sum = append(cycles[batch], n), sum+n
			}
		}
		return cycles, sum, nil
	}
	cycles, sum, err := by(func(first, last, batch int) (int64, error) {
		return cost.Segment(c.d, c.b.Layers, c.b.FBCB, first, last, batch)
	})
	if err == nil && sum <= c.o.Stepped {
		cycles, _, err = by(func(first, last, batch int) (int64, error) {
			r, err := machine.Segment(context.Background(), c.d, c.b.Layers, c.b.FBCB, first, last, batch)
			return r.Cycles, err
		})
	}
	if err != nil {
		return err
	}
	for batch := 1; batch <= abi.BMax; batch++ {
		segment := cycles[batch]
		for first := range exits {
			sum := int64(0)
			for last := first; last < len(exits); last++ {
				sum += segment[last]
				ns := cost.Nanoseconds(c.d, sum)
				c.b.Latency = append(c.b.Latency, bundle.LatencyEntry{
					Network: c.b.Network.Name, Device: c.o.Device, First: first, Last: last, Batch: batch, P50: ns, P99: ns,
				})
			}
		}
	}
	return nil
}
