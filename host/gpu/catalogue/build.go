// Package catalogue builds kernel programs of well-known networks for simulated GPUs, from the networks' layer shapes
// and one rule. The programs are synthetic: nothing in them was measured. The type Rule contains the numbers of the
// rule. Usual and Fill were chosen so that as many compute units are in use as in REEF's figures 3(b) and 24. InRow and
// Rest were chosen to match the group lengths in REEF's section 6.4. So a match with these figures proves nothing. A
// bench halves and doubles these numbers, to show how other results depend on them.
//
// The rule: a convolution, dense layer or matrix product of M x N x K is divided into tiles of T_M x T_N. Each tile is
// one block with T_M T_N K multiply-accumulate operations (MACs). A thread computes 8 x 8 results if tiles are at least
// 64 wide, and 4 x 4 or 2 x 4 otherwise. A block's speed is the share of an SM that its threads can keep busy,
// multiplied by the tile's efficiency. 256 threads keep an SM busy: a wave of 64 on each of four schedulers. The
// efficiency is tile / (tile + 16), where tile is the harmonic mean of the tile's two sides. The efficiency models the
// reuse of operands.
//
// All other kernels (pools, sums, activations, norms, softmax) are memory-bound. A block of 256 threads computes 1,024
// elements at twice an SM's even share of the DRAM bandwidth (Rule.Draw). A kernel moves its input, its weights and its
// output once. While a tensor is in use, it has a place in an arena, selected by first fit. So buffers are reused as
// with a real allocator.
package catalogue

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Machine contains the properties of a GPU that the rule requires.
type Machine struct {
	MACs      float64 // multiply-accumulate operations (MACs) of one SM, per ns
	Bandwidth float64 // DRAM, bytes/ns
	SMs       int
	Rule      Rule // zero: DefaultRule
}

// Rule contains the numbers of the catalogue's rule. None of them was measured.
type Rule struct {
	// Usual is the number of tiles from which a framework chooses. These are the largest tiles, because compilers
	// favour large tiles. In REEF's figures 3(b) and 24, kernels leave many of 60 compute units idle at batch 1. With
	// the best of all tiles, they would use these units. The smaller tiles are used as versions for padding. Usual was
	// set before it was known that REEF's ResNet-152 and VGG-19 use images of 64 x 64.
	Usual    float64
	Fill     float64 // number of threads that keep an SM busy
	Reuse    float64 // side of the tile that reaches half of the peak
	Prologue float64 // ns that a block needs for indices and the first loads
	Draw     float64 // DRAM bandwidth of a memory-bound block, as a multiple of an SM's even share
	// InRow and Rest limit the reuse of buffers. Without them, a whole network could become one group. REEF (section
	// 6.4) reports groups of at most nine kernels, mostly one to three.
	InRow float64 // maximum number of successive kernels that overwrite one buffer
	Rest  float64 // number of kernels before freed bytes are reused
}

// DefaultRule returns the rule with its default numbers.
func DefaultRule() Rule {
	return Rule{Usual: 4, Fill: 256, Reuse: 16, Prologue: 500, Draw: 2, InRow: 2, Rest: 24}
}

// rule returns the machine's rule, or the default rule.
func (m *Machine) rule() *Rule {
	if m.Rule == (Rule{}) {
		m.Rule = DefaultRule()
	}
	return &m.Rule
}

// values returns the rule's numbers by name.
func (r *Rule) values() map[string]*float64 {
	return map[string]*float64{
		"tiles": &r.Usual, "fill": &r.Fill, "reuse": &r.Reuse, "prologue": &r.Prologue, "draw": &r.Draw, "in_row": &r.InRow, "rest": &r.Rest,
	}
}

// Keys lists the names of the rule's numbers.
func (r Rule) Keys() []string { return slices.Sorted(maps.Keys(r.values())) }

// With returns the rule with one number multiplied by factor.
func (r Rule) With(key string, factor float64) Rule {
	if v := r.values()[key]; v != nil {
		*v *= factor
	}
	r.Usual = math.Max(1, math.Min(float64(len(Tiles)), math.Round(r.Usual)))
	return r
}

