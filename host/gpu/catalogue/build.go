// Package catalogue makes kernel programs of well-known networks from the shapes of their layers, by
// one stated rule, for GPUs that are simulated. The programs are synthetic: nothing in them was
// measured. Rule has its numbers. Two of them, Usual and Fill, were set with the compute units in use
// that REEF's figures 3(b) and 24 show before the eyes, and InRow and Rest with the lengths of groups that
// its section 6.4 reports: what a bench says of those figures proves nothing of the catalogue, and how
// much of every other statement hangs on these numbers is for it to say, by halving and doubling them.
//
// The rule. A convolution, dense layer or matrix product of M x N x K is cut into tiles of T_M x T_N,
// one block each, of 8 x 8 results a thread where tiles are 64 wide or more, else 4 x 4 or 2 x 4. A
// block does T_M T_N K MACs at the share of an SM that its threads can keep busy (256 fill one: a wave of
// 64 on each of its four schedulers)
// times the tile's efficiency: what its operands' reuse leaves of the peak, tile / (tile + 16) with the
// harmonic mean of both sides. Everything else (pools, sums, activations, norms, softmax) is bound by
// memory: 1,024 elements a block of 256 threads, at an SM's share of the DRAM's bandwidth. A kernel
// moves its input, its weights and its output once. Tensors lie in an arena by first fit while they
// are alive, so buffers are used again and what a kernel overwrites is as in a real allocator.
package catalogue

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Machine is what of a GPU the rule asks for.
type Machine struct {
	MACs      float64 // of one SM, MACs/ns
	Bandwidth float64 // DRAM, bytes/ns
	SMs       int
	Rule      Rule // zero: DefaultRule
}

// Rule is the numbers of the catalogue's rule. None was measured.
type Rule struct {
	// Usual is how many of the tiles a framework's own choice is among. Compilers favour large tiles:
	// REEF's figures 3(b) and 24 show kernels that leave a good part of 60 compute units idle at batch 1,
	// which no choice among all tiles would; that its ResNet-152 and VGG-19 are compiled for images of 64 x 64
	// was not known when this was set. The smaller ones are there as versions to pad with.
	Usual    float64
	Fill     float64 // threads that keep an SM busy
	Reuse    float64 // a tile of this size comes to half of the peak
	Prologue float64 // ns of a block: indices, the first loads' latency
	Draw     float64 // a memory bound block draws this many times an SM's even share of the DRAM's bandwidth
	// A buffer that is written over again and again, or given out again at once, would make one group of
	// a whole network; section 6.4 of REEF reports nine kernels at most and mostly one to three.
	InRow float64 // kernels in a row that may write over one buffer
	Rest  float64 // kernels for which bytes that nobody needs any more are left alone
}

// DefaultRule is the rule as it was set.
func DefaultRule() Rule {
	return Rule{Usual: 4, Fill: 256, Reuse: 16, Prologue: 500, Draw: 2, InRow: 2, Rest: 24}
}

// rule is the machine's, or the default.
func (m *Machine) rule() *Rule {
	if m.Rule == (Rule{}) {
		m.Rule = DefaultRule()
	}
	return &m.Rule
}

// values are the rule's numbers by name.
func (r *Rule) values() map[string]*float64 {
	return map[string]*float64{
		"tiles": &r.Usual, "fill": &r.Fill, "reuse": &r.Reuse, "prologue": &r.Prologue, "draw": &r.Draw, "in_row": &r.InRow, "rest": &r.Rest,
	}
}

// Keys names the rule's numbers.
func (r Rule) Keys() []string { return slices.Sorted(maps.Keys(r.values())) }

// With is the rule with one number another.
func (r Rule) With(key string, factor float64) Rule {
	if v := r.values()[key]; v != nil {
		*v *= factor
	}
	r.Usual = math.Max(1, math.Min(float64(len(Tiles)), math.Round(r.Usual)))
	return r
}

