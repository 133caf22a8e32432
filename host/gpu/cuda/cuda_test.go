package cuda_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/hw/configs"
)

var (
	seed  = flag.Uint64("cuda.seed", 1, "of the random networks and kills")
	kills = flag.Int("cuda.kills", 60, "launches of TestKilled")
)

// library builds the fake CUDA driver.
func library(t testing.TB) (string, *fake.Handles) { return of(t, driver.CUDA) }

// of builds an API's fake driver.
func of(t testing.TB, api *driver.API) (string, *fake.Handles) {
	t.Helper()
	build := fake.Build
	if api == driver.HIP {
		build = fake.BuildHIP
	}
	return fake.Rig(t, build)
}

// each runs a test on both APIs; cfg is the configuration to open a device with.
func each(t *testing.T, test func(t *testing.T, cfg cuda.Config)) {
	t.Run("cuda", func(t *testing.T) { test(t, cuda.Config{API: driver.CUDA}) })
	t.Run("hip", func(t *testing.T) { test(t, hip(t)) })
}

// hip returns a configuration for AMD's fake driver.
func hip(t testing.TB) cuda.Config {
	t.Helper()
	at, err := fake.Kernels(fake.Dir(), "gfx906", "-O0")
	if err != nil {
		t.Fatal(err)
	}
	image, err := kernels.Object(at)
	if err != nil {
		t.Fatal(err)
	}
	return cuda.Config{API: driver.HIP, Kernels: image}
}

// rig is a device whose events the test itself reads.
type rig struct {
	t      testing.TB
	d      *cuda.Device
	h      *fake.Handles
	events chan device.Event
	end    context.CancelFunc
	gone   <-chan struct{}
	next   device.WorkID
}

func start(t testing.TB, cfg cuda.Config) *rig {
	t.Helper()
	if cfg.API == nil {
		cfg.API = driver.CUDA
	}
	path, h := of(t, cfg.API)
	leak := goleak.IgnoreCurrent()
	cfg.Library = path
	d, err := cuda.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	r := &rig{t: t, d: d, h: h, events: make(chan device.Event, 1<<12), end: end}
	r.gone = d.Attach(ctx, func(e device.Event) { r.events <- e })
	t.Cleanup(func() {
		end()
		<-r.gone
		h.Forget()
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := h.Open(); n != 0 {
			t.Errorf("%d things of the driver's have not been given back", n)
		}
		if f := h.Faults(); len(f) != 0 {
			t.Errorf("rules of the driver's broken: %v", f)
		}
		goleak.VerifyNone(t, leak)
	})
	return r
}

// begin begins work and returns its ID.
func (r *rig) begin(w device.Work) device.WorkID {
	r.t.Helper()
	r.next++
	w.ID = r.next
	if done, err := r.d.Begin(r.t.Context(), 0, &w); err != nil || done {
		r.t.Fatalf("begin %s: done %v, %v", w.Kind, done, err)
	}
	return w.ID
}

func (r *rig) event() device.Event {
	r.t.Helper()
	select {
	case e := <-r.events:
		return e
	case <-time.After(time.Minute):
		r.t.Fatal("no event within a minute")
		return device.Event{}
	}
}

// do begins work and waits for its end.
func (r *rig) do(w device.Work) device.Event {
	r.t.Helper()
	id := r.begin(w)
	e := r.event()
	if e.Work != id || !e.Over {
		r.t.Fatalf("event %+v, expected the end of work %d", e, id)
	}
	return e
}

func (r *rig) must(w device.Work) device.Event {
	r.t.Helper()
	e := r.do(w)
	if e.Kind == device.Failed {
		r.t.Fatalf("%s: %v", w.Kind, e.Err)
	}
	return e
}

func (r *rig) load(b *bundle.Bundle) {
	r.t.Helper()
	r.must(device.Work{Kind: device.Load, Artefact: b})
}

func (r *rig) copy(b *bundle.Bundle, id device.RequestID, in []int16) device.Event {
	r.t.Helper()
	return r.do(device.Work{Kind: device.Copy, Network: b.Network.Name, Request: id, Input: func() ([]device.Tensor, error) {
		return []device.Tensor{device.Words("input", in, len(in))}, nil
	}})
}

