// A model is a bundle on a device, with its settings.

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// Opener opens a device with the bundle loaded. More bundles of the same design may be loaded later.
type Opener func(ctx context.Context, b *bundle.Bundle) (*Opened, error)

// Latency returns a bundle's latency table on a device.
type Latency func(ctx context.Context, b *bundle.Bundle) ([]bundle.LatencyEntry, error)

// Opened is an open device for one or several models. The server closes this device.
type Opened struct {
	Device   device.Device
	Watchdog engine.Watchdog
	// Timely means that the device's times are close to the bundles' latency tables, so that the server can reject
	// requests that cannot meet their deadlines. A hardware simulation is far slower than its table, so not Timely.
	Timely bool
}

// Settings are a model's settings, from NAME.yaml beside NAME.sluice. The server's defaults replace missing settings.
type Settings struct {
	Policy     string   `yaml:"policy"`     // default fluid; models of the same design, policy and b_max share a device
	BMax       int      `yaml:"b_max"`      // largest batch; 0: the device's maximum
	Queue      int      `yaml:"queue"`      // maximum number of samples that wait or run; default 1024
	SLO        Duration `yaml:"slo"`        // default SLO of requests, and the longest SLO that a request can set; 0s in the file: none
	Theta      Thetas   `yaml:"theta"`      // one threshold for all exits, or one per exit; default 0.8
	Priorities int      `yaml:"priorities"` // number of levels, 1 is the highest; default 2
	Priority   int      `yaml:"priority"`   // for requests without a priority; default: the lowest level
}

// Duration is a time in YAML, for example 20ms.
type Duration time.Duration

// noSLO represents an SLO of 0s in a file: the model has no SLO, even if the server has a default.
const noSLO = Duration(math.MinInt64)

// Thetas are exit thresholds. In YAML, a single threshold may be a number instead of a list.
type Thetas []float32

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Thetas) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = make(Thetas, 1)
		return n.Decode(&(*t)[0])
	}
	return n.Decode((*[]float32)(t))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no time: expected one like 20ms", b)
	}
	if *d = Duration(v); v == 0 {
		*d = noSLO
	}
	return nil
}

// over returns the settings s; missing settings are copied from def.
func (s Settings) over(def Settings) Settings {
	s.Policy = cmp.Or(s.Policy, def.Policy)
	for _, p := range []struct{ v, def *int }{{&s.BMax, &def.BMax}, {&s.Queue, &def.Queue}, {&s.Priorities, &def.Priorities}, {&s.Priority, &def.Priority}} {
		if *p.v == 0 {
			*p.v = *p.def
		}
	}
	s.SLO = cmp.Or(s.SLO, def.SLO)
	if s.Theta == nil {
		s.Theta = def.Theta
	}
	return s
}

// filled returns the settings s; missing settings are set to built-in defaults.
func (s Settings) filled() Settings {
	s = s.over(Settings{Policy: "fluid", Queue: 1024, Theta: []float32{0.8}, Priorities: 2})
	if s.SLO == noSLO {
		s.SLO = 0
	}
	s.Priority = cmp.Or(s.Priority, s.Priorities)
	return s
}

// check rejects impossible settings.
func (s Settings) check() error {
	f := s.filled()
	if _, err := sched.New(f.Policy, sched.Options{BMax: f.BMax}); err != nil {
		return err
	}
	switch {
	case f.Queue < 1, f.SLO < 0, f.SLO > Duration(maxWait*1000), f.Priorities < 1, f.Priorities > 1000, f.Priority < 1, f.Priority > f.Priorities:
		return fmt.Errorf("queue %d, slo %v, priorities %d, priority %d: expected a queue of at least 1, 1 to 1000 levels, a time of 0 to a year, a priority of 1..%d",
			f.Queue, time.Duration(f.SLO), f.Priorities, f.Priority, f.Priorities)
	}
	for _, v := range f.Theta {
		if !(v >= 0 && v <= 2) {
			return fmt.Errorf("theta %v: expected 0..2", f.Theta)
		}
	}
	return nil
}

func (s *Settings) thetaAt(exit int) float32 { return s.Theta[min(exit, len(s.Theta)-1)] }

// Model is a served bundle.
type Model struct {
	name, version string
	network       string // name of its network on the device; unique for each load of a version
	hash          uint64
	net           *bundle.Network
	table         *sched.Table
	set           Settings
	about         About
	pixels        []float32 // the network's element for each pixel value, 256 elements per channel; nil: unknown
	classes       int       // number of classes of every exit; 0: the exits differ, so logits are not an output
	watch         *watch
	on            *shared
	saturated     atomic.Uint64 // number of samples with clipped values
	queued        atomic.Int64
	queuedSamples atomic.Int64
}

