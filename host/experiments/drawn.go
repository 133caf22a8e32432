// A device whose exits are drawn from rates, or known from images.

package experiments

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// exitStream tells the exits of a seed apart from its arrivals (load) and its schedules (Serve).
const exitStream = 0x736c756963650003

// drawnTheta lies between the confidences that a drawn device shows.
const drawnTheta = 0.5

// CheckRates refuses rates that are not a distribution over the network's exits (sched.ErrRates).
func CheckRates(rates []float64, exits int) error {
	if len(rates) != exits {
		return fmt.Errorf("%w: %d of them, the network has %d exits", sched.ErrRates, len(rates), exits)
	}
	return sched.CheckRates(rates)
}

// DrawExits draws the exit of each of n requests; equal seeds give every policy equal exits.
func DrawExits(rates []float64, n int, seed uint64) []uint8 {
	rng := rand.New(rand.NewPCG(seed, exitStream))
	out := make([]uint8, n)
	last := len(rates) - 1
	for i := range out {
		u, e := rng.Float64(), 0
		for ; e < last; e++ {
			if u -= rates[e]; u < 0 {
				break
			}
		}
		out[i] = uint8(e)
	}
	return out
}

// drawn is a device without numerics: request i leaves at exits[i-1], or where the confidences of
// its image reach its threshold; a segment takes what the model's table says. The reports it gives
// share memory: one launch at a time.
type drawn struct {
	model *Model
	exits []uint8 // nil: by the model's images
	n     int     // requests
	rep   device.Report
	shown []device.ExitResult // one a place of the batch
}

func newDrawn(m *Model, exits []uint8, n int) *drawn {
	b := m.Table.MaxBatch()
	return &drawn{
		model: m, exits: exits, n: n,
		rep:   device.Report{Results: make([]device.Result, 0, b)},
		shown: make([]device.ExitResult, b),
	}
}

// confidence is what a request shows at the end of a segment, less than any threshold where no exit
// stands.
func (d *drawn) confidence(id device.RequestID, segment int) float32 {
	exit := d.model.exit(segment)
	switch {
	case exit < 0:
		return -1
	case d.exits == nil:
		return d.model.Images[int(id-1)%len(d.model.Images)].Confidence[exit]
	case int(d.exits[id-1]) <= exit:
		return 1
	}
	return 0
}

// Info implements device.Blocking.
func (d *drawn) Info() device.Info {
	b := d.model.Table.MaxBatch()
	return device.Info{
		Name: "drawn", Label: "simulated", MaxBatch: b, Slots: 64 * b, Places: 1, Preempt: device.PreemptExit,
		ClockHz: d.model.ClockHz,
	}
}

// Load implements device.Blocking; the model is what it serves.
func (*drawn) Load(context.Context, *bundle.Bundle) error { return nil }

// Admit implements device.Blocking.
func (d *drawn) Admit(_ context.Context, _ string, id device.RequestID, _ []int16) error {
	if id == 0 || int(id) > d.n {
		return fmt.Errorf("%w: no exit is known for request %d", ErrSetup, id)
	}
	return nil
}

// Run implements device.Blocking: the segments of a launch, one by one, as the engine asks for them.
func (d *drawn) Run(_ context.Context, l *device.Launch) (*device.Report, error) {
	last := d.model.Table.Segments() - 1
	if l.First != l.Last || l.First < 0 || l.Last > last || len(l.Requests) > len(d.shown) || len(l.Theta) != len(l.Requests) {
		return nil, fmt.Errorf("%w: segments %d..%d of %d requests", ErrSetup, l.First, l.Last, len(l.Requests))
	}
	s := l.First
	d.rep.Results = d.rep.Results[:0]
	for i, id := range l.Requests {
		res := device.Result{Request: id, Taken: -1, Exits: d.shown[i : i+1 : i+1]}
		d.shown[i] = device.ExitResult{Exit: s, Confidence: d.confidence(id, s)}
		if s == last || d.shown[i].Confidence >= l.Theta[i] {
			res.Taken = s
		}
		d.rep.Results = append(d.rep.Results, res)
	}
	d.rep.Ns = d.model.Table.At(s, s, len(l.Requests))
	d.rep.Stats = device.Stats{MACs: uint64(d.model.MACs[s]) * uint64(len(l.Requests)), Starts: 1}
	return &d.rep, nil
}

// Release implements device.Blocking.
func (*drawn) Release(device.RequestID) {}

// Reset implements device.Blocking.
func (*drawn) Reset(context.Context) error { return nil }

// Close implements device.Blocking.
func (*drawn) Close() error { return nil }
