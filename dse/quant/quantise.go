package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/graph"
)

// Errors of Quantise and Check. Every error wraps one of these and names the layer.
var (
	ErrOverflow    = errors.New("an accumulator could overflow")
	ErrRange       = errors.New("a number does not fit its field")
	ErrCalibration = errors.New("the calibration data is unusable")
)

// Limits of the NPU's fields (hw/abi).
const (
	MaxShift    = 47
	MaxResShift = 31
	MaxAvgMul   = 1<<17 - 1
	MaxAvgShift = 47

	// Headroom is the default ratio of a scale's range to the calibrated range.
	Headroom = 1.25

	minFrac, maxFrac = -120, 120 // fraction bits of a tensor; float32 has a similar range
	maxWFrac         = 120       // maximum fraction bits of weights
	maxProductShift  = 31        // field RES_SHIFT has 5 bits
	maxIdentity      = 14        // an identity weight of 1 << WFrac is an int16
	avgGain          = 8         // number of fraction bits that an average may have more than its input
	minAvgMul        = 1 << 8    // smallest factor M of an average; a smaller one would distort large windows
	agreeBits        = 3         // bits, of 15, that a convolution's largest weight may lose so that convolutions can be merged
)

// Options are the options of Quantise. The zero value is useful.
type Options struct {
	// InputRange is the largest |x| of the network's input, which determines the input's fraction; 1 if 0.
	InputRange float64
	// Headroom multiplies the calibrated range, so that unseen images saturate less often; 1.25 if 0. Bounds of a clamp
	// need no headroom.
	Headroom float64
	// Range is the part of the calibrated values that a scale covers.
	Range Range
	// MinWeightBits is the minimum number of bits of a layer's largest weight that remain after the overflow proof
	// has removed fraction bits; 6 if 0.
	MinWeightBits int
	// Workers is the number of goroutines that calibrate; one per processor if 0.
	Workers int

	parts map[string]part // layers that compute a part of a longer sum, by name of the node
	front []*spread       // calibrated inputs of functions, by node
}

func (o Options) defaults() Options {
	if o.InputRange == 0 {
		o.InputRange = 1
	}
	if o.Headroom == 0 {
		o.Headroom = Headroom
	}
	if o.MinWeightBits == 0 {
		o.MinWeightBits = 6
	}
	return o
}

// Quantise chooses fractions by means of calibration images (H x W x C each), and converts each layer to integers that
// Check accepts.
func Quantise(g *graph.Graph, calibration [][]float32, o Options) (*Network, error) {
	return QuantiseFrom(g, len(calibration), func(i int) ([]float32, error) { return calibration[i], nil }, o)
}

// QuantiseFrom does the same as Quantise, but not all images need to be in memory. If it scales channels or splits a
// layer in two, the network's graph is not g, but computes the same function.
func QuantiseFrom(g *graph.Graph, n int, image func(i int) ([]float32, error), o Options) (*Network, error) {
	channels, front, err := calibrate(g, n, image, o)
	if err != nil {
		return nil, err
	}
	twice, err := normaliseTwice(g, channels, front, o)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	once, err := quantise(g, n, image, o, channels, front)
	if twice == g {
		return once, err
	}
	channels, front, failed := calibrate(twice, n, image, o)
	if failed != nil {
		return nil, failed
	}
	again, failed := quantise(twice, n, image, o, channels, front)
	if failed != nil {
		return once, err
	}
	again.Of = g
	if err != nil {
		return again, nil
	}
	return nearer(g, n, image, once, again)
}

