package npu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// never is a threshold above all confidences.
const never = 2

func admit(t *testing.T, d *Driver, rng *rand.Rand, ids ...device.RequestID) map[device.RequestID][]int16 {
	t.Helper()
	in := map[device.RequestID][]int16{}
	for _, id := range ids {
		in[id] = testInput(rng)
		if err := d.Admit(t.Context(), "two-exits", id, device.InWords(in[id])); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

func launch(first, last int, theta float32, ids ...device.RequestID) *device.Launch {
	l := &device.Launch{ID: 1, Network: "two-exits", First: first, Last: last, Requests: ids}
	for range ids {
		l.Theta = append(l.Theta, theta)
	}
	return l
}

// check compares a report with the network's own arithmetic.
func check(t *testing.T, n *testNet, l *device.Launch, rep *device.Report, in map[device.RequestID][]int16) {
	t.Helper()
	if len(rep.Results) != len(l.Requests) {
		t.Fatalf("%d results for %d requests", len(rep.Results), len(l.Requests))
	}
	for i, id := range l.Requests {
		r := rep.Results[i]
		want := device.Result{Request: id, Taken: -1}
		for e := l.First; e <= l.Last && want.Taken < 0; e++ {
			raw := n.logits(in[id], e)
			class, conf := bundle.Confidence(raw, 6)
			want.Exits = append(want.Exits, device.ExitResult{
				Exit: e, Class: class, Confidence: conf, Logits: (&bundle.Exit{Frac: 6}).Logits(raw), Raw: raw,
			})
			if conf >= l.Theta[i] || e == len(n.b.Network.Exits)-1 {
				want.Taken = e
			}
		}
		if !reflect.DeepEqual(r, want) {
			t.Fatalf("request %d: %+v, expected %+v", id, r, want)
		}
	}
}

func TestRun(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	rng := rand.New(rand.NewPCG(1, 1))
	ids := []device.RequestID{10, 11, 12, 13, 14, 15, 16, 17}
	in := admit(t, d, rng, ids...)
	left := 0
	for _, theta := range []float32{0, 0.3, 0.5, 0.9, never} {
		l := launch(0, 1, theta, ids...)
		starts := f.starts
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		check(t, n, l, rep, in)
		early := 0
		for _, r := range rep.Results {
			if r.Taken == 0 {
				early++
			}
		}
		left += early % len(ids)
		want := uint64(2)
		if early == len(ids) {
			want = 1 // nobody is left for the second segment
		}
		if got := uint64(f.starts - starts); got != want || rep.Stats.Starts != want {
			t.Errorf("theta %v: %d starts, counted %d, expected %d", theta, got, rep.Stats.Starts, want)
		}
		if rep.Cycles != want*f.busyCycles || rep.Ns != int64(want*f.busyCycles*1e9/150e6) {
			t.Errorf("theta %v: %d cycles, %d ns", theta, rep.Cycles, rep.Ns)
		}
		if wantMACs := uint64(len(ids)) * 100 * 1; rep.Stats.MACs != wantMACs+uint64(len(ids)-early)*100 {
			t.Errorf("theta %v: %d MACs with %d early exits", theta, rep.Stats.MACs, early)
		}
		if rep.Stats.BytesRead != want<<33 {
			t.Errorf("theta %v: %d bytes read: the upper half of a counter is lost", theta, rep.Stats.BytesRead)
		}
	}
	if left == 0 {
		t.Error("no threshold split the batch: the test does not test compaction")
	}
	// A preempted batch resumes where it stopped, in another order and alone.
	if _, err := d.Run(t.Context(), launch(0, 0, never, 10, 11, 12)); err != nil {
		t.Fatal(err)
	}
	l := launch(1, 1, 0, 12, 10)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	check(t, n, l, rep, in)
	if got := d.Counters()[abi.CntStarts]; got != uint64(f.starts) {
		t.Errorf("%d starts counted, there were %d", got, f.starts)
	}
}

func TestRunRefused(t *testing.T) {
	d, f, _ := fakeDriver(t, Opts{})
	admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2, 3, 4, 5, 6, 7, 8, 9)
	other := launch(0, 1, 0, 1)
	other.Network = "elsewhere"
	thetas := launch(0, 1, 0, 1, 2)
	thetas.Theta = thetas.Theta[:1]
	for name, l := range map[string]*device.Launch{
		"no request":        launch(0, 1, 0),
		"nine requests":     launch(0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
		"twice the same":    launch(0, 1, 0, 1, 1),
		"not admitted":      launch(0, 1, 0, 99),
		"segment 2":         launch(0, 2, 0, 1),
		"segment -1":        launch(-1, 0, 0, 1),
		"backwards":         launch(1, 0, 0, 1),
		"other network":     other,
		"too few thetas":    thetas,
		"beyond everything": launch(1<<30, 1<<30+1, 0, 1),
	} {
		if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.starts != 0 {
		t.Errorf("%d starts", f.starts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Run(ctx, launch(0, 1, 0, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := d.Run(t.Context(), launch(0, 1, 0, 1)); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestAdmit(t *testing.T) {
	d, _, _ := fakeDriver(t, Opts{Slots: 16})
	rng := rand.New(rand.NewPCG(2, 2))
	for id := range device.RequestID(16) {
		admit(t, d, rng, id)
	}
	in := testInput(rng)
	for name, err := range map[string]error{
		"seventeenth":   d.Admit(t.Context(), "two-exits", 16, device.InWords(in)),
		"twice":         d.Admit(t.Context(), "two-exits", 3, device.InWords(in)),
		"other network": d.Admit(t.Context(), "elsewhere", 17, device.InWords(in)),
	} {
		if !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.Release(5)
	d.Release(5)
	d.Release(1000)
	if err := d.Admit(t.Context(), "two-exits", 16, device.InWords(in[:1])); !errors.Is(err, ErrRequest) {
		t.Errorf("one element: %v", err)
	}
	slots := map[*byte]bool{}
	admit(t, d, rng, 16)
	for id := range device.RequestID(17) {
		s := d.Slot(id)
		if (s == nil) != (id == 5) {
			t.Fatalf("slot of %d: %d bytes", id, len(s))
		}
		if s == nil {
			continue
		}
		if slots[&s[0]] || len(s) != testStride {
			t.Errorf("slot of %d: shared, or %d bytes", id, len(s))
		}
		slots[&s[0]] = true
	}
}

func TestLoadRefused(t *testing.T) {
	d, _, n := fakeDriver(t, Opts{})
	change := func(f func(b *bundle.Bundle)) *bundle.Bundle {
		b := *n.b
		f(&b)
		return &b
	}
	for name, c := range map[string]struct {
		b    *bundle.Bundle
		want error
		text string
	}{
		"other ABI":      {change(func(b *bundle.Bundle) { b.ABIHash++ }), ErrMismatch, "ABI hash"},
		"other design":   {change(func(b *bundle.Bundle) { b.Design.TR = 64 }), ErrMismatch, "design hash"},
		"int8":           {change(func(b *bundle.Bundle) { b.Design.Type = "int8" }), ErrMismatch, "BUILD_AXI.INT8 is false"},
		"invalid":        {change(func(b *bundle.Bundle) { b.Names = nil }), bundle.ErrInvalid, "layer names"},
		"beyond memory":  {change(func(b *bundle.Bundle) { b.Slot.Stride = 1 << 16; b.Network.Name = "large" }), ErrMemory, "slots of 65536"},
		"the same again": {n.b, nil, ""},
	} {
		err := d.Load(t.Context(), c.b)
		if !errors.Is(err, c.want) || (err != nil && !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1)
	if err := d.Load(t.Context(), n.b); !errors.Is(err, ErrRequest) {
		t.Errorf("over a network that holds samples: %v", err)
	}
	l := launch(0, 1, never, 1)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	check(t, n, l, rep, in)
}

// Unloading a network frees its memory, but not while samples use it, and it can be loaded again.
func TestUnload(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	rng := rand.New(rand.NewPCG(1, 1))
	admit(t, d, rng, 1)
	if err := d.Unload(t.Context(), "two-exits"); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "holds 1 samples") {
		t.Errorf("under a sample: %v", err)
	}
	d.Release(1)
	for range 3 { // more often than memory would hold it
		if err := d.Unload(t.Context(), "two-exits"); err != nil {
			t.Fatal(err)
		}
		if err := d.Unload(t.Context(), "two-exits"); !errors.Is(err, ErrRequest) {
			t.Errorf("twice: %v", err)
		}
		if err := d.Admit(t.Context(), "two-exits", 1, device.InWords(testInput(rng))); !errors.Is(err, ErrRequest) {
			t.Errorf("admitted for a network that is gone: %v", err)
		}
		if err := d.Load(t.Context(), n.b); err != nil {
			t.Fatal(err)
		}
	}
	f.run = computes(n)
	in := admit(t, d, rng, 2)
	l := launch(0, 1, never, 2)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	check(t, n, l, rep, in)
}

// Two networks side by side: the hardware's tables follow the launch.
func TestTwoNetworks(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	twin := *newTestNet(t, testDesign(t))
	if err := d.Load(t.Context(), device.As("twin", twin.b)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	in := admit(t, d, rng, 1)
	other := testInput(rng)
	if err := d.Admit(t.Context(), "twin", 2, device.InWords(other)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.run = computes(n)
		l := launch(0, 1, never, 1)
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		check(t, n, l, rep, in)
		f.run = computes(&twin)
		l = launch(0, 1, never, 2)
		l.Network = "twin"
		if rep, err = d.Run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		check(t, &twin, l, rep, map[device.RequestID][]int16{2: other})
	}
	l := launch(0, 1, never, 2)
	if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrRequest) {
		t.Errorf("a sample of another network: %v", err)
	}
}

func TestHWErrors(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2)
	for code := abi.ErrLayerRange; code <= abi.ErrSoftReset; code++ {
		f.run = func(f *fakeBus) uint32 {
			f.regs[abi.RegErrorAddr] = 0x1234
			return uint32(code) | 7<<abi.RegErrorLayerLSB | 2<<abi.RegErrorPortLSB
		}
		_, err := d.Run(t.Context(), launch(0, 1, never, 1, 2))
		var hw *HWError
		if !errors.As(err, &hw) || *hw != (HWError{Code: code, Layer: 7, Port: 2, Addr: 0x1234}) {
			t.Fatalf("code %d: %v", code, err)
		}
		if !errors.Is(err, &HWError{Code: code}) || errors.Is(err, &HWError{Code: code + 1}) {
			t.Errorf("code %d: errors.Is does not tell it", code)
		}
		if !strings.Contains(err.Error(), code.String()) || !strings.Contains(err.Error(), code.Doc()) {
			t.Errorf("code %d is not named: %v", code, err)
		}
		// The hardware is idle again, so the retry needs no reset; its counts are its own.
		f.run = computes(n)
		l := launch(0, 1, never, 1, 2)
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			t.Fatalf("code %d: retry: %v", code, err)
		}
		check(t, n, l, rep, in)
		if rep.Stats.Starts != 2 || rep.Cycles != 2*f.busyCycles {
			t.Errorf("code %d: retry counts %d starts, %d cycles", code, rep.Stats.Starts, rep.Cycles)
		}
	}
}

func TestHangAndReset(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			d, f, n := fakeDriver(t, Opts{CycleLimit: 5000})
			in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2)
			l := launch(0, 1, never, 1, 2)
			f.deaf = deaf
			f.run = func(*fakeBus) uint32 { return hang }
			if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrHang) {
				t.Fatalf("hang: %v", err)
			}
			if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrReset) || !errors.Is(err, ErrHang) {
				t.Fatalf("before the reset: %v", err)
			}
			if err := d.Load(t.Context(), n.b); !errors.Is(err, ErrReset) {
				t.Fatalf("load before the reset: %v", err)
			}
			if err := d.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if (f.hardReset == 1) != deaf {
				t.Errorf("%d hard resets", f.hardReset)
			}
			f.run = computes(n)
			rep, err := d.Run(t.Context(), l)
			if err != nil {
				t.Fatalf("after the reset: %v", err)
			}
			check(t, n, l, rep, in)
			if rep.Stats.Starts != 2 {
				t.Errorf("%d starts counted", rep.Stats.Starts)
			}
		})
	}
}

// A context that ends in the middle of a start leaves the hardware running: a reset is due.
func TestCancel(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1)
	ctx, cancel := context.WithCancel(t.Context())
	d.bus = cancels{f, cancel}
	l := launch(0, 1, never, 1)
	if _, err := d.Run(ctx, l); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	d.bus = f
	if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrReset) {
		t.Fatalf("before the reset: %v", err)
	}
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	check(t, n, l, rep, in)
}

