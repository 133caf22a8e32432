package catalogue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Spec selects a program.
type Spec struct {
	Network string
	Style   string // "" means tvm
	Batch   int    // 0 means 1
	// Exits is the number of segments; 0: 1. All segments have equal numbers of blocks and end with a classifier.
	Exits int
	Side  int // side of the input image; 0: 224 (YOLOv3 416, Inception-v3 299). Transformers: number of tokens; 0: 128.
}

// Program returns the kernel program of a network on a machine.
func Program(spec Spec, m Machine) (*kernel.Program, error) {
	if spec.Style == "" {
		spec.Style = "tvm"
	}
	style, err := StyleOf(spec.Style)
	if err != nil {
		return nil, err
	}
	b, err := layers(spec)
	if err != nil {
		return nil, err
	}
	return b.program(m, style)
}

// ByBatch returns a function that returns a network's program for a batch. Each program is built only once.
func ByBatch(spec Spec, m Machine) func(batch int) (*kernel.Program, error) {
	programs := map[int]*kernel.Program{}
	return func(batch int) (*kernel.Program, error) {
		if p := programs[batch]; p != nil {
			return p, nil
		}
		spec.Batch = batch
		p, err := Program(spec, m)
		programs[batch] = p
		return p, err
	}
}

// MACs returns the number of multiply-accumulate operations in one inference, including those of depthwise layers.
func MACs(name string) (float64, error) {
	b, err := layers(Spec{Network: name})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range b.ops {
		o := &b.ops[i]
		sum += float64(o.m)*float64(o.n)*float64(o.k)*float64(max(1, o.heads)) + o.macs
	}
	return sum, nil
}

// layers returns a network's layers in order.
func layers(spec Spec) (*builder, error) {
	n, ok := networks[spec.Network]
	if !ok {
		return nil, fmt.Errorf("no network %q in the catalogue; there are %v", spec.Network, Names())
	}
	batch, side := max(1, spec.Batch), n.side
	if spec.Side > 0 {
		side = spec.Side
	}
	least := 64
	if spec.Network == "inceptionv3" { // the windows of Inception-v3 are not padded
		least = 75
	}
	if batch > 4096 || spec.Side < 0 || n.tokens > 0 && spec.Side > 4096 || n.tokens == 0 && (side < least || side > 4096) || spec.Exits < 0 || spec.Exits > 64 {
		return nil, fmt.Errorf("%s: batch %d, side %d, %d exits: out of range", spec.Network, spec.Batch, side, spec.Exits)
	}
	b, in := newBuilder(spec.Network, batch, n.channels, side, side)
	if n.tokens > 0 {
		b, in = newBuilder(spec.Network, batch, n.channels, cmp.Or(spec.Side, n.tokens), 1)
	}
	b.exits, b.blocksInAll = max(1, spec.Exits), n.blocks
	n.make(b, in)
	return b, nil
}

