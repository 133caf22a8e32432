package device_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// linear is an artefact of its author: an exit's logit is the product of its weights with the input.
type linear struct {
	name    string
	weights [][]float32 // by exit
}

func (l *linear) NetworkName() string { return l.name }
func (*linear) Kind() string          { return "linear" }

// processor is a driver that works in float32. It has one blocking call, and a microsecond a sample and segment.
type processor struct {
	nets map[string]*linear
	in   map[device.RequestID][]float32
}

func (*processor) Info() device.Info {
	return device.Info{Name: "processor", Label: "simulated", MaxBatch: 4, Slots: 8, Places: 1, Preempt: device.PreemptExit}
}

func (p *processor) Load(_ context.Context, a device.Artefact) error {
	l, err := device.ArtefactOf[*linear](a, "processor")
	if err == nil {
		p.nets[a.NetworkName()] = l
	}
	return err
}

func (p *processor) Admit(_ context.Context, network string, id device.RequestID, in []device.Tensor) error {
	l := p.nets[network]
	if l == nil || len(in) != 1 {
		return fmt.Errorf("%w: %d inputs for network %q", device.ErrRequest, len(in), network)
	}
	x, err := in[0].Float32s()
	if err != nil {
		return err
	}
	if len(x) != len(l.weights[0]) {
		return fmt.Errorf("%w: an input of %d elements, expected %d", device.ErrRequest, len(x), len(l.weights[0]))
	}
	p.in[id] = x
	return nil
}

func (p *processor) Run(_ context.Context, l *device.Launch) (*device.Report, error) {
	rep, weights := &device.Report{Ns: int64(1000 * len(l.Requests))}, p.nets[l.Network].weights
	for i, id := range l.Requests {
		logit := float32(0)
		for k, w := range weights[l.First] {
			logit += w * p.in[id][k]
		}
		e := device.ExitResult{Exit: l.First, Logits: []float32{logit}, Confidence: float32(1 / (1 + math.Exp(-math.Abs(float64(logit)))))}
		if logit > 0 {
			e.Class = 1
		}
		r := device.Result{Request: id, Exits: []device.ExitResult{e}, Taken: -1}
		if l.First == len(weights)-1 || e.Confidence >= l.ThetaAt(i, l.First) {
			r.Taken = l.First
		}
		rep.Results = append(rep.Results, r)
	}
	return rep, nil
}

func (p *processor) Release(id device.RequestID) { delete(p.in, id) }
func (*processor) Reset(context.Context) error   { return nil }
func (*processor) Close() error                  { return nil }

// A driver that works in float32, loaded and served by the engine.
func Example_float() {
	driver := &processor{map[string]*linear{}, map[device.RequestID][]float32{}}
	inputs := [][]float32{{4, 0}, {0.5, -1}, {-0.25, 2}}
	show := &shown{}
	table, err := sched.Uniform("signs", 2, 4, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices: []device.Device{device.Adapt(driver)},
		Networks: []engine.Network{{
			Name: "signs", Tables: []*sched.Table{table}, Cold: true,
			Artefacts: []device.Artefact{&linear{"signs", [][]float32{{1, 0}, {1, 1}}}},
		}},
		Policy: &loading{}, Clock: engine.Measured, Observer: show,
		Source: &load.Open{Times: []int64{10, 20, 30}, Task: func(int, int64) sched.Task { return sched.Task{Network: "signs", Theta: 0.9} }},
		Inputs: func(r *sched.Request) ([]device.Tensor, error) {
			return []device.Tensor{device.Floats("x", inputs[r.ID-1], 2)}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(show.String(), res.Summary().OnTime, " on time\n")
	// Output:
	// request 1: class 1 at exit 0, logits [4]
	// request 2: class 0 at exit 1, logits [-0.5]
	// request 3: class 1 at exit 1, logits [1.75]
	// 3 on time
}

// loading is serial after a load of a network that is not loaded yet.
type loading struct {
	sched.Serial
	loads bool
}

func (p *loading) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if !s.Devices[0].Hosts("signs") {
		if !p.loads {
			p.loads = true
			buf = append(buf, sched.Action{Kind: sched.LoadNetwork, Network: "signs"})
		}
		return buf
	}
	return p.Serial.Decide(now, s, ev, buf)
}

// shown writes results down.
type shown struct {
	engine.NopObserver
	bytes.Buffer
}

func (s *shown) Ended(r *engine.Record, e *device.ExitResult) {
	fmt.Fprintf(s, "request %d: class %d at exit %d, logits %v\n", r.ID, r.Class, r.Exit, e.Logits)
}

// A tensor can be read only as its own type, however it is stored, and so can an artefact.
func TestNothingIsTakenForAnother(t *testing.T) {
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	for name, in := range map[string]device.Tensor{
		"held as floats": device.Floats("x", []float32{1.5}, 1),
		"held as bytes":  {Name: "x", Type: device.Float32, Shape: []int{1}, Data: raw},
	} {
		if v, err := in.Float32s(); err != nil || len(v) != 1 || v[0] != 1.5 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		if _, err := in.Int16s(); !errors.Is(err, device.ErrRequest) {
			t.Errorf("%s, as int16: %v", name, err)
		}
	}
	cut := device.Tensor{Type: device.Float32, Shape: []int{2}, Data: raw}
	if _, err := cut.Float32s(); !errors.Is(err, device.ErrRequest) {
		t.Errorf("bytes for one of two elements: %v", err)
	}
	if _, err := device.WordInput([]device.Tensor{cut, cut}); !errors.Is(err, device.ErrRequest) {
		t.Errorf("two inputs: %v", err)
	}
	for name, a := range map[string]device.Artefact{
		"another": other{}, "none": nil, "a pointer to none": (*linear)(nil), "one of another type": (*other)(nil), "none by a name": device.As("n", nil),
		"another by a name": device.As("n", other{}),
	} {
		if _, err := device.ArtefactOf[*linear](a, "processor"); !errors.Is(err, device.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type other struct{}

func (other) NetworkName() string { return "net" }
func (other) Kind() string        { return "other" }
