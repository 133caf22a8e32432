package serve_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
	"github.com/sluice-npu/sluice/host/soft"
)

// also adds the model tiny again, with another name and its own settings.
func (s *running) also(t *testing.T, name, settings string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "tiny.sluice"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, name)
	err = errors.Join(os.WriteFile(path+".sluice", text, 0o600), os.WriteFile(path+".yaml", []byte(settings), 0o600), s.Add(path+".sluice"), s.Load(name))
	if err != nil {
		t.Fatal(err)
	}
}

func ask(ctx context.Context, s *running, model string, params map[string]*oip.InferParameter) (*oip.ModelInferResponse, error) {
	q := question(1, params)
	q.ModelName = model
	return s.ModelInfer(ctx, q)
}

// TestModelsShareADevice: models of one design and one policy are on one device, one launch at a time, while they are
// loaded and unloaded. A model with another policy has its own device.
func TestModelsShareADevice(t *testing.T) {
	var mu sync.Mutex
	opened := 0
	s := start(t, 2*time.Millisecond, func(o *serve.Options) {
		open := o.Open
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			mu.Lock()
			defer mu.Unlock()
			opened++
			return open(ctx, b)
		}
	})
	s.also(t, "second", "")
	s.also(t, "third", "policy: edf")
	p := s.Take()
	on := map[string]string{}
	for _, m := range p.Models {
		on[m.Name] = m.Device
	}
	if opened != 2 || len(p.Devices) != 2 || on["tiny"] != on["second"] || on["tiny"] == on["third"] {
		t.Fatalf("%d devices were opened, models on %v: expected tiny and second on one, third on another", opened, on)
	}
	if err := s.Unload("third"); err != nil || len(s.Take().Devices) != 1 {
		t.Fatalf("%v, %d devices: expected one, when the last model of the other has gone", err, len(s.Take().Devices))
	}

	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	answers := make([]int, 4)
	for i := range answers {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := ask(t.Context(), s, []string{"tiny", "second"}[i%2], map[string]*oip.InferParameter{"exit_threshold": text("2")}); err != nil && (i%2 == 0 || status.Code(err) != codes.NotFound) {
					t.Error(err)
					return
				}
				answers[i]++
			}
		})
	}
	for range 5 { // it is unloaded and loaded while both get requests
		time.Sleep(10 * time.Millisecond)
		if err := errors.Join(s.Unload("second"), s.Load("second")); err != nil {
			t.Error(err)
		}
	}
	stop()
	all.Wait()
	d := s.Take().Devices[0]
	if opened != 2 || slices.Min(answers) == 0 || !slices.Equal(d.Models, []string{"second:1", "tiny:1"}) {
		t.Errorf("%d devices, answers %v, on the device %v: expected answers of all, from the device that was there", opened, answers, d.Models)
	}
	names := map[string]bool{}
	slices.SortFunc(d.Last, func(a, b serve.Batch) int { return cmp.Compare(a.Start, b.Start) })
	for i, b := range d.Last {
		names[b.Model] = true
		if i > 0 && b.Start < d.Last[i-1].End {
			t.Errorf("%+v began before %+v had ended", b, d.Last[i-1])
		}
	}
	if !names["tiny:1"] || !names["second:1"] {
		t.Errorf("batches of %v: expected both models'", names)
	}
}

// TestUnloadWaits: a model that is unloaded answers its running requests; other models continue.
func TestUnloadWaits(t *testing.T) {
	s := start(t, 200*time.Millisecond, nil)
	s.also(t, "second", "")
	begun := make(chan error, 1)
	go func() {
		_, err := ask(t.Context(), s, "second", map[string]*oip.InferParameter{"exit_threshold": text("2")})
		begun <- err
	}()
	eventually(t, "the request runs", func() bool {
		return slices.ContainsFunc(s.Take().Models, func(m serve.ModelState) bool { return m.Name == "second" && len(m.Executions) == 1 })
	})
	if err := s.Unload("second"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-begun:
		if err != nil {
			t.Errorf("what was begun before: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("unloaded, and what was begun before has no answer")
	}
	if _, err := ask(t.Context(), s, "second", nil); status.Code(err) != codes.NotFound {
		t.Errorf("after it has gone: %v: expected NotFound", err)
	}
	if _, err := ask(t.Context(), s, "tiny", nil); err != nil {
		t.Errorf("the model beside it: %v", err)
	}
}

// TestDeviceGivenUp: a device that no reset repairs is not ready, even if no request waits for it. Loading its model again
// opens another device.
func TestDeviceGivenUp(t *testing.T) {
	var (
		broken atomic.Bool
		opened atomic.Int64
	)
	s := start(t, 2*time.Millisecond, func(o *serve.Options) {
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) { return stub{b.Network.Exits[0].Classes}, nil }})
			first := opened.Add(1) == 1
			is := func(int) bool { return first && broken.Load() }
			faulty := &enginetest.Faulty{Blocking: d, Real: true, Hang: is, FailReset: is}
			out := &serve.Opened{Device: device.Adapt(faulty), Timely: true}
			out.Watchdog.Fixed = 100e6
			return out, d.Load(ctx, b)
		}
	})
	s.also(t, "second", "")
	broken.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = ask(ctx, s, "tiny", nil)
	}()
	eventually(t, "the request runs", func() bool { return len(s.Take().Models[1].Executions) == 1 })
	stop() // nobody waits for the device any more
	<-gone
	eventually(t, "the server is not ready", func() bool { return !s.Ready() })
	for _, i := range s.Index() {
		if i.State != "UNAVAILABLE" || i.Reason != "the device is lost" {
			t.Errorf("%+v: expected that its device is lost", i)
		}
	}
	if _, err := ask(t.Context(), s, "second", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("%v: expected Unavailable", err)
	}
	for _, name := range []string{"tiny", "second"} {
		if err := s.Load(name); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), s, name, nil); err != nil {
			t.Errorf("%s on another device: %v", name, err)
		}
	}
	if n := opened.Load(); n != 2 || !s.Ready() || len(s.Take().Devices) != 1 {
		t.Errorf("%d devices opened, %d are left, ready %v: expected a second one in place of the first", n, len(s.Take().Devices), s.Ready())
	}
}

