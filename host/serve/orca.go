// Load reports in ORCA's format. Every answer reports the load of the server. Balancers then send requests to servers with
// free capacity.

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

// loadMetrics is the name of the HTTP header with a report. The gRPC trailer has this name followed by -bin.
const loadMetrics = "endpoint-load-metrics"

const (
	loadEvery = 100 * time.Millisecond // maximum age of a report
	// A report covers at least the time loadWindow and at least loadAnswers answers, but at most the time longestLoad.
	// loadAnswers is needed because two or three answers of a slow device are not enough for a rate.
	loadWindow  = time.Second
	loadAnswers = 16
	longestLoad = 10 * time.Second
)

// load measures the load of the server. A balancer weights a server by its rate divided by its utilisation, that is, by
// its answers per busy second. The rate does not include rejections. Otherwise rejections would attract requests to a
// server without free capacity.
type load struct {
	mu     sync.Mutex
	marks  []mark // oldest first; the first mark is from the start of the server, the last from the latest request
	made   time.Time
	latest loadReport
}

// mark contains the values of the counters at one time.
type mark struct {
	at               time.Time
	answered, failed uint64
	busy             []busy
	queued           int64
}

// busy is a device's total time in segments, in ns.
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
	binary string // for trailers
	text   string // for HTTP headers
}

// report returns the current load report. The server calls it at the end of every request.
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
	for len(l.marks) > 1 { // keep the newest mark that is older than the window
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

// until returns the load between the marks m and n, where n is the later mark. m may be older than the window: if the
// interval were shorter than a segment, only a part of the segment's time would count, and the device would seem too
// fast. Marks are created when requests end, so no counted request ended more than a tenth of a second before the
// window. The interval counts as at least a tenth of a second, because rates over microseconds have no meaning.
func (m mark) until(n mark) *orca.OrcaLoadReport {
	s := min(max(n.at.Sub(m.at), loadEvery), longestLoad).Seconds()
	r := &orca.OrcaLoadReport{
		RpsFractional: float64(n.answered-m.answered) / s, Eps: float64(n.failed-m.failed) / s,
		Utilization: map[string]float64{}, NamedMetrics: map[string]float64{"queued": float64(n.queued)},
	}
	for _, b := range n.busy {
		share := min(1, float64(b.ns-m.ran(b.on))/1e9/s)
		if !b.on.alive() {
			share = 1 // a lost device has no free capacity
		}
		r.Utilization[b.on.name] = share
		r.ApplicationUtilization = max(r.ApplicationUtilization, share)
	}
	return r
}

// written encodes a report for trailers and for HTTP headers. The report for headers contains no device names, because
// these may contain characters that are not allowed in a header.
func written(r *orca.OrcaLoadReport) loadReport {
	binary, err := proto.Marshal(r)
	if err != nil {
		binary = nil // omit an empty report
	}
	return loadReport{string(binary), fmt.Sprintf("TEXT application_utilization=%.4f,rps_fractional=%.2f,eps=%.2f,named_metrics.queued=%g",
		r.ApplicationUtilization, r.RpsFractional, r.Eps, r.NamedMetrics["queued"])}
}

func (s *Server) reportHeader(h http.Header) {
	h.Set(loadMetrics, s.load.report(time.Now(), s).text)
}

func (s *Server) reportTrailer(ctx context.Context, method string) {
	if method != oip.GRPCInferenceService_ModelInfer_FullMethodName && method != oip.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		return
	}
	// an error means that the answer has been sent
	_ = grpc.SetTrailer(ctx, metadata.Pairs(loadMetrics+"-bin", s.load.report(time.Now(), s).binary))
}
