// Package drive sends requests to a server of the Open Inference Protocol and counts the outcomes. In an open load, the
// times of requests do not depend on the server. In a closed load, each client waits for an answer before its next
// request. A latency is measured from the time at which the request was due, so a slow server cannot hide its delays.
package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ErrModel is the error for a model to which this client cannot send requests.
var ErrModel = errors.New("model cannot be asked")

// Tensor is an input or output in a model's metadata.
type Tensor struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Model is a model's metadata.
type Model struct {
	Name    string   `json:"name"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`

	// Params are the parameters of the model's configuration; empty if the server reports none.
	Params map[string]string `json:"-"`
}

// Question is one request. Data contains the elements of each input.
type Question struct {
	Model *Model
	ID    uint64
	Data  [][]byte
	Batch int           // number of samples
	SLO   time.Duration // 0: none
	Theta string        // exit_threshold; "": the model's default
	// Priority is the priority level: 1 is the highest, 0 means the model's default.
	Priority int
	Stream   bool // send the request over a gRPC stream, and receive an answer at each exit
}

// Ending is the outcome of a request, as observed by the client.
type Ending int

const (
	Answered Ending = iota
	Expired
	Refused
	Cancelled
	Errored
	Unsent // this machine could not send it within its SLO
)

// Reply is the result of a request. Exits and Classes have one element per sample; nil if not reported.
type Reply struct {
	Ending         Ending
	Exits, Classes []int
	Why            string
	First          time.Time // for streams: time of the first answer
}

// wrong replaces the reply with a server error.
func (r *Reply) wrong(format string, a ...any) {
	*r = Reply{Ending: Errored, Why: fmt.Sprintf(format, a...)}
}

// check turns an impossible answer into a server error.
func (r *Reply) check(q *Question) {
	exits := q.Model.exits()
	for name, got := range map[string][]int{"exit": r.Exits, "class": r.Classes} {
		if got != nil && len(got) != q.Batch {
			r.wrong("the answer's %s has %d values for %d samples", name, len(got), q.Batch)
		}
	}
	for _, exit := range r.Exits {
		if exit < 0 || exit >= exits {
			r.wrong("the answer is of exit %d: expected 0..%d", exit, exits-1)
		}
	}
}

// exits returns the number of the model's exits, at most maxExits.
func (m *Model) exits() int {
	if n, err := strconv.Atoi(m.Params["exits"]); err == nil && n > 0 && n < maxExits {
		return n
	}
	return maxExits
}

// Server is a connection to the server under load, over one of its protocols.
type Server interface {
	Describe(ctx context.Context, model string) (*Model, error)
	Infer(ctx context.Context, q *Question) Reply
	Close() error
}

// Load describes the requests to send.
type Load struct {
	Model string
	// Times are the due times of requests, in ns after the start. If Times is nil, the clients send N requests in
	// total. Each client sends its next request after the answer to its previous request.
	Times   []int64
	Clients int
	N       int
	SLO     time.Duration
	Theta   string
	// Priority is the priority level: 1 is the highest, 0 means the model's default.
	Priority int
	Stream   bool // each request uses its own gRPC stream
	Batch    int  // samples per request; 0: 1
	// Samples returns data for the model's single input, in the input's datatype, and labels with the samples' classes
	// if these are known. Requests use the samples in turn. nil: random samples.
	Samples func(*Model) (data [][]byte, labels []int, err error)
	Seed    uint64
	Ended   func(n int) // called with the number of ended requests; may be nil
}

// Result is the result of one request.
type Result struct {
	ID      uint64 `json:"id"`
	Exits   []int  `json:"exits"`   // by sample: exit, if the server reports it
	Classes []int  `json:"classes"` // by sample: class, if the server reports it
	Due     int64  `json:"due_ns"`
	Latency int64  `json:"latency_ns"`         // time from the due time to the answer
	First   int64  `json:"first_ns,omitempty"` // time from the due time to the first answer of a stream
	Ending  string `json:"ending"`
	Why     string `json:"why,omitempty"`
}

// Latencies contains statistics of latencies, measured from the requests' due times; -1 if no request was answered.
type Latencies struct {
	Avg int64 `json:"avg_ns"`
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
}