// quantise quantises a graph with known calibrated values.
func quantise(g *graph.Graph, n int, image func(i int) ([]float32, error), o Options, channels [][]float64, front []*spread) (*Network, error) {
	g = equalise(g, channels)
	o.parts = map[string]part{}
	for {
		// Weights may lose too many bits in this step, because splitLong splits such layers afterwards.
		o.front = front
		loose := o
		loose.MinWeightBits = 1
		q, err := QuantiseRanges(g, largest(channels), o)
		first := q
		if errors.Is(err, ErrOverflow) {
			first, _ = QuantiseRanges(g, largest(channels), loose)
		}
		if first == nil {
			return q, err
		}
		longer, failed := splitLong(g, first, o.parts)
		if failed != nil {
			return nil, fmt.Errorf("network %s: %w", g.Name, failed)
		}
		if longer == g {
			return q, err
		}
		g = longer
		if channels, front, err = calibrate(g, n, image, o); err != nil {
			return nil, err
		}
	}
}

// QuantiseRanges quantises a graph with a known largest |x| of each tensor (ranges).
func QuantiseRanges(g *graph.Graph, ranges []float64, o Options) (*Network, error) {
	o = o.defaults()
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	if len(ranges) != len(g.Tensors) {
		return nil, fmt.Errorf("network %s: %w: %d ranges for %d tensors", g.Name, ErrCalibration, len(ranges), len(g.Tensors))
	}
	if !(o.InputRange > 0) || math.IsInf(o.InputRange, 0) || !(o.Headroom >= 1) || math.IsInf(o.Headroom, 0) ||
		o.MinWeightBits < 1 || o.MinWeightBits > 15 {
		return nil, fmt.Errorf("network %s: %w: input range %v, headroom %v, weight bits %d", g.Name, ErrRange,
			o.InputRange, o.Headroom, o.MinWeightBits)
	}
	for t, r := range ranges {
		if !(r >= 0) || math.IsInf(r, 0) {
			return nil, fmt.Errorf("network %s: %w: the range of tensor %q is %v", g.Name, ErrCalibration, g.Tensors[t].Name, r)
		}
	}
	for n := range g.Nodes {
		if g.Nodes[n].Function != nil && (len(o.front) != len(g.Nodes) || o.front[n] == nil) {
			return nil, fmt.Errorf("network %s: %w: nothing is known of what %q applies %v to", g.Name, ErrCalibration, g.Nodes[n].Name, g.Nodes[n].Function)
		}
	}
	s := newSolver(g, ranges, o)
	n, err := s.solve()
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	return n, n.Check()
}

// solver lowers fractions until every layer's shifts fit and every proof holds.
type solver struct {
	g     *graph.Graph
	o     Options
	nodes []graph.Node // nodes of g; the weights and biases of some nodes with a function are stretched
	by    []float64    // by node: factor by which weights and biases are stretched
	group []int        // tensors of one group share a fraction
	frac  []int        // by group
	wfrac []int        // by node, once known
	mid   []int        // by node: fraction of its function's input
	known []key        // the arguments for which wfrac was computed
}

type key struct {
	in, out, res int
	valid        bool
}

func newSolver(g *graph.Graph, ranges []float64, o Options) *solver {
	s := &solver{
		g: g, o: o, nodes: slices.Clone(g.Nodes), by: slices.Repeat([]float64{1}, len(g.Nodes)),
		group: make([]int, len(g.Tensors)), frac: make([]int, len(g.Tensors)),
		wfrac: make([]int, len(g.Nodes)), known: make([]key, len(g.Nodes)), mid: make([]int, len(g.Nodes)),
	}
	for t := range s.group {
		s.group[t] = t
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Op.Passes() {
			for _, t := range node.Inputs {
				s.group[s.root(int(t))] = s.root(int(node.Output))
			}
		}
	}
	for t := range s.group {
		s.group[t] = s.root(t)
	}
	bound := make([]float64, len(g.Tensors))
	for t := range bound {
		bound[t] = ranges[t] * o.Headroom
	}
	bound[g.Input] = o.InputRange
	for n := range g.Nodes {
		node := &g.Nodes[n]
		hard := max(math.Abs(float64(node.ClampLo)), math.Abs(float64(node.ClampHi)))
		if node.Function != nil {
			most := orOne(bound[node.Output])
			lo, hi, out := max(-most, float64(node.ClampLo)), min(most, float64(node.ClampHi)), fraction(most, maxFrac)
			if node.Op == graph.Conv && node.Residual == graph.None && o.parts[node.Name].of == 0 {
				s.stretch(n, lo, hi, out)
			}
			s.mid[n] = o.front[n].front(node.Function, o.Headroom, s.by[n], lo, hi, math.Ldexp(1, -out))
			hard = min(hard, s.bound(n))
		}
		bound[node.Output] = min(bound[node.Output], hard)
	}
	for t := range s.frac {
		s.frac[t] = maxFrac
	}
	for t, b := range bound {
		s.frac[s.group[t]] = min(s.frac[s.group[t]], fraction(orOne(b), maxFrac))
	}
	return s
}