// Style describes how an inference framework converts layers to kernels.
type Style struct {
	Name string
	// If Fused is set, bias, activation and sum are part of the preceding kernel. Otherwise they are separate kernels.
	Fused bool
	// InPlace is the share of a network's kernels that overwrite their input and so cannot be repeated. The values are
	// from REEF's table 1. Networks that are not in this table have the mean of its rows, under the key "".
	InPlace map[string]float64
}

var styles = []Style{
	{"tvm", true, nil},
	{"tensorrt", true, map[string]float64{
		"resnet152": 36. / 103, "vgg19": 0, "yolov3": 22. / 175, "bert-base": 12. / 173, "gpt2": 12. / 148, "": 82. / 629,
	}},
	{"pytorch", false, map[string]float64{
		"resnet152": 66. / 211, "vgg19": 36. / 81, "yolov3": 3. / 572, "bert-base": 73. / 238, "gpt2": 36. / 294, "": 214. / 1396,
	}},
}

// StyleOf returns the style with a name.
func StyleOf(name string) (Style, error) {
	for _, s := range styles {
		if s.Name == name {
			return s, nil
		}
	}
	return Style{}, fmt.Errorf("no framework %q; tvm, tensorrt, pytorch are there", name)
}

func (s Style) inPlace(network string) float64 {
	if share, ok := s.InPlace[network]; ok {
		return share
	}
	return s.InPlace[""]
}

// Tile is one implementation of a matrix product.
type Tile struct{ M, N, Threads, Regs int }

// Tiles lists all tiles. The first tile has the most reuse, and the last tile has the shortest blocks.
var Tiles = []Tile{{128, 128, 256, 128}, {128, 64, 128, 128}, {64, 64, 64, 128}, {64, 32, 128, 64}, {32, 32, 64, 64}, {32, 16, 64, 40}, {16, 16, 32, 40}}

func (t Tile) efficiency(r *Rule) float64 {
	side := 2 / (1/float64(t.M) + 1/float64(t.N))
	return side / (side + r.Reuse)
}

// words returns the number of words read from shared memory per MAC. The 32 threads of a warp are arranged as 8 x 4
// threads, and each read word is used by a row or a column of threads.
func (t Tile) words() float64 {
	a, b := 8., 8.
	switch t.M * t.N / t.Threads {
	case 16:
		a, b = 4, 4
	case 8:
		a, b = 2, 4
	}
	return (8*a + 4*b) / (8 * a * 4 * b)
}

// tensor is a byte range in the arena.
type tensor struct {
	span    kernel.Span
	c, h, w int
}

// op is a layer that is not yet merged into a kernel.
type op struct {
	name      string
	in        []int // indices of tensors; -1: weights only
	out       int
	m, n, k   int     // size of the matrix product; m = 0: the op is no matrix product
	macs      float64 // number of MACs if the op is not a matrix product
	weights   int64
	elements  int64  // number of elements written, if memory-bound
	reads     int64  // number of elements read, if memory-bound
	over      int    // index in `in` of the input that is overwritten; -1: none
	overFrom  int    // index in `in` of the first input that may be overwritten: each element is read before its write
	heads     int    // number of parallel matrix products of this shape
	fuse      bool   // if the style is Fused, the op becomes part of the preceding kernel
	window    [3]int // height, width, stride; zero: no window
	exitsHere bool
}

// builder collects layers.
type builder struct {
	name    string
	batch   int
	ops     []op
	tensors []tensor
	last    []int // tensors that are stored to the end, besides the last layer's tensor

	valid bool // windows are not padded ("valid" in frameworks)

	exits, blocksInAll, blockAt int
}

func newBuilder(name string, batch, c, h, w int) (*builder, int) {
	b := &builder{name: name, batch: batch}
	return b, b.tensor(c, h, w)
}

func (b *builder) tensor(c, h, w int) int {
	b.tensors = append(b.tensors, tensor{c: c, h: h, w: w})
	return len(b.tensors) - 1
}

