// Package evaluate compares a bundle with its sources, on images with or without classes. It compares the golden
// executor, which computes the results that the hardware must compute, with the float network and with onnxruntime.
package evaluate

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
)

// ErrEvaluate is wrapped by the errors of Run.
var ErrEvaluate = errors.New("the images cannot be evaluated")

// chunk is the maximum number of images that are in memory at the same time.
const chunk = 64

// Oracle returns the logits of another implementation, by exit and image.
type Oracle func(ctx context.Context, inputs [][]float32) ([][][]float32, error)

// Report is the result of an evaluation. Shares are shares of the images if no comment says otherwise.
type Report struct {
	Images   int     `json:"images"`
	Seen     int     `json:"images_of_calibration"`
	Labelled bool    `json:"labelled"`
	Oracle   bool    `json:"onnxruntime"`
	Clipped  float64 `json:"input_clipped"` // share of input elements beyond the range of the input
	// Saturated lists the layers with results at the limits of 16 bits. It also lists layers whose sums reach these limits
	// before an activation function that is not constant there. Calibration observed only smaller values.
	Saturated []Saturation `json:"saturated_layers,omitempty"`
	// SaturatedInt8 lists the layers with results beyond the range of int8.
	SaturatedInt8 []Saturation `json:"int8_saturated_layers,omitempty"`
	Exits         []Exit       `json:"exits"`
	Int8          *Int8        `json:"int8,omitempty"` // only if the network was also evaluated in int8
}

// Saturation is the share of results that saturate in one layer.
type Saturation struct {
	Layer string  `json:"layer"`
	Share float64 `json:"share"` // share of the layer's results
}

// Exit compares the results of one exit. A distance is the largest difference of an image's logits, divided by the
// largest magnitude of these logits. A value is nil if nothing was compared.
type Exit struct {
	Name        string   `json:"name"`
	Int16       *float64 `json:"accuracy_int16"`
	Float       *float64 `json:"accuracy_float"`
	Onnxruntime *float64 `json:"accuracy_onnxruntime"`
	AgreeFloat  *float64 `json:"int16_agrees_with_float"` // share with the same class; nil if the exit is not a classifier
	AgreeOracle *float64 `json:"int16_agrees_with_onnxruntime"`
	FloatOracle *float64 `json:"float_agrees_with_onnxruntime"`
	MeanFloat   float64  `json:"distance_from_float_mean"`
	WorstFloat  float64  `json:"distance_from_float_worst"`
	MeanOracle  *float64 `json:"distance_from_onnxruntime_mean"`
	WorstOracle *float64 `json:"distance_from_onnxruntime_worst"`
	// Results in int8, if requested.
	Int8      *float64 `json:"accuracy_int8,omitempty"`
	AgreeInt8 *float64 `json:"int8_agrees_with_float,omitempty"`
	MeanInt8  *float64 `json:"int8_distance_from_float_mean,omitempty"`
	WorstInt8 *float64 `json:"int8_distance_from_float_worst,omitempty"`

	AgreeInt8Oracle *float64 `json:"int8_agrees_with_onnxruntime,omitempty"`
	MeanInt8Oracle  *float64 `json:"int8_distance_from_onnxruntime_mean,omitempty"`
	WorstInt8Oracle *float64 `json:"int8_distance_from_onnxruntime_worst,omitempty"`
}

// tally contains sums of results at an exit for one number type, over all images.
type tally struct {
	right, agreeFloat, agreeOracle int
	meanFloat, worstFloat          float64
	meanOracle, worstOracle        float64
}

// sums contains sums of the results at an exit.
type sums struct {
	int16, int8                tally
	float, oracle, floatOracle int // numbers of images: correct; correct; of the same class
}

// Network8 is a network in int8. If Bundle is not nil, the bundle's results are compared with the network's.
type Network8 struct {
	*quant.Int8
	Bundle *bundle.Bundle
}

