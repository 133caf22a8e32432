package soft_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
)

var (
	soakN    = flag.Int("soak.n", 40_000, "requests of the soak")
	soakSeed = flag.Uint64("soak.seed", 1, "seed of the soak")
)

const (
	soakClients = 64
	soakWindow  = 48 // pending tasks of a client
	warm        = 4 * soakClients * soakWindow
	soakLimit   = 250_000_000 // ns, of the watchdog
)

// tally is the soak's observer: it counts endings, by request and by task.
type tally struct {
	engine.NopObserver
	endings  [engine.Errored + 1]int64 // of requests; only used on the books' goroutine
	requests int64
	tasks    []uint8 // how often each task has ended, without refusals
	free     []chan struct{}
	refused  int64
	heap     []uint64 // live bytes, one sample in each tenth, once every client has filled its window often
	every    int64
}

func (o *tally) Ended(r *engine.Record, _ *device.ExitResult) {
	o.endings[r.Ending]++
	if o.requests++; o.requests%o.every == 0 && o.requests >= warm {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		o.heap = append(o.heap, m.HeapAlloc)
	}
}

func (o *tally) TaskEnded(_ int64, t *sched.Task, how engine.Ending) {
	if how == engine.Refused {
		o.refused++
		return
	}
	o.tasks[t.ID]++
	<-o.free[t.Client]
}

// account counts the calls of a driver and those that fail.
type account struct {
	device.Blocking
	runs, failed, lost *atomic.Int64 // calls, failed calls, requests in failed calls
}

func (a account) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	n := len(l.Requests)
	a.runs.Add(1)
	rep, err := a.Blocking.Run(ctx, l)
	if err != nil {
		a.failed.Add(1)
		a.lost.Add(int64(n))
	}
	return rep, err
}

// watched counts the launches that were not over, on the server's clock, at the watchdog's limit: those that hang,
// and those that a machine that is slow, or stalls for a moment, delays that long. No other launch may count as hung.
type watched struct {
	*device.Adapter
	now   func() sched.Time // the server's
	limit sched.Time
	late  *atomic.Int64

	mu    sync.Mutex
	began map[device.WorkID]sched.Time
}

func (d *watched) Begin(ctx context.Context, now sched.Time, w *device.Work) (bool, error) {
	if w.Kind == device.Run {
		d.mu.Lock()
		d.began[w.ID] = now
		d.mu.Unlock()
	}
	return d.Adapter.Begin(ctx, now, w)
}

func (d *watched) Attach(ctx context.Context, post func(device.Event)) <-chan struct{} {
	return d.Adapter.Attach(ctx, func(ev device.Event) {
		id := ev.Work
		post(ev)
		now := d.now() // the books have noticed by now, or did not look in time
		d.mu.Lock()
		defer d.mu.Unlock()
		if at, ok := d.began[id]; ok && now >= at+d.limit {
			d.late.Add(1)
		}
		delete(d.began, id)
	})
}