// orOne returns the bound, or one for a tensor that is always zero in calibration, because any bound is correct then.
func orOne(bound float64) float64 {
	if bound == 0 {
		return 1
	}
	return bound
}

// bound returns the largest magnitude of a node's function for 16-bit inputs. The result is slightly smaller, because a
// function that reaches exactly one would otherwise lose a fraction bit; now the value one saturates by a step.
func (s *solver) bound(n int) float64 {
	const every = 64
	most := 0.0
	for x := math.MinInt16; x <= math.MaxInt16+1; x += every {
		most = max(most, math.Abs(s.g.Nodes[n].Function.At(math.Ldexp(float64(x), -s.mid[n])/s.by[n])))
	}
	return most * math.MaxInt16 / (math.MaxInt16 + 1)
}

// stretch multiplies a convolution's weights and biases by the factor that gives the best curve.
func (s *solver) stretch(n int, lo, hi float64, out int) {
	node := &s.nodes[n]
	s.by[n] = stretch(node.Function, s.o.front[n], s.o.Headroom, lo, hi, out)
	if s.by[n] == 1 {
		return
	}
	scaled := func(x []float32) []float32 {
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = v * float32(s.by[n])
		}
		return y
	}
	node.Weights, node.Bias = scaled(node.Weights), scaled(node.Bias)
}

func (s *solver) root(t int) int {
	for s.group[t] != t {
		t = s.group[t]
	}
	return t
}

// fraction returns the largest F up to most with round(x * 2^F) <= 32767.
func fraction(x float64, most int) int {
	_, exponent := math.Frexp(x)
	f := min(15-exponent, most)
	if math.Round(math.Ldexp(x, f)) > math.MaxInt16 {
		f--
	}
	return f
}

func (s *solver) of(t graph.TensorID) int { return s.frac[s.group[t]] }

// sum returns the fraction to which a node's sums are shifted: the fraction of the output, or of its function's input.
func (s *solver) sum(n int) int {
	if s.g.Nodes[n].Function != nil {
		return s.mid[n]
	}
	return s.of(s.g.Nodes[n].Output)
}

// lowerSum reduces the fraction of a node's sums (sum) to at most f. It reports whether a fraction changed.
func (s *solver) lowerSum(n, f int) (bool, error) {
	node := &s.g.Nodes[n]
	if node.Function == nil {
		return s.lower(n, node.Output, f)
	}
	// A slope of one must fit 16 bits, whatever the curve's shift is.
	changed, err := s.lower(n, node.Output, min(s.mid[n], f)+maxIdentity)
	if err != nil || s.mid[n] <= f {
		return changed, err
	}
	if f < minFrac {
		return false, fmt.Errorf("layer %d (%q): %w: it would need %d fraction bits in front of %v, at least %d are supported",
			n, node.Name, ErrRange, f, node.Function, minFrac)
	}
	s.mid[n] = f
	return true, nil
}

// lower reduces the fraction of a tensor, and of the tensors that share it, to at most f. It reports whether the
// fraction changed.
func (s *solver) lower(n int, t graph.TensorID, f int) (bool, error) {
	g := s.group[t]
	if s.frac[g] <= f {
		return false, nil
	}
	if f < minFrac {
		return false, fmt.Errorf("layer %d (%q): %w: tensor %q would need %d fraction bits, at least %d are supported",
			n, s.g.Nodes[n].Name, ErrRange, s.g.Tensors[t].Name, f, minFrac)
	}
	s.frac[g] = f
	return true, nil
}

