// Load reports in ORCA's words: every answer says how busy the server is, so that balancers send work where there is room.

package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// loadMetrics is the header of a report, and with -bin behind it the trailer.
const loadMetrics = "endpoint-load-metrics"

const (
	loadEvery = 100 * time.Millisecond // a report is made anew when it is older
	// Rates and shares are of this time at least, and of so many answers, but of the longest time at most: of two or three
	// answers of a slow device a rate is anything.
	loadWindow  = time.Second
	loadAnswers = 16
	longestLoad = 10 * time.Second
)

// load measures what a server does. A balancer weighs it by rate over utilization: answers per busy second. A refusal is none:
// counted as one, it would draw more requests to a server that has no room.
type load struct {
	mu     sync.Mutex
	marks  []mark // the oldest first; the first one is of the server's start, the last one of the last request
	made   time.Time
	latest loadReport
}

// mark is what the counters were at a time.
type mark struct {
	at               time.Time
	answered, failed uint64
	busy             []busy
	queued           int64
}

// busy is for how long a device has run segments, in ns.
type busy struct {
	on *shared
	ns uint64
}

func (m *mark) ran(on *shared) uint64 {
	for _, b := range m.busy {
		if b.on == on {
			return b.ns
		}
	}
	return 0
}

type loadReport struct {
	binary string // of trailers
	text   string // of HTTP's header
}

// report is the newest report. Whoever ends a request asks for it.
func (l *load) report(now time.Time, s *Server) loadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mark{at: now}
	m.answered, m.failed = s.book.ended()
	if last := &l.marks[len(l.marks)-1]; now.Sub(l.made) < loadEvery && m.answered == last.answered && m.failed == last.failed {
		return l.latest
	}
	for _, on := range s.devices.list() {
		m.busy = append(m.busy, busy{on, on.busy()})
	}
	for len(l.marks) > 1 { // one that is older than the window stays
		next := &l.marks[1]
		if age := now.Sub(next.at); age < loadWindow || age < longestLoad && m.answered-next.answered < loadAnswers {
			break
		}
		l.marks = l.marks[1:]
	}
	if now.Sub(l.made) >= loadEvery {
		for _, open := range s.opened() {
			m.queued += open.queued.Load()
		}
		l.latest, l.made = written(l.marks[0].until(m)), now
	}
	if n := len(l.marks); n > 1 && now.Sub(l.marks[n-2].at) < loadEvery {
		l.marks[n-1] = m
	} else {
		l.marks = append(l.marks, m)
	}
	return l.latest
}

// until is what went on between two marks. Requests make marks as they end, so where the earlier one is older than the window,
// what it does not count has ended within the window, or a tenth of a second before. A shorter window would do worse: a segment
// that is longer than it fills it, and the device seems faster than it is. Just after the start a rate is of
// a tenth of a second at least: one of microseconds would be nobody's.
func (m mark) until(n mark) *orca.OrcaLoadReport {
	s := min(max(n.at.Sub(m.at), loadEvery), longestLoad).Seconds()
	r := &orca.OrcaLoadReport{
		RpsFractional: float64(n.answered-m.answered) / s, Eps: float64(n.failed-m.failed) / s,
		Utilization: map[string]float64{}, NamedMetrics: map[string]float64{"queued": float64(n.queued)},
	}
	for _, b := range n.busy {
		share := min(1, float64(b.ns-m.ran(b.on))/1e9/s)
		if !b.on.alive() {
			share = 1 // there is no room on a device that is gone
		}
		r.Utilization[b.on.name] = share
		r.ApplicationUtilization = max(r.ApplicationUtilization, share)
	}
	return r
}

// written is a report in both forms. The header's has no names of devices, which may hold what a header must not.
func written(r *orca.OrcaLoadReport) loadReport {
	binary, err := proto.Marshal(r)
	if err != nil {
		binary = nil // an empty report says nothing, which is true
	}
	return loadReport{string(binary), fmt.Sprintf("TEXT application_utilization=%.4f,rps_fractional=%.2f,eps=%.2f,named_metrics.queued=%g",
		r.ApplicationUtilization, r.RpsFractional, r.Eps, r.NamedMetrics["queued"])}
}

// reportHeader gives the report to the answer of a request over HTTP.
func (s *Server) reportHeader(h http.Header) {
	h.Set(loadMetrics, s.load.report(time.Now(), s).text)
}

// reportTrailer gives it to the answer of a call.
func (s *Server) reportTrailer(ctx context.Context, method string) {
	if method != oip.GRPCInferenceService_ModelInfer_FullMethodName && method != oip.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		return
	}
	// it fails where the answer has gone already
	_ = grpc.SetTrailer(ctx, metadata.Pairs(loadMetrics+"-bin", s.load.report(time.Now(), s).binary))
}