// admitted loads a random network with at least that many exits and admits an input as request 1; want holds golden's
// logits.
func (r *rig) admitted(exits int, stream uint64) (b *bundle.Bundle, want [][]int16) {
	r.t.Helper()
	b, p := network(r.t, *seed, exits)
	in := randnet.Input(rand.New(rand.NewPCG(*seed, stream)), b)
	want, err := p.Run(in)
	if err != nil {
		r.t.Fatal(err)
	}
	r.load(b)
	if e := r.copy(b, 1, in); e.Kind != device.Done {
		r.t.Fatal(e.Err)
	}
	return b, want
}

// network returns a random network with at least that many exits, whose layers have several blocks. The caller may rename
// it.
func network(t testing.TB, seed uint64, exits int) (*bundle.Bundle, *golden.Program) {
	t.Helper()
	key := [2]uint64{seed, uint64(exits)}
	n := networks[key]
	if n.p == nil {
		n = makeNetwork(t, seed, exits)
		networks[key] = n
	}
	b := *n.b
	return &b, n.p
}

// networks caches the networks of tests, since compiling one takes longer than running it.
var networks = map[[2]uint64]compiled{}

type compiled struct {
	b *bundle.Bundle
	p *golden.Program
}

func makeNetwork(t testing.TB, seed uint64, exits int) compiled {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for ; ; seed += 1000 {
		n, err := randnet.New(seed, d, randnet.All())
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Bundle.Network.Exits) < exits {
			continue
		}
		p, err := golden.New(n.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		return compiled{n.Bundle, p}
	}
}

func launch(b *bundle.Bundle, first, last int, theta float32, ids ...device.RequestID) device.Work {
	l := device.Launch{ID: 1, Network: b.Network.Name, First: first, Last: last, Requests: ids}
	for range ids {
		l.Theta = append(l.Theta, theta)
	}
	return device.Work{Kind: device.Run, Launch: l}
}

// whole launches all segments of a batch, one by one, and returns the results of each exit.
func (r *rig) whole(b *bundle.Bundle, u device.Units, ids ...device.RequestID) (exits [][]device.ExitResult) {
	r.t.Helper()
	exits = make([][]device.ExitResult, len(ids))
	for seg := range b.Network.Exits {
		w := launch(b, seg, seg, 2, ids...)
		w.Launch.Units = u
		for i, res := range r.must(w).Report.Results {
			if want := seg == len(b.Network.Exits)-1; len(res.Exits) != 1 || (res.Taken >= 0) != want {
				r.t.Fatalf("segment %d: request %d took %d, saw %d exits", seg, i, res.Taken, len(res.Exits))
			}
			exits[i] = append(exits[i], res.Exits[0])
		}
	}
	return exits
}

// The kernels' arguments have the same layout in C++ and in Go.
func TestKernelArguments(t *testing.T) {
	_, h := library(t)
	if got, want := h.LayerBytes(), int(unsafe.Sizeof(kernels.Layer{})); got != want {
		t.Errorf("a layer has %d bytes in C++ and %d in Go", got, want)
	}
	if got, want := h.ControlBytes(), int(unsafe.Sizeof(kernels.Control{})); got != want {
		t.Errorf("a control has %d bytes in C++ and %d in Go", got, want)
	}
	for _, name := range []string{kernels.EntryLayer, kernels.EntryPadded, kernels.EntryWhere} {
		if !strings.Contains(kernels.PTX, ".entry "+name+"(") {
			t.Errorf("the PTX has no %s", name)
		}
	}
}

// Random networks, whole and exit by exit, alone and as batches on parts of the GPU, have golden's logits, bit for bit.
func TestGolden(t *testing.T) { each(t, runsAsGolden) }

func runsAsGolden(t *testing.T, cfg cuda.Config) {
	cfg.Slots = 8
	r := start(t, cfg)
	t.Logf("seed %d", *seed)
	for k := range uint64(24) {
		b, p := network(t, *seed+k, 1+int(k%2))
		b.Network.Name = fmt.Sprintf("net-%d", k)
		rng := rand.New(rand.NewPCG(*seed, k))
		r.load(b)
		n := 1 + rng.IntN(5)
		var ids []device.RequestID
		var want [][][]int16
		for i := range n {
			in := randnet.Input(rng, b)
			id := device.RequestID(100*k + uint64(i) + 1)
			if e := r.copy(b, id, in); e.Kind != device.Done {
				t.Fatalf("copy: %v", e.Err)
			}
			out, err := p.Run(in)
			if err != nil {
				t.Fatal(err)
			}
			ids, want = append(ids, id), append(want, out)
		}
		var units device.Units
		if info := r.d.Info(); k%2 == 1 {
			first := rng.IntN(info.Units)
			units = device.UnitRange(first, 1+rng.IntN(info.Units-first))
		}
		for i, exits := range r.whole(b, units, ids...) {
			for s, x := range exits {
				if !slices.Equal(x.Raw, want[i][s]) {
					t.Fatalf("network %d: request %d, exit %d: %v, golden says %v", k, i, s, x.Raw, want[i][s])
				}
			}
		}
		for _, id := range ids {
			r.d.Release(id)
		}
		r.must(device.Work{Kind: device.Unload, Network: b.Network.Name})
	}
}

