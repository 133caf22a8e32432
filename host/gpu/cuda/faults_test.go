package cuda_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
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
)

var headerFile = flag.String("cuda.header", "", "cuda.h 12.9.79, in which the fake's rules are looked up")

var everyCall = flag.Bool("cuda.every", false, "fail every single call of the story, not a few of each name; compile for each generation of AMD's")

// story exercises everything that a device does, step by step, on a network with known results.
type story struct {
	cfg  cuda.Config
	h    *fake.Handles
	b    *bundle.Bundle
	in   []int16
	want [][]int16
}

func newStory(t *testing.T, cfg cuda.Config) *story {
	path, h := of(t, cfg.API)
	cfg.Library, cfg.Slots, cfg.Params = path, 4, h200(t)
	if cfg.Mode.Name == "" {
		cfg.Mode = mode(t, "reef")
	}
	b, p := light(t)
	s := &story{cfg: cfg, h: h, b: b, in: randnet.Input(rand.New(rand.NewPCG(*seed, 5)), b)}
	var err error
	if s.want, err = p.Run(s.in); err != nil {
		t.Fatal(err)
	}
	return s
}

// light returns a random network with two exits and few multiplications: a story tests calls, and runs some thousand
// times.
func light(t *testing.T) (best *bundle.Bundle, prog *golden.Program) {
	t.Helper()
	least := 0
	for k := range uint64(12) {
		b, p := network(t, *seed+k, 2)
		macs := 0
		for i := range b.Layers {
			l := &b.Layers[i]
			macs += int(l.OutH) * int(l.OutW) * int(l.OutC) * int(l.KH) * int(l.KW) * int(l.InC)
		}
		if best == nil || macs < least {
			best, prog, least = b, p, macs
		}
	}
	return best, prog
}

// told is a device that sends its events to a channel.
type told struct {
	*story
	d      *cuda.Device
	events chan device.Event
	next   device.WorkID
	end    context.CancelFunc
	gone   <-chan struct{}
}

func (s *story) open() (*told, error) {
	d, err := cuda.New(s.cfg)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	r := &told{story: s, d: d, events: make(chan device.Event, 1<<10), end: end}
	r.gone = d.Attach(ctx, func(e device.Event) { r.events <- e })
	return r, nil
}

func (r *told) close() error {
	r.end()
	<-r.gone
	return r.d.Close()
}

func (r *told) begin(w device.Work) (device.WorkID, error) {
	r.next++
	w.ID = r.next
	_, err := r.d.Begin(context.Background(), 0, &w)
	return w.ID, err
}

// last returns the last event of some work.
func (r *told) last(id device.WorkID) (device.Event, error) {
	for e := range r.events {
		if e.Work == id && e.Over {
			return e, e.Err
		}
	}
	panic("unreachable")
}

func (r *told) do(w device.Work) (device.Event, error) {
	id, err := r.begin(w)
	if err != nil {
		return device.Event{}, err
	}
	return r.last(id)
}

func (r *told) load() error {
	_, err := r.do(device.Work{Kind: device.Load, Artefact: r.b})
	return err
}

func (r *told) copy(id device.RequestID) error {
	_, err := r.do(device.Work{Kind: device.Copy, Network: r.b.Network.Name, Request: id, Input: func() ([]device.Tensor, error) {
		return []device.Tensor{device.Words("input", r.in, len(r.in))}, nil
	}})
	return err
}

// busy waits until the launcher has launched all begun work that it may launch, while all streams are held. After a
// failure the launcher itself may wait for a stream and not answer; then busy returns.
func (r *told) busy() {
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for range 2 { // after the second answer, it has examined all launches
			_, _ = r.d.Counts()
		}
	}()
	select {
	case <-looked:
	case <-time.After(20 * time.Millisecond):
	}
}

var errDiffers = errors.New("the result is not golden's")

// run runs a request to the last exit on units. kill: every segment is killed once and resumed.
func (r *told) run(id device.RequestID, u device.Units, kill bool) error {
	for seg := range r.b.Network.Exits {
		from, aborted := 0, !kill
		for {
			w := launch(r.b, seg, seg, 2, id)
			w.Launch.Units, w.Launch.Kernel = u, from
			if !aborted {
				r.h.Hold(1)
			}
			work, err := r.begin(w)
			if !aborted {
				r.busy() // otherwise there is nothing to kill yet
				r.d.Abort(0, work, true)
				r.h.Hold(0)
			}
			if err != nil {
				return err
			}
			e, err := r.last(work)
			if err != nil {
				return err
			}
			if e.Kind == device.Aborted {
				from, aborted = e.Resume.Kernel, true
				continue
			}
			if !slices.Equal(e.Report.Results[0].Exits[0].Raw, r.want[seg]) {
				return fmt.Errorf("%w: segment %d", errDiffers, seg)
			}
			break
		}
	}
	return nil
}