func (s *solver) solve() (*Network, error) {
	for t, f := range s.frac {
		if s.group[t] == t && f < minFrac {
			return nil, fmt.Errorf("tensor %q: %w: its values need %d fraction bits, at least %d are supported",
				s.g.Tensors[t].Name, ErrRange, f, minFrac)
		}
	}
	// Fractions are only reduced, and are never below minFrac, so this loop terminates.
	for changed := true; changed; {
		changed = false
		for n := range s.g.Nodes {
			c, err := s.settle(n)
			if err != nil {
				return nil, err
			}
			changed = changed || c
		}
	}
	for _, nodes := range alias.Of(s.g).Merged {
		s.shareShift(nodes)
	}
	net := &Network{Graph: s.g, Frac: make([]int, len(s.g.Tensors)), Layers: make([]Layer, len(s.g.Nodes))}
	for t := range net.Frac {
		net.Frac[t] = s.of(graph.TensorID(t))
	}
	for n := range s.g.Nodes {
		if err := s.build(n, &net.Layers[n]); err != nil {
			return nil, err
		}
	}
	return net, nil
}

// settle lowers fractions until node n can be computed. It reports whether a fraction changed.
func (s *solver) settle(n int) (bool, error) {
	node := &s.g.Nodes[n]
	switch node.Op {
	case graph.Conv:
		return s.settleConv(n)
	case graph.Add:
		return s.settleAdd(n)
	case graph.Mul:
		return s.settleMul(n)
	case graph.AvgPool:
		return s.settleAvg(n)
	}
	return false, nil
}

func (s *solver) settleConv(n int) (bool, error) {
	node := &s.g.Nodes[n]
	if err := s.chooseWeights(n); err != nil {
		return false, err
	}
	acc := s.wfrac[n] + s.of(node.Inputs[0])
	// The hardware has no left shift, so an output or a residual finer than the accumulator gets a coarser fraction.
	changed, err := s.lowerSum(n, acc)
	if err != nil || node.Residual == graph.None {
		return changed, err
	}
	c, err := s.lower(n, node.Residual, acc)
	return changed || c, err
}

// shareShift sets the same shift for convolutions that may be merged, because a layer has one shift for all its
// channels. It reduces the fractions of their weights, and does not change the scales of tensors. If a convolution
// would lose more than agreeBits, shareShift changes nothing, and the convolutions remain separate layers. (GoogLeNet
// and Inception-v3 with random weights lose at most one bit. If all weights of GoogLeNet have three bits less, its
// logits differ from onnxruntime's by 0.5 % of the largest logit instead of 0.08 %; with four bits less, by 1 %.)
func (s *solver) shareShift(nodes []int) {
	shift := func(n int) int {
		node := &s.g.Nodes[n]
		return s.wfrac[n] + s.of(node.Inputs[0]) - s.of(node.Output)
	}
	least := math.MaxInt
	for _, n := range nodes {
		least = min(least, shift(n))
	}
	for _, n := range nodes {
		lost := shift(n) - least
		if bits := magnitudeBits(largestWeight(&s.g.Nodes[n]), s.wfrac[n]-lost); lost > agreeBits || lost > 0 && bits < s.o.MinWeightBits {
			return
		}
	}
	for _, n := range nodes { // coarser weights cannot cause an overflow if finer weights do not
		s.wfrac[n] -= shift(n) - least
	}
}