// long returns a random network with two exits and many kernels and blocks.
func long(t testing.TB) (*bundle.Bundle, *golden.Program) {
	t.Helper()
	var best *bundle.Bundle
	var prog *golden.Program
	for k := range uint64(12) {
		b, p := network(t, *seed+k, 2)
		if best == nil || len(b.Layers) > len(best.Layers) {
			best, prog = b, p
		}
	}
	return best, prog
}

// killed launches a batch segment by segment, aborts at random and resumes where the device says. It counts the
// requests whose results differ from golden's, and the launches that were stopped inside a kernel.
func killed(t *testing.T, cfg cuda.Config, launches int, of func(testing.TB) (*bundle.Bundle, *golden.Program)) (differ, aborts, inside int) {
	r := start(t, cfg)
	rng := rand.New(rand.NewPCG(*seed, 77))
	b, p := of(t)
	t.Logf("seed %d: %d layers", *seed, len(b.Layers))
	if w := (device.Work{ID: 1 << 32, Kind: device.Load, Artefact: b}); len(b.FBCB) == len(b.Layers) {
		r.load(b)
	} else if r.d.LoadAny(w); true {
		if e := r.event(); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	const batch = 4
	var in [batch][]int16
	var want [batch][][]int16
	for i := range in {
		in[i] = randnet.Input(rng, b)
		var err error
		if want[i], err = p.Run(in[i]); err != nil {
			t.Fatal(err)
		}
	}
	r.h.Slow(1)
	took := make([]time.Duration, len(b.Network.Exits))
	for k := range launches {
		if cfg.Boolean && differ > 0 {
			break
		}
		var ids []device.RequestID
		for i := range in {
			ids = append(ids, device.RequestID(batch*k+i+1))
			if e := r.copy(b, ids[i], in[i]); e.Kind != device.Done {
				t.Fatalf("copy: %v", e.Err)
			}
		}
		var wrong [batch]bool
		for seg := range b.Network.Exits {
			for from, over := 0, false; !over; {
				w := launch(b, seg, seg, 2, ids...)
				w.Launch.Kernel = from
				began, full := time.Now(), from == 0
				work := r.begin(w)
				if took[seg] > 0 && rng.IntN(4) != 0 {
					time.Sleep(time.Duration(rng.Int64N(int64(took[seg]))))
					r.d.Abort(0, work, rng.IntN(4) != 0)
				}
				e := r.event()
				if e.Work != work || !e.Over || e.Kind == device.Failed {
					t.Fatalf("launch %d: %+v", k, e)
				}
				if e.Kind == device.Aborted {
					aborts++
					if e.Resume.Segment != seg || e.Resume.Kernel < 0 {
						t.Fatalf("launch %d: goes on at %+v", k, e.Resume)
					}
					from = e.Resume.Kernel
					continue
				}
				if over = true; full {
					took[seg] = time.Since(began)
				}
				for i := range ids {
					wrong[i] = wrong[i] || !slices.Equal(e.Report.Results[i].Exits[0].Raw, want[i][seg])
				}
			}
		}
		for i, id := range ids {
			if wrong[i] {
				differ++
			}
			r.d.Release(id)
		}
	}
	c, err := r.d.Counts()
	if err != nil {
		t.Fatal(err)
	}
	// Of the repeated kernels at least the stopped one had not ended before.
	if once := launches * len(b.Layers); !cfg.Boolean && (c.Ran < once || c.Ran > once+c.Again-c.Kills) {
		t.Errorf("%d kernels have ended, of %d, %d run again after %d kills", c.Ran, once, c.Again, c.Kills)
	}
	return differ, aborts, c.Kills
}

// killedUntil kills launches, n per round, until enough returns true: the effect depends on the timing of the host's
// threads. There are at most ten rounds.
func killedUntil(t *testing.T, cfg cuda.Config, n int, of func(testing.TB) (*bundle.Bundle, *golden.Program), enough func(differ, aborts, inside int) bool) (differ, aborts, inside int) {
	t.Helper()
	for range 10 {
		var d, a, i int
		t.Run("round", func(t *testing.T) { d, a, i = killed(t, cfg, n, of) }) // closes its device before the next one opens
		differ, aborts, inside = differ+d, aborts+a, inside+i
		if enough(differ, aborts, inside) {
			break
		}
	}
	return differ, aborts, inside
}

// Launches that are killed at random, inside kernels, and resumed where the device says have the results of undisturbed
// launches.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, cfg cuda.Config) {
		enough := func(_, aborts, stopped int) bool { return aborts >= *kills/4 && stopped > 0 }
		differ, aborts, stopped := killedUntil(t, cfg, *kills, long, enough)
		t.Logf("%d launches a round, %d aborts, %d of them inside a kernel: %d differ", *kills, aborts, stopped, differ)
		if differ != 0 || !enough(differ, aborts, stopped) {
			t.Errorf("%d differ, %d aborts, %d of them inside a kernel", differ, aborts, stopped)
		}
	})
}