// A soak of the server: tasks from 64 goroutines, with cancels and with refused, expired or invalid tasks, on soft
// devices of which 5 % of the segments fail and some hang. The endings add up, each task ends once, memory is
// constant, no goroutine and no slot is left. Only the failures that were injected occur, and all other tasks are
// served.
func TestSoak(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := *soakN
	if testing.Short() { // for emulated runs
		n = min(n, 20_000)
	}
	t.Logf("seed %d, %d requests", *soakSeed, n)
	design, b, in := network(t)
	tab, err := sched.NewTable(b.Latency, b.Network.Name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{
		Networks: []engine.Network{{Name: b.Network.Name}},
		Inputs:   engine.WordInputs(func(r *sched.Request) ([]int16, error) { return in[int(r.ID)%len(in)], nil }),
		Keep:     engine.Counts, ResetCost: 100_000, Resets: 1 << 20,
		Watchdog:  engine.Watchdog{Fixed: soakLimit},
		Admission: func(_ sched.Time, _ *sched.State, task *sched.Task) bool { return task.ID%53 != 0 },
	}
	if cfg.Policy, err = sched.New("fluid", sched.Options{}); err != nil {
		t.Fatal(err)
	}
	memo := &soft.Memo{}
	var hangs, late, runs, failed, lost atomic.Int64
	var s *engine.Server
	var devs []*soft.Dev
	for i := range 2 {
		dev := soft.New(design, soft.Options{Memo: memo, Slots: 64})
		if err := dev.Load(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		devs = append(devs, dev)
		rng := rand.New(rand.NewPCG(*soakSeed, uint64(i))) // its device has one place: only one goroutine at a time
		faulty := account{runs: &runs, failed: &failed, lost: &lost, Blocking: &enginetest.Faulty{
			Blocking: dev, Real: true,
			Fail: func(int) bool { return rng.IntN(20) == 0 },
			Hang: func(n int) bool {
				if n%2000 != 500 {
					return false
				}
				hangs.Add(1)
				return true
			},
		}}
		cfg.Devices = append(cfg.Devices, &watched{
			Adapter: device.Adapt(faulty), now: func() sched.Time { return s.Now() }, limit: soakLimit, late: &late, began: map[device.WorkID]sched.Time{},
		})
		cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
	}
	o := &tally{tasks: make([]uint8, n+1), every: max(1, int64(n)/10)}
	for range soakClients {
		o.free = append(o.free, make(chan struct{}, soakWindow))
	}
	cfg.Observer = o
	if s, err = engine.NewServer(cfg); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	var accepted, refused atomic.Int64
	taken := make([]bool, n+1) // accepted, by task; each written by its client
	var next atomic.Uint64
	for c := range soakClients {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(*soakSeed, uint64(100+c)))
			for {
				id := next.Add(1)
				if id > uint64(n) {
					return
				}
				o.free[c] <- struct{}{}
				task := sched.Task{ID: id, Client: c, Network: b.Network.Name, Theta: 0.5}
				var want error
				switch rng.IntN(40) {
				case 0:
					task.Network, want = "nobody's", engine.ErrNetwork
				case 1:
					task.Deadline, want = 1, engine.ErrExpired
				case 2:
					task.Samples, want = -7, engine.ErrSamples
				case 3:
					task.Samples, want = math.MaxInt32>>rng.IntN(8), engine.ErrSamples
				case 4:
					task.ID, want = 0, engine.ErrTaken
				case 5, 6, 7:
					task.Deadline = s.Now() + 1 + rng.Int64N(3_000_000)
				case 8:
					task.Deadline = 1<<63 - 1
				}
				if want == nil && id%53 == 0 {
					want = engine.ErrAdmitted
				}
				err := s.Submit(context.Background(), &task)
				if want != nil && !errors.Is(err, want) && !(errors.Is(want, engine.ErrAdmitted) && errors.Is(err, engine.ErrExpired)) {
					t.Errorf("task %d: %v, want %v", id, err, want)
				}
				if err != nil {
					if want == nil && !errors.Is(err, engine.ErrExpired) {
						t.Errorf("task %d: %v", id, err)
					}
					refused.Add(1)
					<-o.free[c]
					continue
				}
				taken[id] = true
				accepted.Add(1)
				if rng.IntN(10) == 0 {
					if err := s.Cancel(context.Background(), id-uint64(rng.IntN(40))%id); err != nil {
						t.Errorf("cancel: %v", err)
					}
				}
			}
		})
	}
	go func() {
		clients.Wait()
		s.Drain()
	}()
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Error(err)
	}
	total := int64(0)
	for _, k := range o.endings {
		total += k
	}
	if total != int64(n) || accepted.Load()+refused.Load() != int64(n) || o.refused != refused.Load() || o.endings[engine.Pending] != 0 {
		t.Errorf("%d endings %v of %d tasks, %d accepted, %d refused (heard of %d)", total, o.endings, n, accepted.Load(), refused.Load(), o.refused)
	}
	for id, k := range o.tasks {
		if want := taken[id]; (k == 1) != want || k > 1 {
			t.Errorf("task %d ended %d times, accepted %t", id, k, want)
			break
		}
	}
	for i, dev := range devs { // it fails if a slot is in use
		if err := dev.Unload(context.Background(), b.Network.Name); err != nil {
			t.Errorf("device %d: %v", i, err)
		}
	}
	sum := res.Summary()
	// Everything that hangs is noticed, and nothing else except late launches. Each of those loses a batch that its
	// driver does not count.
	stray := int64(sum.Hangs) - hangs.Load()
	if stray < 0 || int64(sum.Hangs) > late.Load() {
		t.Errorf("%d hangs, %d injected, %d launches were late", sum.Hangs, hangs.Load(), late.Load())
	}
	if d := int64(sum.Faults) - failed.Load(); d < 0 || d > stray {
		t.Errorf("%d faults, %d launches failed, %d hangs were none", sum.Faults, failed.Load(), stray)
	}
	if mean := float64(runs.Load()) / 20; math.Abs(float64(failed.Load()-hangs.Load())-mean) > 5*math.Sqrt(mean) {
		t.Errorf("%d of %d launches failed, expected 5 %%", failed.Load(), runs.Load())
	}
	// A request lost by a failure starts again, unless it is the second time (5 %) or its deadline is too close (one
	// task in ten has one); then it ends with an error. There are no other errors.
	most := lost.Load() + stray*8
	if k := int64(sum.Errors); k > most-int64(sum.Retries) || k > most/4 || int64(sum.Retries) < lost.Load()/2 {
		t.Errorf("%d errors, %d retries, where %d requests were in launches that failed", sum.Errors, sum.Retries, lost.Load())
	}
	// An eighth is refused at once and every 53rd at admission; at most a tenth is cancelled.
	if served := sum.OnTime + sum.Late; served < int64(n)*7/10 {
		t.Errorf("%d of %d tasks were served", served, n)
	}
	if sum.Requests != int64(n) || sum.Faults == 0 || sum.Cancelled == 0 || sum.Refused == 0 || sum.Resets < sum.Faults/2 {
		t.Errorf("%+v", sum)
	}
	t.Logf("%+v; %d hung, %d late", sum, hangs.Load(), late.Load())
	if len(o.heap) < 2 {
		t.Logf("fewer than %d requests tell nothing of memory", 2*warm)
		return
	}
	first, last := o.heap[0], o.heap[len(o.heap)-1]
	t.Logf("live heap %d KB when it is warm, %d KB at the end", first>>10, last>>10)
	if last > first+512<<10 {
		t.Errorf("memory grows: %d bytes after a tenth, %d at the end: %v", first, last, o.heap)
	}
}
