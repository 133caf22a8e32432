// What is seen of models: counts, histograms, the last batches and refusals. A Snapshot is a numbered copy of all of it;
// the metrics and the status page are both made of one.

package serve

import (
	"context"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// bounds are the upper bounds of the latency histograms, in seconds; beyond the last one is +Inf.
func bounds() []float64 {
	return []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}
}

// Durations counts how often something happened and how long it took.
type Durations struct {
	Count uint64 `json:"count"`
	Ns    uint64 `json:"ns"`
}

func (d *Durations) add(t time.Duration) {
	d.Count++
	d.Ns += uint64(max(0, t))
}

// Batch is a segment that ran on a device.
type Batch struct {
	Segment int         `json:"segment"`
	Size    int         `json:"size"`
	Start   engine.Time `json:"start_ns"` // on the model's clock
	End     engine.Time `json:"end_ns"`
	Failed  bool        `json:"failed"`
}

// Refusal is a request that got no answer.
type Refusal struct {
	At     time.Time `json:"at"`
	Model  string    `json:"model"`
	Code   string    `json:"code"`
	Reason string    `json:"reason"`
}

// ModelState is what a snapshot has of a model.
type ModelState struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Ready    bool              `json:"ready"`
	Device   string            `json:"device"`
	Label    string            `json:"label"`
	Policy   string            `json:"policy"`
	SLO      engine.Time       `json:"slo_ns"`
	Now      engine.Time       `json:"now_ns"`   // on the model's clock
	Queued   int64             `json:"queued"`   // waiting or running
	Requests map[string]uint64 `json:"requests"` // by code
	Met      uint64            `json:"deadlines_met"`
	Missed   uint64            `json:"deadlines_missed"` // answered all the same
	Samples  uint64            `json:"samples"`          // that have a result
	Exits    []uint64          `json:"exits"`            // samples by the exit taken
	Latency  []uint64          `json:"latency"`          // of answers, by bucket of Bounds; the last beyond
	Success  Durations         `json:"success"`
	Fail     Durations         `json:"fail"`
	Queue    Durations         `json:"queue"`   // of answers: waiting, at first and between segments
	Compute  Durations         `json:"compute"` // of answers: in segments
	Pending  int64             `json:"pending"` // queued, and no segment has begun; a request of several samples counts by its samples
	Batches  uint64            `json:"batches"`
	Sizes    map[int]Durations `json:"sizes"` // batches by size
	Busy     uint64            `json:"busy_ns"`
	Faults   uint64            `json:"faults"`
	Hangs    uint64            `json:"hangs"`
	Fault    string            `json:"fault,omitempty"` // the last one
	Last     []Batch           `json:"last"`            // batches, the newest at the end
}

// Snapshot is the state of a server at one moment.
type Snapshot struct {
	Number   uint64       `json:"number"`
	At       time.Time    `json:"at"`
	Draining bool         `json:"draining"`
	Bounds   []float64    `json:"bounds"` // in seconds
	Models   []ModelState `json:"models"`
	Refused  []Refusal    `json:"refused"` // the last ones, the newest at the end
	Unknown  uint64       `json:"unknown"` // requests that reached no model
}

const (
	lastBatches  = 128
	lastRefusals = 20
)

// keep appends to a list of the last n.
func keep[T any](list []T, v T, n int) []T {
	if len(list) >= n {
		list = append(list[:0], list[len(list)-n+1:]...)
	}
	return append(list, v)
}

// watch counts one model. It is the engine's observer.
type watch struct {
	engine.Deaf
	m    *Model
	mu   sync.Mutex
	st   ModelState
	runs map[device.RequestID]time.Duration // samples that have begun: their time in segments
	done map[uint64]spent                   // tasks of which a sample has its result: that of the slowest one
}

type spent struct{ wait, run time.Duration }

func newWatch(m *Model) *watch {
	return &watch{m: m, runs: map[device.RequestID]time.Duration{}, done: map[uint64]spent{}, st: ModelState{
		Name: m.name, Version: m.version, Device: m.info.Name, Label: m.info.Label, Policy: m.set.Policy, SLO: int64(m.set.SLO),
		Requests: map[string]uint64{}, Exits: make([]uint64, len(m.net.Exits)), Latency: make([]uint64, len(bounds())+1), Sizes: map[int]Durations{},
	}}
}

// Ended implements engine.Observer.
func (w *watch) Ended(r *engine.Record, _ *device.ExitResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.runs[r.ID]
	delete(w.runs, r.ID)
	if (r.Ending == engine.OnTime || r.Ending == engine.Late) && time.Duration(r.Latency()) >= w.done[r.Task].wait+w.done[r.Task].run {
		w.done[r.Task] = spent{time.Duration(r.Latency()) - run, run}
	}
	if r.Exit >= 0 && r.Exit < len(w.st.Exits) {
		w.st.Samples++
		w.st.Exits[r.Exit]++
	}
}