// preempted runs a launch of priority during another launch, which leaves, pads it and resumes.
func (r *told) preempted() (err error) {
	if err := r.copy(2); err != nil {
		return err
	}
	defer r.d.Release(2)
	r.h.Hold(1)
	var work [2]device.WorkID
	for i := range work {
		w := launch(r.b, 0, 0, 2, device.RequestID(i+1))
		w.Launch.ID, w.Launch.Priority = device.LaunchID(i+1), i
		if work[i], err = r.begin(w); err != nil {
			break
		}
		r.busy() // the other launch is on the GPU before the one of priority
	}
	r.h.Hold(0)
	if err != nil {
		return err
	}
	for range work {
		e := <-r.events
		for !e.Over || e.Work != work[0] && e.Work != work[1] {
			e = <-r.events
		}
		if e.Err != nil {
			err = e.Err
		} else if !slices.Equal(e.Report.Results[0].Exits[0].Raw, r.want[0]) {
			return fmt.Errorf("%w: under a launch of priority", errDiffers)
		}
	}
	return err
}

// steps runs the story after opening; each step may be the first that fails.
func (r *told) steps() (step string, err error) {
	all := []struct {
		name string
		do   func() error
	}{
		{"load", r.load},
		{"facts", func() error { _, err := r.d.Facts(); return err }},
		{"copy", func() error { return r.copy(1) }},
		{"launch", func() error { return r.run(1, device.Units{}, false) }},
		{"partition", func() error { return r.run(1, device.UnitRange(1, 2), false) }},
		{"preempt", func() error { return r.run(1, device.Units{}, true) }},
		{"priority", r.preempted},
		{"probe", func() error { _, err := r.d.Probe(device.UnitRange(0, 1)); return err }},
		{"costs", func() error { _, err := r.d.Costs(2); return err }},
		{"profile", func() error {
			_, err := r.d.Profile(r.b.Network.Name, 1, 1, device.UnitRange(1, 2))
			return err
		}},
		{"copies", func() error { _, err := r.d.Copies(4096, 1, true); return err }},
		{"two copies", func() error { _, err := r.d.TwoCopies(4096, 1); return err }},
		{"reset", func() error { _, err := r.do(device.Work{Kind: device.Reset}); return err }},
		{"again", func() error { return r.run(1, device.UnitRange(1, 2), false) }},
		{"unload", func() error {
			r.d.Release(1)
			_, err := r.do(device.Work{Kind: device.Unload, Network: r.b.Network.Name})
			return err
		}},
	}
	for _, s := range all {
		if r.cfg.Mode.Ahead && !slices.Contains([]string{"load", "copy", "priority", "reset", "unload"}, s.name) {
			continue // all else is the same in every mode
		}
		if err := s.do(); err != nil {
			return s.name, err
		}
	}
	return "", nil
}

// A device releases each resource separately, not only with the context: another device of the process may hold the
// context.
func TestGivesBack(t *testing.T) {
	s := newStory(t, cuda.Config{API: driver.CUDA})
	s.h.Log(1)
	defer s.h.Log(0)
	r, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(r.load(), r.copy(1), r.run(1, device.UnitRange(1, 2), true), r.preempted())
	if err = errors.Join(err, r.close()); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, c := range s.h.Calls() {
		name, _, _ := strings.Cut(c, "(")
		count[name]++
	}
	for takes, gives := range map[string]string{
		"cuMemAlloc_v2": "cuMemFree_v2", "cuMemHostAlloc": "cuMemFreeHost", "cuStreamCreateWithPriority": "cuStreamDestroy_v2", "cuEventCreate": "cuEventDestroy_v2",
		"cuLibraryLoadData": "cuLibraryUnload", "cuGreenCtxCreate": "cuGreenCtxDestroy", "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease_v2",
	} {
		if count[takes] == 0 || count[takes] != count[gives] {
			t.Errorf("%d calls of %s, %d of %s", count[takes], takes, count[gives], gives)
		}
	}
}

// An error may come at any call of the driver, once or repeatedly, as the call's own answer or from an earlier kernel.
// It is always reported with the driver's names, nothing is left open, and no rule of the driver is violated. The device
// continues, or reports that it is lost and continues after a reset.
func TestEveryCallFails(t *testing.T) { each(t, everyCallFails) }