func (b *builder) size(t int) int64 {
	x := &b.tensors[t]
	return int64(b.batch) * int64(x.c) * int64(x.h) * int64(x.w)
}

// side returns the side of an output: input / stride, or less if windows are not padded.
func (b *builder) side(in, k, stride int) int {
	if b.valid {
		return (in-k)/stride + 1
	}
	return (in + stride - 1) / stride
}

// conv adds a convolution with bias and activation.
func (b *builder) conv(in, out, kh, kw, stride, groups int) int {
	x := b.tensors[in]
	h, w := b.side(x.h, kh, stride), b.side(x.w, kw, stride)
	y := b.tensor(out, h, w)
	name := fmt.Sprintf("conv%dx%d", kh, kw)
	if groups > 1 && groups == x.c {
		// A depthwise convolution is memory-bound, because it does not reuse an input for several channels.
		b.ops = append(b.ops, op{name: "dw" + name, window: [3]int{kh, kw, stride}, in: []int{in}, out: y, elements: b.size(y), reads: b.size(in) + b.size(y)*int64(kh*kw)/4, weights: int64(out * kh * kw), macs: float64(b.size(y)) * float64(kh*kw)})
	} else {
		b.ops = append(b.ops, op{
			name: name, window: [3]int{kh, kw, stride}, in: []int{in}, out: y, m: b.batch * h * w, n: out / groups, k: x.c / groups * kh * kw,
			heads: groups, weights: int64(out) * int64(x.c/groups*kh*kw),
		})
	}
	return b.pointwise("relu", y)
}

// dense adds a matrix product. Each pixel of the input is a row of the matrix, and its channels are the features.
func (b *builder) dense(in, out int) int {
	x := b.tensors[in]
	y := b.tensor(out, x.h, x.w)
	b.ops = append(b.ops, op{name: "dense", in: []int{in}, out: y, m: b.batch * x.h * x.w, n: out, k: x.c, heads: 1, weights: int64(out) * int64(x.c)})
	return y
}

// pointwise adds an elementwise kernel that may work in place.
func (b *builder) pointwise(name string, in int, more ...int) int {
	x := b.tensors[in]
	y := b.tensor(x.c, x.h, x.w)
	b.ops = append(b.ops, op{
		name: name, in: append([]int{in}, more...), out: y, elements: b.size(y), reads: b.size(in) * int64(1+len(more)), fuse: true,
	})
	return y
}

// over adds a memory-bound kernel that is never fused and never works in place: a softmax, norm, pool or reshape.
func (b *builder) over(name string, in, c, h, w, taps int) int {
	y := b.tensor(c, h, w)
	b.ops = append(b.ops, op{name: name, in: []int{in}, out: y, elements: b.size(y), reads: max(b.size(in), b.size(y)*int64(taps))})
	return y
}

func (b *builder) pool(in, k, stride int) int {
	x := b.tensors[in]
	y := b.over(fmt.Sprintf("pool%d", k), in, x.c, b.side(x.h, k, stride), b.side(x.w, k, stride), k*k)
	b.ops[len(b.ops)-1].window = [3]int{k, k, stride}
	return y
}

func (b *builder) norm(in int) int {
	x := b.tensors[in]
	return b.over("layernorm", in, x.c, x.h, x.w, 2)
}

func (b *builder) global(in int) int {
	x := b.tensors[in]
	y := b.over("global_pool", in, x.c, 1, 1, 1)
	b.ops[len(b.ops)-1].window = [3]int{x.h, x.w, 1}
	return y
}

func (b *builder) add(x, y int) int { return b.pointwise("add", x, y) }

// concat joins the channels of its inputs by copying them.
func (b *builder) concat(in ...int) int {
	x := b.tensors[in[0]]
	c := 0
	for _, t := range in {
		c += b.tensors[t].c
	}
	y := b.tensor(c, x.h, x.w)
	b.ops = append(b.ops, op{name: "concat", in: in, out: y, elements: b.size(y), reads: b.size(y)})
	return y
}