// Names lists the names of the networks.
func Names() []string {
	var out []string
	for n := range networks {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

type network struct {
	channels, side, tokens int
	blocks                 int // number of possible exits
	make                   func(b *builder, in int)
}

// networks contains the shapes from the networks' publications.
var networks = map[string]network{
	"resnet34":    {3, 224, 0, 16, resnet(false, 3, 4, 6, 3)},
	"resnet50":    {3, 224, 0, 16, resnet(true, 3, 4, 6, 3)},
	"resnet152":   {3, 224, 0, 50, resnet(true, 3, 8, 36, 3)},
	"vgg19":       {3, 224, 0, 16, vgg},
	"inceptionv3": {3, 299, 0, 11, inception},
	"densenet201": {3, 224, 0, 98, densenet},
	"mobilenetv2": {3, 224, 0, 17, mobilenet},
	"shufflenet":  {3, 224, 0, 16, shufflenet},
	"yolov3":      {3, 416, 0, 23, yolo},
	"yolov8n":     {3, 640, 0, 8, yoloV8(16, 1)},
	"bert-base":   {768, 0, 128, 12, encoder(12, 768, 12, 3072, 0)},
	"distilbert":  {768, 0, 128, 6, encoder(6, 768, 6, 3072, 0)},
	"roberta":     {768, 0, 128, 12, encoder(12, 768, 12, 3072, 0)},
	"gpt2":        {768, 0, 128, 12, encoder(12, 768, 12, 3072, 50257)},
	"vit-b":       {768, 0, 197, 12, encoder(12, 768, 12, 3072, 1000)},
	"convnext-b":  {3, 224, 0, 36, convnext},
}

// block marks the end of a block, where an exit is possible.
func (b *builder) block(t int) {
	b.blockAt++
	for e := 1; e < b.exits; e++ {
		if b.blockAt == (b.blocksInAll*e+b.exits/2)/b.exits {
			b.exit(t, 1000)
		}
	}
}

func resnet(bottleneck bool, counts ...int) func(*builder, int) {
	return func(b *builder, x int) {
		x = b.pool(b.conv(x, 64, 7, 7, 2, 1), 3, 2)
		for stage, n := range counts {
			c := 64 << stage
			for i := range n {
				stride := 1
				if i == 0 && stage > 0 {
					stride = 2
				}
				short, out := x, c
				y := x
				if bottleneck {
					out = 4 * c
					y = b.conv(b.conv(y, c, 1, 1, 1, 1), c, 3, 3, stride, 1)
					y = b.conv(y, out, 1, 1, 1, 1)
				} else {
					y = b.conv(b.conv(y, c, 3, 3, stride, 1), c, 3, 3, 1, 1)
				}
				if stride != 1 || b.tensors[x].c != out {
					short = b.conv(x, out, 1, 1, stride, 1)
				}
				x = b.pointwise("relu", b.add(y, short))
				b.block(x)
			}
		}
		b.exit(x, 1000)
	}
}

func vgg(b *builder, x int) {
	for stage, n := range []int{2, 2, 4, 4, 4} {
		for range n {
			x = b.conv(x, min(512, 64<<stage), 3, 3, 1, 1)
			b.block(x)
		}
		x = b.pool(x, 2, 2)
	}
	t := b.tensors[x]
	x = b.over("flatten", x, t.c*t.h*t.w, 1, 1, 1)
	for range 2 {
		x = b.pointwise("relu", b.dense(x, 4096))
	}
	b.dense(x, 1000)
	b.ops[len(b.ops)-1].exitsHere = true
}

func inception(b *builder, x int) {
	c := func(x, out, kh, kw, stride int) int { return b.conv(x, out, kh, kw, stride, 1) }
	// v is like c, but without padding
	v := func(x, out, kh, kw, stride int) int {
		b.valid = true
		defer func() { b.valid = false }()
		return c(x, out, kh, kw, stride)
	}
	pool := func(x int) int {
		b.valid = true
		defer func() { b.valid = false }()
		return b.pool(x, 3, 2)
	}
	x = c(v(v(x, 32, 3, 3, 2), 32, 3, 3, 1), 64, 3, 3, 1)
	x = v(c(pool(x), 80, 1, 1, 1), 192, 3, 3, 1)
	x = pool(x)
	done := func(in ...int) {
		x = b.concat(in...)
		b.block(x)
	}
	for _, last := range []int{32, 64, 64} {
		done(c(x, 64, 1, 1, 1), c(c(x, 48, 1, 1, 1), 64, 5, 5, 1), c(c(c(x, 64, 1, 1, 1), 96, 3, 3, 1), 96, 3, 3, 1), c(b.pool(x, 3, 1), last, 1, 1, 1))
	}
	done(v(x, 384, 3, 3, 2), v(c(c(x, 64, 1, 1, 1), 96, 3, 3, 1), 96, 3, 3, 2), pool(x))
	for _, m := range []int{128, 160, 160, 192} {
		done(c(x, 192, 1, 1, 1), c(c(c(x, m, 1, 1, 1), m, 1, 7, 1), 192, 7, 1, 1),
			c(c(c(c(c(x, m, 1, 1, 1), m, 7, 1, 1), m, 1, 7, 1), m, 7, 1, 1), 192, 1, 7, 1), c(b.pool(x, 3, 1), 192, 1, 1, 1))
	}
	done(v(c(x, 192, 1, 1, 1), 320, 3, 3, 2), v(c(c(c(x, 192, 1, 1, 1), 192, 1, 7, 1), 192, 7, 1, 1), 192, 3, 3, 2), pool(x))
	for range 2 {
		y, z := c(x, 384, 1, 1, 1), c(c(x, 448, 1, 1, 1), 384, 3, 3, 1)
		done(c(x, 320, 1, 1, 1), c(y, 384, 1, 3, 1), c(y, 384, 3, 1, 1), c(z, 384, 1, 3, 1), c(z, 384, 3, 1, 1), c(b.pool(x, 3, 1), 192, 1, 1, 1))
	}
	b.exit(x, 1000)
}

func densenet(b *builder, x int) {
	x = b.pool(b.conv(x, 64, 7, 7, 2, 1), 3, 2)
	for stage, n := range []int{6, 12, 48, 32} {
		for range n {
			x = b.concat(x, b.conv(b.conv(x, 128, 1, 1, 1, 1), 32, 3, 3, 1, 1))
			b.block(x)
		}
		if stage < 3 {
			x = b.pool(b.conv(x, b.tensors[x].c/2, 1, 1, 1, 1), 2, 2)
		}
	}
	b.exit(x, 1000)
}

func mobilenet(b *builder, x int) {
	x = b.conv(x, 32, 3, 3, 2, 1)
	for _, s := range [][4]int{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}} {
		for i := range s[2] {
			stride := 1
			if i == 0 {
				stride = s[3]
			}
			y, c := x, b.tensors[x].c*s[0]
			if s[0] > 1 {
				y = b.conv(y, c, 1, 1, 1, 1)
			}
			y = b.conv(b.conv(y, c, 3, 3, stride, c), s[1], 1, 1, 1, 1)
			if stride == 1 && b.tensors[x].c == s[1] {
				y = b.add(y, x)
			}
			x = y
			b.block(x)
		}
	}
	b.exit(b.conv(x, 1280, 1, 1, 1, 1), 1000)
}

// shufflenet adds the layers of ShuffleNet version 2 in its size x1.
func shufflenet(b *builder, x int) {
	x = b.pool(b.conv(x, 24, 3, 3, 2, 1), 3, 2)
	for stage, n := range []int{4, 8, 4} {
		half := 58 << stage
		for i := range n {
			if i == 0 {
				c := b.tensors[x].c
				l := b.conv(b.conv(x, c, 3, 3, 2, c), half, 1, 1, 1, 1)
				r := b.conv(b.conv(b.conv(x, half, 1, 1, 1, 1), half, 3, 3, 2, half), half, 1, 1, 1, 1)
				x = b.concat(l, r)
			} else {
				t := b.tensors[x]
				l, r := b.over("split", x, half, t.h, t.w, 1), b.over("split", x, half, t.h, t.w, 1)
				r = b.conv(b.conv(b.conv(r, half, 1, 1, 1, 1), half, 3, 3, 1, half), half, 1, 1, 1, 1)
				x = b.concat(l, r)
			}
			t := b.tensors[x]
			x = b.over("shuffle", x, t.c, t.h, t.w, 1)
			b.block(x)
		}
	}
	b.exit(b.conv(x, 1024, 1, 1, 1, 1), 1000)
}

func yolo(b *builder, x int) {
	x = b.conv(x, 32, 3, 3, 1, 1)
	var kept []int
	for stage, n := range []int{1, 2, 8, 8, 4} {
		c := 64 << stage
		x = b.conv(x, c, 3, 3, 2, 1)
		for range n {
			x = b.add(x, b.conv(b.conv(x, c/2, 1, 1, 1, 1), c, 3, 3, 1, 1))
			b.block(x)
		}
		kept = append(kept, x)
	}
	for i, c := range []int{512, 256, 128} {
		if i > 0 {
			y := b.conv(x, c, 1, 1, 1, 1)
			t := b.tensors[y]
			x = b.concat(b.over("upsample", y, t.c, 2*t.h, 2*t.w, 1), kept[4-i])
		}
		for range 2 {
			x = b.conv(b.conv(x, c, 1, 1, 1, 1), 2*c, 3, 3, 1, 1)
		}
		x = b.conv(x, c, 1, 1, 1, 1)
		y := b.conv(x, 2*c, 3, 3, 1, 1)
		t := b.tensors[y]
		z := b.over("detect", b.conv(y, 255, 1, 1, 1, 1), 255, t.h, t.w, 1)
		b.last = append(b.last, z)
	}
	b.ops[len(b.ops)-1].exitsHere = true
}

// yoloV8 returns YOLO version 8 without post-processing. c is the number of channels after the first layer. depth is
// the number of bottlenecks in the first and last block. The blocks between them have twice as many.
func yoloV8(c, depth int) func(*builder, int) {
	return func(b *builder, x int) {
		half := func(x, c int) int { return b.over("split", x, c, b.tensors[x].h, b.tensors[x].w, 1) }
		c2f := func(x, out, n int, sum bool) int {
			x = b.conv(x, out, 1, 1, 1, 1)
			all := []int{half(x, out/2), half(x, out/2)}
			for range n {
				y := all[len(all)-1]
				z := b.conv(b.conv(y, out/2, 3, 3, 1, 1), out/2, 3, 3, 1, 1)
				if sum {
					z = b.add(z, y)
				}
				all = append(all, z)
			}
			x = b.conv(b.concat(all...), out, 1, 1, 1, 1)
			b.block(x)
			return x
		}
		up := func(x int) int {
			t := b.tensors[x]
			return b.over("upsample", x, t.c, 2*t.h, 2*t.w, 1)
		}
		x = b.conv(x, c, 3, 3, 2, 1)
		var kept []int
		for stage, n := range []int{depth, 2 * depth, 2 * depth, depth} {
			x = c2f(b.conv(x, 2*c<<stage, 3, 3, 2, 1), 2*c<<stage, n, true)
			kept = append(kept, x)
		}
		x = b.conv(x, 8*c, 1, 1, 1, 1) // pyramid pooling
		p1 := b.pool(x, 5, 1)
		p2 := b.pool(p1, 5, 1)
		x = b.conv(b.concat(x, p1, p2, b.pool(p2, 5, 1)), 16*c, 1, 1, 1, 1)
		mid := c2f(b.concat(up(x), kept[2]), 8*c, depth, false)
		small := c2f(b.concat(up(mid), kept[1]), 4*c, depth, false)
		mid = c2f(b.concat(b.conv(small, 4*c, 3, 3, 2, 1), mid), 8*c, depth, false)
		large := c2f(b.concat(b.conv(mid, 8*c, 3, 3, 2, 1), x), 16*c, depth, false)
		for _, s := range []int{small, mid, large} {
			box := b.conv(b.conv(b.conv(s, 64, 3, 3, 1, 1), 64, 3, 3, 1, 1), 64, 1, 1, 1, 1)
			class := b.conv(b.conv(b.conv(s, 80, 3, 3, 1, 1), 80, 3, 3, 1, 1), 80, 1, 1, 1, 1)
			b.last = append(b.last, b.concat(box, class))
		}
		b.ops[len(b.ops)-1].exitsHere = true
	}
}

// encoder returns a transformer with equal layers. head is the size of its output layer; 0: width.
func encoder(layers, width, heads, inner, head int) func(*builder, int) {
	return func(b *builder, x int) {
		tokens := b.tensors[x].h
		for range layers {
			y := b.norm(x)
			q, k, v := b.dense(y, width), b.dense(y, width), b.dense(y, width)
			q, k, v = b.pointwise("bias", q), b.pointwise("bias", k), b.pointwise("bias", v)
			s := b.product("scores", q, k, heads, tokens, tokens, width/heads, heads*tokens, tokens, 1)
			s = b.over("softmax", s, heads*tokens, tokens, 1, 2)
			y = b.product("attend", s, v, heads, tokens, width/heads, tokens, width, tokens, 1)
			x = b.add(b.pointwise("bias", b.dense(y, width)), x)
			y = b.pointwise("gelu", b.dense(b.norm(x), inner))
			x = b.add(b.pointwise("bias", b.dense(y, width)), x)
			b.block(x)
		}
		x = b.norm(x)
		if head > 0 {
			b.dense(x, head)
		} else {
			b.pointwise("tanh", b.dense(x, width))
		}
		b.ops[len(b.ops)-1].exitsHere = true
	}
}

func convnext(b *builder, x int) {
	x = b.conv(x, 128, 4, 4, 4, 1)
	for stage, n := range []int{3, 3, 27, 3} {
		c := 128 << stage
		if stage > 0 {
			x = b.conv(b.norm(x), c, 2, 2, 2, 1)
		}
		for range n {
			y := b.norm(b.conv(x, c, 7, 7, 1, c))
			y = b.pointwise("gelu", b.dense(y, 4*c))
			x = b.add(b.dense(y, c), x)
			b.block(x)
		}
	}
	b.exit(x, 1000)
}

// Versions returns implementations of each kernel of a program. A matrix product has one implementation per tile.
// Memory-bound kernels have none.
func Versions(spec Spec, m Machine) ([][]kernel.Kernel, error) {
	style, err := StyleOf(cmp.Or(spec.Style, "tvm"))
	if err != nil {
		return nil, err
	}
	b, err := layers(spec)
	if err != nil {
		return nil, err
	}
	p, err := b.program(m, style)
	if err != nil {
		return nil, err
	}
	out := make([][]kernel.Kernel, len(p.Kernels))
	for i := range b.ops {
		if b.ops[i].m == 0 {
			continue
		}
		for _, t := range Tiles {
			k := b.ops[i].product(m, t)
			k.Bytes, k.Reads, k.Writes = p.Kernels[i].Bytes, p.Kernels[i].Reads, p.Kernels[i].Writes
			out[i] = append(out[i], k)
		}
	}
	return out, nil
}