// Summary contains the counts of a load. The output of `sluice run` has the same JSON keys. A value is null if only the
// server can measure it.
type Summary struct {
	Paced      string     `json:"-"` // label of the server's times, such as "measured"; "": not reported
	Requests   int        `json:"requests"`
	OnTime     int        `json:"on_time"`
	Late       int        `json:"late"`
	Dropped    int        `json:"dropped"`
	Refused    int        `json:"refused"`
	Cancelled  int        `json:"cancelled"`
	Errors     int        `json:"errors"`
	Unsent     int        `json:"unsent"`     // number of requests that this machine could not send within their SLO
	Violations int        `json:"violations"` // number of requests that ended neither as on_time nor as cancelled
	Exits      []int      `json:"exits"`      // number of answers by exit, if the server reports the exit
	Latency    Latencies  `json:"latency"`
	First      *Latencies `json:"first,omitempty"` // for streams: time to the first answer
	Goodput    float64    `json:"goodput"`         // on_time requests per second, measured until the last request ended
	Rate       float64    `json:"rate"`            // requests per second
	SentLate   int        `json:"sent_late"`       // requests that were sent more than 1 ms after they were due
	Accuracy   *float64   `json:"accuracy"`
	Float      *float64   `json:"accuracy_float"`
	Busy       *float64   `json:"busy"`
	MACUtil    *float64   `json:"mac_util"`
	Bytes      *uint64    `json:"bytes"`
	Calls      *int       `json:"calls"`
	Preempted  *int       `json:"preemptions"`
	Cycles     *uint64    `json:"cycles"`
	Results    []Result   `json:"results"`
}

// late is the delay above which a request counts as sent late: this machine is too slow, not the server.
const late = time.Millisecond

// Run sends the requests and waits for all answers. When ctx ends, the remaining requests end as cancelled.
func Run(ctx context.Context, s Server, l *Load) (*Summary, error) {
	m, err := s.Describe(ctx, l.Model)
	if err != nil {
		return nil, err
	}
	inputs, labels, err := l.inputs(m)
	if err != nil {
		return nil, err
	}
	n := l.N
	if l.Times != nil {
		n = len(l.Times)
	}
	if n < 1 || l.Times == nil && l.Clients < 1 {
		return nil, fmt.Errorf("load: %d requests of %d clients: expected at least 1", n, l.Clients)
	}
	u := &run{Load: l, ctx: ctx, server: s, model: m, inputs: inputs, results: make([]Result, n), start: time.Now()}
	sum := &Summary{Requests: n, Paced: m.Params["label"]}
	var all sync.WaitGroup
	if l.Times != nil {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for i, at := range l.Times {
			due := time.Duration(at)
			timer.Reset(due - time.Since(u.start))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			all.Go(func() { u.one(i, due) })
		}
	} else {
		next := make(chan int)
		for range l.Clients {
			all.Go(func() {
				for i := range next {
					u.one(i, time.Since(u.start))
				}
			})
		}
		for i := range n {
			next <- i
		}
		close(next)
	}
	all.Wait()
	if exits := m.exits(); exits < maxExits {
		sum.Exits = make([]int, exits)
	}
	sum.SentLate = u.late
	sum.count(u.results)
	sum.judge(labels)
	return sum, nil
}

// run is a load in progress.
type run struct {
	*Load
	ctx     context.Context
	server  Server
	model   *Model
	inputs  [][][]byte
	results []Result
	start   time.Time

	mu          sync.Mutex
	late, ended int
}