// product adds matrix products of two tensors that earlier layers compute, one product per head.
func (b *builder) product(name string, x, y, heads, m, n, k, c, h, w int) int {
	out := b.tensor(c, h, w)
	b.ops = append(b.ops, op{name: name, in: []int{x, y}, out: out, m: b.batch * m, n: n, k: k, heads: heads})
	return out
}

// exit ends a segment with a classifier. The classifier's result is stored until the end of the program.
func (b *builder) exit(in, classes int) {
	b.dense(b.global(in), classes)
	b.ops[len(b.ops)-1].exitsHere = true
}

// arrange merges layers into kernels and places the tensors.
func (b *builder) arrange(m *Machine, s Style) {
	for i := range b.ops {
		b.ops[i].overFrom = len(b.ops[i].in)
		if b.ops[i].fuse {
			b.ops[i].overFrom = 0
		}
	}
	if s.Fused {
		b.fuse()
	}
	b.place(s.inPlace(b.name), m.rule())
}

// program converts the layers to kernels.
func (b *builder) program(m Machine, s Style) (*kernel.Program, error) {
	b.arrange(&m, s)
	p := &kernel.Program{Name: b.name}
	for i := range b.ops {
		o := &b.ops[i]
		k := o.kernel(m, nil)
		out := b.tensors[o.out].span
		k.Writes = []kernel.Span{out}
		p.Memory = max(p.Memory, out.To)
		moved := o.weights + (out.To-out.From)/wordBytes
		for _, t := range o.in {
			span := b.tensors[t].span
			k.Reads = append(k.Reads, span)
			p.Memory = max(p.Memory, span.To)
			moved += (span.To - span.From) / wordBytes
		}
		k.Bytes = moved * wordBytes
		k.L2 = max(k.L2, k.Bytes)
		k.L1 = max(k.L1, k.L2)
		p.Kernels = append(p.Kernels, k)
		if o.exitsHere {
			p.Exits = append(p.Exits, i)
		}
	}
	if n := len(p.Exits); n == 0 || p.Exits[n-1] != len(p.Kernels)-1 {
		p.Exits = append(p.Exits, len(p.Kernels)-1)
	}
	return p, p.Check()
}

// wordBytes is the size of an element: all networks here use float32.
const wordBytes = 4

// kernel returns the op's kernel on a machine. If tile is nil, it uses the tile with the shortest time.
func (o *op) kernel(m Machine, tile *Tile) kernel.Kernel {
	if o.m == 0 {
		const perBlock = 1024
		blocks := int((o.elements + perBlock - 1) / perBlock)
		bytes := float64(o.elements+o.reads) * wordBytes / float64(blocks)
		// A block that is alone on an SM is limited by the memory bandwidth of this SM.
		return kernel.Kernel{
			Name: o.name, Blocks: blocks, Threads: 256, Regs: 24, Issue: 0.25,
			BlockNs: m.rule().Prologue + bytes/(m.rule().Draw*m.Bandwidth/float64(m.SMs)),
		}
	}
	if tile != nil {
		return o.product(m, *tile)
	}
	best := kernel.Kernel{}
	least := 0.0
	for _, t := range Tiles[:int(m.rule().Usual)] {
		k := o.product(m, t)
		if at := waves(m, k); least == 0 || at < least {
			best, least = k, at
		}
	}
	return best
}

func (o *op) product(m Machine, t Tile) kernel.Kernel {
	blocks := ((o.m + t.M - 1) / t.M) * ((o.n + t.N - 1) / t.N) * max(1, o.heads)
	issue := min(1, float64(t.Threads)/m.rule().Fill)
	work := float64(t.M) * float64(t.N) * float64(o.k)
	return kernel.Kernel{
		L2: int64(blocks) * int64(t.M+t.N) * int64(o.k) * wordBytes, L1: int64(float64(blocks) * work * t.words() * wordBytes),
		Name: o.name, Blocks: blocks, Threads: t.Threads, Regs: t.Regs, Shared: (t.M + t.N) * 8 * wordBytes * 2,
		Issue: issue, BlockNs: m.rule().Prologue + work/(m.MACs*issue*t.efficiency(m.rule())),
	}
}