// The same with reset-ahead.
func TestEveryCallFailsAhead(t *testing.T) {
	everyCallFails(t, cuda.Config{API: driver.CUDA, Mode: mode(t, "reset-ahead")})
}

func everyCallFails(t *testing.T, cfg cuda.Config) {
	s := newStory(t, cfg)
	nameless, memory := "cuGetErrorName", "cuMemAlloc_v2"
	if cfg.API == driver.HIP {
		nameless, memory = "hipGetErrorName", "hipMalloc"
	}
	leak := goleak.IgnoreCurrent()
	count := map[string]int{}
	s.h.Log(1)
	r, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	step, err := r.steps()
	if e := r.close(); err != nil || e != nil {
		t.Fatalf("the story as it is: %s: %v, close: %v", step, err, e)
	}
	for _, c := range s.h.Calls() {
		name, _, _ := strings.Cut(c, "(")
		count[name]++
	}
	s.h.Log(0)
	count[nameless] = 1 // called only after an error
	total := 0
	for _, name := range cfg.API.Calls() {
		total += count[name]
		if count[name] == 0 && !s.cfg.Mode.Ahead {
			t.Errorf("nothing in the story calls %s", name)
		}
	}
	surfaced, tried := map[string]bool{}, 0
	for _, name := range cfg.API.Calls() {
		n := count[name]
		if n == 0 {
			continue
		}
		step := max(1, n/2)
		if *everyCall {
			step = 1
		}
		type way struct{ after, code, late, every int }
		var ways []way
		for k := 0; k < n; k += step {
			ways = append(ways, way{after: k, code: 1}, way{after: k, code: 700})
			if k%(2*step) == 0 && name != nameless {
				ways = append(ways, way{after: k, code: 700, late: 1})
			}
		}
		ways = append(ways, way{every: 1, code: 2}, way{every: 2, code: 1}, way{every: 5, code: 999})
		for _, w := range ways {
			what := fmt.Sprintf("%s %+v", name, w)
			tried++
			if name == nameless {
				s.h.Inject(memory, 0, 2, 0)
			}
			if w.every > 0 {
				s.h.InjectEvery(name, w.every, w.code)
			} else {
				s.h.Inject(name, w.after, w.code, w.late)
			}
			told := s.survive(t, what)
			surfaced[name] = surfaced[name] || told != nil && (strings.Contains(told.Error(), name+": ") || name == nameless && strings.Contains(told.Error(), "an error without a name (2)"))
		}
		if !surfaced[name] && !s.cfg.Mode.Ahead {
			t.Errorf("no error of %s was told with its name", name)
		}
	}
	t.Logf("%d calls of %d names in the story, %d of them failed, seed %d", total, len(cfg.API.Calls()), tried, *seed)
	goleak.VerifyNone(t, leak)
}

// survive runs the story with the injected error, and returns the reported error.
func (s *story) survive(t *testing.T, what string) (told error) {
	t.Helper()
	defer func() {
		s.h.Forget()
		if n := s.h.Open(); n != 0 && !strings.HasPrefix(what, "cuDevicePrimaryCtx") && !strings.HasPrefix(what, "hipDeviceReset") && !strings.HasPrefix(what, "hipSetDevice") &&
			(!strings.HasPrefix(what, "cuLibraryUnload") || strings.Contains(what, "every:0")) { // tried twice, and no context takes kernels along
			t.Errorf("%s: %d things stay open", what, n)
		}
		s.h.Clear()
		if f := s.h.Faults(); len(f) != 0 {
			t.Errorf("%s: rules broken: %v", what, f)
		}
		s.h.Forgive()
	}()
	clear := func(err error) {
		if !strings.Contains(err.Error(), "CUDA_ERROR_") && !strings.Contains(err.Error(), "hipError") && !strings.Contains(err.Error(), "an error without a name") {
			t.Errorf("%s: %v names no error of the driver's", what, err)
		}
	}
	r, err := s.open()
	if err != nil {
		clear(err)
		return err
	}
	step, err := r.steps()
	if told = err; err != nil {
		clear(err)
		if errors.Is(err, errDiffers) {
			t.Errorf("%s: %s: %v", what, step, err)
		}
		lost := device.ScopeOf(err) == device.LoseDevice
		if lost && !errors.Is(err, device.ErrReset) {
			t.Errorf("%s: %s: %v loses the device and does not say that it must be reset", what, step, err)
		}
		s.h.Forget()
		if lost {
			if err := r.copy(50); err == nil || device.ScopeOf(err) != device.LoseDevice {
				t.Errorf("%s: %s: it says it is lost and takes a copy: %v", what, step, err)
			}
			if _, err := r.do(device.Work{Kind: device.Reset}); err != nil {
				t.Errorf("%s: %s: %v; reset: %v", what, step, told, err)
			}
		}
		if step == "load" {
			err = r.load()
		} else {
			err = nil
			if step == "unload" {
				_ = r.load() // it may still be loaded
			}
		}
		if err == nil {
			err = r.copy(100)
		}
		if err == nil {
			err = r.run(100, device.UnitRange(1, 2), false)
		}
		if err == nil {
			err = r.run(100, device.Units{}, true)
		}
		if err != nil {
			t.Errorf("%s: %s failed with %v, and afterwards: %v", what, step, told, err)
		}
	}
	if err := r.close(); err != nil {
		clear(err)
		if told == nil {
			told = err
		}
	}
	return told
}