// one sends request i. The argument due is the request's due time after the start.
func (u *run) one(i int, due time.Duration) {
	sentLate := time.Since(u.start)-due > late
	q := &Question{Model: u.model, ID: uint64(i + 1), Data: u.inputs[i%len(u.inputs)], Batch: max(1, u.Batch), Theta: u.Theta, Priority: u.Priority, Stream: u.Stream}
	r := Reply{Ending: Unsent, Why: "this machine came to send it when its time was over"}
	if q.SLO = u.SLO - (time.Since(u.start) - due); u.SLO == 0 || q.SLO > 0 {
		q.SLO = max(0, q.SLO)
		within, stop := context.WithTimeout(u.ctx, patience+u.SLO)
		r = u.server.Infer(within, q)
		stop()
	}
	took := time.Since(u.start) - due
	r.check(q)
	u.results[i] = Result{ID: q.ID, Exits: r.Exits, Classes: r.Classes, Due: due.Nanoseconds(), Latency: took.Nanoseconds(), Ending: u.ending(r.Ending, took), Why: r.Why}
	if !r.First.IsZero() {
		u.results[i].First = (r.First.Sub(u.start) - due).Nanoseconds()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if sentLate {
		u.late++
	}
	if u.ended++; u.Ended != nil {
		u.Ended(u.ended)
	}
}

// patience is the maximum time to wait for an answer, in addition to the SLO.
const patience = time.Minute

// maxExits is the maximum number of exits that are counted.
const maxExits = 1024

// inputs returns the inputs that the requests use in turn, and the classes of the inputs' samples if known.
func (l *Load) inputs(m *Model) (inputs [][][]byte, labels [][]int, err error) {
	if l.Samples == nil {
		inputs, err = draw(m, max(1, l.Batch), l.Seed)
		return inputs, nil, err
	}
	data, classes, err := l.Samples(m)
	if err != nil {
		return nil, nil, err
	}
	if len(data) == 0 || len(m.Inputs) != 1 {
		return nil, nil, fmt.Errorf("%w: %d samples for a model of %d inputs: expected samples, and one input", ErrModel, len(data), len(m.Inputs))
	}
	b := max(1, l.Batch)
	for first := 0; first == 0 || first < len(data); first += b {
		var one []byte
		var of []int
		for k := range b {
			at := (first + k) % len(data)
			if one = append(one, data[at]...); classes != nil {
				of = append(of, classes[at])
			}
		}
		inputs, labels = append(inputs, [][]byte{one}), append(labels, of)
	}
	return inputs, labels, nil
}

// judge computes the accuracy: it compares the classes in the answers with the classes of the samples.
func (s *Summary) judge(labels [][]int) {
	if len(labels) == 0 {
		return
	}
	right, n := 0, 0
	for i := range s.Results {
		for k, want := range labels[i%len(labels)] {
			if k >= len(s.Results[i].Classes) {
				break
			}
			if n++; s.Results[i].Classes[k] == want {
				right++
			}
		}
	}
	if n > 0 {
		share := float64(right) / float64(n)
		s.Accuracy = &share
	}
}

// ending returns the name of a request's outcome. The command `sluice run` uses the same names.
func (l *Load) ending(e Ending, took time.Duration) string {
	switch {
	case e == Answered && l.SLO > 0 && took > l.SLO:
		return "late"
	case e == Answered:
		return "on_time"
	}
	return [...]string{Expired: "dropped", Refused: "refused", Cancelled: "cancelled", Errored: "error", Unsent: "unsent"}[e]
}

func (s *Summary) count(results []Result) {
	s.Results = results
	var took, begun []int64
	last, first := int64(1), results[0].Due
	for i := range results {
		r := &results[i]
		last = max(last, r.Due+r.Latency)
		switch r.Ending {
		case "on_time":
			s.OnTime++
		case "late":
			s.Late++
		case "dropped":
			s.Dropped++
		case "refused":
			s.Refused++
		case "cancelled":
			s.Cancelled++
		case "unsent":
			s.Unsent++
		default:
			s.Errors++
		}
		if r.Ending != "on_time" && r.Ending != "late" {
			continue
		}
		if took = append(took, r.Latency); r.First > 0 {
			begun = append(begun, r.First)
		}
		for _, exit := range r.Exits {
			for exit >= len(s.Exits) {
				s.Exits = append(s.Exits, 0)
			}
			s.Exits[exit]++
		}
	}
	s.Violations = s.Requests - s.OnTime - s.Cancelled
	s.Goodput = float64(s.OnTime) / (float64(last) / 1e9)
	if over := results[len(results)-1].Due - first; over > 0 {
		s.Rate = float64(len(results)-1) / (float64(over) / 1e9)
	}
	if s.Latency = latencies(took); begun != nil {
		of := latencies(begun)
		s.First = &of
	}
}

func latencies(took []int64) Latencies {
	if len(took) == 0 {
		return Latencies{-1, -1, -1}
	}
	slices.Sort(took)
	total := 0.0
	for _, t := range took {
		total += float64(t)
	}
	at := func(q float64) int64 { return took[max(0, int(math.Ceil(q*float64(len(took))))-1)] }
	return Latencies{int64(math.Round(total / float64(len(took)))), at(0.5), at(0.99)}
}

// drawn is the maximum number of different random inputs. Fewer are drawn if their total size exceeds drawnBytes.
const (
	drawn      = 16
	drawnBytes = 256 << 20
)

// draw returns random inputs: values in 0..1 for floating-point datatypes, otherwise small integers.
func draw(m *Model, batch int, seed uint64) ([][][]byte, error) {
	rng := rand.New(rand.NewPCG(seed, 0x6c6f6164))
	if len(m.Inputs) == 0 {
		return nil, fmt.Errorf("%w: %s has no inputs", ErrModel, m.Name)
	}
	var out [][][]byte
	total := 0
	for range drawn {
		var q [][]byte
		for _, in := range m.Inputs {
			n := 1
			for _, d := range fixed(in.Shape, batch) {
				if d > 1<<26 || int64(n) > 1<<26/d {
					return nil, fmt.Errorf("%w: %s's input %s has the shape %v, which is too large", ErrModel, m.Name, in.Name, in.Shape)
				}
				n *= int(d)
			}
			data, err := elements(rng, in.Datatype, n)
			if err != nil {
				return nil, fmt.Errorf("%w: %s's input %s: %w", ErrModel, m.Name, in.Name, err)
			}
			q = append(q, data)
			total += len(data)
		}
		out = append(out, q)
		if total > drawnBytes {
			break
		}
	}
	return out, nil
}

// fixed returns a shape without variable dimensions: a variable first dimension becomes batch, others become 1.
func fixed(shape []int64, batch int) []int64 {
	out := slices.Clone(shape)
	for i, d := range out {
		if out[i] = max(d, 1); i == 0 && d < 1 {
			out[i] = int64(batch)
		}
	}
	return out
}
