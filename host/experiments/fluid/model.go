// This file models a setting's network on its board: a latency table, and the work of each segment.

package fluid

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"

	"github.com/sluice-npu/sluice/host/experiments"
)

// Ways to map a batch onto the array (Kouris et al., section III-A and figure 1b). The published policies use the first
// three mappings. Each later mapping omits one mechanism.
const (
	MappingFluid   = "fluid"    // all k and s of the hardware, chosen by layer and batch
	MappingR       = "r"        // samples along the rows, k = 1, s = 1
	MappingFC      = "fc"       // fully connected layers: samples along the rows; other layers: sample by sample
	MappingP       = "p"        // two sample groups side by side if this is legal, k = 1
	MappingNoStack = "no-stack" // sample groups by layer and batch, no Stackable PEs
	MappingNoFluid = "no-fluid" // Stackable PEs by layer and batch, no sample groups
	// r and fc on the array that is best for them at B = 8 (designs). All other mappings use fluid's array.
	MappingROwn  = MappingR + own
	MappingFCOwn = MappingFC + own
)

const own = "-own"

// Array contains the parameters of a design that is not its board's reference design.
type Array struct{ TR, TP, TC, ABufWords, Drain, CMax int }

// designs contains, by network and board, the best array without Fluid Batching (k = 1, s = 1) at B = 8. The search
// used the board's serving bandwidth (14.667 and 26 bytes per cycle). The command for the first array is:
//
//	dse sweep --network resnet50 --board zc706 --mapping basic --weights 0,0,0,0,0,0,0,1 --bytes-per-cycle 14.667
//
// MappingFC uses the same arrays, since its convolutions run sample by sample, and a search for B = 1 (--weights
// 1,0,0,0,0,0,0,0) finds these four arrays too.
var designs = map[string]*Array{
	"resnet50/zc706":     {1024, 14, 64, 11264, 16, 2048},
	"resnet50/zcu104":    {1024, 13, 128, 16384, 16, 2048},
	"inceptionv3/zc706":  {1024, 14, 64, 11264, 16, 2048},
	"inceptionv3/zcu104": {1024, 16, 96, 16384, 16, 2048},
}

// Design returns the model's array, or nil for the board's reference design.
func (k ModelKey) Design() (*Array, error) {
	if !strings.HasSuffix(k.Mapping, own) {
		return nil, nil
	}
	a := designs[k.Network+"/"+k.Board]
	if a == nil {
		return nil, fmt.Errorf("%w: %s on %s has no design of its own for the mapping %s", experiments.ErrSetup, k.Network, k.Board, k.Mapping)
	}
	return a, nil
}

// ModelKey identifies a model.
type ModelKey struct {
	Network   string  `json:"network"`
	Board     string  `json:"board"`
	Mapping   string  `json:"mapping"`
	Bandwidth float64 `json:"bandwidth_gb_s"`      // DRAM bandwidth, 10^9 bytes a second
	Backbone  bool    `json:"backbone,omitempty"`  // the network without its early exits
	Layerwise bool    `json:"layerwise,omitempty"` // segments end after every layer, not only at exits
}

// String names the model in messages.
func (k ModelKey) String() string {
	s := fmt.Sprintf("%s/%s/%s/%gGB/s", k.Network, k.Board, k.Mapping, k.Bandwidth)
	if k.Backbone {
		s += "/backbone"
	}
	if k.Layerwise {
		s += "/layerwise"
	}
	return s
}

// Model is a network on a board under a mapping.
type Model struct {
	Key      ModelKey
	Table    *sched.Table
	MACs     []int64 // MACs of one sample, by segment
	Layers   []int   // number of descriptors, by segment
	Pools    []int64 // by segment: time in ns of its pools at the largest batch; nil: unknown
	Exit     []int   // by segment: the exit at its end, or -1; nil: every segment ends at an exit
	PeakMACs float64 // peak of the array, in MACs per second
	ClockHz  int64
	TR       int
	TP       int
	TC       int
	Double   int64 // estimated time in ns of the whole network at twice the largest batch; 0: unknown

	// Images contains the output of every exit for real images. Request i uses image i modulo the number of images. If
	// exits are drawn at random, Images is empty. Theta is the exit threshold.
	Images []Image
	Theta  float32
	// Calibration contains further images. Policies determine the cost of thresholds with them.
	Calibration []Image
}

