package quant

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-npu/sluice/dse/graph"
)

// largest returns the largest value over the channels of each tensor.
func largest(channels [][]float64) []float64 {
	ranges := make([]float64, len(channels))
	for t, of := range channels {
		ranges[t] = slices.Max(of)
	}
	return ranges
}

// calibrate runs n images (H x W x C each) through the graph in float32. It returns the largest |x| by tensor and
// channel. For each node with a function, it also returns the distribution of the function's inputs. The result does
// not depend on the number of workers. A worker requests one image at a time.
func calibrate(g *graph.Graph, n int, image func(i int) ([]float32, error), o Options) ([][]float64, []*spread, error) {
	o = o.defaults()
	if n < 1 {
		return nil, nil, fmt.Errorf("network %s: %w: there are no images", g.Name, ErrCalibration)
	}
	workers := Workers(g, o.Workers, n)
	var (
		found = make([][][]float32, workers)
		seen  = make([][]histogram, workers) // by worker, and then by tensor; empty if a scale covers all values
		front = make([][]*spread, workers)
	)
	err := parallel(g, workers, n, func(w int, runner *graph.Runner) func(i int) error {
		found[w] = make([][]float32, len(g.Tensors))
		for t := range g.Tensors {
			found[w][t] = make([]float32, g.Tensors[t].C)
		}
		if o.Range != (Range{}) {
			seen[w] = make([]histogram, len(g.Tensors))
		}
		front[w] = fronts(g)
		runner.Before = func(n int, values []float32) { front[w][n].add(values) }
		return func(i int) error {
			x, err := image(i)
			if err != nil {
				return err
			}
			err = observe(g, runner, x, found[w], seen[w], o.InputRange, i)
			return cmp.Or(finite(g, front[w], i), err)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	ranges := make([][]float64, len(g.Tensors))
	for t := range g.Tensors {
		ranges[t] = make([]float64, g.Tensors[t].C)
	}
	for w := range workers {
		for t := range found[w] {
			for c, v := range found[w][t] {
				ranges[t][c] = max(ranges[t][c], float64(v))
			}
		}
		for t := range seen[w] {
			for b, n := range seen[w][t] {
				if w > 0 {
					seen[0][t][b] += n
				}
			}
		}
		for i, s := range front[w] {
			if w > 0 && s != nil {
				front[0][i].merge(s)
			}
		}
	}
	if o.Range != (Range{}) {
		clipped(g, ranges, seen[0], o)
	}
	expect(g, ranges, front[0])
	return ranges, front[0], nil
}

func fronts(g *graph.Graph) []*spread {
	f := make([]*spread, len(g.Nodes))
	for i := range g.Nodes {
		if g.Nodes[i].Function != nil {
			f[i] = newSpread(g, i)
		}
	}
	return f
}

// newSpread returns an empty spread for the function of node n. It also determines whether products read the function's
// result, because errors are then weighted by the other factor.
func newSpread(g *graph.Graph, n int) *spread {
	node := &g.Nodes[n]
	s := &spread{f: node.Function}
	if u := node.Unseen; u != nil && u.Front[1] > 0 {
		s.norm = true
		return s
	}
	x, y, square := node.Inputs[0], node.Output, false
	if p := g.Producers()[x]; p >= 0 && g.Nodes[p].Op == graph.Mul && g.Nodes[p].Inputs[0] == g.Nodes[p].Inputs[1] {
		x, square = g.Nodes[p].Inputs[0], true
	}
	products, of := productsOf(g, y), 0 // of: number of products that multiply the function's input
	for _, i := range products {
		if in := g.Nodes[i].Inputs; slices.Contains(in, x) {
			of++
		} else if in[0] == in[1] {
			return s
		}
	}
	if of == 0 || slices.ContainsFunc(g.Exits, func(e graph.Exit) bool { return e.Tensor == y }) {
		return s
	}
	_, norm := rootOf(node.Function, 0)
	s.norm, s.gate = square && norm, !square && of == len(products)
	return s
}

// parallel distributes n images over workers. Each worker has its own runner. The callback start prepares a worker, and
// returns the function that processes an image in this worker.
func parallel(g *graph.Graph, workers, n int, start func(w int, r *graph.Runner) func(i int) error) error {
	first, err := graph.NewRunner(g)
	if err != nil {
		return fmt.Errorf("network %s: %w", g.Name, err)
	}
	var (
		next atomic.Int64
		wait sync.WaitGroup
		errs = make([]error, workers)
	)
	for w := range workers {
		runner := first
		if w > 0 {
			runner = first.Clone()
		}
		take := start(w, runner)
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = take(i)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("network %s: %w", g.Name, err)
		}
	}
	return nil
}

// workersBytes limits the total memory of the workers, because each worker has its own maps of the network.
const workersBytes = 4 << 30

// Workers returns the number of goroutines that run a graph on n images: want, or one per processor if want is 0. It
// returns a smaller number if the goroutines' maps would be too large, or if there are fewer images.
func Workers(g *graph.Graph, want, n int) int {
	if want <= 0 {
		want = runtime.GOMAXPROCS(0)
	}
	bytes := int64(1)
	for _, t := range g.Tensors {
		bytes += 4 * int64(t.Elems())
	}
	return max(1, min(want, n, int(min(workersBytes/bytes, 1<<30))))
}

// finite returns an error if a function has an infinite input or a NaN. The error names image i.
func finite(g *graph.Graph, front []*spread, i int) error {
	for n, s := range front {
		if s != nil && !(s.hi-s.lo < math.Inf(1)) {
			return fmt.Errorf("%w: image %d: node %q: what its function is of is not finite", ErrCalibration, i, g.Nodes[n].Name)
		}
	}
	return nil
}

func observe(g *graph.Graph, r *graph.Runner, image []float32, ranges [][]float32, seen []histogram, inputRange float64, i int) error {
	for p, v := range image {
		if !(math.Abs(float64(v)) <= inputRange) {
			return fmt.Errorf("%w: image %d: element %d is %v, the input's range is %v", ErrCalibration, i, p, v, inputRange)
		}
	}
	tensors, err := r.Run(image)
	if err != nil {
		return fmt.Errorf("image %d: %w", i, err)
	}
	for t, values := range tensors {
		most := ranges[t]
		if seen != nil {
			seen[t].add(values)
		}
		for len(values) > 0 {
			for c, v := range values[:len(most)] {
				if v < 0 {
					v = -v
				}
				if v > most[c] {
					most[c] = v
				} else if v != v {
					most[c] = float32(math.Inf(1))
				}
			}
			values = values[len(most):]
		}
		for _, v := range most {
			if math.IsInf(float64(v), 0) {
				return fmt.Errorf("%w: image %d: tensor %q is not finite", ErrCalibration, i, g.Tensors[t].Name)
			}
		}
	}
	return nil
}
