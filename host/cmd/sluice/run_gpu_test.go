package main

import (
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/load"
)

// A workload with more requests than a run stores is served in part, with --time.
func TestCut(t *testing.T) {
	for limit, ok := range map[time.Duration]bool{0: false, maxRequests + 1: false, maxRequests: true} {
		trace := &load.Trace{Duration: maxRequests + 2, Streams: []load.Stream{{}}}
		for at := range load.Time(maxRequests + 2) {
			trace.Streams[0].Times = append(trace.Streams[0].Times, at)
		}
		if err := (&runCmd{Time: limit}).cut(trace); (err == nil) != ok {
			t.Errorf("--time %v: %v", limit, err)
		}
	}
}
