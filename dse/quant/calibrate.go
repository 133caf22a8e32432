package quant

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Calibrate runs n images (H x W x C each) through the graph in float32 and gives the largest |x| of
// each tensor, which does not depend on the number of workers. Those ask for one image at a time.
func Calibrate(g *graph.Graph, n int, image func(i int) ([]float32, error), o Options) ([]float64, error) {
	o = o.defaults()
	if n < 1 {
		return nil, fmt.Errorf("network %s: %w: there are no images", g.Name, ErrCalibration)
	}
	first, err := graph.NewRunner(g)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	workers := Workers(g, o.Workers, n)
	var (
		next  atomic.Int64
		wait  sync.WaitGroup
		found = make([][]float64, workers)
		errs  = make([]error, workers)
	)
	for w := range workers {
		found[w] = make([]float64, len(g.Tensors))
		runner := first
		if w > 0 {
			runner = first.Clone()
		}
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				var x []float32
				if x, errs[w] = image(i); errs[w] == nil {
					errs[w] = observe(runner, x, found[w], o.InputRange, i)
				}
			}
		})
	}
	wait.Wait()
	ranges := make([]float64, len(g.Tensors))
	for w := range workers {
		if errs[w] != nil {
			return nil, fmt.Errorf("network %s: %w", g.Name, errs[w])
		}
		for t, v := range found[w] {
			ranges[t] = max(ranges[t], v)
		}
	}
	return ranges, nil
}

// workersBytes bounds the maps that all workers hold: each has a network's of its own.
const workersBytes = 4 << 30

// Workers is how many goroutines run a graph on n images at once: want, one a processor where that is 0,
// fewer where their maps together would be large.
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

func observe(r *graph.Runner, image []float32, ranges []float64, inputRange float64, i int) error {
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
		largest := float32(0)
		for _, v := range values {
			if v > largest {
				largest = v
			} else if -v > largest {
				largest = -v
			} else if v != v {
				largest = float32(math.Inf(1))
			}
		}
		if math.IsInf(float64(largest), 0) {
			return fmt.Errorf("%w: image %d: tensor %d is not finite", ErrCalibration, i, t)
		}
		ranges[t] = max(ranges[t], float64(largest))
	}
	return nil
}