// One that ends between two segments leaves nothing behind: no reset is due, and what ran is not counted
// for the next launch.
func TestCancelBetweenSegments(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	runs := f.run
	f.run = func(f *fakeBus) uint32 {
		cancel()
		return runs(f)
	}
	if _, err := d.Run(ctx, launch(0, 1, never, 1, 2)); !errors.Is(err, context.Canceled) || f.starts != 1 {
		t.Fatalf("%d starts, %v", f.starts, err)
	}
	f.run = runs
	for range 2 {
		l := launch(0, 1, never, 1)
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		check(t, n, l, rep, in)
		if rep.Stats.Starts != 2 || rep.Stats.MACs != 200 || rep.Cycles != 2*f.busyCycles {
			t.Errorf("a launch of one request reports %+v", rep.Stats)
		}
	}
	if got := d.Counters()[abi.CntStarts]; got != uint64(f.starts) {
		t.Errorf("%d starts counted, there were %d", got, f.starts)
	}
}

type cancels struct {
	*fakeBus
	cancel func()
}

func (c cancels) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	c.cancel()
	return c.fakeBus.WaitIRQ(ctx, limit)
}

func TestBrokenBus(t *testing.T) {
	d, f, _ := fakeDriver(t, Opts{})
	admit(t, d, rand.New(rand.NewPCG(1, 1)), 1)
	f.broken = errBroken
	if _, err := d.Run(t.Context(), launch(0, 1, 0, 1)); !errors.Is(err, errBroken) {
		t.Errorf("run: %v", err)
	}
	if err := d.Reset(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("reset: %v", err)
	}
	f.broken = nil
	if err := d.Reset(t.Context()); err != nil {
		t.Errorf("reset of a bus that works again: %v", err)
	}
	if _, err := d.Run(t.Context(), launch(0, 1, 0, 1)); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestNewRefused(t *testing.T) {
	hash := testDesign(t).Hash()
	for name, c := range map[string]struct {
		opts  Opts
		spoil func(f *fakeBus)
		want  error
	}{
		"no NPU":          {Opts{ClockHz: 1}, func(f *fakeBus) { f.regs[abi.RegID] = 0 }, ErrHardware},
		"other map":       {Opts{ClockHz: 1}, func(f *fakeBus) { f.regs[abi.RegVersion]++ }, ErrHardware},
		"other ABI":       {Opts{ClockHz: 1}, func(f *fakeBus) { f.regs[abi.RegABIHash1]++ }, ErrHardware},
		"no clock":        {Opts{}, func(*fakeBus) {}, ErrRequest},
		"too few slots":   {Opts{ClockHz: 1, Slots: 15}, func(*fakeBus) {}, ErrRequest},
		"too many slots":  {Opts{ClockHz: 1, Slots: 65}, func(*fakeBus) {}, ErrRequest},
		"beyond 40 bits":  {Opts{ClockHz: 1}, func(f *fakeBus) { f.base = 1<<40 - 4096 }, ErrRequest},
		"misaligned":      {Opts{ClockHz: 1}, func(f *fakeBus) { f.base = 64 }, ErrRequest},
		"broken":          {Opts{ClockHz: 1}, func(f *fakeBus) { f.broken = errBroken }, errBroken},
		"registers stuck": {Opts{ClockHz: 1}, func(f *fakeBus) { f.busy = true }, &BusError{}},
	} {
		f := newFakeBus(t, hash, 1<<20)
		c.spoil(f)
		d, err := New(f, c.opts)
		bus := (*BusError)(nil)
		if _, isBus := c.want.(*BusError); d != nil || (isBus && !errors.As(err, &bus)) || (!isBus && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if f.closed != 1 {
			t.Errorf("%s: closed %d times", name, f.closed)
		}
	}
}

func TestClose(t *testing.T) {
	d, f, n := fakeDriver(t, Opts{})
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if f.closed != 1 {
		t.Errorf("the bus was closed %d times", f.closed)
	}
	if err := d.Load(t.Context(), n.b); !errors.Is(err, ErrClosed) {
		t.Errorf("load: %v", err)
	}
	if err := d.Reset(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("reset: %v", err)
	}
}

func TestNs(t *testing.T) {
	for _, c := range []struct {
		cycles uint64
		hz     int64
		want   int64
	}{{0, 1, 0}, {150, 150e6, 1000}, {1 << 40, 150e6, 7330077518506}, {1<<64 - 1, 1, 1<<63 - 1}, {1<<64 - 1, 1e9, 1<<63 - 1}} {
		d := &Driver{opts: Opts{ClockHz: c.hz}}
		if got := d.ns(c.cycles); got != c.want {
			t.Errorf("%d cycles at %d Hz are %d ns, expected %d", c.cycles, c.hz, got, c.want)
		}
	}
}

func TestRegions(t *testing.T) {
	r := regions{size: 5 * regionAlign}
	take := func(size int64, want int64) region {
		t.Helper()
		x, ok := r.take(size)
		if ok != (want >= 0) || (ok && x.start != want*regionAlign) {
			t.Fatalf("%d bytes: %v, %v; expected page %d", size, x, ok, want)
		}
		return x
	}
	a := take(1, 0)
	b := take(2*regionAlign, 1)
	take(regionAlign+1, 3)
	take(1, -1)
	take(0, -1)
	take(-1, -1)
	take(1<<62, -1)
	r.give(b)
	take(3*regionAlign, -1)
	take(regionAlign, 1)
	r.give(a)
	take(regionAlign, 0)
	take(regionAlign, 2)
	take(1, -1)
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(make([]byte, messageBytes))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b)
		if (err == nil) != (len(b) == messageBytes) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		_ = (&CosimError{a.status, a.text(0, len(a.payload))}).Error()
	})
}