// The work of a launch's stream and the epoch from another stream are not ordered. Even if the epoch comes very late, no
// later launch leaves because of it, and none resumes too early.
func TestLateSignal(t *testing.T) {
	_, h := library(t)
	h.Late(10_000_000)
	defer h.Late(0)
	differ, aborts, _ := killedUntil(t, cuda.Config{}, 4**kills, long, func(_, aborts, _ int) bool { return aborts > 0 })
	t.Logf("%d aborts, %d differ", aborts, differ)
	if differ != 0 || aborts == 0 {
		t.Errorf("%d differ, %d aborts", differ, aborts)
	}
}

// A request whose copy fails is not admitted: it can be admitted again after a reset.
func TestCopyFails(t *testing.T) {
	r := start(t, cuda.Config{Slots: 1})
	b, _ := network(t, *seed, 2)
	r.load(b)
	in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
	for _, call := range []string{"cuEventQuery", "cuMemcpyHtoDAsync_v2", "cuEventRecord"} {
		for _, code := range []int{700, 999, 1} {
			r.h.Inject(call, 0, code, 0)
			e := r.copy(b, 1, in)
			if e.Kind != device.Failed {
				t.Fatalf("%s answers %d: %v", call, code, e.Kind)
			}
			r.h.Forget()
			if device.ScopeOf(e.Err) == device.LoseDevice {
				r.must(device.Work{Kind: device.Reset})
			}
			if e := r.copy(b, 1, in); e.Kind != device.Done {
				t.Fatalf("%s answered %d: afterwards %v", call, code, e.Err)
			}
			r.must(launch(b, 0, 0, 2, 1))
			r.d.Release(1)
		}
	}
}

// With a flag that is cleared again instead of an epoch, queued kernels run on incomplete results.
func TestBoolean(t *testing.T) {
	differ, aborts, _ := killedUntil(t, cuda.Config{Boolean: true}, 20**kills, long, func(differ, _, _ int) bool { return differ > 0 })
	t.Logf("%d aborts, %d differ", aborts, differ)
	if differ == 0 {
		t.Error("a boolean in place of the epoch changes nothing: the test sees no half results")
	}
}

