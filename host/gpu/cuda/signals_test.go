package cuda_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// In a new stream nothing is launched before its Control is initialised. An earlier order to leave would be lost, and the
// launch would run to its end.
func TestNewStream(t *testing.T) { each(t, newStream) }

func newStream(t *testing.T, cfg cuda.Config) {
	r := start(t, cfg)
	b, want := r.admitted(2, 3)
	r.h.HoldFills(1)
	defer r.h.HoldFills(0)
	id := r.begin(launch(b, 0, 0, 2, 1))
	r.busy()
	r.d.Abort(0, id, true)
	r.busyOrNot() // the order to leave has been seen
	r.h.HoldFills(0)
	if e := r.event(); e.Work != id || e.Kind != device.Aborted || e.Resume != (device.ResumePoint{}) {
		t.Errorf("stopped before its stream was ready: %+v", e)
	}
	if c, err := r.d.Counts(); err != nil || c.Ran != 0 {
		t.Errorf("%+v, %v: kernels ran", c, err)
	}
	for s, x := range r.whole(b, device.Units{}, 1)[0] {
		if !slices.Equal(x.Raw, want[s]) {
			t.Errorf("exit %d: %v, golden says %v", s, x.Raw, want[s])
		}
	}
}

// After a slot is cleared, nothing of an earlier launch is left in it: running only the last kernel cannot give its results.
func TestClear(t *testing.T) {
	r := start(t, cuda.Config{Slots: 1})
	b, _ := network(t, *seed, 1)
	in := randnet.Input(rand.New(rand.NewPCG(*seed, 4)), b)
	r.load(b)
	last := func() []int16 {
		t.Helper()
		if e := r.copy(b, 1, in); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
		defer r.d.Release(1)
		e := &b.Network.Exits[0]
		w := launch(b, 0, 0, 2, 1)
		w.Launch.Kernel = e.Last - e.First
		return r.must(w).Report.Results[0].Exits[0].Raw
	}
	if e := r.copy(b, 1, in); e.Kind != device.Done {
		t.Fatal(e.Err)
	}
	r.whole(b, device.Units{}, 1)
	r.d.Release(1)
	left := last()
	if got := last(); !slices.Equal(got, left) {
		t.Fatalf("%v and %v of what a launch has left: the network shows nothing", left, got)
	}
	if err := r.d.Clear(b.Network.Name); err != nil {
		t.Fatal(err)
	}
	if got := last(); slices.Equal(got, left) {
		t.Errorf("%v, as of what the launch had left", got)
	}
	if err := r.d.Clear("nobody's"); !errors.Is(err, device.ErrRequest) {
		t.Errorf("a network that is not loaded: %v", err)
	}
}

// If the driver cannot write words in a stream's order, epochs are copied, and the device reports that. Stopped launches
// are still restored. With a driver that reports a write without writing, the device does not open.
func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, cfg cuda.Config) {
		call := "cuStreamWriteValue32_v2"
		if cfg.API == driver.HIP {
			call = "hipStreamWriteValue32"
		}
		path, h := of(t, cfg.API)
		cfg.Library = path
		facts := func() (f cuda.Facts, name string) {
			t.Helper()
			d, err := cuda.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if f, err = d.Facts(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			return f, d.Name()
		}
		if f, name := facts(); f.Signals != cuda.SignalsWritten || f.WhyCopied != "" || strings.Contains(name, "copied") {
			t.Errorf("%q (%s) of %s", f.Signals, f.WhyCopied, name)
		}
		h.InjectEvery(call, 1, driver.NotSupported)
		if f, name := facts(); f.Signals != cuda.SignalsCopied || !strings.Contains(f.WhyCopied, call+": ") || !strings.Contains(name, "epochs are copied ("+f.WhyCopied+")") {
			t.Errorf("%q (%s) of %s", f.Signals, f.WhyCopied, name)
		}
		enough := func(_, aborts, inside int) bool { return aborts >= *kills/4 && inside > 0 }
		t.Run("kills", func(t *testing.T) { // closes its device at its end
			differ, aborts, inside := killedUntil(t, cfg, *kills, long, enough)
			t.Logf("%d aborts, %d of them behind the first kernel: %d differ", aborts, inside, differ)
			if differ != 0 || !enough(differ, aborts, inside) {
				t.Errorf("%d differ, %d aborts, %d of them behind the first kernel", differ, aborts, inside)
			}
		})
		h.Forget()
		h.Inject(call, 0, 1, 0)
		if _, err := cuda.New(cfg); err == nil || !strings.Contains(err.Error(), call+": ") {
			t.Errorf("another error than that: %v", err)
		}
		h.Loses(1)
		defer h.Loses(0)
		if _, err := cuda.New(cfg); err == nil || !strings.Contains(err.Error(), "cannot tell kernels to leave") {
			t.Errorf("words that never come: %v", err)
		}
	})
}
