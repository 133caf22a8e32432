// Load reports in ORCA's words: every answer says how busy the server is, so that balancers send work where there is room.

package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// loadMetrics is the header of a report, and with -bin behind it the trailer.
const loadMetrics = "endpoint-load-metrics"

const (
	loadEvery  = 100 * time.Millisecond // a report is made anew when it is older
	loadWindow = time.Second            // that rates and shares are of
)

// load measures what a server does. A balancer weighs it by rate over utilization: requests per busy second.
type load struct {
	ended, failed atomic.Uint64
	mu            sync.Mutex
	marks         []mark // the oldest first
	latest        loadReport
}

// mark is what the counters were at a time.
type mark struct {
	at            time.Time
	ended, failed uint64
	busy          map[*shared]uint64 // ns, by device
	queued        int64
}

type loadReport struct {
	binary string // of trailers
	text   string // of HTTP's header
}

// count notes a request that has ended. Failures are those that another server might have answered.
func (l *load) count(code codes.Code) {
	l.ended.Add(1)
	switch code {
	case Exhausted, Expired, Unavailable, Internal:
		l.failed.Add(1)
	}
}

// report is the newest report.
func (l *load) report(now time.Time, s *Server) loadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.marks); n > 0 && l.latest.text != "" && now.Sub(l.marks[n-1].at) < loadEvery {
		return l.latest
	}
	m := mark{now, l.ended.Load(), l.failed.Load(), map[*shared]uint64{}, 0}
	for _, on := range s.devices.list() {
		m.busy[on] = on.busy()
	}
	for _, open := range s.opened() {
		m.queued += open.queued.Load()
	}
	for len(l.marks) > 1 && now.Sub(l.marks[0].at) > loadWindow {
		l.marks = l.marks[1:]
	}
	if len(l.marks) > 0 {
		l.latest = written(l.marks[0].until(m))
	}
	l.marks = append(l.marks, m)
	return l.latest
}

// until is what went on between two marks.
func (m mark) until(n mark) *orca.OrcaLoadReport {
	s := max(n.at.Sub(m.at).Seconds(), 1e-3)
	r := &orca.OrcaLoadReport{
		RpsFractional: float64(n.ended-m.ended) / s, Eps: float64(n.failed-m.failed) / s,
		Utilization: map[string]float64{}, NamedMetrics: map[string]float64{"queued": float64(n.queued)},
	}
	for on, busy := range n.busy {
		share := min(1, float64(busy-m.busy[on])/1e9/s)
		if !on.alive() {
			share = 1 // there is no room on a device that is gone
		}
		r.Utilization[on.name] = share
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
	if text := s.load.report(time.Now(), s).text; text != "" { // there is none before the second look
		h.Set(loadMetrics, text)
	}
}

// reportTrailer gives it to the answer of a call.
func (s *Server) reportTrailer(ctx context.Context, method string) {
	if method != oip.GRPCInferenceService_ModelInfer_FullMethodName && method != oip.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		return
	}
	// it fails where the answer has gone already
	_ = grpc.SetTrailer(ctx, metadata.Pairs(loadMetrics+"-bin", s.load.report(time.Now(), s).binary))
}