// A device rejects invalid work and leaks nothing.
func TestRefused(t *testing.T) {
	_, h := library(t)
	h.Splits(0, 0, 0) // only neighbouring SMs
	defer h.Splits(1, 0, 0)
	r := start(t, cuda.Config{Slots: 2, Places: 1})
	b, _ := network(t, *seed, 2)
	r.load(b)
	in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
	fails := func(what string, e device.Event, want error) {
		t.Helper()
		if e.Kind != device.Failed || !errors.Is(e.Err, want) || device.ScopeOf(e.Err) != device.LoseLaunch {
			t.Errorf("%s: %v %v, expected %v that loses a launch", what, e.Kind, e.Err, want)
		}
	}
	fails("a network twice", r.do(device.Work{Kind: device.Load, Artefact: b}), device.ErrRequest)
	fails("a short input", r.copy(b, 1, in[1:]), device.ErrRequest)
	other := *b
	other.Network.Name = "nobody's"
	fails("an unknown network", r.copy(&other, 1, in), device.ErrRequest)
	for id := device.RequestID(1); id <= 2; id++ {
		if e := r.copy(b, id, in); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
	}
	fails("a request twice", r.copy(b, 1, in), device.ErrRequest)
	fails("no slot left", r.copy(b, 3, in), device.ErrRequest)
	fails("no slot", r.do(launch(b, 0, 0, 2, 9)), device.ErrRequest)
	r.load(&other)
	fails("another network's slot", r.do(launch(&other, 0, 0, 2, 1)), device.ErrRequest)
	fails("no segment", r.do(launch(b, 0, len(b.Network.Exits), 2, 1)), device.ErrRequest)
	fails("two segments at once", r.do(launch(b, 0, 1, 2, 1)), device.ErrRequest)
	fails("an empty batch", r.do(launch(b, 0, 0, 2)), device.ErrRequest)
	w := launch(b, 0, 0, 2, 1)
	w.Launch.Kernel = 1000
	fails("no kernel", r.do(w), device.ErrRequest)
	w = launch(b, 0, 0, 2, 1)
	w.Launch.Units[0] = 0b101
	if _, err := r.d.Begin(t.Context(), 0, &w); !errors.Is(err, device.ErrRequest) {
		t.Errorf("units apart: %v", err)
	}
	w.Launch.Units = device.UnitRange(r.d.Info().Units, 1)
	if _, err := r.d.Begin(t.Context(), 0, &w); !errors.Is(err, device.ErrRequest) {
		t.Errorf("units beyond: %v", err)
	}
	fails("a network in use", r.do(device.Work{Kind: device.Unload, Network: b.Network.Name}), device.ErrRequest)
	bad := *b
	bad.Network.Name, bad.Layers = "bad", bad.Layers[:1]
	if e := r.do(device.Work{Kind: device.Load, Artefact: &bad}); !errors.Is(e.Err, device.ErrMismatch) {
		t.Errorf("a bundle that is not one: %v", e.Err)
	}
	if e := r.do(launch(b, 0, 0, 2, 1)); e.Kind != device.Passed {
		t.Errorf("after all that: %v", e.Err)
	}
}

// A reset during work keeps requests and their inputs.
func TestResetKeepsInputs(t *testing.T) { each(t, resetKeepsInputs) }

func resetKeepsInputs(t *testing.T, cfg cuda.Config) {
	r := start(t, cfg)
	b, want := r.admitted(2, 6)
	r.must(launch(b, 0, 0, 2, 1))
	r.must(device.Work{Kind: device.Reset})
	for s, x := range r.whole(b, device.Units{}, 1)[0] {
		if !slices.Equal(x.Raw, want[s]) {
			t.Errorf("exit %d: %v, golden says %v", s, x.Raw, want[s])
		}
	}
}

// A reset that fails while it copies inputs again can be tried again.
func TestResetFails(t *testing.T) {
	r := start(t, cuda.Config{})
	b, _ := network(t, *seed, 2)
	r.load(b)
	if e := r.copy(b, 1, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	r.h.Inject("cuStreamSynchronize", 5, 700, 0) // after the calls for signals, kernels and weights
	if e := r.do(device.Work{Kind: device.Reset}); e.Kind != device.Failed || device.ScopeOf(e.Err) != device.LoseDevice {
		t.Fatalf("%v %v", e.Kind, e.Err)
	}
	r.h.Forget()
	r.must(device.Work{Kind: device.Reset})
	r.must(launch(b, 0, 0, 2, 1))
}

// A launch that never ends is reported as a hang after its limit, and the device works after a reset.
func TestHang(t *testing.T) { each(t, hang) }

func hang(t *testing.T, cfg cuda.Config) {
	r := start(t, cfg)
	b, _ := network(t, *seed, 2)
	r.load(b)
	in := make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
	if e := r.copy(b, 1, in); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	r.must(launch(b, 0, 0, 2, 1))
	r.h.Hold(1)
	w := launch(b, 0, 0, 2, 1)
	w.Limit = int64(20 * time.Millisecond)
	r.h.Log(1)
	e := r.do(w)
	if e.Kind != device.Failed || !device.IsHang(e.Err) || device.ScopeOf(e.Err) != device.LoseDevice {
		t.Errorf("%v %v", e.Kind, e.Err)
	}
	if !slices.ContainsFunc(r.h.Calls(), func(c string) bool { return strings.Contains(c, "StreamWriteValue32") }) {
		t.Error("nothing was told to leave")
	}
	r.h.Log(0)
	r.h.Hold(0)
	r.must(device.Work{Kind: device.Reset})
	r.must(launch(b, 0, 0, 2, 1))
}

// Without a driver the error names the missing library.
func TestNoDriver(t *testing.T) {
	if _, err := cuda.New(cuda.Config{Library: filepath.Join(t.TempDir(), "libcuda.so.1")}); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cuda.New(cuda.Config{Library: file}); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("%v", err)
	}
	path, h := library(t)
	for _, call := range []string{"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuLibraryLoadData", "cuCtxSetCurrent", "cuStreamCreateWithPriority"} {
		h.Inject(call, 0, 3, 0)
		if _, err := cuda.New(cuda.Config{Library: path}); err == nil || !strings.Contains(err.Error(), call+": CUDA_ERROR_NOT_INITIALIZED (3)") {
			t.Errorf("%s fails: %v", call, err)
		}
		if n := h.Open(); n != 0 {
			t.Errorf("%s fails: %d things stay open", call, n)
		}
	}
	if _, err := cuda.New(cuda.Config{Library: path, GPU: 1}); !errors.Is(err, device.ErrRequest) || errors.Is(err, driver.ErrMissing) {
		t.Errorf("a GPU that is not there: %v", err)
	}
}