// gated are numerics that wait for a gate, if there is one.
type gated struct {
	stub
	gate *atomic.Pointer[chan struct{}]
}

func (g gated) Segment(int, int, []byte) error {
	if ch := g.gate.Load(); ch != nil {
		<-*ch
	}
	return nil
}

// TestDevicesWaitForNobody: while one device is being opened and another waits for its requests before it closes,
// models come and go on others.
func TestDevicesWaitForNobody(t *testing.T) {
	var gate atomic.Pointer[chan struct{}] // of the policy edf's device
	slow, opening, open := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var closeThem sync.Once
	release := func() { closeThem.Do(func() { close(slow); close(open) }) }
	devices := 0
	s := start(t, time.Millisecond, func(o *serve.Options) {
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			devices++ // the second one is edf's, the third one takes its time
			g := &atomic.Pointer[chan struct{}]{}
			switch devices {
			case 2:
				g = &gate
			case 3:
				close(opening)
				<-open
			}
			d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) { return gated{stub{b.Network.Exits[0].Classes}, g}, nil }})
			opened := &serve.Opened{Device: device.Adapt(d)}
			opened.Watchdog.Fixed, opened.Watchdog.Other = 600e9, 600e9
			return opened, d.Load(ctx, b)
		}
	})
	t.Cleanup(release)
	s.also(t, "second", "policy: edf")
	gate.Store(&slow)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := ask(t.Context(), s, "second", nil); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the slow request runs", func() bool { return len(s.Take().Models[0].Executions) == 1 })
	all.Go(func() {
		if err := s.Unload("second"); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "its model goes", func() bool { return len(s.Take().Models) == 1 })
	text, err := os.ReadFile(filepath.Join(s.dir, "tiny.sluice"))
	if err != nil {
		t.Fatal(err)
	}
	third, fourth := filepath.Join(s.dir, "third"), filepath.Join(s.dir, "fourth")
	err = errors.Join(os.WriteFile(third+".sluice", text, 0o600), os.WriteFile(third+".yaml", []byte("policy: serial"), 0o600), s.Add(third+".sluice"),
		os.WriteFile(fourth+".sluice", text, 0o600), s.Add(fourth+".sluice"))
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		if err := s.Load("third"); err != nil {
			t.Error(err)
		}
	})
	<-opening
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.Load("fourth"), s.Unload("fourth"), s.Load("tiny")) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("models of another device wait for one that opens and one that closes")
	}
	release()
	all.Wait()
}

// TestOpenWaitsForHardware: if a device cannot be opened because it is in use, one that is being closed is awaited.
// Other errors are returned at once.
func TestOpenWaitsForHardware(t *testing.T) {
	var (
		gate   atomic.Pointer[chan struct{}]
		fails  atomic.Pointer[error]
		failed = make(chan struct{}, 8)
	)
	slow := make(chan struct{})
	s := start(t, time.Millisecond, func(o *serve.Options) {
		o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
			if err := fails.Swap(nil); err != nil {
				failed <- struct{}{}
				return nil, *err
			}
			d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) {
				return gated{stub{b.Network.Exits[0].Classes}, &gate}, nil
			}})
			opened := &serve.Opened{Device: device.Adapt(d)}
			opened.Watchdog.Fixed, opened.Watchdog.Other = 600e9, 600e9
			return opened, d.Load(ctx, b)
		}
	})
	release := sync.OnceFunc(func() { gate.Store(nil); close(slow) })
	t.Cleanup(release)
	gate.Store(&slow)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := ask(t.Context(), s, "tiny", nil); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the request runs", func() bool { return len(s.Take().Models[0].Executions) == 1 })
	all.Go(func() {
		if err := s.Unload("tiny"); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "its device is being closed", func() bool { return len(s.Take().Devices) == 0 })
	load := func(why error) <-chan error {
		fails.Store(&why)
		done := make(chan error, 1)
		go func() { done <- s.Load("tiny") }()
		<-failed
		return done
	}
	ended := func(done <-chan error) (err error) {
		t.Helper()
		select {
		case err = <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("it waits")
		}
		return err
	}
	if err := ended(load(errors.New("no such hardware"))); err == nil {
		t.Error("a device that cannot be opened serves")
	}
	busy := load(fmt.Errorf("open: %w", device.ErrBusy))
	select {
	case err := <-busy:
		t.Errorf("%v, before the hardware was free", err)
	case <-time.After(10 * time.Millisecond):
	}
	release()
	if err := ended(busy); err != nil {
		t.Error(err)
	}
	all.Wait()
}
