// This file reports endings with their results, steps, spans and faults to observers.

package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Observer receives all endings, steps, spans, faults and advice. Its methods are called on the server's goroutine and
// must not block. Their arguments are valid only during the call.
type Observer interface {
	// Ended: a request has ended. result is its result at the exit taken; nil: none.
	Ended(r *Record, result *device.ExitResult)
	// TaskEnded: a task's last request has ended. "how" is the worst ending of its requests.
	TaskEnded(now Time, t *sched.Task, how Ending)
	Step(s *Step) // an action has been carried out
	Span(s *Span) // a segment, a copy, a load or a reset has ended
	Fault(f *Fault)
	Advised(now Time, a *sched.Advice)
}

// NopObserver is an Observer that does nothing. Observers can embed it.
type NopObserver struct{}

func (NopObserver) Ended(*Record, *device.ExitResult)   {}
func (NopObserver) TaskEnded(Time, *sched.Task, Ending) {}
func (NopObserver) Step(*Step)                          {}
func (NopObserver) Span(*Span)                          {}
func (NopObserver) Fault(*Fault)                        {}
func (NopObserver) Advised(Time, *sched.Advice)         {}

// Fault is a failure of a device.
type Fault struct {
	At     Time            `json:"at_ns"`
	Device int             `json:"device"`
	Launch device.LaunchID `json:"launch"` // 0: none
	Scope  device.Scope    `json:"scope"`
	Hang   bool            `json:"hang"`
	Err    error           `json:"-"`
}

// progress is the observer that Tell returns.
type progress struct {
	NopObserver
	tell  func(ended int)
	ended int
}

func (p *progress) Ended(*Record, *device.ExitResult) {
	p.ended++
	p.tell(p.ended)
}

// Tell returns an Observer that calls f after every ending with the number of endings so far; nil if f is nil.
func Tell(f func(ended int)) Observer {
	if f == nil {
		return nil
	}
	return &progress{tell: f}
}

// Keep determines the data that a Result stores in addition to its counts.
type Keep int

// Values of Keep.
const (
	AsUsual    Keep = iota // Everything for Run and Serve; Counts for a Server, since its run may have no end
	Everything             // records, steps and spans
	Records                // records
	Counts                 // only counts and a histogram, so that memory does not grow with the run
)

// recorder stores records, steps and spans in a result.
type recorder struct {
	res  *Result
	keep Keep
}

func (k *recorder) ended(r *Record, result *device.ExitResult) {
	for int(r.ID) > len(k.res.Records) {
		k.res.Records = append(k.res.Records, Record{})
	}
	if result != nil {
		r.Logits = HashLogits(result.Raw)
	}
	k.res.Records[r.ID-1] = *r
}

func (k *recorder) step(s *Step) {
	c := *s
	c.Requests = slices.Clone(s.Requests)
	k.res.Steps = append(k.res.Steps, c)
}

func (k *recorder) span(s *Span) {
	c := *s
	c.Requests = slices.Clone(s.Requests)
	k.res.Spans = append(k.res.Spans, c)
}

// HashLogits is the SHA-256, in hexadecimal, of raw logits as little-endian int16.
func HashLogits(raw []int16) string {
	b := make([]byte, 0, 2*len(raw))
	for _, v := range raw {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (c *core) step(s Step, reqs []*request) {
	if !c.traced {
		return
	}
	s.At, s.Requests = c.now, c.idsOf(reqs)
	c.latest.step = s
	if c.keep.keep == Everything {
		c.keep.step(&c.latest.step)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Step(&c.latest.step)
	}
}

func (c *core) span(s Span, reqs []*request) {
	if !c.traced {
		return
	}
	s.Requests = c.idsOf(reqs)
	c.latest.span = s
	if c.keep.keep == Everything {
		c.keep.span(&c.latest.span)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Span(&c.latest.span)
	}
}

// idsOf returns the ids of requests; the slice is valid until the next call.
func (c *core) idsOf(reqs []*request) []device.RequestID {
	c.latest.ids = c.latest.ids[:0]
	for _, r := range reqs {
		c.latest.ids = append(c.latest.ids, r.ID)
	}
	return c.latest.ids
}

// reported has the last arguments of the observer, so that their memory is reused.
type reported struct {
	step Step
	span Span
	ids  []device.RequestID
}