// A partition of any size has exactly its own SMs, whether the driver merges the sets of a split or must split
// neighbours again. A partition that it cannot make exactly is rejected. A GPU that cannot be divided is served whole.
func TestPartitions(t *testing.T) {
	_, h := library(t)
	defer h.Splits(1, 0, 0)
	for _, merges := range []int{1, 0} {
		t.Run(fmt.Sprintf("merges %d", merges), func(t *testing.T) {
			h.Splits(merges, 0, 0)
			r := start(t, cuda.Config{})
			info := r.d.Info()
			if info.Units != 16 || info.Neighbours != (merges == 0) {
				t.Fatalf("%d units of the fake's 132 SMs, neighbours %v", info.Units, info.Neighbours)
			}
			seen := map[int]int{}
			probe := func(u device.Units) {
				t.Helper()
				w, err := r.d.Probe(u)
				if err != nil {
					t.Fatal(err)
				}
				want := 8 * u.Count()
				if u.Has(15) {
					want += 4
				}
				if w.Want != want || len(w.SMs) != want {
					t.Errorf("units %v ran on %d SMs of %d, expected %d", w.Units, len(w.SMs), w.Want, want)
				}
				for _, sm := range w.SMs {
					seen[sm]++
				}
			}
			for first := 0; first < info.Units; {
				n := min(1+first/3, info.Units-first)
				probe(device.UnitRange(first, n))
				first += n
			}
			apart := device.Units{0b1001_0000_0000_0101}
			if merges == 1 {
				probe(apart)
				probe(device.Units{0b0110_1111_1111_1010})
			} else if _, err := r.d.Probe(apart); !errors.Is(err, device.ErrRequest) {
				t.Errorf("units apart: %v", err)
			}
			for sm := range 132 {
				if seen[sm] != 1+merges {
					t.Errorf("SM %d is in %d partitions", sm, seen[sm])
				}
			}
			whole, err := r.d.Probe(device.Units{})
			if err != nil || len(whole.SMs) != 132 || whole.Want != 132 {
				t.Errorf("the whole GPU: %d SMs of %d, %v", len(whole.SMs), whole.Want, err)
			}
		})
	}
	t.Run("rounded up", func(t *testing.T) {
		h.Splits(0, 1, 0)
		r := start(t, cuda.Config{})
		if w, err := r.d.Probe(device.UnitRange(15, 1)); err != nil || len(w.SMs) != 12 {
			t.Errorf("one unit: %v, %v", w.SMs, err)
		}
		for _, u := range []device.Units{device.UnitRange(0, 3), device.UnitRange(3, 2), device.UnitRange(14, 2)} {
			w, err := r.d.Probe(u)
			if u != device.UnitRange(14, 2) && err == nil {
				t.Errorf("units %v: %d SMs of %d, and no error", u, len(w.SMs), w.Want)
			} else if err != nil && !errors.Is(err, device.ErrRequest) {
				t.Error(err)
			}
		}
	})
	t.Run("elsewhere", func(t *testing.T) { // the right number of SMs, but another partition's
		h.Splits(0, 2, 0)
		r := start(t, cuda.Config{})
		if w, err := r.d.Probe(device.UnitRange(0, 3)); !errors.Is(err, device.ErrRequest) || !strings.Contains(err.Error(), "run on SMs") {
			t.Errorf("%v, %v", w.SMs, err)
		}
		if w, err := r.d.Probe(device.UnitRange(0, 1)); err != nil || len(w.SMs) != 8 {
			t.Errorf("one unit: %v, %v", w.SMs, err)
		}
	})
	t.Run("undivided", func(t *testing.T) {
		h.Splits(1, 0, 1)
		r := start(t, cuda.Config{})
		if n := r.d.Info().Units; n != 0 {
			t.Errorf("%d units", n)
		}
		if w, err := r.d.Probe(device.Units{}); err != nil || len(w.SMs) != 132 || w.Want != 132 {
			t.Errorf("%v, %v", w, err)
		}
	})
	t.Run("costs", func(t *testing.T) {
		h.Splits(1, 0, 0)
		c, err := start(t, cuda.Config{}).d.Costs(50)
		if err != nil || c.Launch <= 0 || c.Query <= 0 || c.Signal <= 0 || c.Partition <= 0 || c.Switch <= 0 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// As device.Blocking it behaves like the NPU's driver: the same policy has the same results.
func TestSync(t *testing.T) {
	path, h := library(t)
	s, err := cuda.NewSync(cuda.Config{Library: path})
	if err != nil {
		t.Fatal(err)
	}
	b, p := network(t, *seed, 2)
	ctx := t.Context()
	served := *b
	served.Network.Name = "served"
	if err := s.Load(ctx, device.As("served", b)); err != nil {
		t.Fatal(err)
	}
	b = &served
	in := randnet.Input(rand.New(rand.NewPCG(*seed, 8)), b)
	want, err := p.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Admit(ctx, b.Network.Name, 1, device.InWords(in)); err != nil {
		t.Fatal(err)
	}
	l := launch(b, 0, len(b.Network.Exits)-1, 2, 1).Launch
	rep, err := s.Run(ctx, &l)
	if err != nil || rep.Ns <= 0 {
		t.Fatal(rep, err)
	}
	for i, x := range rep.Results[0].Exits {
		if !slices.Equal(x.Raw, want[i]) {
			t.Errorf("exit %d: %v, golden says %v", i, x.Raw, want[i])
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	h.Hold(1)
	go func() { time.Sleep(10 * time.Millisecond); h.Hold(0) }()
	if _, err := s.Run(over, &l); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a run whose context has ended: %v", err)
	}
	s.Release(1)
	if err := s.Unload(ctx, b.Network.Name); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil || h.Open() != 0 {
		t.Errorf("close: %v, %d things stay open", err, h.Open())
	}
}

// Streams have the priority of their use: highest for orders to leave, lowest for copies and launches without priority.
func TestPriorities(t *testing.T) {
	_, h := library(t)
	h.Log(1)
	r := start(t, cuda.Config{})
	b, _ := network(t, *seed, 2)
	r.load(b)
	if e := r.copy(b, 1, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	w := launch(b, 0, 0, 2, 1)
	r.must(w)
	w.Launch.Priority = 1
	r.must(w)
	w.Launch.Units = device.UnitRange(1, 1)
	r.must(w)
	var got []string
	for _, c := range h.Calls() {
		if name, args, _ := strings.Cut(c, "("); name == "cuStreamCreateWithPriority" {
			got = append(got, strings.TrimSuffix(args, ")"))
		}
	}
	h.Log(0)
	if want := []string{"0", "-5", "0", "-5", "-5"}; !slices.Equal(got, want) {
		t.Errorf("streams of priorities %v, expected %v: copies, signals, a launch, two of priority", got, want)
	}
}

// The library gets its environment variables, except those that the user has set.
func TestEnvironment(t *testing.T) {
	_, h := library(t)
	start(t, cuda.Config{})
	for name, want := range map[string]string{"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_MODULE_LOADING": "EAGER"} {
		if _, set := os.LookupEnv(name); !set && h.Env(name) != want {
			t.Errorf("%s is %q, expected %s", name, h.Env(name), want)
		}
	}
}

// With a driver that is older than the PTX the error says so.
func TestOldDriver(t *testing.T) {
	path, h := library(t)
	h.Version(11080)
	defer h.Version(12040)
	if _, err := cuda.New(cuda.Config{Library: path}); err == nil || !strings.Contains(err.Error(), "PTX is of version "+kernels.Version()) || !strings.Contains(err.Error(), "CUDA "+kernels.CUDA()+" or later") || kernels.CUDA() < "12" {
		t.Error(err)
	}
	if n := h.Open(); n != 0 {
		t.Errorf("%d things stay open", n)
	}
}

// With two streams, each direction has two copies in each stream. The driver gets all of them between the first event and
// the last events.
func TestTwoCopies(t *testing.T) {
	r := start(t, cuda.Config{})
	const n, bytes = 3, 4096
	r.h.Log(1)
	c, err := r.d.TwoCopies(bytes, n)
	calls := r.h.Calls()
	r.h.Log(0)
	if err != nil || len(c.Up) != n || len(c.Down) != n || slices.Min(append(c.Up, c.Down...)) <= 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	var between []string // copies until an event is recorded
	copies := ""
	for _, call := range calls {
		switch name, size, _ := strings.Cut(call, "("); {
		case size != fmt.Sprint(bytes, ")") && name != "cuEventRecord":
		case name == "cuMemcpyHtoDAsync_v2":
			copies += "u"
		case name == "cuMemcpyDtoHAsync_v2":
			copies += "d"
		case name == "cuEventRecord":
			between = append(between, copies)
			copies = ""
		}
	}
	want := slices.Repeat([]string{"", "uuuu", "", "", "dddd", ""}, n)
	if len(between) < len(want) || !slices.Equal(between[len(between)-len(want):], want) {
		t.Errorf("copies until an event: %q, expected %q", between, want)
	}
	// By the fake's clock copies run one after the other, so a run takes the time of one copy. It takes half of that if the
	// second stream copied before the first event, and never more.
	r.h.Pace(1)
	each := int64(r.h.CopyNs(bytes))
	alone, e := r.d.Copies(bytes, n, false)
	near := func(a, b int64) bool { return a-b < 1000 && b-a < 1000 } // events tell ms as a float32
	var all []int64
	for range 200 { // on a busy machine the second stream may copy first, sometimes many times in a row
		c, err = r.d.TwoCopies(bytes, 8)
		if all = append(append(all, c.Up...), c.Down...); err != nil || near(slices.Max(all), each) {
			break
		}
	}
	if e != nil || err != nil || !near(slices.Max(all), each) || slices.Min(all) < each/2-1000 || !near(slices.Min(append(alone.Up, alone.Down...)), each) || !near(slices.Max(append(alone.Up, alone.Down...)), each) {
		t.Errorf("copies of %d ns each take %+v, alone %+v; %v, %v", each, c, alone, err, e)
	}
	for _, bad := range [][2]int{{0, 1}, {1<<30 + 1, 1}, {1, 0}} {
		if _, err := r.d.TwoCopies(bad[0], bad[1]); !errors.Is(err, device.ErrRequest) {
			t.Errorf("%d copies of %d bytes: %v", bad[1], bad[0], err)
		}
	}
}

// Pace measures launches that the driver has all received before the first begins, and a single one.
func TestPace(t *testing.T) {
	const look = 200 * time.Microsecond // time of a block for a look: no kernel is shorter, and no wait for one is longer
	r := start(t, cuda.Config{})
	r.h.Slow(int(look))
	b, _ := r.admitted(1, 6)
	if _, err := r.d.Pace(b.Network.Name, 1); err != nil { // creates the stream
		t.Fatal(err)
	}
	const n = 3
	r.h.Log(1)
	began := time.Now()
	layers, err := r.d.Pace(b.Network.Name, n)
	took := time.Since(began)
	calls := r.h.Calls()
	r.h.Log(0)
	if err != nil || len(layers) != len(b.Layers) {
		t.Fatalf("%d layers of %d, %v", len(layers), len(b.Layers), err)
	}
	var between []int // launches until an event is recorded
	launches, sum := 0, int64(0)
	for _, c := range calls {
		switch name, _, _ := strings.Cut(c, "("); name {
		case "cuLaunchKernel":
			launches++
		case "cuEventRecord":
			between = append(between, launches)
			launches = 0
		}
	}
	if want := slices.Repeat([]int{1, 2}, n*len(b.Layers)); !slices.Equal(between, want) {
		t.Errorf("launches until an event: %v, expected %v", between, want)
	}
	for _, l := range layers {
		for _, ns := range l.Ns {
			sum += 2 * ns
		}
		if len(l.Ns) != n || slices.Min(l.Ns) < look.Nanoseconds() {
			t.Errorf("%+v, of kernels of %v at least", l, look)
		}
	}
	if sum > took.Nanoseconds() {
		t.Errorf("launches took %v of %v", time.Duration(sum), took)
	}
}