// chooseWeights finds the maximum number of fraction bits for the weights of node n.
func (s *solver) chooseWeights(n int) error {
	node := &s.nodes[n]
	k := key{in: s.of(node.Inputs[0]), out: s.sum(n), valid: true}
	if node.Residual != graph.None {
		k.res = s.of(node.Residual)
	}
	if s.known[n] == k {
		return nil
	}
	largest := largestWeight(node)
	least := s.o.MinWeightBits
	if s.o.parts[node.Name].of != 0 {
		least = 1 // another part of the layer computes with the remainders
	}
	w := 15
	if largest > 0 {
		w = fraction(largest, maxWFrac)
	}
	for ; ; w-- {
		reason := s.refusal(n, k, w)
		if reason == nil {
			break
		}
		// The largest weight must keep enough bits when the weights lose one. Zero weights have no bits to lose.
		// Weights may also lose bits that hardly affect the output, because the bias or residual is much larger.
		if bits := magnitudeBits(largest, w-1); largest > 0 && bits < least && !roundingNegligible(node, k, w-1) && !roundingSmall(node, k, w-1) || w < -maxWFrac {
			return fmt.Errorf("layer %d (%q): %w; with %d weight fraction bits the largest weight has %d bits, and it must keep %d",
				n, node.Name, reason, w, magnitudeBits(largest, w), least)
		}
	}
	s.wfrac[n], s.known[n] = w, k
	return nil
}

// roundingNegligible reports whether rounding the weights to w fraction bits changes each channel's sum by at most half
// a step of the output, for any input.
func roundingNegligible(node *graph.Node, k key, w int) bool {
	per := len(node.Weights) / max(len(node.Bias), 1)
	most := math.Ldexp(0.5, k.in-15-k.out) // limit for the sum of the weights' errors, because inputs are at most 2^(15 - k.in)
	for c := range node.Bias {
		off := 0.0
		for _, v := range node.Weights[c*per : (c+1)*per] {
			off += math.Abs(float64(v) - math.Ldexp(math.Round(math.Ldexp(float64(v), w)), -w))
		}
		if off > most {
			return false
		}
	}
	return true
}

// roundingSmall reports whether rounding the weights to w fraction bits changes each channel's sum by at most a few
// steps of the output. It assumes the largest inputs, and rounding errors with independent signs. Weights can have this
// precision even beside a bias that is far larger than the products, because a bias may use 31 bits of the accumulator.
func roundingSmall(node *graph.Node, k key, w int) bool {
	const steps = 16 // steps of the output; 16 of 2^15 steps are 0.05 % of the largest output
	per := len(node.Weights) / max(len(node.Bias), 1)
	most := math.Ldexp(steps, k.in-15-k.out)
	for c := range node.Bias {
		sum := 0.0
		for _, v := range node.Weights[c*per : (c+1)*per] {
			off := float64(v) - math.Ldexp(math.Round(math.Ldexp(float64(v), w)), -w)
			sum += off * off
		}
		if math.Sqrt(sum) > most {
			return false
		}
	}
	return true
}

func largestWeight(node *graph.Node) float64 {
	largest := 0.0
	for _, w := range node.Weights {
		largest = max(largest, math.Abs(float64(w)))
	}
	return largest
}

func magnitudeBits(x float64, frac int) int {
	v := math.Round(math.Ldexp(x, frac))
	if v < 1 {
		return 0
	}
	_, e := math.Frexp(v)
	return e
}

// refusal returns an error if the weights of node n cannot have w fraction bits.
func (s *solver) refusal(n int, k key, w int) error {
	node := &s.nodes[n]
	acc := w + k.in
	if acc-k.out > MaxShift {
		return fmt.Errorf("%w: a shift of %d, at most %d is possible", ErrRange, acc-k.out, MaxShift)
	}
	l := Layer{WFrac: w}
	if node.Residual != graph.None {
		// A negative shift is replaced by 0 here; settleConv then chooses a coarser fraction for the residual.
		if l.ResShift = max(acc-k.res, 0); l.ResShift > MaxResShift {
			return fmt.Errorf("%w: a residual shift of %d, at most %d is possible", ErrRange, l.ResShift, MaxResShift)
		}
	}
	if err := biases(&l, node, acc); err != nil {
		return err
	}
	quantiseWeights(&l, node)
	return prove(node, &l, 0).refusal()
}

