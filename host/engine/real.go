// Serve: real time. One goroutine keeps the books and asks the policy; one goroutine a launch place
// of a device runs segments and resets.

package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// job is a launch's next segment, or a reset where there is no launch.
type job struct {
	launch *launch // the worker's until the job is done: its job, rep and err
	dev    int
}

// done is the end of a job.
type done struct {
	job
	err error // of a reset
}

type real struct {
	c     *core
	start time.Time
	items events
	work  []chan job
	done  chan done
	fly   int // jobs under way
}

// Serve serves in real time until the source has no task left and every request has ended. When ctx
// ends, the segments under way are given up, all goroutines end, and the error wraps ctx's.
// Durations are those that pass; Config.Clock has no say.
func Serve(ctx context.Context, cfg Config) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c, err := newCore(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	r := &real{c: c, start: time.Now()}
	c.drv = r
	places := 0
	for i := range c.devs {
		places += c.devs[i].info.Places
	}
	r.done = make(chan done, places+len(c.devs))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range c.devs {
		n := c.devs[i].info.Places
		ch := make(chan job, n+1)
		r.work = append(r.work, ch)
		for range n {
			wg.Go(func() { r.worker(ctx, ch) })
		}
	}
	if err := r.pull(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if len(r.items.heap) > 0 {
			timer.Reset(time.Duration(r.items.heap[0].at) - time.Since(r.start))
			due = timer.C
		} else if r.fly == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("serving with %s, %d requests ended: %w", c.res.Policy, c.ended, context.Cause(ctx))
		case e := <-r.done:
			r.fly--
			c.now = max(c.now, time.Since(r.start).Nanoseconds())
			if e.launch == nil {
				err = c.deviceUp(e.dev, e.err)
			} else {
				err = c.segmentDone(e.launch)
			}
		case <-due:
			e := *r.items.pop()
			c.now = max(c.now, time.Since(r.start).Nanoseconds())
			if e.fresh {
				if err := r.pull(); err != nil {
					return nil, err
				}
			}
			err = c.item(e.item())
		}
		if err != nil {
			return nil, err
		}
	}
	if err := c.close(); err != nil {
		return nil, err
	}
	return &c.res, nil
}

func (r *real) worker(ctx context.Context, in <-chan job) {
	for {
		var j job
		select {
		case <-ctx.Done():
			return
		case j = <-in:
		}
		e := done{job: j}
		d := r.c.cfg.Devices[j.dev]
		run, cancel := context.WithTimeout(ctx, r.c.cfg.hangAfter())
		if l := j.launch; l == nil {
			e.err = d.Reset(run)
		} else {
			l.rep, l.err = d.Run(run, &l.job)
		}
		cancel()
		r.done <- e // buffered for every job there can be
	}
}

func (r *real) pull() error {
	it, ok := r.c.cfg.Source.Next()
	if !ok {
		return nil
	}
	if err := checkItem(it, 0); err != nil {
		return err
	}
	if it.Task != nil { // copied, so that a source may use one task again and again
		t := *it.Task
		it.Task = &t
	}
	e := r.items.push(it.At)
	e.task, e.cancel, e.fresh = it.Task, it.Cancel, true
	return nil
}

func (r *real) begin(l *launch) {
	r.fly++
	r.work[l.Device] <- job{launch: l, dev: l.Device}
}

func (r *real) reset(dev int) {
	r.fly++
	r.work[dev] <- job{dev: dev}
}

func (r *real) schedule(it Item) { r.items.schedule(it) }