// open adds a model to a device and runs one request as a test.
func (s *Server) open(name, version string, b *bundle.Bundle, set Settings) (*Model, error) {
	set = set.over(s.opts.Defaults).filled()
	fail := func(err error) (*Model, error) { return nil, fmt.Errorf("load model %s: %w", name, err) }
	if err := set.check(); err != nil {
		return fail(err)
	}
	if n, exits := len(set.Theta), len(b.Network.Exits); n != 1 && n != exits && n != exits-1 {
		return fail(fmt.Errorf("%d thresholds for %d exits: expected one for all, or one an exit; the last needs none", n, exits))
	}
	m := &Model{name: name, version: version, set: set, network: fmt.Sprintf("%s:%s#%d", name, version, s.loads.Add(1))}
	var err error
	if m.hash, err = b.Hash(); err != nil {
		return fail(err)
	}
	if s.opts.About != nil {
		if m.about, err = s.opts.About(b); err != nil {
			return fail(err)
		}
		for i := 0; m.about.Pixel != nil && i < 256*b.Network.InC; i++ {
			m.pixels = append(m.pixels, m.about.Pixel(uint8(i), i/256))
		}
	}
	if latency := s.opts.Latency; latency != nil { // must precede renamed, because measurements are stored for the bundle under its original name
		c := *b
		if c.Latency, err = latency(s.ctx, b); err != nil {
			return fail(err)
		}
		b = &c
	}
	b = renamed(b, m.network)
	m.net = &b.Network
	if m.table, err = sched.NewTable(b.Latency, m.network); err != nil {
		return fail(err)
	}
	switch most := m.table.MaxBatch(); {
	case set.BMax > most:
		return fail(fmt.Errorf("b_max %d: its device runs batches of at most %d", set.BMax, most))
	case set.BMax == most: // this is the default, so the model can share a device with models without b_max
		m.set.BMax = 0
	}
	m.classes = b.Network.Exits[0].Classes
	for _, e := range b.Network.Exits {
		if e.Classes != m.classes {
			m.classes = 0
		}
	}
	if err := s.devices.join(s.ctx, &s.opts, m, b); err != nil {
		return fail(err)
	}
	m.watch = newWatch(m)
	if err := m.warm(s.ctx); err != nil {
		return fail(errors.Join(err, s.devices.leave(m)))
	}
	m.on.watch(m)
	return m, nil
}

// renamed returns a copy of the bundle with the network name that devices use.
func renamed(b *bundle.Bundle, network string) *bundle.Bundle {
	c := *b
	c.Latency = slices.Clone(b.Latency)
	for i := range c.Latency {
		if c.Latency[i].Network == b.Network.Name {
			c.Latency[i].Network = network
		}
	}
	c.Network.Name = network
	return &c
}

// warmUps is the maximum number of attempts to warm up a model. Only a device failure leads to a new attempt.
const warmUps = 3

// warm runs an input of zeros through every segment of the model.
func (m *Model) warm(ctx context.Context) error {
	var err error
	for range warmUps {
		var failed bool
		if failed, err = m.warmOnce(ctx); !failed || !m.alive() || ctx.Err() != nil {
			break
		}
	}
	return err
}

// warmOnce is one attempt of warm. It also reports whether the device has failed.
func (m *Model) warmOnce(ctx context.Context) (failed bool, err error) {
	never := make([]float32, len(m.net.Exits))
	for i := range never {
		never[i] = 2 // 2 is above every confidence
	}
	zeros := make([]int16, m.net.InH*m.net.InW*m.net.InC)
	t, err := m.on.server.Open(ctx, &engine.Call{
		Task:   sched.Task{Network: m.network, Theta: never[0], Thetas: never, Priority: math.MaxInt32}, // highest priority, so that the warm-up does not starve
		Inputs: [][]device.Tensor{{device.Words(m.inputName(), zeros, m.net.InH, m.net.InW, m.net.InC)}},
	})
	if err != nil {
		return false, fmt.Errorf("warm it up: %w", err)
	}
	defer context.AfterFunc(ctx, t.Cancel)()
	<-t.Done()
	if r := t.Outcomes()[0].Record; r.Ending != engine.OnTime {
		return r.Ending == engine.Errored, fmt.Errorf("warm it up: its first request ended as %s: %s", r.Ending, r.Why)
	}
	return false, nil
}

