// What is seen of models: counts, histograms, the last batches and refusals. A Snapshot is a numbered copy of all of it;
// the metrics and the status page are both made of one.

package serve

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
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
	Model   string      `json:"model"` // name:version
	Segment int         `json:"segment"`
	Size    int         `json:"size"`
	Start   engine.Time `json:"start_ns"` // on the device's clock
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

// DeviceState is what a snapshot has of a device.
type DeviceState struct {
	Name    string      `json:"name"`
	Label   string      `json:"label"`
	Design  string      `json:"design"`
	Policy  string      `json:"policy"`
	Models  []string    `json:"models"` // on it, name:version
	Ready   bool        `json:"ready"`
	Now     engine.Time `json:"now_ns"` // on its clock
	Batches uint64      `json:"batches"`
	Busy    uint64      `json:"busy_ns"`
	Faults  uint64      `json:"faults"`
	Hangs   uint64      `json:"hangs"`
	Fault   string      `json:"fault,omitempty"` // the last one
	Last    []Batch     `json:"last"`            // batches, the newest at the end
}

// ModelState is what a snapshot has of a model.
type ModelState struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Ready     bool              `json:"ready"`
	Device    string            `json:"device"` // its name among Devices
	SLO       engine.Time       `json:"slo_ns"`
	Queued    int64             `json:"queued"`    // waiting or running
	Saturated uint64            `json:"saturated"` // samples with values beyond the network's scale, which were cut
	Requests  map[string]uint64 `json:"requests"`  // by code
	Met       uint64            `json:"deadlines_met"`
	Missed    uint64            `json:"deadlines_missed"` // answered late, given up, or refused
	Slack     engine.Time       `json:"least_slack_ns"`   // of those that wait or run with a deadline; below 0 it has passed
	Deadline  bool              `json:"has_slack"`        // there are some
	Last      int64             `json:"last_ms"`          // when the last request came, ms since 1970; 0: none has
	Samples   uint64            `json:"samples"`          // that have a result
	Exits     []uint64          `json:"exits"`            // samples by the exit taken
	Latency   []uint64          `json:"latency"`          // of answers, by bucket of Bounds; the last beyond
	Success   Durations         `json:"success"`
	Fail      Durations         `json:"fail"`
	Queue     Durations         `json:"queue"`   // of answers: waiting, at first and between segments
	Compute   Durations         `json:"compute"` // of answers: in segments
	Pending   int64             `json:"pending"` // samples of which no segment has begun
	Batches   uint64            `json:"batches"`
	Sizes     map[int]Durations `json:"sizes"` // batches by size
	// Executions are launches by the size they began with, and their segments' time. A batch that others join counts with them.
	Executions map[int]Durations `json:"executions"`
	Busy       uint64            `json:"busy_ns"` // the device with them
}

// Snapshot is the state of a server at one moment.
type Snapshot struct {
	Number   uint64            `json:"number"`
	At       time.Time         `json:"at"`
	Draining bool              `json:"draining"`
	Bounds   []float64         `json:"bounds"`   // in seconds
	Requests map[string]uint64 `json:"requests"` // of all models, also of those that have gone, by code
	Devices  []DeviceState     `json:"devices"`
	Models   []ModelState      `json:"models"`
	Refused  []Refusal         `json:"refused"` // the last ones, the newest at the end
	Unknown  uint64            `json:"unknown"` // requests that reached no model
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

// watch counts one model.
type watch struct {
	m    *Model
	mu   sync.Mutex
	st   ModelState
	runs map[device.RequestID]time.Duration // samples that have begun: their time in segments
	// deadlines are of the requests that wait or run, by a key of their own.
	deadlines map[uint64]engine.Time
	keys      uint64
	// began has the sizes that the last launches began with: a batch that shrinks is one execution of its first size.
	first [lastLaunches]struct {
		launch device.LaunchID
		size   int
	}
}

// lastLaunches is of how many launches the first size is known; a device has fewer at a time.
const lastLaunches = 64

func newWatch(m *Model) *watch {
	return &watch{m: m, runs: map[device.RequestID]time.Duration{}, deadlines: map[uint64]engine.Time{}, st: ModelState{
		Name: m.name, Version: m.version, Device: m.on.name, SLO: int64(m.set.SLO),
		Requests: map[string]uint64{}, Exits: make([]uint64, len(m.net.Exits)), Latency: make([]uint64, len(bounds())+1), Sizes: map[int]Durations{}, Executions: map[int]Durations{},
	}}
}

// ended counts the samples of a request. Its queue and computing times are those of its slowest sample.
func (w *watch) ended(deadline bool, outcomes []engine.Outcome) {
	w.m.on.fold()
	w.mu.Lock()
	defer w.mu.Unlock()
	worst := engine.OnTime
	var latency, computed time.Duration
	for i := range outcomes {
		r := &outcomes[i].Record
		if took := time.Duration(r.Latency()); took >= latency {
			latency, computed = took, w.runs[r.ID]
		}
		delete(w.runs, r.ID)
		if r.Exit >= 0 && r.Exit < len(w.st.Exits) {
			w.st.Samples++
			w.st.Exits[r.Exit]++
		}
		worst = max(worst, r.Ending)
	}
	if worst == engine.OnTime || worst == engine.Late {
		w.st.Queue.add(latency - computed)
		w.st.Compute.add(computed)
	}
	switch {
	case !deadline:
	case worst == engine.OnTime:
		w.st.Met++
	case worst == engine.Late, worst == engine.Dropped, worst == engine.Refused:
		w.st.Missed++
	}
}

// missed counts a request with a deadline that was not taken in for want of time or room.
func (w *watch) missed(deadline engine.Time, err error) {
	if code := coded(err).Code; deadline > 0 && (code == Exhausted || code == Expired) {
		w.mu.Lock()
		w.st.Missed++
		w.mu.Unlock()
	}
}

// due notes the deadline of a request that waits or runs (0: none); undue forgets it.
func (w *watch) due(deadline engine.Time) (key uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys++
	if deadline > 0 {
		w.deadlines[w.keys] = deadline
	}
	return w.keys
}

func (w *watch) undue(key uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.deadlines, key)
}