// said holds the lines of cuda.h 12.9 (PyPI: nvidia-cuda-runtime-cu12 12.9.79) that state the fake's rules, with some of
// their words. A line describes a call, or the meaning of a code that a call lists.
var said = map[int]string{
	2469:  "one or more of the parameters", // CUDA_ERROR_INVALID_VALUE
	2541:  "device ordinal",                // INVALID_DEVICE
	2559:  "no context bound",              // INVALID_CONTEXT
	2560:  "context passed to an",
	2737:  "a resource handle passed", // INVALID_HANDLE
	5991:  "has not been previously retained",
	8968:  "must have been returned", // cuMemFree
	16317: "must be from the same context",
	16512: "has not been called on either event",
	16516: "either event was created with",
	25363: "can be current to only one",       // green context; "thread at a time"
	25428: "expected to call this API before", // cuCtxFromGreenCtx
	25527: "cannot be split again without",
	25588: "the device they came from must be the same",
	25591: "from the same split API instance",
}

// ours marks rules for which the call only lists the code, and no sentence says that the call is wrong. There the fake
// rejects more than a driver must: handles of another context, except events (with unified addressing memory belongs to
// all contexts, and a library's kernel runs in its stream's); handles in use, where a driver may wait or read freed
// memory; and divisions of a GPU that no document promises.
const ours = 0