func (m *Model) alive() bool { return m.on.alive() }

func (m *Model) inputName() string { return "input" }

func (m *Model) dims() []int64 {
	return []int64{int64(m.net.InH), int64(m.net.InW), int64(m.net.InC)}
}

func (m *Model) infer(ctx context.Context, r *Request, most int, passed func(*Answer) error) (*Answer, error) {
	if err := m.outputs(r); err != nil {
		return nil, err
	}
	inputs, err := m.samples(r, most)
	if err != nil {
		return nil, err
	}
	if !m.alive() {
		return nil, &Error{Code: Unavailable, Text: r.Model + ": its device is lost: ask another server", cause: errClosed}
	}
	task, err := m.task(ctx, r, len(inputs))
	if err != nil {
		m.watch.missed(task.Deadline, err)
		return nil, err
	}
	left, err := m.enter(r, task.Deadline, len(inputs))
	if err != nil {
		return nil, err
	}
	taken := func() { r.Inputs = nil } // the device has its own copy, so the inputs can be released
	outcomes, lost, err := m.serve(ctx, r, &engine.Call{Task: task, Inputs: inputs, Taken: taken}, passed, left)
	if err != nil {
		left()
		m.watch.missed(task.Deadline, err)
		e := coded(err)
		if e.Text = r.Model + ": " + e.Text; task.Deadline-task.Arrived < m.table.Alone() {
			e.Retry = 0 // a retry would not help
		}
		return nil, e
	}
	if lost != nil {
		return nil, refuse(Cancelled, "%s: the client stopped reading: %v", r.Model, lost)
	}
	return m.answer(ctx, r, task.Deadline, outcomes)
}

// serve runs a request on the engine. It calls the function "passed" (if not nil) with each exit, and "left" at
// the request's end. The result "lost" is the error of "passed"; err means that the engine did not accept the request.
func (m *Model) serve(ctx context.Context, r *Request, call *engine.Call, passed func(*Answer) error, left func()) (outcomes []engine.Outcome, lost, err error) {
	ended := func(outcomes []engine.Outcome) {
		m.watch.ended(call.Task.Deadline > 0, outcomes)
		left()
	}
	sp := spanOf(ctx)
	if passed == nil && sp == nil {
		if outcomes, err = m.on.server.Do(ctx, call); err == nil {
			ended(outcomes)
		}
		return outcomes, nil, err
	}
	ticket, err := m.on.server.Open(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(ctx, ticket.Cancel)()
	over := make(chan struct{})
	go func() { // "passed" may wait for the client, but the end of the request must be recorded at once
		defer close(over)
		<-ticket.Done()
		ended(ticket.Outcomes())
	}()
	for e := range ticket.Exits() {
		sp.exit(&e, m.on.server.Now())
		if passed == nil || lost != nil {
			continue
		}
		if lost = passed(m.exit(r, &e)); lost != nil {
			ticket.Cancel()
		}
	}
	<-over
	return ticket.Outcomes(), lost, nil
}

// enter adds a request to the queue, or rejects it. The function left removes the request from the queue.
func (m *Model) enter(r *Request, deadline engine.Time, samples int) (left func(), err error) {
	// a single request may exceed the limit if the queue is empty
	if n := m.queuedSamples.Add(int64(samples)); n > int64(m.set.Queue) && n > int64(samples) {
		m.queuedSamples.Add(-int64(samples))
		err := exhausted(m.wait(n), "%s: the queue is full: %d samples wait or run, the limit is %d", r.Model, n-int64(samples), m.set.Queue)
		m.watch.missed(deadline, err)
		return nil, err
	}
	m.queued.Add(1)
	key := m.watch.due(deadline)
	return func() {
		m.watch.undue(key)
		m.queued.Add(-1)
		m.queuedSamples.Add(-int64(samples))
	}, nil
}

// wait estimates the time until the queue is below its limit. It assumes that samples run one by one.
func (m *Model) wait(queued int64) time.Duration {
	return max(retryAfter, time.Duration((queued-int64(m.set.Queue))*m.table.Alone()))
}

// answer returns the whole answer, or the error of the first sample without a result.
func (m *Model) answer(ctx context.Context, r *Request, deadline engine.Time, outcomes []engine.Outcome) (*Answer, error) {
	var (
		results []*device.ExitResult
		met     = true
		queue   engine.Time
	)
	for i := range outcomes {
		o := &outcomes[i]
		rec := &o.Record
		if queue = max(queue, rec.Started-rec.Arrived); rec.Ending == engine.Late {
			met = false
		}
		why := rec.Why
		if why != "" {
			why = ": " + why
		}
		switch rec.Ending {
		case engine.OnTime, engine.Late:
			if o.Result == nil {
				return nil, refuse(Internal, "%s: sample %d ended without a result", r.Model, i)
			}
			if o.Result.Logits = m.logits(o.Result); !finite(o.Result.Confidence) || !finite(o.Result.Logits...) {
				return nil, refuse(Internal, "%s: sample %d, exit %d: the device's result is no finite number", r.Model, i, o.Result.Exit)
			}
			results = append(results, o.Result)
			continue
		case engine.Dropped:
			return nil, refuse(Expired, "%s: %s after %v%s", expired, r.Model, time.Duration(rec.Latency()), why)
		case engine.Refused:
			return nil, exhausted(m.wait(m.queuedSamples.Load()), "%s: not admitted%s", r.Model, why)
		case engine.Cancelled:
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return nil, refuse(Expired, "%s: %s", expired, r.Model)
			}
			return nil, refuse(Cancelled, "%s: the client has gone", r.Model)
		}
		if !m.alive() {
			return nil, refuse(Unavailable, "%s: its device is lost%s", r.Model, why)
		}
		return nil, refuse(Internal, "%s: sample %d ended as %s%s", r.Model, i, rec.Ending, why)
	}
	a := m.show(r, results)
	a.Params["deadline_met"] = met
	if deadline == 0 {
		delete(a.Params, "deadline_met")
	}
	a.Params["queue_us"] = queue / 1000
	return a, nil
}