// began counts a launch: an execution of a batch, whose samples begin.
func (w *watch) began(launch device.LaunchID, samples []device.RequestID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range samples {
		w.runs[id] += 0
	}
	f := &w.first[launch%lastLaunches]
	f.launch, f.size = launch, len(samples)
	d := w.st.Executions[f.size]
	d.Count++
	w.st.Executions[f.size] = d
}

// batch counts a segment that ran.
func (w *watch) batch(launch device.LaunchID, samples []device.RequestID, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range samples {
		if run, pending := w.runs[id]; pending { // one that was cancelled meanwhile has been counted
			w.runs[id] = run + took
		}
	}
	size := len(samples)
	w.st.Batches++
	w.st.Busy += uint64(max(0, took))
	d := w.st.Sizes[size]
	d.add(took)
	w.st.Sizes[size] = d
	if f := &w.first[launch%lastLaunches]; f.launch == launch {
		size = f.size
	}
	x := w.st.Executions[size]
	x.Ns += uint64(max(0, took))
	w.st.Executions[size] = x
}

// answered counts a request, however it ended.
func (w *watch) answered(code codes.Code, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.st.Requests[code.String()]++
	w.st.Last = time.Now().Add(-took).UnixMilli()
	if code != codes.OK {
		w.st.Fail.add(took)
		return
	}
	w.st.Success.add(took)
	i, _ := slices.BinarySearch(bounds(), took.Seconds())
	w.st.Latency[i]++
}

// state is a copy.
func (w *watch) state() ModelState {
	w.m.on.fold()
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.st
	st.Requests, st.Sizes, st.Executions = maps.Clone(st.Requests), maps.Clone(st.Sizes), maps.Clone(st.Executions)
	st.Exits, st.Latency = slices.Clone(st.Exits), slices.Clone(st.Latency)
	st.Ready, st.Queued, st.Saturated = w.m.alive(), w.m.queued.Load(), w.m.saturated.Load()
	if st.Deadline = len(w.deadlines) > 0; st.Deadline {
		st.Slack = slices.Min(slices.Collect(maps.Values(w.deadlines))) - w.m.on.server.Now()
	}
	st.Pending = max(0, w.m.queuedSamples.Load()-int64(len(w.runs)))
	return st
}

// book is what the server has of all requests, and the newest snapshot.
type book struct {
	requests [codes.Unauthenticated + 1]atomic.Uint64 // by code

	mu      sync.Mutex // a request is counted everywhere, or nowhere, in a snapshot; of two, the later number has the later counts
	unknown uint64
	refused []Refusal
	number  uint64
	latest  *Snapshot
	news    chan struct{} // closed when there is a newer one
}

// ended is how many requests have been answered, and how many failed in a way that another server might not have.
func (b *book) ended() (answered, failed uint64) {
	for _, code := range []codes.Code{Exhausted, Expired, Unavailable, Internal} {
		failed += b.requests[code].Load()
	}
	return b.requests[codes.OK].Load(), failed
}

// request counts one that has ended; m is nil where it reached no model.
func (b *book) request(m *Model, r *Request, took time.Duration, err error) {
	code := codes.OK
	if err != nil {
		code = coded(err).Code
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[code].Add(1)
	if m != nil {
		m.watch.answered(code, took)
	}
	if err == nil {
		return
	}
	if m == nil {
		b.unknown++
	}
	b.refused = keep(b.refused, Refusal{time.Now(), brief(r.Model, maxKept), code.String(), brief(err.Error(), maxKept)}, lastRefusals)
}

// brief is the beginning of a text that a client may have made long; it ends with a whole character. It is UTF-8 whatever the
// client sent: a name in a path may be anything, and protobuf refuses a whole message for it.
func brief(text string, most int) string {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
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
	b := &s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	p := s.look()
	b.latest = p
	if b.news != nil {
		close(b.news)
	}
	b.news = make(chan struct{})
	return p
}

// look is how things stand, for who holds the book's mu.
func (s *Server) look() *Snapshot {
	b := &s.book
	p := &Snapshot{Number: b.number, At: time.Now(), Draining: s.leaving(), Bounds: bounds(), Devices: []DeviceState{}, Models: []ModelState{}}
	for _, on := range s.devices.list() {
		p.Devices = append(p.Devices, on.state())
	}
	for _, m := range s.opened() {
		p.Models = append(p.Models, m.watch.state())
	}
	slices.SortFunc(p.Models, func(a, b ModelState) int {
		return slices.Compare([]string{a.Name, a.Version}, []string{b.Name, b.Version})
	})
	p.Refused, p.Unknown, p.Requests = append([]Refusal{}, b.refused...), b.unknown, map[string]uint64{}
	for code := range b.requests {
		if n := b.requests[code].Load(); n > 0 {
			p.Requests[codes.Code(code).String()] = n
		}
	}
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
