// Observation of models: counts, histograms, recent batches and rejections. A Snapshot is a numbered copy of all these
// data. The metrics and the status page are generated from snapshots.

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

// bounds returns the upper bounds of the latency histograms' buckets, in seconds. The last bucket (+Inf) is omitted.
func bounds() []float64 {
	return []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}
}

// Durations contains a number of events and their total time.
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
	Start   engine.Time `json:"start_ns"` // start time on the device's clock
	End     engine.Time `json:"end_ns"`
	Failed  bool        `json:"failed"`
}

// Refusal is a request without an answer.
type Refusal struct {
	At     time.Time `json:"at"`
	Model  string    `json:"model"`
	Code   string    `json:"code"`
	Reason string    `json:"reason"`
}

// DeviceState is a device in a snapshot.
type DeviceState struct {
	Name    string      `json:"name"`
	Label   string      `json:"label"`
	Design  string      `json:"design"`
	Policy  string      `json:"policy"`
	Models  []string    `json:"models"` // models on the device, as name:version
	Ready   bool        `json:"ready"`
	Now     engine.Time `json:"now_ns"` // time on the device's clock
	Batches uint64      `json:"batches"`
	Busy    uint64      `json:"busy_ns"`
	Faults  uint64      `json:"faults"`
	Hangs   uint64      `json:"hangs"`
	Fault   string      `json:"fault,omitempty"` // the latest fault
	Last    []Batch     `json:"last"`            // recent batches, newest last
}

// ModelState is a model in a snapshot.
type ModelState struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Ready     bool              `json:"ready"`
	Device    string            `json:"device"` // the name of its device, as in Devices
	SLO       engine.Time       `json:"slo_ns"`
	Queued    int64             `json:"queued"`    // number of requests that wait or run
	Saturated uint64            `json:"saturated"` // number of samples with clipped values outside the network's range
	Requests  map[string]uint64 `json:"requests"`  // number of requests by code
	Met       uint64            `json:"deadlines_met"`
	Missed    uint64            `json:"deadlines_missed"` // number of requests with a deadline that were answered late, abandoned or rejected
	Slack     engine.Time       `json:"least_slack_ns"`   // shortest time until a deadline of the current requests; negative if missed
	Deadline  bool              `json:"has_slack"`        // Slack is valid, because a waiting or running request has a deadline
	Last      int64             `json:"last_ms"`          // arrival of the latest request, ms since 1970; 0: none
	Samples   uint64            `json:"samples"`          // number of samples with a result
	Exits     []uint64          `json:"exits"`            // number of samples by exit
	Latency   []uint64          `json:"latency"`          // number of answers by bucket of Bounds; the last bucket is +Inf
	Success   Durations         `json:"success"`
	Fail      Durations         `json:"fail"`
	Queue     Durations         `json:"queue"`   // time that answered requests waited, including the time between segments
	Compute   Durations         `json:"compute"` // time that answered requests spent in segments
	Pending   int64             `json:"pending"` // number of samples that have not started
	Batches   uint64            `json:"batches"`
	Sizes     map[int]Durations `json:"sizes"` // by size: number of batches and their time
	// Executions contains the number of launches by initial batch size, and the time of their segments. A batch that
	// joins a launch counts as part of the launch.
	Executions map[int]Durations `json:"executions"`
	Busy       uint64            `json:"busy_ns"` // total time for which the device ran segments of the model
}

// Snapshot is the state of a server at one moment.
type Snapshot struct {
	Number   uint64            `json:"number"`
	At       time.Time         `json:"at"`
	Draining bool              `json:"draining"`
	Bounds   []float64         `json:"bounds"`   // in seconds
	Requests map[string]uint64 `json:"requests"` // number of requests of all models, including unloaded ones, by code
	Devices  []DeviceState     `json:"devices"`
	Models   []ModelState      `json:"models"`
	Refused  []Refusal         `json:"refused"` // recent rejections, newest last
	Unknown  uint64            `json:"unknown"` // number of requests that reached no model
}

const (
	lastBatches  = 128
	lastRefusals = 20
)

// keep appends a value to a list, and then removes older values until n remain.
func keep[T any](list []T, v T, n int) []T {
	if len(list) >= n {
		list = append(list[:0], list[len(list)-n+1:]...)
	}
	return append(list, v)
}

// watch contains the counts of one model.
type watch struct {
	m    *Model
	mu   sync.Mutex
	st   ModelState
	runs map[device.RequestID]time.Duration // by started sample: its time in segments so far
	// deadlines of waiting and running requests, by key
	deadlines map[uint64]engine.Time
	keys      uint64
	// first contains the initial batch sizes of recent launches, because a batch that shrinks still counts as one
	// execution of its initial size.
	first [lastLaunches]struct {
		launch device.LaunchID
		size   int
	}
}

// lastLaunches is the number of launches with a stored initial size. A device runs fewer launches at a time.
const lastLaunches = 64

func newWatch(m *Model) *watch {
	return &watch{m: m, runs: map[device.RequestID]time.Duration{}, deadlines: map[uint64]engine.Time{}, st: ModelState{
		Name: m.name, Version: m.version, Device: m.on.name, SLO: int64(m.set.SLO),
		Requests: map[string]uint64{}, Exits: make([]uint64, len(m.net.Exits)), Latency: make([]uint64, len(bounds())+1), Sizes: map[int]Durations{}, Executions: map[int]Durations{},
	}}
}

// ended counts a request's samples. The request's queue and compute times are the times of its slowest sample.
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

// missed counts a request with a deadline that was rejected because time or capacity was not sufficient.
func (w *watch) missed(deadline engine.Time, err error) {
	if code := coded(err).Code; deadline > 0 && (code == Exhausted || code == Expired) {
		w.mu.Lock()
		w.st.Missed++
		w.mu.Unlock()
	}
}

// due records the deadline of a waiting or running request (0: none). undue removes the deadline.
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

// began counts a launch as one execution, and its samples as started.
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

// batch counts the run of a segment.
func (w *watch) batch(launch device.LaunchID, samples []device.RequestID, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range samples {
		if run, pending := w.runs[id]; pending { // a cancelled sample has been counted already
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

// answered counts a request by its code.
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

// book contains the counts of all requests, and the latest snapshot.
type book struct {
	requests [codes.Unauthenticated + 1]atomic.Uint64 // by code

	mu      sync.Mutex // locked while a request is counted, so that a snapshot contains all counts of a request or none
	unknown uint64
	refused []Refusal
	number  uint64
	latest  *Snapshot
	news    chan struct{} // closed when there is a newer snapshot
}

// ended returns the number of answered requests, and of failures that another server might avoid.
func (b *book) ended() (answered, failed uint64) {
	for _, code := range []codes.Code{Exhausted, Expired, Unavailable, Internal} {
		failed += b.requests[code].Load()
	}
	return b.requests[codes.OK].Load(), failed
}

// request counts a request that has ended. m is nil if the request reached no model.
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

// brief shortens a client's text to a number of bytes, at a character boundary. The result is always valid UTF-8,
// because one invalid text makes protobuf reject the whole message.
func brief(text string, most int) string {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// maxKept is the maximum length in bytes of a client's text in the snapshot.
const maxKept = 300

// opened returns the models that have a device.
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

// Take creates the next snapshot.
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

// look creates a snapshot. The caller must hold the lock mu.
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

// Latest returns the latest snapshot, and a channel that is closed when a newer snapshot exists.
func (s *Server) Latest() (*Snapshot, <-chan struct{}) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return s.book.latest, s.book.news
}

// Watch takes snapshots at an interval until ctx ends.
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