func finite(v ...float32) bool {
	return !slices.ContainsFunc(v, func(v float32) bool { return v-v != 0 })
}

// exit returns the answer for one sample at one exit.
func (m *Model) exit(r *Request, e *engine.Exit) *Answer {
	a := m.show(r, []*device.ExitResult{&e.Result})
	a.Params["sample"] = int64(e.Sample)
	return a
}

func (m *Model) names() []string {
	if m.classes == 0 {
		return []string{"class", "confidence", "exit"}
	}
	return []string{"logits", "class", "confidence", "exit"}
}

// outputs rejects unknown outputs.
func (m *Model) outputs(r *Request) error {
	for _, w := range r.Outputs {
		known := false
		for _, n := range m.names() {
			known = known || n == w.Name
		}
		if !known {
			return refuse(Invalid, "%s: no output %q: expected some of %q", r.Model, w.Name, m.names())
		}
		if w.Classes > 0 && w.Name != "logits" {
			return refuse(Invalid, "%s: output %q has no classes to rank: ask it of logits", r.Model, w.Name)
		}
	}
	return nil
}

// logits returns an exit's logits. If the device did not return logits, they are computed from its raw elements.
func (m *Model) logits(e *device.ExitResult) []float32 {
	if e.Logits != nil {
		return e.Logits
	}
	return m.net.Exits[e.Exit].Logits(e.Raw)
}

// show returns an answer with the samples' results. The result of a single sample is also in the parameters.
func (m *Model) show(r *Request, results []*device.ExitResult) *Answer {
	a := &Answer{Model: m.name, Version: m.version, ID: r.ID, Params: map[string]any{}}
	n := int64(len(results))
	exits, classes, confidence := make([]int32, n), make([]int32, n), make([]float32, n)
	logits := make([]float32, 0, int(n)*m.classes)
	for i, e := range results {
		exits[i], classes[i], confidence[i] = int32(e.Exit), int32(e.Class), e.Confidence
		logits = append(logits, m.logits(e)...)
	}
	if n == 1 {
		a.Params["exit"], a.Params["class"], a.Params["confidence"] = int64(exits[0]), int64(classes[0]), float64(confidence[0])
	}
	wanted := r.Outputs
	if len(wanted) == 0 {
		for _, name := range m.names() {
			wanted = append(wanted, Wanted{Name: name})
		}
	}
	a.Outputs = make([]Tensor, 0, len(wanted))
	for _, w := range wanted {
		var t Tensor
		switch w.Name {
		case "logits":
			t = float32s(w.Name, logits, n, int64(m.classes))
			if w.Classes > 0 {
				t = ranked(t, w.Classes, m.about.Classes)
			}
		case "class":
			t = int32s(w.Name, classes, n, 1)
		case "confidence":
			t = float32s(w.Name, confidence, n, 1)
		case "exit":
			t = int32s(w.Name, exits, n, 1)
		}
		a.Outputs = append(a.Outputs, t)
	}
	return a
}
