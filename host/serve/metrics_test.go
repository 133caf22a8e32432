package serve

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
)

// watched is a model with two recorded requests: one with two samples, which waited 1 ms and 3 ms and were 4 ms and 10 ms
// in segments, and one that was refused. A third is running, a fourth waits.
func watched() *Snapshot {
	m := &Model{name: "tiny", version: "1", net: &bundle.Network{Exits: make([]bundle.Exit, 2)}, on: &shared{ended: make(chan struct{}), given: func() bool { return false }}}
	w := newWatch(m)
	const ms = int64(time.Millisecond)
	ended := func(id device.RequestID, at int64, exit int, how engine.Ending) engine.Outcome {
		return engine.Outcome{Record: engine.Record{ID: id, Ended: at, Exit: exit, Ending: how}}
	}
	w.began(1, []device.RequestID{1, 2})
	w.batch(1, []device.RequestID{1, 2}, 4*time.Millisecond)
	w.batch(1, []device.RequestID{2}, 6*time.Millisecond)
	w.ended(true, []engine.Outcome{ended(1, 5*ms, 0, engine.OnTime), ended(2, 13*ms, 1, engine.OnTime)})
	w.answered(codes.OK, 14*time.Millisecond)
	w.ended(true, []engine.Outcome{ended(3, 0, -1, engine.Refused)})
	w.answered(Exhausted, time.Millisecond)
	w.began(2, []device.RequestID{4})
	w.batch(2, []device.RequestID{2}, time.Millisecond) // it ended before: nothing is kept of it
	w.st.Batches--
	m.queued.Store(2)
	m.queuedSamples.Store(2)
	return &Snapshot{Number: 1, Bounds: bounds(), Models: []ModelState{w.state()}}
}

// TestOwnMetricsAreLinted: names, units and help of the server's own metrics follow Prometheus' rules.
func TestOwnMetricsAreLinted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(collector{watched()})
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestTritonMetrics: nv_inference_* have Triton's names, labels and units, and the durations add up.
func TestTritonMetrics(t *testing.T) {
	p := watched()
	if m := p.Models[0]; m.Executions[2] != (Durations{1, 10e6}) || m.Sizes[2] != (Durations{1, 4e6}) {
		t.Errorf("executions %v, segments %v: expected one of 2 samples and 10 ms, of which 4 ms with both", m.Executions, m.Sizes)
	}
	if m := p.Models[0]; m.Queue != (Durations{1, 3e6}) || m.Compute != (Durations{1, 10e6}) {
		t.Errorf("queue %v, compute %v: expected the slowest sample's 3 ms and 10 ms", m.Queue, m.Compute)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(triton{p})
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range found {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				if l.GetName() == "reason" {
					name += " " + l.GetValue()
				} else if want := map[string]string{"model": "tiny", "version": "1"}[l.GetName()]; l.GetValue() != want {
					t.Errorf("%s: label %s is %q", name, l.GetName(), l.GetValue())
				}
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"nv_inference_request_success": 1, "nv_inference_request_failure REJECTED": 1, "nv_inference_request_failure CANCELED": 0,
		"nv_inference_request_failure BACKEND": 0, "nv_inference_request_failure OTHER": 0, "nv_inference_count": 2, "nv_inference_exec_count": 2,
		"nv_inference_request_duration_us": 14000, "nv_inference_queue_duration_us": 3000, "nv_inference_compute_input_duration_us": 0,
		"nv_inference_compute_infer_duration_us": 10000, "nv_inference_compute_output_duration_us": 0, "nv_inference_pending_request_count": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v %v: expected %v", slices.Sorted(maps.Keys(got)), got, want)
	}
}