// Run evaluates the int16 bundle b on the images of set. b must be compiled from q, the integer form of g. If int8 is
// not nil, Run also evaluates int8. If oracle is not nil, Run also compares with the oracle. If seen is not nil, it
// reports whether calibration used an image. If progress is not nil, Run calls it with the number of finished images.
func Run(ctx context.Context, g *graph.Graph, q *quant.Network, b *bundle.Bundle, int8 *Network8, set *images.Set, seen func(x []float32) bool, oracle Oracle, progress func(int)) (*Report, error) {
	if len(g.Exits) != len(b.Network.Exits) {
		return nil, fmt.Errorf("%w: %d exits, the bundle has %d", ErrEvaluate, len(g.Exits), len(b.Network.Exits))
	}
	p, err := golden.New(b)
	if err != nil {
		return nil, err
	}
	first, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	for i, l := range set.Labels {
		if n := bundle.ClassesOf(b.Network.Exits[len(b.Network.Exits)-1].Classes); l >= n {
			return nil, fmt.Errorf("%s: %w: class %d, the network has %d", set.Name(i), ErrEvaluate, l, n)
		}
	}
	e := &evaluator{b: b, g: g, p: p, set: set, isSeen: seen, sums: make([]sums, len(g.Exits)), saturated: make([]atomic.Int64, len(b.Layers))}
	if int8 != nil {
		if e.int8, err = newInt8(int8.Int8); err == nil && int8.Bundle != nil {
			e.int8.b, err = golden.New(int8.Bundle)
		}
		if err != nil {
			return nil, err
		}
	}
	runners := []*graph.Runner{first}
	for range quant.Workers(g, 0, set.Len()) - 1 {
		runners = append(runners, first.Clone())
	}
	e.watch(q, runners)
	for from := 0; from < set.Len(); from += chunk {
		if err := e.chunk(ctx, runners, from, min(from+chunk, set.Len()), oracle); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(min(from+chunk, set.Len()))
		}
	}
	return e.report(oracle != nil), nil
}

type evaluator struct {
	b       *bundle.Bundle
	g       *graph.Graph
	p       *golden.Program
	set     *images.Set
	isSeen  func(x []float32) bool // may be nil
	seen    atomic.Int64
	sums    []sums
	clipped int64
	int8    *in8 // may be nil

	saturated []atomic.Int64 // by layer without a function: number of saturated results
	curved    []atomic.Int64 // by node with a function: number of saturated values in the float network
}

// watch counts values that saturate before and after activation functions.
func (e *evaluator) watch(q *quant.Network, runners []*graph.Runner) {
	e.curved = make([]atomic.Int64, len(e.g.Nodes))
	fronts := map[string]*quant.Front{}
	for i := range q.Layers {
		fronts[q.Graph.Nodes[i].Name] = q.Front(i)
	}
	for _, r := range runners {
		r.Before = func(n int, values []float32) {
			f, found := fronts[e.g.Nodes[n].Name], int64(0)
			for _, v := range values {
				if f != nil && f.Saturates(float64(v)) {
					found++
				}
			}
			e.curved[n].Add(found)
		}
	}
}

// logits contains the logits of one image, by exit.
type logits struct{ int16, float, int8 [][]float32 }