// Image contains the output of every exit for one image.
type Image struct {
	Confidence []float32
	Right      []bool // whether the class equals the label
}

// Models provides models. An implementation can compile and cache models. It must be safe for concurrent use.
type Models interface {
	Model(ctx context.Context, k ModelKey) (*Model, error)
}

// check returns an error if the model cannot be served.
func (m *Model) check() error {
	switch {
	case m == nil || m.Table == nil:
		return fmt.Errorf("%w: there is no latency table", experiments.ErrSetup)
	case len(m.MACs) != m.Table.Segments():
		return fmt.Errorf("%w: %s: MACs of %d segments, the latency table has %d", experiments.ErrSetup, m.Key, len(m.MACs), m.Table.Segments())
	case m.Exit != nil && (len(m.Exit) != len(m.MACs) || m.Exit[len(m.Exit)-1] < 0):
		return fmt.Errorf("%w: %s: the exits of %d segments are not known, or the last has none", experiments.ErrSetup, m.Key, len(m.MACs))
	case slices.ContainsFunc(slices.Concat(m.Images, m.Calibration), func(i Image) bool {
		return len(i.Confidence) != m.exits() || len(i.Right) != m.exits()
	}):
		return fmt.Errorf("%w: %s: an image lacks an exit", experiments.ErrSetup, m.Key)
	case !(m.PeakMACs > 0):
		return fmt.Errorf("%w: %s: a peak of %g MACs a second", experiments.ErrSetup, m.Key, m.PeakMACs)
	}
	return nil
}

// exit returns the exit at a segment's end, or -1 if there is none.
func (m *Model) exit(segment int) int {
	if m.Exit == nil {
		return segment
	}
	return m.Exit[segment]
}

// shows returns a function that returns a request's confidence at the end of a segment. The request's image or its
// randomly drawn exit determines the confidence. If the segment does not end at an exit, the confidence is -1, below
// every threshold.
func (m *Model) shows(exits []uint8) func(device.RequestID, int) float32 {
	return func(id device.RequestID, segment int) float32 {
		exit := m.exit(segment)
		switch {
		case exit < 0:
			return -1
		case exits == nil:
			return m.Images[int(id-1)%len(m.Images)].Confidence[exit]
		case int(exits[id-1]) <= exit:
			return 1
		}
		return 0
	}
}

// exits returns the number of exits.
func (m *Model) exits() int { return m.exit(len(m.MACs)-1) + 1 }

// share returns the share of requests that run a segment if requests leave at the given exit rates.
func (m *Model) share(rates []float64, segment int) float64 {
	rest := 1.0
	for s := range segment {
		if e := m.exit(s); e >= 0 && e < len(rates) {
			rest -= rates[e]
		}
	}
	return rest
}

// digest returns a hash of all parts of the model that affect a run.
func (m *Model) digest() string {
	h := sha256.New()
	fmt.Fprintln(h, m.Key, m.MACs, m.Pools, m.PeakMACs, m.ClockHz, m.Exit, m.Theta, m.Images, m.Calibration)
	for first := range m.Table.Segments() {
		for last := first; last < m.Table.Segments(); last++ {
			for b := 1; b <= m.Table.MaxBatch(); b++ {
				fmt.Fprintln(h, m.Table.At(first, last, b))
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// PolicyLayerwise reports whether a policy decides after every layer, like the published LazyBatching.
func PolicyLayerwise(name string) bool { return slices.Contains(lazies, name) }