// TaskEnded implements engine.Observer.
func (w *watch) TaskEnded(_ engine.Time, t *sched.Task, how engine.Ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := w.done[t.ID]
	delete(w.done, t.ID)
	if how == engine.OnTime || how == engine.Late {
		w.st.Queue.add(took.wait)
		w.st.Compute.add(took.run)
	}
	if t.Deadline == 0 {
		return
	}
	switch how {
	case engine.OnTime:
		w.st.Met++
	case engine.Late:
		w.st.Missed++
	}
}

// Step implements engine.Observer.
func (w *watch) Step(s *engine.Step) {
	if s.Kind != sched.Launch.String() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range s.Requests {
		w.runs[id] += 0
	}
}

// Span implements engine.Observer.
func (w *watch) Span(s *engine.Span) {
	if s.Segment < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	took := time.Duration(s.End - s.Start)
	w.st.Batches++
	w.st.Busy += uint64(max(0, took))
	for _, id := range s.Requests {
		w.runs[id] += took
	}
	d := w.st.Sizes[len(s.Requests)]
	d.add(took)
	w.st.Sizes[len(s.Requests)] = d
	w.st.Last = keep(w.st.Last, Batch{s.Segment, len(s.Requests), s.Start, s.End, s.Failed}, lastBatches)
}

// Fault implements engine.Observer.
func (w *watch) Fault(f *engine.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.st.Faults++
	if f.Hang {
		w.st.Hangs++
	}
	if f.Err != nil {
		w.st.Fault = f.Err.Error()
	}
}

// answered counts a request, however it ended.
func (w *watch) answered(code codes.Code, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.st.Requests[code.String()]++
	if code != codes.OK {
		w.st.Fail.add(took)
		return
	}
	w.st.Success.add(took)
	i, _ := slices.BinarySearch(bounds(), took.Seconds())
	w.st.Latency[i]++
}

// busy is for how long the device has run segments, in ns.
func (w *watch) busy() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.st.Busy
}

// state is a copy.
func (w *watch) state() ModelState {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.st
	st.Requests, st.Sizes = clone(st.Requests), clone(st.Sizes)
	st.Exits, st.Latency, st.Last = slices.Clone(st.Exits), slices.Clone(st.Latency), append([]Batch{}, st.Last...)
	st.Ready, st.Queued, st.Now = w.m.alive(), w.m.queued.Load(), w.m.core.Now()
	st.Pending = max(0, st.Queued-int64(len(w.runs)))
	return st
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// book is what the server has of all requests, and the newest snapshot.
type book struct {
	mu      sync.Mutex
	refused []Refusal
	unknown uint64
	number  uint64
	latest  *Snapshot
	news    chan struct{} // closed when there is a newer one
}

// request notes one that has ended, and tells its code.
func (b *book) request(m *Model, r *Request, took time.Duration, _ *Answer, err error) codes.Code {
	code := codes.OK
	if err != nil {
		code = coded(err).Code
	}
	if m != nil {
		m.watch.answered(code, took)
	}
	if err == nil {
		return code
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m == nil {
		b.unknown++
	}
	b.refused = keep(b.refused, Refusal{time.Now(), brief(r.Model, maxKept), code.String(), brief(err.Error(), maxKept)}, lastRefusals)
	return code
}

// brief is the beginning of a text that a client may have made long; it ends with a whole character.
func brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}

// maxKept bounds the texts of clients that the server remembers.
const maxKept = 300

// opened are the models that have a device.
func (s *Server) opened() (open []*Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, versions := range s.models {
		for _, e := range versions {
			if e.model != nil {
				open = append(open, e.model)
			}
		}
	}
	return open
}

// Take makes the next snapshot.
func (s *Server) Take() *Snapshot {
	p := &Snapshot{At: time.Now(), Draining: s.draining.Load(), Bounds: bounds(), Models: []ModelState{}}
	for _, m := range s.opened() {
		p.Models = append(p.Models, m.watch.state())
	}
	slices.SortFunc(p.Models, func(a, b ModelState) int {
		return slices.Compare([]string{a.Name, a.Version}, []string{b.Name, b.Version})
	})
	b := &s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	p.Number, p.Refused, p.Unknown = b.number, append([]Refusal{}, b.refused...), b.unknown
	b.latest = p
	if b.news != nil {
		close(b.news)
	}
	b.news = make(chan struct{})
	return p
}

// Latest is the newest snapshot, and what is closed when there is a newer one.
func (s *Server) Latest() (*Snapshot, <-chan struct{}) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return s.book.latest, s.book.news
}

// Watch takes a snapshot every so often until ctx ends.
func (s *Server) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.Take()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
