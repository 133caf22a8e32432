// Who hears of a run: of endings with their results, of steps, spans and faults.

package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Observer is told everything once, on the goroutine that keeps the books; it must not wait. What it
// is given is the engine's again when it returns.
type Observer interface {
	// Ended: a request has ended; result is what it showed at the exit taken, nil where it has none.
	Ended(r *Record, result *device.ExitResult)
	// TaskEnded: the last of a task's requests has ended; how is the worst of their endings.
	TaskEnded(now Time, t *sched.Task, how Ending)
	Step(s *Step) // an action has been carried out
	Span(s *Span) // a segment, a copy, a load or a reset has ended
	Fault(f *Fault)
	Advised(now Time, a *sched.Advice)
}

// Deaf is an Observer that listens to nothing, to be embedded.
type Deaf struct{}

// Ended implements Observer.
func (Deaf) Ended(*Record, *device.ExitResult) {}

// TaskEnded implements Observer.
func (Deaf) TaskEnded(Time, *sched.Task, Ending) {}

// Step implements Observer.
func (Deaf) Step(*Step) {}

// Span implements Observer.
func (Deaf) Span(*Span) {}

// Fault implements Observer.
func (Deaf) Fault(*Fault) {}

// Advised implements Observer.
func (Deaf) Advised(Time, *sched.Advice) {}

// Fault is a failure of a device.
type Fault struct {
	At     Time            `json:"at_ns"`
	Device int             `json:"device"`
	Launch device.LaunchID `json:"launch"` // 0: none
	Scope  device.Scope    `json:"scope"`
	Hang   bool            `json:"hang"`
	Err    error           `json:"-"`
}

// progress tells how many requests have ended.
type progress struct {
	Deaf
	tell  func(ended int)
	ended int
}

func (p *progress) Ended(*Record, *device.ExitResult) {
	p.ended++
	p.tell(p.ended)
}

// Tell is an Observer that tells after every ending how many requests have ended; nil where nobody
// wants to know.
func Tell(f func(ended int)) Observer {
	if f == nil {
		return nil
	}
	return &progress{tell: f}
}

// Keep is what a Result keeps of a run, beside its counts.
type Keep int

// What is kept.
const (
	AsUsual    Keep = iota // Run and Serve: everything; a Server, which has no end: counts
	Everything             // records, steps and spans
	Records                // records
	Counts                 // counts and a histogram: memory does not grow with the run's length
)

// recorder keeps records, steps and spans in a result.
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
	c.told.step = s
	if c.keep.keep == Everything {
		c.keep.step(&c.told.step)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Step(&c.told.step)
	}
}

func (c *core) span(s Span, reqs []*request) {
	if !c.traced {
		return
	}
	s.Requests = c.idsOf(reqs)
	c.told.span = s
	if c.keep.keep == Everything {
		c.keep.span(&c.told.span)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Span(&c.told.span)
	}
}

// idsOf are the requests' ids, until the next call.
func (c *core) idsOf(reqs []*request) []device.RequestID {
	c.told.ids = c.told.ids[:0]
	for _, r := range reqs {
		c.told.ids = append(c.told.ids, r.ID)
	}
	return c.told.ids
}

// told is what the observer was told last: the storage is used again.
type told struct {
	step Step
	span Span
	ids  []device.RequestID
}
