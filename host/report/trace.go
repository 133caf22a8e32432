// Package report presents the results of runs: a Chrome trace for Perfetto, pictures of latency distributions, and
// tables.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/sluice-npu/sluice/host/engine"
)

// traceEvent is an entry of the Trace Event Format ("JSON Object Format"), with times in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Cat   string         `json:"cat,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	TS    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	ID    string         `json:"id,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

const (
	deviceTID  = 1   // first thread id of devices; the device's index is added
	requestTID = 100 // each async span has its own track, by id
)

// Trace writes one process for each run. Each process has one thread per device, which shows all segments. A segment's
// name contains its index and the batch size. Perfetto chooses the colour by this name. Each preemption and each merge
// is an instant. Each request is an async span from arrival to end that includes the wait.
func Trace(w io.Writer, runs ...*engine.Result) error {
	events := []traceEvent{}
	us := func(t engine.Time) float64 { return float64(t) / 1e3 }
	for p, r := range runs {
		pid := p + 1
		events = append(events, traceEvent{Name: "process_name", Phase: "M", PID: pid, Args: map[string]any{"name": r.Policy}})
		for d := range r.Busy {
			events = append(events, traceEvent{
				Name: "thread_name", Phase: "M", PID: pid, TID: deviceTID + d, Args: map[string]any{"name": fmt.Sprintf("device %d", d)},
			})
		}
		for i := range r.Spans {
			s := &r.Spans[i]
			name := fmt.Sprintf("segment %d, B = %d", s.Segment, len(s.Requests))
			switch {
			case s.Segment < 0:
				name = "reset"
			case s.Failed:
				name += " (failed)"
			}
			events = append(events, traceEvent{
				Name: name, Phase: "X", Cat: "segment", PID: pid, TID: deviceTID + s.Device, TS: us(s.Start), Dur: us(s.End - s.Start),
				Args: map[string]any{"launch": s.Launch, "requests": s.Requests},
			})
		}
		for i := range r.Steps {
			s := &r.Steps[i]
			if s.Kind != "preempt" && s.Kind != "merge" && s.Kind != "drop" {
				continue
			}
			events = append(events, traceEvent{
				Name: s.Kind, Phase: "i", Cat: "scheduler", PID: pid, TID: deviceTID + max(s.Device, 0), TS: us(s.At), Scope: "t",
				Args: map[string]any{"launch": s.Launch, "into": s.Into, "exit": s.Last, "requests": s.Requests},
			})
		}
		for i := range r.Records {
			q := &r.Records[i]
			id := fmt.Sprintf("%d.%d", pid, q.ID)
			add := func(name, phase string, at engine.Time, args map[string]any) {
				events = append(events, traceEvent{
					Name: name, Phase: phase, Cat: "request", PID: pid, TID: requestTID, TS: us(at), ID: id, Args: args,
				})
			}
			name := fmt.Sprintf("request %d", q.ID)
			add(name, "b", q.Arrived, map[string]any{"deadline_us": us(q.Deadline)})
			if q.Started >= 0 {
				add("wait", "b", q.Arrived, nil)
				add("wait", "e", q.Started, nil)
			}
			add(name, "e", q.Ended, map[string]any{"ending": q.Ending.String(), "exit": q.Exit, "class": q.Class})
		}
	}
	err := json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
	if err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}
