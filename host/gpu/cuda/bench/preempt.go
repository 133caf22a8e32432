// The part "preemption" runs priority launches that find other launches on the GPU. These are killed or awaited.

package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// Preempting returns the modes that the part "preemption" compares. In mode "reset", other launches are killed, and the
// priority launch runs after the host knows that they have left. In mode "reset-ahead", they are killed too, but the
// priority launch does not wait. In mode "wait", the priority launch waits until the other launches have ended.
func Preempting() []string { return []string{"reset", "reset-ahead", "wait"} }

// Capacities returns the default numbers of kernels in a stream for preemption.
func Capacities() []int { return []int{1, 2, 4, 8, 16} }

// preemption runs priority launches at random times during best-effort launches, for each mode and queue length.
func (b *bench) preemption(ctx context.Context) error {
	be, rt := b.pair()
	batch, err := b.fill(ctx, be)
	if err != nil {
		return err
	}
	b.add(Preemption, "best effort batch", "samples", int64(batch))
	for _, capacity := range b.Capacities {
		for _, name := range b.Modes {
			m, err := gpu.ModeOf(name)
			if err != nil {
				return err
			}
			err = b.with(ctx, cuda.Config{Mode: m, Capacity: capacity, Timed: true}, batch+1, func(r *rig) error {
				one, err := r.alone(ctx, be, batch)
				if err != nil {
					return err
				}
				b.add(Preemption, "best effort alone", "ns", one...)
				key := fmt.Sprintf("%s capacity=%d ", name, capacity)
				b.addSpans(key, m.Kill, nil)
				return r.meetings(ctx, be, rt, batch, slices.Max(one), func(met []cuda.Preemption, clock cuda.Clock) {
					b.addSpans(key, m.Kill, met)
					b.add(Preemption, key+"timer step", "ns", clock.Step.Nanoseconds())
					b.add(Preemption, key+tooLong, "ns", clock.Late.Nanoseconds())
					b.keep()
				})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tooLong ends the key of a round's largest error. The round's spans are too long by at most this error. The figure is
// the maximum of all rounds.
const tooLong = "too long by at most"

// meetings runs priority launches until enough of them found other launches on the GPU. Before each launch, meetings
// waits for a random time of at most 2*within ns. After each round, it calls the function met with the new preemptions.
func (r *rig) meetings(ctx context.Context, be, rt *bundle.Bundle, batch int, within int64, met func([]cuda.Preemption, cuda.Clock)) error {
	seen := 0
	for enough, since := r.enough(len(r.Modes)*len(r.Capacities)), 0; !enough(seen) && since < fruitless; {
		arrivals := max(4, min(few, r.N-seen))
		_, broken := r.behind(ctx, be, batch, func() error {
			for range arrivals {
				pause(ctx, time.Duration(r.rng.Int64N(2*within+1)))
				if _, err := r.do(ctx, r.work(rt, batch, 1, 1, device.Units{}), nil); err != nil {
					return err
				}
			}
			return nil
		})
		c, err := r.d.Counts()
		if err == nil {
			if since += arrivals; len(c.Preemptions) > seen {
				since = 0
				met(c.Preemptions[seen:max(seen, min(len(c.Preemptions), r.N))], c.Clock)
			}
			seen = len(c.Preemptions)
		}
		if broken != nil { // the error of behind is the cause of err
			err = broken
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pause sleeps for a time, or until the context ends. It reads the context's Err every millisecond, because no timer
// ends the context if the budget is measured with a fake driver's clock.
func pause(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); ctx.Err() == nil && d > 0; d = time.Until(end) {
		time.Sleep(min(d, time.Millisecond))
	}
}

// span is a time span of a preemption.
type span struct {
	name string
	of   func(*cuda.Preemption) time.Duration
}

// These spans start at the arrival. All preemptions have them, so they show the difference between killing and waiting.
var fromArrival = []span{
	{"away", func(p *cuda.Preemption) time.Duration { return p.Away }},
	{"first", func(p *cuda.Preemption) time.Duration { return p.First }},
	{"completion", func(p *cuda.Preemption) time.Duration { return p.Whole }},
}

// These are the spans from the write of the flag, and from arrival to completion, if a block saw the flag.
var fromFlag = []span{
	{"seen gone", func(p *cuda.Preemption) time.Duration { return p.Gone }},
	{"seen began", func(p *cuda.Preemption) time.Duration { return p.Began }},
	{"seen completion", func(p *cuda.Preemption) time.Duration { return p.Whole }},
}

// are returns two lists: the preemptions in which all given spans are as expected, and all other preemptions. So the
// quantiles of all spans are computed from the same preemptions.
func are(expected func(time.Duration) bool, all []cuda.Preemption, spans ...span) (are, not []cuda.Preemption) {
	for i := range all {
		if slices.ContainsFunc(spans, func(s span) bool { return !expected(s.of(&all[i])) }) {
			not = append(not, all[i])
		} else {
			are = append(are, all[i])
		}
	}
	return are, not
}

func known(d time.Duration) bool    { return d != cuda.Unknown }
func possible(d time.Duration) bool { return d != cuda.Impossible }

// addSpans stores the spans and the number of preemptions. It also stores how many preemptions were left out, by
// reason: a span was impossible, a span was unknown, or the kernels ended before a block saw the flag. The last reason
// applies only to spans from the flag. Each round stores its own numbers.
func (b *bench) addSpans(key string, kill bool, all []cuda.Preemption) {
	count := func(what string, of []cuda.Preemption) { b.add(Preemption, key+what, "preemptions", int64(len(of))) }
	keep := func(of []cuda.Preemption, spans []span) {
		for _, s := range spans {
			var ns []int64
			for i := range of {
				ns = append(ns, s.of(&of[i]).Nanoseconds())
			}
			b.add(Preemption, key+s.name, "ns", ns...)
		}
	}
	some, impossible := are(possible, all, slices.Concat(fromArrival, fromFlag)...)
	whole, unknown := are(known, some, fromArrival...)
	count("met", all)
	count("impossible", impossible)
	count("unknown", unknown)
	keep(whole, fromArrival)
	if kill {
		seen, unseen := are(known, whole, fromFlag...)
		count("unseen", unseen)
		keep(seen, fromFlag)
	}
}