// waves estimates the time of a kernel that runs alone and has its blocks spread evenly over the SMs.
func waves(m Machine, k kernel.Kernel) float64 {
	per := (k.Blocks + m.SMs - 1) / m.SMs
	return k.BlockNs * max(1, float64(per)*k.Issue)
}

// fuse merges a layer with the following layers, if these are the only readers of its result.
func (b *builder) fuse() {
	uses := make([]int, len(b.tensors))
	for i := range b.ops {
		for _, t := range b.ops[i].in {
			uses[t]++
		}
	}
	kept := b.ops[:0]
	for i := range b.ops {
		o := b.ops[i]
		if n := len(kept); o.fuse && n > 0 && kept[n-1].out == o.in[0] && uses[o.in[0]] == 1 && !kept[n-1].exitsHere {
			last := &kept[n-1]
			last.in = append(last.in[:len(last.in):len(last.in)], o.in[1:]...)
			last.out, last.exitsHere = o.out, o.exitsHere
			last.name += "_" + o.name
			continue
		}
		kept = append(kept, o)
	}
	b.ops = kept
}

// place assigns bytes by first fit to each tensor while it is in use. A kernel may overwrite an input that no later
// kernel reads. place selects the given share of all kernels for this, spread evenly over the possible kernels.
func (b *builder) place(share float64, r *Rule) {
	last := make([]int, len(b.tensors))
	for i := range b.ops {
		last[b.ops[i].out] = i
		for _, t := range b.ops[i].in {
			last[t] = i
		}
		if b.ops[i].exitsHere {
			b.last = append(b.last, b.ops[i].out)
		}
	}
	// The results and the input are in use until the end, so that the program can be repeated.
	last[0] = len(b.ops)
	for _, t := range b.last {
		last[t] = len(b.ops)
	}
	b.overwrite(last, share, int(math.Round(r.InRow)))
	b.fit(last, int(math.Round(r.Rest)))
}

// overwrite selects the kernels that overwrite an input: the given share of all kernels, at most inRow in succession.
func (b *builder) overwrite(last []int, share float64, inRow int) {
	depth := make([]int, len(b.tensors))
	can := 0
	for i := range b.ops {
		o := &b.ops[i]
		o.over = -1
		for j := o.overFrom; j < len(o.in); j++ {
			if t := o.in[j]; last[t] == i && depth[t] < inRow && b.size(t) == b.size(o.out) {
				o.over, depth[o.out] = j, depth[t]+1
				can++
				break
			}
		}
	}
	every := 0.0
	if can > 0 {
		every = min(1, math.Round(share*float64(len(b.ops)))/float64(can))
	}
	owed := 0.0
	for i := range b.ops {
		if o := &b.ops[i]; o.over >= 0 {
			if owed += every; owed >= 1-1e-9 {
				owed--
			} else {
				o.over = -1
			}
		}
	}
}

// fit assigns the first free bytes to each tensor that does not overwrite another tensor. Bytes become free when the
// last kernel that reads them and `rest` further kernels have run.
func (b *builder) fit(last []int, rest int) {
	type live struct {
		span kernel.Span
		last int
	}
	var alive []live
	put := func(t, now int) {
		size := b.size(t) * wordBytes
		at := int64(0)
		for moved := true; moved; {
			moved = false
			for _, a := range alive {
				if a.last+rest >= now && at < a.span.To && a.span.From < at+size {
					at, moved = (a.span.To+255)/256*256, true
				}
			}
		}
		b.tensors[t].span = kernel.Span{From: at, To: at + size}
		alive = append(alive, live{b.tensors[t].span, last[t]})
	}
	put(0, 0)
	for i := range b.ops {
		o := &b.ops[i]
		if o.over >= 0 {
			b.tensors[o.out].span = b.tensors[o.in[o.over]].span
			alive = append(alive, live{b.tensors[o.out].span, last[o.out]})
		} else {
			put(o.out, i)
		}
		keep := alive[:0]
		for _, a := range alive {
			if a.last+rest > i {
				keep = append(keep, a)
			}
		}
		alive = keep
	}
}
