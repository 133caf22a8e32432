package soft_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
)

// slowExecutor computes like golden, but slowly.
type slowExecutor struct{ *golden.Program }

func (x slowExecutor) Segment(segment, batch int, slot []byte) error {
	time.Sleep(400 * time.Millisecond)
	return x.Program.Segment(segment, batch, slot)
}

// spans records how long segments run.
type spans struct {
	engine.NopObserver
	mu  sync.Mutex
	all []engine.Span
}

func (o *spans) Span(s *engine.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Segment >= 0 {
		o.all = append(o.all, *s)
	}
}

// In real time a soft device takes the table's time, however long its numerics take: that time never counts as the
// device's. So nothing hangs, and each segment ends when its time is over. The results are golden's.
func TestPacedByTheTable(t *testing.T) { synctest.Test(t, pacedByTheTable) }

func pacedByTheTable(t *testing.T) {
	const segment = 4_000_000
	d, b, in := network(t)
	paced := *b
	paced.Latency = slices.Clone(b.Latency)
	for i := range paced.Latency {
		e := &paced.Latency[i]
		e.P50 = segment * int64(e.Last-e.First+1)
		e.P99 = e.P50
	}
	prog, err := golden.New(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, memo := range map[string]*soft.Memo{"full": nil, "memo": {}} {
		dev := soft.New(d, soft.Options{Memo: memo, Executor: func(b *bundle.Bundle) (soft.Executor, error) {
			p, err := golden.New(b)
			return slowExecutor{p}, err
		}})
		if err := dev.Load(t.Context(), &paced); err != nil {
			t.Fatal(err)
		}
		tab, err := sched.NewTable(paced.Latency, b.Network.Name)
		if err != nil {
			t.Fatal(err)
		}
		o := &spans{}
		s, err := engine.NewServer(engine.Config{
			Devices: []device.Device{device.Adapt(dev)}, Networks: []engine.Network{{Name: b.Network.Name, Tables: []*sched.Table{tab}}},
			Policy: sched.Serial{}, Inputs: engine.NoInputs, Observer: o,
			Watchdog: engine.Watchdog{Fixed: 300_000_000}, // less than a segment of golden takes
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan *engine.Result, 1)
		go func() {
			res, err := s.Run(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		var tickets []*engine.Ticket
		for _, x := range in[:2] {
			k, err := s.Open(t.Context(), &engine.Call{
				Task:   sched.Task{Network: b.Network.Name, Theta: 2},
				Inputs: [][]device.Tensor{{device.Words("input", x, len(x))}},
			})
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, k)
		}
		for i, k := range tickets {
			want, err := prog.Run(in[i])
			if err != nil {
				t.Fatal(err)
			}
			for e := range k.Exits() {
				if !slices.Equal(e.Result.Raw, want[e.Exit]) {
					t.Errorf("%s: input %d, exit %d: %v, golden's logits are %v", name, i, e.Exit, e.Result.Raw, want[e.Exit])
				}
			}
			if out := k.Outcomes()[0]; out.Record.Ending != engine.OnTime {
				t.Errorf("%s: input %d ended %s: %s", name, i, out.Record.Ending, out.Record.Why)
			}
		}
		s.Drain()
		if res := <-done; res.Hangs != 0 {
			t.Errorf("%s: %d hangs", name, res.Hangs)
		}
		if n := len(tickets) * len(b.Network.Exits); len(o.all) != n {
			t.Errorf("%s: %d segments ran, expected %d", name, len(o.all), n)
		}
		for _, x := range o.all {
			if x.End-x.Start != segment {
				t.Errorf("%s: segment %d took %d ns, the table says %d", name, x.Segment, x.End-x.Start, segment)
			}
		}
		if err := dev.Unload(t.Context(), b.Network.Name); err != nil { // all slots are free
			t.Error(err)
		}
	}
}

// A run whose context ends waits for the segment that runs on a paced device, and no longer.
func TestPacedEndsWithItsSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, in := network(t)
		paced := *b
		paced.Latency = slices.Clone(b.Latency)
		for i := range paced.Latency {
			paced.Latency[i].P50, paced.Latency[i].P99 = 4e9, 4e9
		}
		dev := soft.New(d, soft.Options{})
		tab, err := sched.NewTable(paced.Latency, b.Network.Name)
		if err := errors.Join(err, dev.Load(t.Context(), &paced)); err != nil {
			t.Fatal(err)
		}
		s, err := engine.NewServer(engine.Config{
			Devices: []device.Device{device.Adapt(dev)}, Networks: []engine.Network{{Name: b.Network.Name, Tables: []*sched.Table{tab}}},
			Policy: sched.Serial{}, Inputs: engine.NoInputs, Grace: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		go func() {
			_, _ = s.Open(ctx, &engine.Call{Task: sched.Task{Network: b.Network.Name, Theta: 2}, Inputs: [][]device.Tensor{{device.Words("input", in[0], len(in[0]))}}})
		}()
		if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v: expected the context's end, when the segment of 4 s has ended", err, time.Since(began))
		}
	})
}
