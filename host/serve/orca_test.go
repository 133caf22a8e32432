package serve

import (
	"math"
	"testing"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// TestLoadReport: shares and rates cover the last second, or the last sixteen answers if these took longer, but at most ten
// seconds. Refusals are not answers, a lost device has no room, and a report is renewed at most ten times per second.
func TestLoadReport(t *testing.T) {
	device := func(name string) *shared {
		on := &shared{name: name, opened: make(chan struct{}), ended: make(chan struct{}), given: func() bool { return false }}
		close(on.opened)
		return on
	}
	fast, slow := device("fast"), device("slow")
	m := &Model{on: slow}
	s := &Server{devices: devices{all: []*shared{fast, slow}}, models: map[string]map[string]*entry{"m": {"1": {model: m}}}}
	now := time.Now()
	l := load{marks: []mark{{at: now}}} // begins now
	step := func(took time.Duration, requests int, code codes.Code, busy time.Duration) *orca.OrcaLoadReport {
		t.Helper()
		now = now.Add(took)
		fast.st.Busy += uint64(busy)
		for range requests {
			s.book.requests[code].Add(1)
		}
		r := &orca.OrcaLoadReport{}
		if err := proto.Unmarshal([]byte(l.report(now, s).binary), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect := func(r *orca.OrcaLoadReport, busy, rps, eps float64) {
		t.Helper()
		if far := func(a, b float64) bool { return math.Abs(a-b) > 1e-6 }; far(r.ApplicationUtilization, busy) || far(r.RpsFractional, rps) || far(r.Eps, eps) {
			t.Errorf("%v: expected a share of %g, %g and %g a second", r, busy, rps, eps)
		}
	}
	expect(step(500*time.Millisecond, 20, codes.OK, 100*time.Millisecond), 0.2, 40, 0)
	expect(step(500*time.Millisecond, 20, Exhausted, 400*time.Millisecond), 0.5, 20, 20) // not 40: nobody was served
	expect(step(50*time.Millisecond, 100, codes.OK, 0), 0.5, 20, 20)                     // too early
	expect(step(950*time.Millisecond, 0, codes.OK, 0), 0, 100, 0)                        // the marks before have gone out of the window
	expect(step(1000*time.Millisecond, 10, Invalid, 0), 0, 50, 0)                        // a client's mistake is neither; the last answers are of two seconds
	// a long segment counts when it has ended
	expect(step(2000*time.Millisecond, 1, codes.OK, 2*time.Second), 0.5, 101./4, 0)
	for range 15 { // one a second, each half a second's work: as many as count
		step(time.Second, 1, codes.OK, 500*time.Millisecond)
	}
	expect(step(time.Second, 1, codes.OK, 500*time.Millisecond), 0.5, 1, 0)
	now = now.Add(time.Hour)
	expect(step(0, 7, codes.OK, 300*time.Millisecond), 0.03, 0.7, 0) // after idle time a report is of ten seconds
	step(50*time.Millisecond, 1000, codes.OK, 40*time.Millisecond)   // too early for a report
	now = now.Add(time.Hour)
	expect(step(0, 7, codes.OK, 300*time.Millisecond), 0.03, 0.7, 0) // and knows when the idle time began
	last := l.marks[len(l.marks)-1]
	l = load{marks: []mark{{at: now, busy: last.busy, answered: last.answered, failed: last.failed}}}
	expect(step(time.Millisecond, 5, codes.OK, time.Millisecond), 0.01, 50, 0) // the first report is there, and of no moment
	step(2*time.Second, 0, codes.OK, 0)
	m.queued.Store(3)
	close(slow.ended)
	r := step(500*time.Millisecond, 0, codes.OK, 0)
	expect(r, 1, 5/2.501, 0)
	if r.Utilization["slow"] != 1 || r.NamedMetrics["queued"] != 3 {
		t.Errorf("%v: expected that the slow device has no room, and a queue of 3", r)
	}
}