func (e *evaluator) chunk(ctx context.Context, runners []*graph.Runner, from, to int, oracle Oracle) error {
	inputs, found := make([][]float32, to-from), make([]logits, to-from)
	errs := make([]error, len(runners))
	var next atomic.Int64
	var clipped atomic.Int64
	var wait sync.WaitGroup
	for w, r := range runners {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(inputs) && errs[w] == nil; i = int(next.Add(1)) - 1 {
				if errs[w] = ctx.Err(); errs[w] != nil {
					return
				}
				var n int64
				inputs[i], found[i], n, errs[w] = e.one(r, from+i)
				clipped.Add(n)
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	e.clipped += clipped.Load()
	var other [][][]float32
	if oracle != nil {
		var err error
		if other, err = oracle(ctx, inputs); err != nil {
			return err
		}
		if len(other) != len(e.g.Exits) {
			return fmt.Errorf("%w: onnxruntime has %d exits, the network %d", ErrEvaluate, len(other), len(e.g.Exits))
		}
	}
	for x := range e.sums {
		for i := range found {
			var o []float32
			if other != nil {
				if o = other[x][i]; len(o) != len(found[i].float[x]) {
					return fmt.Errorf("%w: exit %s has %d logits, in onnxruntime %d", ErrEvaluate, e.g.Exits[x].Name, len(found[i].float[x]), len(o))
				}
				var err error
				if o, err = e.g.Exits[x].FromFile(o); err != nil {
					return err
				}
			}
			for of, values := range map[string][]float32{"the float network": found[i].float[x], "onnxruntime": o} {
				if k := slices.IndexFunc(values, func(v float32) bool { return v-v != 0 }); k >= 0 {
					return fmt.Errorf("%s: %w: logit %d of exit %s is %v in %s", e.set.Name(from+i), ErrEvaluate, k, e.g.Exits[x].Name, values[k], of)
				}
			}
			label := -1
			if e.set.Labels != nil {
				label = e.set.Labels[from+i]
			}
			e.sums[x].count(e.finished(x), found[i].int16[x], found[i].float[x], o, label)
			if e.int8 != nil {
				e.sums[x].int8.count(e.finished(x), found[i].int8[x], found[i].float[x], o, label)
			}
		}
	}
	return nil
}

// one computes the logits of one image with all executors. It also counts the input elements that saturate.
func (e *evaluator) one(r *graph.Runner, i int) (x []float32, l logits, clipped int64, err error) {
	if x, err = e.set.Image(i); err != nil {
		return
	}
	if e.isSeen != nil && e.isSeen(x) {
		e.seen.Add(1)
	}
	tensors, err := r.Run(x)
	if err != nil {
		return nil, l, 0, fmt.Errorf("%s: %w", e.set.Name(i), err)
	}
	for _, exit := range e.g.Exits {
		l.float = append(l.float, append([]float32(nil), tensors[exit.Tensor]...))
	}
	if e.int8 != nil {
		if l.int8, err = e.int8.logits(x); err != nil {
			return nil, l, 0, fmt.Errorf("%s: %w", e.set.Name(i), err)
		}
	}
	in := e.b.Network.Input(x)
	for k, v := range x {
		if math.Abs(math.Round(math.Ldexp(float64(v), e.b.Network.InFrac))-float64(in[k])) > 1 {
			clipped++
		}
	}
	exits, err := e.golden(in)
	if err != nil {
		return nil, l, 0, fmt.Errorf("%s: %w", e.set.Name(i), err)
	}
	for k, values := range exits {
		row := make([]float32, len(values))
		for j, v := range values {
			row[j] = float32(math.Ldexp(float64(v), -e.b.Network.Exits[k].Frac))
		}
		l.int16 = append(l.int16, row)
	}
	return x, l, clipped, nil
}

// golden computes the results of the hardware layer by layer, so that saturated results can be counted.
func (e *evaluator) golden(in []int16) ([][]int16, error) {
	slot := e.p.NewSlot()
	if err := e.p.SetInput(slot, in); err != nil {
		return nil, err
	}
	for i := range e.b.Layers {
		if err := e.p.Layers(i, i, 0, slot); err != nil {
			return nil, err
		}
		e.saturated[i].Add(saturated(&e.b.Layers[i], slot))
	}
	var out [][]int16
	for i := range e.b.Network.Exits {
		logits, err := e.p.Logits(slot, i)
		if err != nil {
			return nil, err
		}
		out = append(out, logits)
	}
	return out, nil
}

// saturated returns how many results of a layer are at the limits of 16 bits. It does not count results at a limit that
// the network itself sets. It counts average pools, but not max pools, which only copy values. It does not count
// activation functions, because some, like tanh, reach a limit (see watch).
func saturated(d *abi.Desc, slot []byte) (n int64) {
	if d.Op == abi.OpMaxPool || d.Curve {
		return 0
	}
	for y := range int(d.OutH) {
		for x := range int(d.OutW) {
			pixel := slot[int(d.OutOffset)+y*int(d.OutRowBytes)+2*x*int(d.OutPix):]
			for c := range int(d.OutC) {
				v := int16(binary.LittleEndian.Uint16(pixel[2*c:]))
				if v == math.MaxInt16 && d.ClampHi == v || v == math.MinInt16 && d.ClampLo == v {
					n++
				}
			}
		}
	}
	return n
}

// finished returns a function that applies the model file's last operation to the logits of an exit. onnxruntime
// executes this operation, but the NPU does not. A softmax is computed for each pixel of a map, over its channels.
func (e *evaluator) finished(exit int) func([]float32) (out []float32, middle float32) {
	x := e.g.Exits[exit]
	switch x.Activation {
	case "Softmax", "LogSoftmax":
		channels := e.g.Tensors[x.Tensor].C
		if len(x.Dims) == 1 { // the softmax is over a flattened map
			channels = e.g.Tensors[x.Tensor].Elems()
		}
		return func(all []float32) (out []float32, middle float32) {
			for pixel := range slices.Chunk(all, channels) {
				if x.Activation == "LogSoftmax" {
					out = append(out, logSoftmax(pixel)...)
				} else {
					out = append(out, softmax(pixel)...)
				}
			}
			return out, 0
		}
	case "Sigmoid":
		return func(x []float32) ([]float32, float32) { return sigmoid(x), 0.5 }
	case "HardSigmoid":
		return func(x []float32) (out []float32, middle float32) {
			for _, v := range x {
				out = append(out, min(max(v/4+0.5, 0), 1))
			}
			return out, 0.5
		}
	}
	return func(x []float32) ([]float32, float32) { return x, 0 }
}

func (s *sums) count(finished func([]float32) ([]float32, float32), int16, float, oracle []float32, label int) {
	s.int16.count(finished, int16, float, oracle, label)
	b := top(float, 0)
	if b == label {
		s.float++
	}
	if oracle == nil {
		return
	}
	_, middle := finished(float)
	c := top(oracle, middle)
	if c == label {
		s.oracle++
	}
	if b == c {
		s.floatOracle++
	}
}

func (t *tally) count(finished func([]float32) ([]float32, float32), got, float, oracle []float32, label int) {
	a, d := top(got, 0), Apart(got, float)
	if a == label {
		t.right++
	}
	if a == top(float, 0) {
		t.agreeFloat++
	}
	t.meanFloat += d
	t.worstFloat = max(t.worstFloat, d)
	if oracle == nil {
		return
	}
	got, middle := finished(got)
	if a == top(oracle, middle) {
		t.agreeOracle++
	}
	d = Apart(got, oracle)
	t.meanOracle += d
	t.worstOracle = max(t.worstOracle, d)
}

func (e *evaluator) report(oracle bool) *Report {
	n := float64(e.set.Len())
	r := &Report{Images: e.set.Len(), Seen: int(e.seen.Load()), Labelled: e.set.Labels != nil, Oracle: oracle}
	r.Clipped = float64(e.clipped) / (n * float64(e.b.Network.InH*e.b.Network.InW*e.b.Network.InC))
	for i := range e.b.Layers {
		d := &e.b.Layers[i]
		if k := e.saturated[i].Load(); k > 0 {
			r.Saturated = append(r.Saturated, Saturation{e.b.Names[i], float64(k) / (n * float64(d.OutH) * float64(d.OutW) * float64(d.OutC))})
		}
	}
	for i := range e.curved {
		if k := e.curved[i].Load(); k > 0 {
			r.Saturated = append(r.Saturated, Saturation{e.g.Nodes[i].Name, float64(k) / (n * float64(e.g.Tensors[e.g.Nodes[i].Output].Elems()))})
		}
	}
	if e.int8 != nil {
		for i := range e.g.Nodes {
			if k := e.int8.p.Saturated(i); k > 0 {
				r.SaturatedInt8 = append(r.SaturatedInt8, Saturation{e.g.Nodes[i].Name, float64(k) / (n * float64(e.g.Tensors[e.g.Nodes[i].Output].Elems()))})
			}
		}
	}
	most := func(a, b Saturation) int { return cmp.Compare(b.Share, a.Share) }
	slices.SortStableFunc(r.Saturated, most)
	slices.SortStableFunc(r.SaturatedInt8, most)
	for i, s := range e.sums {
		share := func(v float64) *float64 { v /= n; return &v }
		x := Exit{
			Name: e.g.Exits[i].Name, MeanFloat: s.int16.meanFloat / n, WorstFloat: s.int16.worstFloat,
		}
		// If images have classes, an exit with a single output is a classifier, too.
		classes := e.g.Classifies(i) || r.Labelled && e.g.ConfidenceOf(i) != graph.NoClass
		if classes {
			x.AgreeFloat = share(float64(s.int16.agreeFloat))
		}
		if r.Labelled && classes {
			x.Int16, x.Float = share(float64(s.int16.right)), share(float64(s.float))
		}
		if e.int8 != nil {
			x.MeanInt8, x.WorstInt8 = share(s.int8.meanFloat), &s.int8.worstFloat
			if classes {
				x.AgreeInt8 = share(float64(s.int8.agreeFloat))
			}
			if r.Labelled && classes {
				x.Int8 = share(float64(s.int8.right))
			}
			if oracle {
				x.MeanInt8Oracle, x.WorstInt8Oracle = share(s.int8.meanOracle), &s.int8.worstOracle
				if classes {
					x.AgreeInt8Oracle = share(float64(s.int8.agreeOracle))
				}
			}
		}
		if oracle {
			x.MeanOracle, x.WorstOracle = share(s.int16.meanOracle), &s.int16.worstOracle
			if classes {
				x.AgreeOracle, x.FloatOracle = share(float64(s.int16.agreeOracle)), share(float64(s.floatOracle))
			}
			if r.Labelled && classes {
				x.Onnxruntime = share(float64(s.oracle))
			}
		}
		r.Exits = append(r.Exits, x)
	}
	return r
}

// Warning describes the exit with the largest distance of int16 from float, or returns "" if this distance is within
// quant.LossBound.
func (r *Report) Warning() string {
	x := slices.MaxFunc(r.Exits, func(a, b Exit) int { return cmp.Compare(a.WorstFloat, b.WorstFloat) })
	if x.WorstFloat <= quant.LossBound {
		return ""
	}
	return fmt.Sprintf("exit %q is, in int16, up to %.2f %% of its largest logit away from the float network on the %d images evaluated, more than %.1f %%",
		x.Name, 100*x.WorstFloat, r.Images, 100*quant.LossBound)
}

// top returns the class with the largest logit. For a single logit the class is 1 if the logit is at least `middle`,
// otherwise 0. The parameter `middle` is 0, or the value of the activation at 0.
func top(logits []float32, middle float32) int {
	best := 0
	if len(logits) == 1 && logits[0] >= middle {
		return 1
	}
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return best
}

// Apart returns the largest difference between got and want, as a share of the largest magnitude in want. If want is
// zero everywhere, it is a share of the largest magnitude in got.
func Apart(got, want []float32) float64 {
	distance, most := 0., 0.
	for i := range want {
		distance, most = max(distance, math.Abs(float64(got[i])-float64(want[i]))), max(most, math.Abs(float64(want[i])))
	}
	if distance == 0 {
		return 0
	}
	if most == 0 {
		return 1 // the largest difference is the largest magnitude in got
	}
	return distance / most
}

func softmax(x []float32) []float32 {
	out, sum, most := make([]float32, len(x)), 0., float64(slices.Max(x))
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range x {
		out[i] = float32(math.Exp(float64(v)-most) / sum)
	}
	return out
}

func logSoftmax(x []float32) []float32 {
	out, sum, most := make([]float32, len(x)), 0., float64(slices.Max(x))
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range x {
		out[i] = float32(float64(v) - most - math.Log(sum))
	}
	return out
}

func sigmoid(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(1 / (1 + math.Exp(-float64(v))))
	}
	return out
}
