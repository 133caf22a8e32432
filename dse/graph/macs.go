package graph

// MACs returns the number of multiply-accumulates of node n for one sample. Only convolutions have any.
func (g *Graph) MACs(n int) int64 {
	node := &g.Nodes[n]
	if node.Op != Conv {
		return 0
	}
	out := g.Tensors[node.Output]
	return int64(out.H) * int64(out.W) * int64(len(node.Weights))
}

// SegmentMACs returns the number of multiply-accumulates of each segment, including its head, for one sample.
func (g *Graph) SegmentMACs() []int64 {
	macs := make([]int64, len(g.Exits))
	for n := range g.Nodes {
		macs[g.Segment[n]] += g.MACs(n)
	}
	return macs
}

// TotalMACs returns the number of multiply-accumulates of all segments.
func (g *Graph) TotalMACs() int64 {
	total := int64(0)
	for _, m := range g.SegmentMACs() {
		total += m
	}
	return total
}

// Divisor returns the divisor of the average pool n at output position y, x: the number of pixels under the window.
// With CountIncludePad, pixels of the padding count too. The part of a window beyond the padding (ceil_mode) does not
// count.
func (g *Graph) Divisor(n, y, x int) int {
	node := &g.Nodes[n]
	in, w := g.Tensors[node.Inputs[0]], node.Window
	if node.CountIncludePad {
		return (min(y*w.SH+w.KH, in.H+w.PT+w.PB) - y*w.SH) * (min(x*w.SW+w.KW, in.W+w.PL+w.PR) - x*w.SW)
	}
	return g.Taps(n, y, x)
}

// Overhanging returns the names of average pools whose divisors differ between PyTorch and onnxruntime (Divisor
// computes the divisor of PyTorch). In these pools, padding counts, and windows extend beyond the padding.
func (g *Graph) Overhanging() (names []string) {
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Op != AvgPool || !node.CountIncludePad {
			continue
		}
		in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
		if (out.H-1)*w.SH+w.KH > in.H+w.PT+w.PB || (out.W-1)*w.SW+w.KW > in.W+w.PL+w.PR {
			names = append(names, node.Name)
		}
	}
	return names
}

// Taps returns the number of pixels, without padding, under the window of node n at output position y, x.
func (g *Graph) Taps(n, y, x int) int {
	node := &g.Nodes[n]
	in, w := g.Tensors[node.Inputs[0]], node.Window
	return taps(y, w.SH, w.PT, w.KH, in.H) * taps(x, w.SW, w.PL, w.KW, in.W)
}

func taps(at, s, before, k, in int) int {
	lo, hi := clip(at, s, before, k, in)
	return max(hi-lo, 0)
}

// clip returns the range lo <= i < hi of a window's taps along one axis that are on pixels.
func clip(at, s, before, k, in int) (lo, hi int) {
	start := at*s - before
	return max(0, -start), min(k, in-start)
}
