// Package jellyfish runs Jellyfish's evaluation (Nigade et al., RTSS 2022, section VI). Clients send frames over
// changing links to workers, and the workers run the networks of a zoo. The compared systems are Jellyfish, its
// baselines, and systems that adapt frames in other ways. Run simulates in virtual time, Serve in real time.
package jellyfish

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/sched"
)

// Worker simulates the publication's GPU. It runs one batch at a time, and can load networks while a batch runs. The
// zoo contains the 99th percentile of a batch's time. The class of a result is the index of its network.
type Worker struct {
	name   string
	seed   uint64
	spread float64
	zoo    jellyfish.Zoo
	jobs   []job
	done   device.Event
}

// job is work in progress.
type job struct {
	due  int64
	work *device.Work
	ev   device.Event
}

// slots is the length of a worker's local queue.
const slots = 4096

// NewWorker returns a Worker. spread is the standard deviation of the logarithm of a batch's time; 0: the time of every
// batch is its p99.
func NewWorker(name string, zoo jellyfish.Zoo, spread float64, seed uint64) *Worker {
	return &Worker{name: name, seed: seed, spread: spread, zoo: zoo}
}

// Info implements device.Device.
func (w *Worker) Info() device.Info {
	return device.Info{Name: w.name, Label: "simulated", MaxBatch: len(w.zoo[0].P99), Slots: slots, Places: 1, ClockHz: 1e9}
}

// Begin implements device.Device: copies and unloads take no time.
func (w *Worker) Begin(_ context.Context, now int64, work *device.Work) (bool, error) {
	j := job{due: now + max(1, work.Expect), work: work}
	j.ev.Work, j.ev.Over = work.ID, true
	switch work.Kind {
	case device.Copy, device.Unload:
		return true, nil
	case device.Load, device.Reset:
		j.ev.Kind = device.Done
	default:
		if slices.ContainsFunc(w.jobs, func(o job) bool { return o.work.Kind == device.Run }) {
			return false, fmt.Errorf("%w: %s: a batch begins while another one runs", device.ErrRequest, w.name)
		}
		l := &work.Launch
		net := slices.IndexFunc(w.zoo, func(n jellyfish.Net) bool { return n.Name == l.Network })
		if net < 0 || l.First != 0 || l.Last != 0 || len(l.Requests) < 1 || len(l.Requests) > len(w.zoo[net].P99) {
			return false, fmt.Errorf("%w: %s: segments %d..%d of %q for %d requests", device.ErrRequest, w.name, l.First, l.Last, l.Network, len(l.Requests))
		}
		took := w.time(net, len(l.Requests), uint64(l.ID))
		rep := &device.Report{Ns: took, Cycles: uint64(took)}
		for _, id := range l.Requests {
			rep.Results = append(rep.Results, device.Result{Request: id, Exits: []device.ExitResult{{Class: net, Confidence: 1}}})
		}
		j.due, j.ev.Kind, j.ev.Report = now+took, device.Passed, rep
	}
	w.jobs = append(w.jobs, j)
	return false, nil
}

// time returns the time of a batch in ns. It is random with a lognormal distribution. Its p99 is the value in the zoo.
func (w *Worker) time(net, batch int, launch uint64) int64 {
	rng := rand.New(rand.NewPCG(w.seed, launch))
	const z99 = 2.3263478740408408
	return max(1, int64(float64(w.zoo[net].P99[batch-1])*math.Exp(w.spread*(rng.NormFloat64()-z99))))
}

// next returns the index of the job that ends first, or -1 without jobs.
func (w *Worker) next() int {
	first := -1
	for i := range w.jobs {
		if first < 0 || w.jobs[i].due < w.jobs[first].due {
			first = i
		}
	}
	return first
}

// Next implements device.Virtual.
func (w *Worker) Next() (int64, bool) {
	if i := w.next(); i >= 0 {
		return w.jobs[i].due, true
	}
	return 0, false
}

// Take implements device.Virtual.
func (w *Worker) Take(now int64) *device.Event {
	i := w.next()
	if i < 0 || w.jobs[i].due > now {
		return nil
	}
	w.done = w.jobs[i].ev
	w.jobs = slices.Delete(w.jobs, i, i+1)
	return &w.done
}

// Abort implements device.Device: batches cannot be stopped.
func (*Worker) Abort(int64, device.WorkID, bool) {}

// Release implements device.Device.
func (*Worker) Release(device.RequestID) {}

// Close implements device.Device.
func (*Worker) Close() error { return nil }

// table returns a network's latency table. It has one segment, with the p99 of each batch.
func table(n *jellyfish.Net) (*sched.Table, error) {
	var e []bundle.LatencyEntry
	for b, ns := range n.P99 {
		e = append(e, bundle.LatencyEntry{Network: n.Name, Batch: b + 1, P50: ns, P99: ns})
	}
	return sched.NewTable(e, n.Name)
}
