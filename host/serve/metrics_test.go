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
	"github.com/sluice-npu/sluice/host/sched"
)

// watched is a model in whose books two requests stand: one of two samples that waited 1 ms and 3 ms beside 4 ms and
// 10 ms in segments, and one that was refused. A third was cancelled while it ran, and leaves nothing behind.
func watched(t *testing.T) *Snapshot {
	on := &shared{name: "soft", models: map[string]*Model{}, runs: map[device.RequestID]time.Duration{}, done: map[uint64]spent{}}
	m := &Model{name: "tiny", version: "1", network: "n", on: on, net: &bundle.Network{Exits: make([]bundle.Exit, 2)}}
	m.watch = newWatch(m)
	on.watch(m)
	const ms = int64(time.Millisecond)
	on.Step(&engine.Step{Kind: sched.Launch.String(), Requests: []device.RequestID{1, 2}})
	on.Span(&engine.Span{Network: "n", Segment: 0, Start: 1 * ms, End: 5 * ms, Requests: []device.RequestID{1, 2}})
	on.Ended(&engine.Record{ID: 1, Task: 7, Ended: 5 * ms, Exit: 0, Ending: engine.OnTime}, nil)
	on.Span(&engine.Span{Network: "n", Segment: 1, Start: 7 * ms, End: 13 * ms, Requests: []device.RequestID{2}})
	last := engine.Record{ID: 2, Task: 7, Ended: 13 * ms, Exit: 1, Ending: engine.OnTime}
	on.Ended(&last, nil)
	on.TaskEnded(13*ms, &sched.Task{ID: 7, Network: "n"}, engine.OnTime)
	m.watch.ended(false, []engine.Outcome{{Record: engine.Record{Exit: 0}}, {Record: last}})
	m.watch.answered(codes.OK, 14*time.Millisecond)
	on.Ended(&engine.Record{ID: 3, Task: 8, Exit: -1, Started: -1, Ending: engine.Refused}, nil)
	on.TaskEnded(13*ms, &sched.Task{ID: 8, Network: "n"}, engine.Refused)
	m.watch.answered(Exhausted, time.Millisecond)
	on.Step(&engine.Step{Kind: sched.Launch.String(), Requests: []device.RequestID{4}})
	on.Ended(&engine.Record{ID: 4, Task: 9, Exit: -1, Ending: engine.Cancelled}, nil)
	on.Span(&engine.Span{Network: "other", Segment: 0, Start: 13 * ms, End: 14 * ms, Requests: []device.RequestID{4}})
	if len(on.runs)+len(on.done) > 0 {
		t.Errorf("%v and %v are left of requests that have ended", on.runs, on.done)
	}
	return &Snapshot{Number: 1, Bounds: bounds(), Models: []ModelState{m.watch.st}}
}

// TestOwnMetricsAreLinted: names, units and help of the server's own metrics are as Prometheus wants them.
func TestOwnMetricsAreLinted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(collector{watched(t)})
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
	p := watched(t)
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
		"nv_inference_compute_infer_duration_us": 10000, "nv_inference_compute_output_duration_us": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v %v: expected %v", slices.Sorted(maps.Keys(got)), got, want)
	}
}