func quantiseWeights(l *Layer, node *graph.Node) {
	l.Weights = make([]int16, len(node.Weights))
	scale := math.Ldexp(1, l.WFrac)
	for i, w := range node.Weights {
		l.Weights[i] = saturate(math.Round(float64(w) * scale))
	}
}

func biases(l *Layer, node *graph.Node, acc int) error {
	l.Bias = make([]int32, len(node.Bias))
	for c, b := range node.Bias {
		v := math.Round(math.Ldexp(float64(b), acc))
		if math.Abs(v) > math.MaxInt32 {
			return fmt.Errorf("%w: channel %d: the bias %v has %d fraction bits in the accumulator and needs more than 32 bits",
				ErrOverflow, c, b, acc)
		}
		l.Bias[c] = int32(v)
	}
	return nil
}

func saturate(v float64) int16 {
	return int16(min(max(v, math.MinInt16), math.MaxInt16))
}

func (s *solver) settleAdd(n int) (bool, error) {
	node := &s.g.Nodes[n]
	a, b := node.Inputs[0], node.Inputs[1]
	changed, err := s.lowerSum(n, s.of(a)+maxIdentity)
	if err != nil {
		return changed, err
	}
	// The identity's weight and the residual's shift are both below 2^18, so the sum is below 2^35.
	for _, limit := range []struct {
		tensor graph.TensorID
		most   int
	}{
		{b, s.of(a) + maxIdentity},
		{a, s.of(b) + 18},
		{a, s.sum(n) + MaxShift - maxIdentity},
	} {
		c, err := s.lower(n, limit.tensor, limit.most)
		if err != nil {
			return changed, err
		}
		changed = changed || c
	}
	s.wfrac[n] = max(0, s.of(b)-s.of(a), s.sum(n)-s.of(a))
	if rs := s.of(a) + s.wfrac[n] - s.of(b); rs > 18 {
		c, err := s.lowerSum(n, s.of(b)+18)
		return changed || c, err
	}
	return changed, nil
}

func (s *solver) settleMul(n int) (bool, error) {
	node := &s.g.Nodes[n]
	a, b := node.Inputs[0], node.Inputs[1]
	changed, err := s.lower(n, node.Output, s.of(a)+s.of(b))
	if err != nil {
		return changed, err
	}
	// The shift can drop at most maxProductShift fraction bits of the product, so a factor may need a coarser one.
	c, err := s.lower(n, a, s.of(node.Output)+maxProductShift-s.of(b))
	return changed || c, err
}

func (s *solver) settleAvg(n int) (bool, error) {
	node := &s.g.Nodes[n]
	if err := prove(node, &Layer{}, node.Window.KH*node.Window.KW).refusal(); err != nil {
		return false, fmt.Errorf("layer %d (%q): %w", n, node.Name, err)
	}
	_, e, err := averages(s.g, n)
	if err != nil {
		return false, err
	}
	in, out := node.Inputs[0], node.Output
	changed, err := s.lower(n, out, s.of(in)+min(avgGain, e-1))
	if err != nil {
		return changed, err
	}
	c, err := s.lower(n, in, s.of(out)+MaxAvgShift-e)
	return changed || c, err
}