// Style is what an inference framework makes of a network.
type Style struct {
	Name string
	// Fused: bias, activation and sum are part of the kernel before them; else kernels of their own.
	Fused bool
	// InPlace is the share of a network's kernels that read and write one buffer, so that they cannot
	// be run again alone: of table 1 of REEF where the network stands there, else of all its rows.
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

// StyleOf finds a style by name.
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

// Tiles from the one that reuses most to the one with the shortest blocks.
var Tiles = []Tile{{128, 128, 256, 128}, {128, 64, 128, 128}, {64, 64, 64, 128}, {64, 32, 128, 64}, {32, 32, 64, 64}, {32, 16, 64, 40}, {16, 16, 32, 40}}

func (t Tile) efficiency(r *Rule) float64 {
	side := 2 / (1/float64(t.M) + 1/float64(t.N))
	return side / (side + r.Reuse)
}

// tensor is bytes in the arena.
type tensor struct {
	span    kernel.Span
	c, h, w int
}

// op is a layer before it becomes kernels.
type op struct {
	name      string
	in        []int // tensors; -1: weights alone
	out       int
	m, n, k   int     // matrix product; m = 0: none
	macs      float64 // of what is no matrix product
	weights   int64
	elements  int64  // memory bound: elements written
	reads     int64  // memory bound: elements read
	over      int    // the input it writes over, by its place in `in`; -1: none
	overFrom  int    // inputs from this place on it could write over: it reads each element as it writes it
	heads     int    // matrix products of this shape side by side
	fuse      bool   // part of the kernel before it where the style fuses
	window    [3]int // height, width, stride; zero: none
	exitsHere bool
}

// builder collects layers.
type builder struct {
	name    string
	batch   int
	ops     []op
	tensors []tensor
	last    []int // results besides the last layer's, which stay

	valid bool // windows lie within the input

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

// side is an output's: padded to be input / stride, or not padded at all while valid is set.
func (b *builder) side(in, k, stride int) int {
	if b.valid {
		return (in-k)/stride + 1
	}
	return (in + stride - 1) / stride
}

// conv is a convolution with bias and activation.
func (b *builder) conv(in, out, kh, kw, stride, groups int) int {
	x := b.tensors[in]
	h, w := b.side(x.h, kh, stride), b.side(x.w, kw, stride)
	y := b.tensor(out, h, w)
	name := fmt.Sprintf("conv%dx%d", kh, kw)
	if groups > 1 && groups == x.c {
		// a depthwise one reuses nothing across channels
		b.ops = append(b.ops, op{name: "dw" + name, window: [3]int{kh, kw, stride}, in: []int{in}, out: y, elements: b.size(y), reads: b.size(in) + b.size(y)*int64(kh*kw)/4, weights: int64(out * kh * kw), macs: float64(b.size(y)) * float64(kh*kw)})
	} else {
		b.ops = append(b.ops, op{
			name: name, window: [3]int{kh, kw, stride}, in: []int{in}, out: y, m: b.batch * h * w, n: out / groups, k: x.c / groups * kh * kw,
			heads: groups, weights: int64(out) * int64(x.c/groups*kh*kw),
		})
	}
	return b.pointwise("relu", y)
}

// dense is a matrix product of rows by in features.
func (b *builder) dense(in, out int) int {
	x := b.tensors[in]
	y := b.tensor(out, x.h, x.w)
	b.ops = append(b.ops, op{name: "dense", in: []int{in}, out: y, m: b.batch * x.h * x.w, n: out, k: x.c, heads: 1, weights: int64(out) * int64(x.c)})
	return y
}

// pointwise is a kernel over all elements that may work in place.
func (b *builder) pointwise(name string, in int, more ...int) int {
	x := b.tensors[in]
	y := b.tensor(x.c, x.h, x.w)
	b.ops = append(b.ops, op{
		name: name, in: append([]int{in}, more...), out: y, elements: b.size(y), reads: b.size(in) * int64(1+len(more)), fuse: true,
	})
	return y
}

// over is memory bound, not in place, a kernel of its own always: softmax, norms, pools, reshapes.
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

// concat by channel is a copy of both.
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

// product is a matrix product of two activations, heads of them side by side.
func (b *builder) product(name string, x, y, heads, m, n, k, c, h, w int) int {
	out := b.tensor(c, h, w)
	b.ops = append(b.ops, op{name: name, in: []int{x, y}, out: out, m: b.batch * m, n: n, k: k, heads: heads})
	return out
}

// exit ends a segment here: a classifier on the tensor, its result kept.
func (b *builder) exit(in, classes int) {
	b.dense(b.global(in), classes)
	b.ops[len(b.ops)-1].exitsHere = true
}

// arrange makes of layers what becomes kernels, and gives tensors their bytes.
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

// program makes kernels of the layers.
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

// wordBytes: all networks here run in float32.
const wordBytes = 4

// kernel is the op on a machine; tile nil: the one with the shortest kernel time.
func (o *op) kernel(m Machine, tile *Tile) kernel.Kernel {
	if o.m == 0 {
		const perBlock = 1024
		blocks := int((o.elements + perBlock - 1) / perBlock)
		bytes := float64(o.elements+o.reads) * wordBytes / float64(blocks)
		// a block alone on its SM draws what the link of one SM to the memory carries
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
		Name: o.name, Blocks: blocks, Threads: t.Threads, Regs: t.Regs, Shared: (t.M + t.N) * 8 * wordBytes * 2,
		Issue: issue, BlockNs: m.rule().Prologue + work/(m.MACs*issue*t.efficiency(m.rule())),
	}
}

// waves is about how long the kernel takes alone: SMs filled evenly, blocks on one sharing it.
func waves(m Machine, k kernel.Kernel) float64 {
	per := (k.Blocks + m.SMs - 1) / m.SMs
	return k.BlockNs * max(1, float64(per)*k.Issue)
}

// fuse makes one kernel of a layer and of what follows it alone.
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

// place gives every tensor its bytes: first fit while it is alive. As many kernels as the share says,
// spread evenly over those that can, write over an input that nobody reads after them.
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
	// results stay, and the input: a request that is tried again needs it
	last[0] = len(b.ops)
	for _, t := range b.last {
		last[t] = len(b.ops)
	}
	inRow, rest := int(math.Round(r.InRow)), int(math.Round(r.Rest))
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
