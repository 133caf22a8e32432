package bundled_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/bundled"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

// alone runs one batch on an otherwise idle device, and returns the results of its exits and its time.
func alone(t *testing.T, d *bundled.Device, b *bundle.Bundle, first int, theta float32, inputs [][]int16) (results []device.Result, took device.Time) {
	t.Helper()
	now := device.Time(1e9)
	for at, ok := d.Next(); ok; at, ok = d.Next() { // whatever is due
		now = max(now, at)
		d.Take(at)
	}
	last := len(b.Network.Exits) - 1
	l := device.Launch{ID: device.LaunchID(now), Network: b.Network.Name, First: first, Last: last}
	for i, in := range inputs {
		id := device.RequestID(i + 1)
		w := &device.Work{ID: device.WorkID(now) + device.WorkID(id), Kind: device.Copy, Request: id, Network: b.Network.Name, Input: func() ([]device.Tensor, error) {
			return []device.Tensor{device.Words("input", in, len(in))}, nil
		}}
		if _, err := d.Begin(t.Context(), now, w); err != nil {
			t.Fatal(err)
		}
		defer d.Release(id)
		l.Requests, l.Theta = append(l.Requests, id), append(l.Theta, theta)
	}
	for at, ok := d.Next(); ok; at, ok = d.Next() {
		now = max(now, at)
		d.Take(now)
	}
	run := device.WorkID(now) + 100
	if _, err := d.Begin(t.Context(), now, &device.Work{ID: run, Kind: device.Run, Launch: l}); err != nil {
		t.Fatal(err)
	}
	began := now
	for at, ok := d.Next(); ok; at, ok = d.Next() {
		now = max(now, at)
		for ev := d.Take(now); ev != nil; ev = d.Take(now) {
			if ev.Kind != device.Passed || ev.Work != run {
				t.Fatalf("%+v: expected exits of the launch", ev)
			}
			results = append(results, ev.Report.Results...)
			took = now - began
		}
	}
	return results, took
}

// TestBundles: every exit has golden's result, a request leaves where its confidence reaches its threshold, and a
// launch takes the table's time.
func TestBundles(t *testing.T) {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	d, err := bundled.New(f, soft.Answers)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 0))
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Begin(t.Context(), 0, &device.Work{ID: 1, Kind: device.Load, Network: b.Network.Name, Artefact: b}); err != nil {
		t.Fatal(err)
	}
	table, err := d.Latency(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := soft.Answers(b)
	if err != nil {
		t.Fatal(err)
	}
	last := len(b.Network.Exits) - 1
	for _, batch := range []int{1, 3, d.Info().MaxBatch} {
		var inputs [][]int16
		var want []device.ExitResult
		for range batch {
			in := randnet.Input(rng, b)
			exits, err := answer(in)
			if err != nil {
				t.Fatal(err)
			}
			inputs, want = append(inputs, in), append(want, exits...)
		}
		results, took := alone(t, d, b, 0, 2, inputs)
		if len(results) != batch*(last+1) {
			t.Fatalf("a batch of %d: %d results of %d", batch, len(results), batch*(last+1))
		}
		for _, r := range results {
			x := r.Exits[0]
			if w := want[int(r.Request-1)*(last+1)+x.Exit]; !reflect.DeepEqual(x, w) || (r.Taken >= 0) != (x.Exit == last) {
				t.Errorf("request %d of %d, exit %d: %+v, taken %d: expected %+v", r.Request, batch, x.Exit, x, r.Taken, w)
			}
		}
		for _, e := range table {
			if e.First == 0 && e.Last == last && e.Batch == batch && e.P50 != took {
				t.Errorf("a batch of %d took %d ns, the table says %d", batch, took, e.P50)
			}
		}
		if results, _ := alone(t, d, b, 0, 0, inputs); len(results) != batch || results[0].Taken != 0 {
			t.Errorf("with a threshold of 0: %+v: expected all to leave at the first exit", results)
		}
	}
}

type module struct{}

func (module) NetworkName() string { return "other" }
func (module) Kind() string        { return "module" }

// TestRefused: artefacts that are not bundles, and a network that is not loaded, are refused.
func TestRefused(t *testing.T) {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	d, err := bundled.New(f, soft.Answers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Begin(t.Context(), 0, &device.Work{Kind: device.Load, Network: "other", Artefact: module{}}); !errors.Is(err, device.ErrMismatch) || !strings.Contains(err.Error(), "gpu-sim:MI50") {
		t.Errorf("a module: %v", err)
	}
	if err := d.Prepare(t.Context(), &device.Work{Kind: device.Copy, Network: "none"}, nil); !errors.Is(err, device.ErrRequest) {
		t.Errorf("no network: %v", err)
	}
}