// Averages returns an error if the hardware does not support the division of an average pool. The result depends only
// on windows and shapes.
func Averages(g *graph.Graph) error {
	for n := range g.Nodes {
		if g.Nodes[n].Op == graph.AvgPool {
			if _, _, err := averages(g, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// averages returns the divisors of average pool n, by the number of pixels under the window. The hardware counts these
// pixels. The result e is the exponent of the factors.
func averages(g *graph.Graph, n int) (divisors map[int]int, e int, err error) {
	node := &g.Nodes[n]
	out := g.Tensors[node.Output]
	divisors = map[int]int{}
	for y := range out.H {
		for x := range out.W {
			taps, d := g.Taps(n, y, x), g.Divisor(n, y, x)
			if before, seen := divisors[taps]; seen && before != d {
				return nil, 0, fmt.Errorf("layer %d (%q): %w: windows of %d pixels are divided by %d and by %d, the hardware divides by a number that depends on the pixels",
					n, node.Name, ErrRange, taps, before, d)
			}
			divisors[taps] = d
		}
	}
	e = exponent(divisors)
	for taps, d := range divisors {
		if factor(e, d) < minAvgMul {
			return nil, 0, fmt.Errorf("layer %d (%q): %w: averages over %d and fewer pixels are too far apart for one shift", n, node.Name, ErrRange, taps)
		}
	}
	return divisors, e, nil
}

// factor returns the factor that replaces a division by d.
func factor(e, d int) int32 { return int32(math.Round(math.Ldexp(1, e) / float64(d))) }

// exponent returns the exponent e for which 2^e / n is in (2^15, 2^16]. Here n is the smallest divisor.
func exponent(divisors map[int]int) int {
	least := math.MaxInt
	for _, d := range divisors {
		least = min(least, d)
	}
	return 15 + magnitudeBits(float64(least), 0)
}

func (s *solver) build(n int, l *Layer) error {
	node := &s.nodes[n]
	out := s.of(node.Output)
	l.ClampLo, l.ClampHi = clampBound(node.ClampLo, out), clampBound(node.ClampHi, out)
	switch node.Op {
	case graph.Conv:
		l.WFrac = s.wfrac[n]
		acc := l.WFrac + s.of(node.Inputs[0])
		l.Shift = acc - s.sum(n)
		if node.Residual != graph.None {
			l.ResShift = acc - s.of(node.Residual)
		}
		quantiseWeights(l, node)
		if err := biases(l, node, acc); err != nil {
			return err
		}
	case graph.Add:
		l.WFrac = s.wfrac[n]
		acc := l.WFrac + s.of(node.Inputs[0])
		l.Shift, l.ResShift = acc-s.sum(n), acc-s.of(node.Inputs[1])
	case graph.Mul:
		l.ResShift = s.of(node.Inputs[0]) + s.of(node.Inputs[1]) - out
	case graph.AvgPool:
		return s.buildAvg(n, l)
	}
	if node.Function != nil {
		var err error
		l.Mid, l.Stretch = s.mid[n], s.by[n]
		if l.Curve, l.CurveError, err = fit(node.Function, s.o.front[n], s.o.Headroom, s.by[n], l.Mid, out); err != nil {
			return fmt.Errorf("layer %d (%q): %w", n, node.Name, err)
		}
		l.Norm = s.holds(n, l)
	}
	return nil
}

func clampBound(v float32, frac int) int16 {
	if math.IsInf(float64(v), 0) {
		return saturate(float64(v))
	}
	return saturate(math.Round(math.Ldexp(float64(v), frac)))
}

func (s *solver) buildAvg(n int, l *Layer) error {
	node := &s.g.Nodes[n]
	divisors, e, err := averages(s.g, n)
	if err != nil {
		return err
	}
	l.AvgShift = e - (s.of(node.Output) - s.of(node.Inputs[0]))
	same := map[int]bool{}
	for _, d := range divisors {
		same[d] = true
	}
	if len(same) == 1 {
		for d := range same {
			l.AvgMul = int(factor(e, d))
		}
		return nil
	}
	l.AvgTable = make([]int32, node.Window.KH*node.Window.KW+1)
	for taps, d := range divisors {
		l.AvgTable[taps] = factor(e, d)
	}
	return nil
}

// Input quantises one image and writes it to dst, which must have the same length.
func (n *Network) Input(dst []int16, x []float32) {
	scale := math.Ldexp(1, n.Frac[n.Graph.Input])
	for i, v := range x {
		dst[i] = saturate(math.Round(float64(v) * scale))
	}
}

// Value returns the number that an element of tensor t represents.
func (n *Network) Value(t graph.TensorID, element int16) float64 {
	return math.Ldexp(float64(element), -n.Frac[t])
}