// The fake knows the owner of a handle. A handle of another context, a released one, or one in use is an error, with the
// code in the driver's documentation. With -cuda.header the lines are checked.
func TestFakeRules(t *testing.T) {
	path, h := library(t)
	lib, err := driver.Open(driver.CUDA, path)
	if err != nil {
		t.Fatal(err)
	}
	h.GPUs(2, 16)
	defer h.GPUs(1, 132)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	type side struct {
		ctx    driver.Context
		module driver.Module
		f      driver.Function
		stream driver.Stream
		event  driver.Event
		mem    driver.Ptr
		host   []byte
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var sides [2]side
	for i := range sides {
		x := &sides[i]
		x.ctx, err = lib.Retain(driver.Device(i))
		must(err)
		must(lib.SetCurrent(x.ctx))
		x.module, err = lib.Load([]byte(kernels.PTX), 0)
		must(err)
		x.f, err = lib.Function(x.module, kernels.EntryWhere)
		must(err)
		x.stream, err = lib.NewStream(0)
		must(err)
		x.event, err = lib.NewEvent(true)
		must(err)
		x.mem, err = lib.Alloc(4096)
		must(err)
		x.host, err = lib.AllocHost(4096)
		must(err)
	}
	a, b := &sides[0], &sides[1]
	out, spin := uint64(a.mem), uint64(1000)
	var args driver.Args
	args.Set(0, unsafe.Pointer(&out))
	args.Set(1, unsafe.Pointer(&spin))
	defer args.Free()
	must(lib.SetCurrent(a.ctx))
	must(lib.Launch(a.f, 4, kernels.Threads, a.stream, &args)) // a correct call
	must(lib.Record(a.event, a.stream))
	must(lib.Wait(a.stream))
	gone, err := lib.NewStream(0) // with a running kernel; freeing its memory waits for it
	must(err)
	mem, err := lib.Alloc(4096)
	must(err)
	h.Slow(1)
	out, spin = uint64(mem), 50_000_000
	must(lib.Launch(a.f, 4, kernels.Threads, gone, &args))
	must(lib.FreeStream(gone))
	must(lib.Free(mem))
	h.Slow(0)
	out, spin = uint64(a.mem), 1000
	if f := h.Faults(); len(f) != 0 {
		t.Fatalf("nothing was wrong: %v", f)
	}
	const value, handle, context = 1, 400, 201
	var header []string
	if *headerFile != "" {
		text, err := os.ReadFile(*headerFile)
		must(err)
		header = strings.Split(string(text), "\n")
	}
	names := map[int]int{} // breaks by rule
	partition := func() (driver.Green, driver.Stream, driver.Event) {
		t.Helper()
		all, err := lib.SMs(0)
		must(err)
		g, err := lib.NewGreen(0, []driver.Resource{all})
		must(err)
		c, err := lib.Context(g)
		must(err)
		must(lib.SetCurrent(c))
		s, err := lib.NewStream(0)
		must(err)
		e, err := lib.NewEvent(true)
		must(err)
		must(lib.SetCurrent(a.ctx))
		must(lib.Launch(a.f, 1, kernels.Threads, s, &args)) // a library's kernel belongs to all contexts
		must(lib.Record(e, s))
		must(lib.Wait(s))
		return g, s, e
	}
	drop := func(g driver.Green, s driver.Stream, e driver.Event) {
		t.Helper()
		must(lib.FreeEvent(e))
		must(lib.FreeStream(s))
		must(lib.FreeGreen(g))
	}
	for _, c := range []struct {
		name   string
		code   int
		rule   int // line of the sentence in cuda.h, of said; or ours
		listed int // line where the call's answers have the code
		do     func() error
	}{
		{"another context's stream", handle, ours, 17905, func() error { return lib.Launch(a.f, 1, kernels.Threads, b.stream, &args) }},
		{"an event on another context's stream", handle, 16317, 16340, func() error { return lib.Record(a.event, b.stream) }},
		{"another context's event", handle, 16317, 16340, func() error { return lib.Record(b.event, a.stream) }},
		{"a look at another context's event", handle, ours, 16424, func() error { _, err := lib.Happened(b.event); return err }},
		{"the time between two contexts", handle, ours, 16532, func() error { _, err := lib.Elapsed(a.event, b.event); return err }},
		{"a wait for another context's stream", handle, ours, 16148, func() error { return lib.Wait(b.stream) }},
		{"a copy to another context's memory", value, ours, 10841, func() error { return lib.CopyIn(b.mem, a.host, a.stream) }},
		{"a copy from another context's pages", value, ours, 10841, func() error { return lib.CopyIn(a.mem, b.host, a.stream) }},
		{"a copy beyond the end", value, 2469, 10841, func() error { return lib.CopyIn(a.mem+1, a.host, a.stream) }},
		{"a word in another context's memory", value, ours, 17385, func() error { return lib.WriteWord(b.mem, 1, a.stream) }},
		{"an event of the GPU's context on a partition's stream", handle, 16317, 16340, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			return lib.Record(a.event, s)
		}},
		{"a partition's event on a stream of the GPU's context", handle, 16317, 16340, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			return lib.Record(e, a.stream)
		}},
		{"another partition's event", handle, 16317, 16340, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			h, t, d := partition()
			defer drop(h, t, d)
			return lib.Record(d, s)
		}},
		{"a kernel's registers on a GPU that is none", 101, 2541, 8613, func() error { _, err := lib.Registers(a.f, 7); return err }},
		{"a kernel of nothing", handle, 2737, 17905, func() error { return lib.Launch(0, 1, kernels.Threads, a.stream, &args) }},
		{"a kernel without blocks", value, 2469, 17907, func() error { return lib.Launch(a.f, 0, kernels.Threads, a.stream, &args) }},
		{"a stream that is gone", handle, 2737, 17905, func() error {
			s, err := lib.NewStream(0)
			must(err)
			must(lib.FreeStream(s))
			return lib.Launch(a.f, 1, kernels.Threads, s, &args)
		}},
		{"a wait for a stream that is gone", handle, 2737, 16148, func() error {
			s, err := lib.NewStream(0)
			must(err)
			must(lib.FreeStream(s))
			return lib.Wait(s)
		}},
		{"an event that is gone", handle, 2737, 16340, func() error {
			e, err := lib.NewEvent(false)
			must(err)
			must(lib.FreeEvent(e))
			return lib.Record(e, a.stream)
		}},
		{"a look at an event that is gone", handle, 2737, 16424, func() error {
			e, err := lib.NewEvent(false)
			must(err)
			must(lib.FreeEvent(e))
			_, err = lib.Happened(e)
			return err
		}},
		{"the time since an event that nobody recorded", handle, 16512, 16532, func() error {
			e, err := lib.NewEvent(true)
			must(err)
			defer func() { must(lib.FreeEvent(e)) }()
			_, err = lib.Elapsed(e, a.event)
			return err
		}},
		{"the time to an event without times", handle, 16516, 16532, func() error {
			e, err := lib.NewEvent(false)
			must(err)
			defer func() { must(lib.FreeEvent(e)) }()
			must(lib.Record(e, a.stream))
			must(lib.Wait(a.stream))
			_, err = lib.Elapsed(a.event, e)
			return err
		}},
		{"a copy to memory that is gone", value, 2469, 10841, func() error {
			m, err := lib.Alloc(64)
			must(err)
			must(lib.Free(m))
			return lib.CopyIn(m, a.host[:64], a.stream)
		}},
		{"a word beside the boundary", value, 2469, 17385, func() error { return lib.WriteWord(a.mem+1, 1, a.stream) }},
		{"words beyond the end", value, 2469, 11864, func() error { return lib.Fill(a.mem, 0, 1025, a.stream) }},
		{"a context that is none", context, 2560, 6761, func() error { return lib.SetCurrent(4711) }},
		{"a stream without a context", context, 2559, 15254, func() error {
			must(lib.SetCurrent(0))
			defer func() { must(lib.SetCurrent(a.ctx)) }()
			_, err := lib.NewStream(0)
			return err
		}},
		{"a partition that is gone", context, 2560, 25438, func() error {
			g, s, e := partition()
			drop(g, s, e)
			_, err := lib.Context(g)
			return err
		}},
		{"a part of a part", 915, 25527, 25568, func() error {
			all, err := lib.SMs(0)
			must(err)
			one, _, err := lib.Split(all, 8)
			must(err)
			_, _, err = lib.Split(one, 8)
			return err
		}},
		{"the same SMs twice", 915, ours, 25606, func() error {
			all, err := lib.SMs(0)
			must(err)
			one, _, err := lib.Split(all, 8)
			must(err)
			_, err = lib.NewGreen(0, []driver.Resource{one, one})
			return err
		}},
		{"sets of two splits", 915, 25591, 25606, func() error {
			all, err := lib.SMs(0)
			must(err)
			one, _, err := lib.Split(all, 8)
			must(err)
			two, _, err := lib.Split(all, 8)
			must(err)
			_, err = lib.NewGreen(0, []driver.Resource{one, two})
			return err
		}},
		{"SMs of two GPUs", 915, 25588, 25606, func() error {
			var of [2]driver.Resource
			for i := range of {
				of[i], err = lib.SMs(driver.Device(i))
				must(err)
			}
			_, err := lib.NewGreen(0, of[:])
			return err
		}},
		{"another GPU's SMs", value, ours, 25382, func() error {
			all, err := lib.SMs(0)
			must(err)
			_, err = lib.NewGreen(1, []driver.Resource{all})
			return err
		}},
		{"a partition's context on two threads", context, 25363, 6761, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			c, err := lib.Context(g)
			must(err)
			has, over, gone := make(chan error), make(chan struct{}), make(chan error)
			go func() {
				runtime.LockOSThread() // the thread ends with the goroutine, and so does its current context
				has <- lib.SetCurrent(c)
				<-over
				gone <- lib.SetCurrent(0)
			}()
			must(<-has)
			err = lib.SetCurrent(c)
			close(over)
			must(<-gone)
			must(lib.SetCurrent(c))
			must(lib.SetCurrent(a.ctx))
			return err
		}},
		{"a partition that was not converted", context, 25428, 6761, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			return lib.SetCurrent(driver.Context(g))
		}},
		{"a stream that is gone, while others come", handle, 2737, 17905, func() error {
			s, err := lib.NewStream(0)
			must(err)
			must(lib.FreeStream(s))
			h.Open() // it has ended
			for range 64 {
				other, err := lib.NewStream(0)
				must(err)
				defer func() { must(lib.FreeStream(other)) }()
			}
			return lib.Launch(a.f, 1, kernels.Threads, s, &args)
		}},
		{"an event that is gone, while others come", handle, 2737, 16340, func() error {
			e, err := lib.NewEvent(false)
			must(err)
			must(lib.FreeEvent(e))
			for range 64 {
				other, err := lib.NewEvent(false)
				must(err)
				defer func() { must(lib.FreeEvent(other)) }()
			}
			return lib.Record(e, a.stream)
		}},
		{"a kernel that is gone, while others come", handle, 2737, 17905, func() error {
			m, err := lib.Load([]byte(kernels.PTX), 0)
			must(err)
			f, err := lib.Function(m, kernels.EntryWhere)
			must(err)
			must(lib.Unload(m))
			for range 8 {
				other, err := lib.Load([]byte(kernels.PTX), 0)
				must(err)
				defer func() { must(lib.Unload(other)) }()
				_, err = lib.Function(other, kernels.EntryWhere)
				must(err)
			}
			return lib.Launch(f, 1, kernels.Threads, a.stream, &args)
		}},
		{"a partition that is gone, while others come", context, 2560, 25438, func() error {
			g, s, e := partition()
			drop(g, s, e)
			for range 8 {
				g, s, e := partition()
				defer drop(g, s, e)
			}
			_, err := lib.Context(g)
			return err
		}},
		{"another context's memory freed", context, ours, 8984, func() error { return lib.Free(b.mem) }},
		{"another context's pages freed", context, ours, 9099, func() error { return lib.FreeHost(b.host) }},
		{"memory freed under a copy", value, ours, 8985, func() error {
			h.Hold(1)
			defer func() { h.Hold(0); must(lib.Wait(a.stream)) }()
			must(lib.CopyIn(a.mem, a.host, a.stream))
			return lib.Free(a.mem)
		}},
		{"memory freed under a kernel", value, ours, 8985, func() error {
			h.Hold(1)
			defer func() { h.Hold(0); must(lib.Wait(a.stream)) }()
			must(lib.Launch(a.f, 1, kernels.Threads, a.stream, &args))
			return lib.Free(a.mem)
		}},
		{"pages freed under a kernel", value, ours, 9100, func() error {
			clock, err := lib.Function(a.module, kernels.EntryClock)
			must(err)
			out = uint64(uintptr(unsafe.Pointer(&a.host[0])))
			h.Hold(1)
			defer func() { h.Hold(0); must(lib.Wait(a.stream)); out = uint64(a.mem) }()
			must(lib.Launch(clock, 1, kernels.Threads, a.stream, &args))
			return lib.FreeHost(a.host)
		}},
		{"pages freed under a copy", value, ours, 9100, func() error {
			h.Hold(1)
			defer func() { h.Hold(0); must(lib.Wait(a.stream)) }()
			must(lib.CopyIn(a.mem, a.host, a.stream))
			return lib.FreeHost(a.host)
		}},
		{"pages freed under a copy whose stream is gone", value, ours, 9100, func() error {
			s, err := lib.NewStream(0)
			must(err)
			h.Slow(1)
			defer h.Slow(0)
			spin = 50_000_000
			must(lib.Launch(a.f, 1, kernels.Threads, s, &args))
			must(lib.CopyIn(a.mem, a.host, s))
			must(lib.FreeStream(s))
			return lib.FreeHost(a.host)
		}},
		{"kernels unloaded under a launch", value, ours, 8307, func() error {
			h.Hold(1)
			defer func() { h.Hold(0); must(lib.Wait(a.stream)) }()
			must(lib.Launch(a.f, 1, kernels.Threads, a.stream, &args))
			return lib.Unload(a.module)
		}},
		{"a stream twice", handle, 2737, 16180, func() error {
			s, err := lib.NewStream(0)
			must(err)
			must(lib.FreeStream(s))
			return lib.FreeStream(s)
		}},
		{"an event twice", handle, 2737, 16486, func() error {
			e, err := lib.NewEvent(false)
			must(err)
			must(lib.FreeEvent(e))
			return lib.FreeEvent(e)
		}},
		{"memory twice", value, 8968, 8985, func() error {
			m, err := lib.Alloc(64)
			must(err)
			must(lib.Free(m))
			return lib.Free(m)
		}},
		{"pages twice", value, 2469, 9100, func() error {
			p, err := lib.AllocHost(64)
			must(err)
			must(lib.FreeHost(p))
			return lib.FreeHost(p)
		}},
		{"kernels unloaded twice", value, 2469, 8307, func() error {
			m, err := lib.Load([]byte(kernels.PTX), 0)
			must(err)
			must(lib.Unload(m))
			return lib.Unload(m)
		}},
		{"kernels that are gone", handle, 2737, 8330, func() error {
			m, err := lib.Load([]byte(kernels.PTX), 0)
			must(err)
			must(lib.Unload(m))
			_, err = lib.Function(m, kernels.EntryWhere)
			return err
		}},
		{"a kernel that is gone", handle, 2737, 17905, func() error {
			m, err := lib.Load([]byte(kernels.PTX), 0)
			must(err)
			f, err := lib.Function(m, kernels.EntryWhere)
			must(err)
			must(lib.Unload(m))
			return lib.Launch(f, 1, kernels.Threads, a.stream, &args)
		}},
		{"a partition with a stream", context, ours, 25410, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			return lib.FreeGreen(g)
		}},
		{"a context that partitions alone hold, released", context, 5991, 6004, func() error {
			g, s, e := partition()
			defer drop(g, s, e)
			must(lib.Release(0))
			defer func() { _, err := lib.Retain(0); must(err) }()
			return lib.Release(0)
		}},
		{"what was before a reset", context, 2560, 8984, func() error {
			must(lib.SetCurrent(b.ctx))
			must(lib.Reset(1))
			return lib.Free(b.mem)
		}},
		{"a context released twice", context, 5991, 6004, func() error {
			must(lib.Release(1))
			return lib.Release(1)
		}},
	} {
		h.Forgive()
		if names[c.rule]++; said[c.rule] == "" && c.rule != ours {
			t.Errorf("%s: no rule", c.name)
		}
		if header != nil && !strings.Contains(header[c.listed-1], "::CUDA_ERROR_"+map[int]string{value: "INVALID_VALUE", handle: "INVALID_HANDLE", context: "INVALID_CONTEXT", 101: "INVALID_DEVICE", 915: "INVALID_RESOURCE_CONFIGURATION"}[c.code]) {
			t.Errorf("%s: line %d of cuda.h lists no such code: %s", c.name, c.listed, header[c.listed-1])
		}
		err := c.do()
		if driver.CodeOf(err) != c.code {
			t.Errorf("%s: %v, expected error %d by lines %d and %d of cuda.h", c.name, err, c.code, c.rule, c.listed)
		}
		by := fmt.Sprintf("line %d", c.rule)
		if c.rule == ours {
			by = "our rule"
		}
		t.Logf("%s: error %d by %s, listed in line %d", c.name, c.code, by, c.listed)
		if f := h.Faults(); len(f) != 1 {
			t.Errorf("%s: faults %v", c.name, f)
		}
	}
	total := 0
	for _, n := range names {
		total += n
	}
	t.Logf("%d breaks refused: %d by a sentence of cuda.h, %d by rules of our own", total, total-names[ours], names[ours])
	if total-names[ours] < 30 {
		t.Errorf("%d breaks are refused by a sentence of cuda.h, expected 30", total-names[ours])
	}
	for line, words := range said {
		if names[line] == 0 || header != nil && !strings.Contains(header[line-1], words) {
			t.Errorf("line %d of cuda.h: %d breaks, expected %q in it", line, names[line], words)
		}
	}
	h.Forgive()
	must(lib.Unload(a.module))
	must(lib.Unload(b.module))
	must(lib.SetCurrent(0))
	must(lib.Release(0))
	if n := h.Open(); n != 0 {
		t.Errorf("%d things stay open", n)
	}
}

