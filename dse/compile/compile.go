// Package compile lowers a quantised network to a bundle for one design: descriptors, packed weights, the layout of a
// slot, the FBCB and the latency table.
//
// Nodes become descriptors as follows:
//
//   - a convolution: one GEMM. Convolutions that dse/alias merges are one GEMM together, if their
//     shifts agree. A grouped one is one GEMM for each window of groups, with the window's groups side
//     by side on the diagonal of a dense matrix (depthwise: T_C channels wide). One with more than
//     C_MAX output channels is one GEMM for each window of these. Windows of groups become wider if
//     the network would otherwise have more than L_MAX descriptors. A depthwise one is a DEPTHWISE where
//     the design has the unit;
//   - a pool: one pool, or one for each window of channels if it has more than C_MAX or its rows do
//     not fit the activation buffer;
//   - an Add or a Mul: a depthwise 1x1 convolution that multiplies its first input by the identity, with
//     the second input as residual or factor;
//   - a Reshape: nothing;
//   - a Concat: nothing, its inputs are written in place. An input for which that is impossible (the
//     network's input, a tensor in two concatenations) is copied by a 1x1 max pool.
package compile

import (
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
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/split"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors of Compile, besides mapping.ErrNoFit, cost.ErrGeom and the errors of graph.Check.
var (
	ErrNetwork = errors.New("the quantised network is inconsistent")
	ErrTooMany = errors.New("the network has too many layers")
	ErrTooBig  = errors.New("the network is too large")
)

// Options restrict the choices of the compiler.
type Options struct {
	Mapping mapping.Options   // what the FBCB may name; the zero value is mapping.RTL()
	Device  string            // of the latency table; empty: the design's name
	Meta    map[string]string // goes into the bundle
}

// Compile lowers q to a bundle for design d of int16. Errors name the layer, what it needs, and what is available.
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
	c.g = c.q.Graph
	var err error
	if c.l, err = lay(c.g, plan, c.d.ElemBytes()); err != nil {
		return nil, fmt.Errorf("compile: %w: %w", ErrTooBig, err)
	}
	if err := c.lower(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
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

// check rejects a network that is not consistent or that could overflow.
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
	q      *quant.Network // of int8: its integers, without factors
	eight  *quant.Int8    // or nil
	g      *graph.Graph
	d      configs.Design
	o      Options
	l      *layout
	b      *bundle.Bundle
	node   []int               // by layer
	pieces []piece             // by layer
	stored map[[32]byte]uint32 // offset of each content in b.Weights
	over   int                 // descriptors beyond L_MAX
	spread int64               // bytes of grouped weights, zeros included
	wide   []split.Grouped     // grouped layers, in the order of nodes
	parts  []int               // number of windows of each, if not the default
}

// piece is one future descriptor: a node, or a window of its channels.
type piece struct {
	op       abi.Op
	product  bool // by res
	name     string
	in, out  graph.TensorID
	res      graph.TensorID // or None
	in0, inC int            // channels read
	out0     int            // channels written
	outC     int
	window   graph.Window
	weights  []int16 // [outC][KH][KW][inC]
	bias     []int32 // or the table of M
	avgTable bool
	layer    *quant.Layer

	// Of int8.
	scales  []abi.Scaling // by output channel
	operand *abi.Operand
	pooled  abi.Scaling // of a pool without a table
}

// lower makes the descriptors; if there are too many, it repeats that with wider windows.
func (c *compiler) lower() error {
	if err := c.nodes(); err != nil || c.over == 0 {
		return err
	}
	have := abi.LMax + c.over
	c.parts = split.Widen(c.d, c.wide, c.over)
	if err := c.nodes(); err != nil {
		return err
	}
	if c.over > 0 {
		return fmt.Errorf("%w: %d descriptors, with grouped layers as wide as they may be %d, more than L_MAX = %d",
			ErrTooMany, have, abi.LMax+c.over, abi.LMax)
	}
	return nil
}

func (c *compiler) nodes() error {
	c.b = &bundle.Bundle{Design: c.d, ABIHash: abi.Hash, Meta: maps.Clone(c.o.Meta)}
	c.stored, c.node, c.pieces, c.wide, c.over, c.spread = map[[32]byte]uint32{}, nil, nil, nil, 0, 0
	for n := range c.g.Nodes {
		node := &c.g.Nodes[n]
		var err error
		switch node.Op {
		case graph.Conv:
			err = c.conv(n)
		case graph.Add, graph.Mul:
			err = c.add(n)
		case graph.MaxPool, graph.AvgPool:
			err = c.pool(n)
		case graph.Concat:
			err = c.concat(n)
		case graph.Reshape: // the same memory
		default:
			err = fmt.Errorf("%w: operator %v", ErrNetwork, node.Op)
		}
		if err != nil {
			return fmt.Errorf("node %q: %w", node.Name, err)
		}
	}
	return nil
}

// suffix names a piece if a node has several.
func suffix(name string, w [2]int, parts int) string {
	if parts == 1 {
		return name
	}
	return fmt.Sprintf("%s[%d:%d]", name, w[0], w[1])
}

func (c *compiler) conv(n int) error {
	node, l := &c.g.Nodes[n], &c.q.Layers[n]
	inC, outC := c.g.Tensors[node.Inputs[0]].C, c.g.Tensors[node.Output].C
	p := piece{
		op: abi.OpGEMM, in: node.Inputs[0], out: node.Output, res: node.Residual, window: node.Window, layer: l,
	}
	if c.eight != nil {
		p.scales, p.operand = c.eight.Layers[n].Scales, c.operand(n, node.Residual)
	}
	if node.Groups == 1 {
		return c.dense(n, p)
	}
	return c.grouped(n, p, node.Groups, func(group, o, tap, i int) int16 {
		return l.Weights[((group*(outC/node.Groups)+o)*node.Window.KH*node.Window.KW+tap)*(inC/node.Groups)+i]
	}, l.Bias)
}

// dense emits a convolution that is not grouped. Convolutions merged with it are emitted in place of the first one;
// if shifts or clamps differ, only adjacent ones with equal values are merged.
func (c *compiler) dense(n int, p piece) error {
	nodes, stands := c.l.Layer(n)
	if !stands {
		return nil
	}
	p.inC = c.g.Tensors[p.in].C
	kernel := p.window.KH * p.window.KW * p.inC
	for len(nodes) > 0 {
		p.layer, p.out = &c.q.Layers[nodes[0]], c.g.Nodes[nodes[0]].Output
		weights, bias, scales, of := p.layer.Weights, p.layer.Bias, c.scales(nodes[0]), 1
		for ; of < len(nodes) && c.alike(nodes[0], nodes[of]); of++ {
			l := &c.q.Layers[nodes[of]]
			weights, bias, scales = slices.Concat(weights, l.Weights), slices.Concat(bias, l.Bias), slices.Concat(scales, c.scales(nodes[of]))
		}
		parts := split.Of(len(bias), c.d.CMax, 1)
		for _, w := range parts {
			p.name = suffix(alias.Name(c.g, nodes[:of]), w, len(parts))
			p.out0, p.outC = w[0], w[1]-w[0]
			p.weights, p.bias, p.scales = weights[w[0]*kernel:w[1]*kernel], bias[w[0]:w[1]], part(scales, w)
			if err := c.emit(n, p); err != nil {
				return err
			}
		}
		nodes = nodes[of:]
	}
	return nil
}

// alike reports whether one descriptor can describe the post-processing of both nodes.
func (c *compiler) alike(n, m int) bool {
	a, b := &c.q.Layers[n], &c.q.Layers[m]
	return a.Shift == b.Shift && a.ClampLo == b.ClampLo && a.ClampHi == b.ClampHi &&
		c.zero(c.g.Nodes[n].Output) == c.zero(c.g.Nodes[m].Output)
}

// grouped emits a grouped convolution as windows of groups, each T_C channels wide unless a single group is wider.
// weight returns the weight of output channel o, tap and input channel i of a group.
func (c *compiler) grouped(n int, p piece, groups int, weight func(group, o, tap, i int) int16, bias []int32) error {
	node := &c.g.Nodes[n]
	in, out, scales := c.g.Tensors[p.in], c.g.Tensors[p.out], p.scales
	if parts, ok := split.Depthwise(c.d, groups, in.C, out.C, in.W, p.window.KH, p.window.KW); ok {
		taps := p.window.KH * p.window.KW
		for _, w := range parts {
			p.op, p.name = abi.OpDepthwise, suffix(node.Name, w, len(parts))
			p.in0, p.inC, p.out0, p.outC = w[0], w[1]-w[0], w[0], w[1]-w[0]
			p.bias, p.scales, p.weights = bias[w[0]:w[1]], part(scales, w), make([]int16, 0, p.outC*taps)
			for ch := w[0]; ch < w[1]; ch++ {
				for tap := range taps {
					p.weights = append(p.weights, weight(ch, 0, tap, 0))
				}
			}
			if err := c.emit(n, p); err != nil {
				return err
			}
		}
		return nil
	}
	inG, outG := in.C/groups, out.C/groups
	if outG > c.d.CMax {
		return fmt.Errorf("%w: a group of %d output channels, the build holds C_MAX = %d", mapping.ErrNoFit, outG, c.d.CMax)
	}
	parts := split.Of(groups*outG, min(max(c.d.TC, outG), c.d.CMax), outG)
	whole := p
	c.wide = append(c.wide, split.Grouped{Parts: len(parts), Geoms: func(parts int) (out []cost.Geom) {
		for _, w := range split.Cut(groups*outG, parts, outG) {
			p := whole
			p.in0, p.inC = w[0]/outG*inG, (w[1]-w[0])/outG*inG
			p.out0, p.outC = w[0], w[1]-w[0]
			d, err := c.descriptor(p)
			if err != nil {
				return nil
			}
			out = append(out, cost.GeomOf(&d))
		}
		return out
	}})
	if i := len(c.wide) - 1; i < len(c.parts) {
		parts = split.Cut(groups*outG, c.parts[i], outG)
	}
	taps := p.window.KH * p.window.KW
	for _, w := range parts {
		g0, g1 := w[0]/outG, w[1]/outG
		p.name = suffix(node.Name, w, len(parts))
		p.in0, p.inC = g0*inG, (g1-g0)*inG
		p.out0, p.outC = w[0], w[1]-w[0]
		p.bias, p.scales = bias[w[0]:w[1]], part(scales, w)
		if c.full() {
			continue // before its weights are created
		}
		// Includes the zeros beside the diagonal; a bundle's limit is for the packed form.
		if c.spread += 2 * int64(p.outC) * int64(taps) * int64(p.inC); c.spread > bundle.MaxWeights {
			return fmt.Errorf("%w: more than %d bytes of weights once groups lie side by side", ErrTooBig, bundle.MaxWeights)
		}
		p.weights = make([]int16, p.outC*taps*p.inC)
		for g := g0; g < g1; g++ {
			for o := range outG {
				for tap := range taps {
					for i := range inG {
						at := (((g-g0)*outG+o)*taps+tap)*p.inC + (g-g0)*inG + i
						p.weights[at] = weight(g, o, tap, i)
					}
				}
			}
		}
		if err := c.emit(n, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) add(n int) error {
	node, l := &c.g.Nodes[n], &c.q.Layers[n]
	one := int16(1) << l.WFrac
	channels := c.g.Tensors[node.Output].C
	p := piece{
		op: abi.OpGEMM, in: node.Inputs[0], out: node.Output, res: node.Inputs[1],
		window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, layer: l, product: node.Op == graph.Mul,
	}
	bias := make([]int32, channels)
	if c.eight != nil { // the sum is the first input without its zero point
		p.scales, p.operand = make([]abi.Scaling, channels), c.operand(n, node.Inputs[1])
		for i := range bias {
			bias[i], p.scales[i] = -int32(c.zero(node.Inputs[0])), abi.Scaling{Mul: 1}
		}
	}
	return c.grouped(n, p, channels, func(_, _, _, _ int) int16 { return one }, bias)
}

func (c *compiler) pool(n int) error {
	node, l := &c.g.Nodes[n], &c.q.Layers[n]
	p := piece{op: abi.OpMaxPool, in: node.Inputs[0], out: node.Output, res: graph.None, window: node.Window, layer: l}
	if node.Op == graph.AvgPool {
		p.op = abi.OpAvgPool
		p.avgTable, p.bias = l.AvgTable != nil, l.AvgTable
	}
	if c.eight != nil {
		p.pooled, p.bias = c.pooled(n)
		p.avgTable = p.bias != nil
	}
	return c.poolPieces(n, p, node.Name, 0)
}

// poolPieces emits a pool whose output begins at channel out0 of its output tensor, in the smallest number of windows
// of channels that fit.
func (c *compiler) poolPieces(n int, p piece, name string, out0 int) error {
	channels := c.g.Tensors[p.in].C
	size := min(channels, c.d.CMax)
	for {
		p.in0, p.inC, p.out0, p.outC = 0, size, out0, size
		desc, err := c.descriptor(p)
		if err != nil {
			return err
		}
		_, _, err = mapping.Choose(c.d, cost.GeomOf(&desc), 1, c.o.Mapping)
		if err == nil {
			break
		}
		if size == 1 || !errors.Is(err, mapping.ErrNoFit) {
			return err
		}
		size = (size + 1) / 2
	}
	parts := split.Of(channels, size, 1)
	for _, w := range parts {
		p.name = suffix(name, w, len(parts))
		p.in0, p.inC = w[0], w[1]-w[0]
		p.out0, p.outC = out0+w[0], w[1]-w[0]
		if err := c.emit(n, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) concat(n int) error {
	node := &c.g.Nodes[n]
	channel := 0
	for i, t := range node.Inputs {
		if c.l.Copied[alias.Edge{N: n, I: i}] {
			p := piece{
				op: abi.OpMaxPool, in: t, out: node.Output, res: graph.None,
				window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, layer: &c.q.Layers[n],
			}
			if c.eight != nil {
				p.pooled = c.eight.Layers[n].Scales[i]
			}
			if err := c.poolPieces(n, p, fmt.Sprintf("%s.copy%d", node.Name, i), channel); err != nil {
				return err
			}
		}
		channel += c.g.Tensors[t].C
	}
	return nil
}

// descriptor fills in a piece, except its weights and biases.
func (c *compiler) descriptor(p piece) (abi.Desc, error) {
	in, out, w := c.g.Tensors[p.in], c.g.Tensors[p.out], p.window
	g := cost.Geom{
		Op: p.op, InH: in.H, InW: in.W, InC: p.inC, InPix: c.l.Pix(p.in),
		OutH: out.H, OutW: out.W, OutC: p.outC, OutPix: c.l.Pix(p.out),
		KH: w.KH, KW: w.KW, SH: w.SH, SW: w.SW, PadT: w.PT, PadL: w.PL, Int8: c.eight != nil,
	}
	if p.res != graph.None {
		g.Residual, g.ResPix, g.Product = true, c.l.Pix(p.res), p.product
		if p.product && c.g.Tensors[p.res].OnePixelOf(out) {
			g.ResPix = 0
		}
	}
	curve := p.layer.Curve
	g.Curve = curve != nil
	if err := g.Check(); err != nil {
		return abi.Desc{}, err
	}
	g, rowBytes := g.View()
	d := abi.Desc{
		Op: p.op, Magic: abi.DescMagic, AvgTable: p.avgTable,
		InOffset: uint32(c.l.at(p.in, p.in0)), OutOffset: uint32(c.l.at(p.out, p.out0)),
		InH: uint16(g.InH), InW: uint16(g.InW), InC: uint16(p.inC), InPix: uint16(g.InPix),
		OutH: uint16(out.H), OutW: uint16(out.W), OutC: uint16(p.outC), OutPix: uint16(g.OutPix),
		KH: uint8(w.KH), KW: uint8(w.KW), SH: uint8(g.SH), SW: uint8(g.SW), PadT: uint8(w.PT), PadL: uint8(w.PL),
		ClampLo: p.layer.ClampLo, ClampHi: p.layer.ClampHi, BiasCount: uint16(len(p.bias)),
		InRow: uint32(g.InRow()), InRowBytes: uint32(rowBytes),
		OutRowBytes: uint32(int64(out.W*g.OutPix) * c.l.elem),
		StepRow:     uint32(g.SH * g.InRow()), StepCol: uint32(g.SW * p.inC),
		PadCol: uint32(w.PL * p.inC), KWC: uint32(w.KW * p.inC),
	}
	switch p.op {
	case abi.OpGEMM, abi.OpDepthwise:
		if curve != nil {
			d.Curve, d.CurveLo, d.CurveStep, d.CurveShift = true, curve.Lo, curve.Step, curve.Shift
			d.BiasCount += abi.CurveWords
		}
		d.Shift = uint8(p.layer.Shift)
		if g.Residual {
			d.Residual, d.Product = true, p.product
			d.ResOffset = uint32(c.l.at(p.res, p.out0))
			d.ResPix = uint16(g.ResPix)
			d.ResRowBytes = uint32(int64(out.W*g.ResPix) * c.l.elem)
			d.ResShift = uint8(p.layer.ResShift)
		}
	case abi.OpAvgPool:
		d.AvgMul, d.AvgShift = uint32(p.layer.AvgMul), uint8(p.layer.AvgShift)
	}
	if c.eight != nil {
		d.In8, d.Out8, d.Res8 = true, true, d.Residual
		d.InZero, d.OutZero = c.zero(p.in), c.zero(p.out)
		if g.Drained() {
			d.BiasCount = uint16(abi.Post8Words(&d))
		} else {
			d.AvgMul, d.AvgShift = uint32(p.pooled.Mul), p.pooled.Shift
		}
	}
	return d, nil
}

// emit appends a piece's descriptor.
func (c *compiler) emit(n int, p piece) error {
	if c.full() {
		return nil
	}
	d, err := c.descriptor(p)
	if err != nil {
		return fmt.Errorf("layer %q: %w", p.name, err)
	}
	c.b.Layers = append(c.b.Layers, d)
	c.b.Names = append(c.b.Names, p.name)
	c.node = append(c.node, n)
	c.pieces = append(c.pieces, p)
	return nil
}

// mapLayers maps every layer for every batch, decides what stays on chip, and stores the weights as the
// entries want them.
func (c *compiler) mapLayers() error {
	var layers []cost.Geom
	for _, x := range c.b.Network.Exits {
		layers = append(layers, cost.GeomsOf(c.b.Layers[x.First:x.Last+1])...)
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
	links := c.links()
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
	for l := range layers {
		if err := c.pack(l, layers[l]); err != nil {
			return fmt.Errorf("layer %q: %w", c.b.Names[l], err)
		}
	}
	return nil
}

// links tells of every layer's output what it is to the next layer.
func (c *compiler) links() []mapping.Link {
	root := func(t graph.TensorID) int {
		if t == graph.None {
			return -1
		}
		return int(c.l.Views[t].Root)
	}
	places := make([]mapping.Place, len(c.pieces))
	for i, p := range c.pieces {
		l := &c.b.Layers[i]
		places[i] = mapping.Place{
			Geom: cost.GeomOf(l), In: root(p.in), Out: root(p.out), Res: root(p.res),
			InAt: int64(l.InOffset), OutAt: int64(l.OutOffset), InRow: int64(l.InRowBytes), OutRow: int64(l.OutRowBytes),
		}
	}
	var host []int
	for _, e := range c.g.Exits {
		host = append(host, root(e.Tensor))
	}
	return mapping.Links(places, host)
}

// pack stores a layer's weights and biases.
func (c *compiler) pack(l int, g cost.Geom) error {
	p, d := &c.pieces[l], &c.b.Layers[l]
	var err error
	if len(p.bias) > 0 {
		words := p.bias
		if p.scales != nil {
			words = (&abi.Post8{Bias: p.bias, Scales: p.scales, Operand: p.operand, Curve: p.layer.Curve}).Words()
		} else if p.layer.Curve != nil {
			words = slices.Concat(words, p.layer.Curve.Words())
		}
		bytes := make([]byte, 0, 4*len(words))
		for _, v := range words {
			bytes = binary.LittleEndian.AppendUint32(bytes, uint32(v))
		}
		if d.BiasOffset, err = c.store(bytes); err != nil {
			return err
		}
	}
	if p.op == abi.OpDepthwise {
		packed := bundle.PackDepthwise(c.d, p.weights, p.outC)
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
		if !used[k] || p.op != abi.OpGEMM {
			continue
		}
		packed, err := bundle.PackWeights(c.d, k, p.weights, p.outC, p.window.KH, p.window.KW*p.inC)
		if err != nil {
			return err
		}
		_, tile := cost.WeightBytes(c.d, g, k)
		if tile > math.MaxUint32 {
			return fmt.Errorf("%w: a C tile of %d bytes", ErrTooBig, tile)
		}
		at, err := c.store(packed)
		if err != nil {
			return err
		}
		bundle.SetPacking(d, k, bundle.Packing{Offset: at, Bytes: uint32(len(packed)), Tile: uint32(tile)})
	}
	return nil
}

// full counts a descriptor that does not fit into the table.
func (c *compiler) full() bool {
	if len(c.b.Layers) < abi.LMax {
		return false
	}
	c.over++
	return true
}

// store appends bytes to the weights, or finds equal ones there.
func (c *compiler) store(data []byte) (uint32, error) {
	sum := sha256.Sum256(data)
	if at, ok := c.stored[sum]; ok {
		return at, nil
	}
	at := len(c.b.Weights)
	end := int(roundUp(int64(at+len(data)), tensorAlign))
	if end > bundle.MaxWeights {
		return 0, fmt.Errorf("%w: more than %d bytes of weights", ErrTooBig, bundle.MaxWeights)
	}
	c.b.Weights = append(c.b.Weights, data...)
	c.b.Weights = append(c.b.Weights, make([]byte, end-at-len(data))...)
	c.stored[sum] = uint32(at)
	return uint32(at), nil
}

// describe fills in the network, its exits and the slot.
func (c *compiler) describe() {
	g, b := c.g, c.b
	in := g.Tensors[g.Input]
	b.Network = bundle.Network{
		Name: g.Name, InH: in.H, InW: in.W, InC: in.C, InFrac: c.q.Frac[g.Input],
		InOffset: int(c.l.at(g.Input, 0)), InPix: c.l.Pix(g.Input), Codes: c.codes(g.Input),
	}
	b.Slot.Stride = c.l.stride
	for t, x := range g.Tensors {
		id := graph.TensorID(t)
		b.Slot.Tensors = append(b.Slot.Tensors, bundle.Tensor{
			Name: x.Name, H: x.H, W: x.W, C: x.C, Pix: c.l.Pix(id), Offset: int(c.l.at(id, 0)), Frac: c.q.Frac[t], Codes: c.codes(id),
		})
	}
	macs := g.SegmentMACs()
	layer := 0
	for i, e := range g.Exits {
		x := bundle.Exit{
			Name: e.Name, First: layer, Offset: int(c.l.at(e.Tensor, 0)), Classes: g.Tensors[e.Tensor].Elems(),
			Frac: c.q.Frac[e.Tensor], MACs: macs[i], Confidence: g.ConfidenceOf(i), Codes: c.codes(e.Tensor),
		}
		for layer < len(c.node) && g.Segment[c.node[layer]] == i {
			layer++
		}
		x.Last = layer - 1
		b.Network.Exits = append(b.Network.Exits, x)
	}
}

// latency fills in the table. The driver starts one segment at a time.
func (c *compiler) latency() error {
	exits := c.b.Network.Exits
	for batch := 1; batch <= abi.BMax; batch++ {
		segment := make([]int64, len(exits))
		for i, e := range exits {
			cycles, err := cost.Segment(c.d, c.b.Layers, c.b.FBCB, e.First, e.Last, batch)
			if err != nil {
				return fmt.Errorf("exit %q has no layers of its own: %w", e.Name, err)
			}
			segment[i] = cycles
		}
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