// None of the four allocations of a layer's kernel may be freed while it runs.
func TestLayerInUse(t *testing.T) {
	path, h := library(t)
	lib, err := driver.Open(driver.CUDA, path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := lib.Retain(0)
	must(err)
	must(lib.SetCurrent(ctx))
	module, err := lib.Load([]byte(kernels.PTX), 0)
	must(err)
	f, err := lib.Function(module, kernels.EntryLayer)
	must(err)
	stream, err := lib.NewStream(0)
	must(err)
	const size = 1 << 16
	l := kernels.Layer{Stride: 4096, OutH: 1, OutW: 1, OutC: 1, InC: 1, KH: 1, KW: 1, Epoch: 1} // not the control word's epoch, so it leaves
	l.Grid(1)
	all := []*uint64{&l.Slots, &l.Weights, &l.Bias, &l.Control}
	for _, at := range all {
		mem, err := lib.Alloc(size)
		must(err)
		must(lib.Fill(mem, 0, size/4, stream))
		*at = uint64(mem)
	}
	must(lib.Wait(stream))
	var args driver.Args
	args.Set(0, unsafe.Pointer(&l))
	defer args.Free()
	h.Hold(1)
	must(lib.Launch(f, 1, kernels.Threads, stream, &args))
	for i, at := range all {
		if lib.Free(driver.Ptr(*at)) == nil {
			t.Errorf("allocation %d is freed under its kernel", i)
			*at = 0
		}
	}
	h.Hold(0)
	must(lib.Wait(stream))
	h.Forgive()
	for _, at := range all {
		if *at != 0 {
			must(lib.Free(driver.Ptr(*at)))
		}
	}
	must(errors.Join(lib.FreeStream(stream), lib.Unload(module), lib.Release(0)))
}
