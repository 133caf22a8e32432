// The metrics port serves the status page, events and Prometheus metrics, all from the latest snapshot.

package serve

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var page []byte

// Status returns the HTTP handler of the metrics port.
func (s *Server) Status() http.Handler {
	mux := http.NewServeMux()
	closed := func(f http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := s.guard(r.Header.Get("Authorization"), r.RemoteAddr, false); err != nil {
				fail(w, err)
				return
			}
			f(w, r)
		}
	}
	mux.HandleFunc("GET /{$}", closed(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		_, _ = w.Write(page) // an error means that the client has disconnected
	}))
	mux.HandleFunc("GET /snapshot", closed(func(w http.ResponseWriter, _ *http.Request) {
		p, _ := s.newest()
		_ = answerJSON(w, p)
	}))
	mux.HandleFunc("GET /events", closed(s.events))
	mux.HandleFunc("GET /metrics", closed(func(w http.ResponseWriter, r *http.Request) {
		p, _ := s.newest()
		reg := prometheus.NewRegistry()
		err := reg.Register(collector{p})
		if s.opts.TritonMetrics {
			err = errors.Join(err, reg.Register(triton{p}))
		}
		if err != nil {
			fail(w, err)
			return
		}
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}))
	return s.limitTimes(s.sameOrigin(mux))
}

// newest returns the latest snapshot. If no snapshot exists yet, newest takes the first one.
func (s *Server) newest() (*Snapshot, <-chan struct{}) {
	p, news := s.Latest()
	if p == nil {
		s.Take()
		p, news = s.Latest()
	}
	return p, news
}

// events sends every snapshot as a server-sent event, until the client disconnects, the client's token is revoked, or
// the server stops.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for s.authorised(r.Header.Get("Authorization")) == nil {
		p, news := s.newest()
		text, err := json.Marshal(p)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", p.Number, text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-news:
		}
	}
}

// collector exports a snapshot to Prometheus.
type collector struct{ p *Snapshot }

// Describe implements prometheus.Collector. It describes nothing, since the metrics depend on the models.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var keys, values []string
		for i := 0; i < len(labels); i += 2 {
			keys, values = append(keys, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, keys, nil), kind, v, values...)
	}
	const count, gauge = prometheus.CounterValue, prometheus.GaugeValue
	truth := map[bool]float64{true: 1}
	send(gauge, "sluice_snapshot", "Number of the snapshot that these figures are of.", float64(c.p.Number))
	send(gauge, "sluice_draining", "1 while the server drains, or is about to.", truth[c.p.Draining])
	for code, n := range c.p.Requests {
		send(count, "sluice_server_requests_total", "Requests of all models, also of those that have gone, by the code they ended with.", float64(n), "code", code)
	}
	send(count, "sluice_requests_unknown_total", "Requests that reached no model.", float64(c.p.Unknown))
	for i := range c.p.Devices {
		d := &c.p.Devices[i]
		send(gauge, "sluice_device_ready", "1 where the device answers.", truth[d.Ready], "device", d.Name, "label", d.Label, "design", d.Design, "policy", d.Policy)
		send(count, "sluice_device_busy_seconds_total", "Time in which the device ran segments.", float64(d.Busy)/1e9, "device", d.Name)
		send(count, "sluice_device_batches_total", "Segments that the device ran, also before its models were ready.", float64(d.Batches), "device", d.Name)
		send(count, "sluice_device_faults_total", "Failures of the device.", float64(d.Faults), "device", d.Name)
		send(count, "sluice_device_hangs_total", "Those of them that were hangs.", float64(d.Hangs), "device", d.Name)
	}
	for i := range c.p.Models {
		m := &c.p.Models[i]
		of := []string{"model", m.Name, "version", m.Version}
		with := func(more ...string) []string { return append(append([]string{}, of...), more...) }
		for code, n := range m.Requests {
			send(count, "sluice_requests_total", "Requests by the code they ended with.", float64(n), with("code", code)...)
		}
		for exit, n := range m.Exits {
			send(count, "sluice_exits_total", "Samples by the exit taken.", float64(n), with("exit", strconv.Itoa(exit))...)
		}
		send(gauge, "sluice_model_ready", "1 where the model answers.", truth[m.Ready], with("device", m.Device)...)
		if m.Deadline {
			send(gauge, "sluice_least_slack_seconds", "Least time that a request that waits or runs has to its deadline.", float64(m.Slack)/1e9, of...)
		}
		send(gauge, "sluice_queued", "Requests that wait or run.", float64(m.Queued), of...)
		send(count, "sluice_saturated_samples_total", "Samples with input values beyond the network's scale, which were cut to it, of refused requests too.", float64(m.Saturated), of...)
		send(count, "sluice_deadlines_met_total", "Requests with a deadline that were answered in time.", float64(m.Met), of...)
		send(count, "sluice_deadlines_missed_total", "Requests with a deadline that were answered late, given up or refused.", float64(m.Missed), of...)
		send(count, "sluice_batches_total", "Segments that ran on the device.", float64(m.Batches), of...)
		for size, d := range m.Sizes {
			send(count, "sluice_batch_size_total", "Segments that ran, by the size of their batch.", float64(d.Count), with("size", strconv.Itoa(size))...)
		}
		send(count, "sluice_busy_seconds_total", "Time in which the device ran segments of the model.", float64(m.Busy)/1e9, of...)
		buckets, sum := map[float64]uint64{}, uint64(0)
		for k, b := range c.p.Bounds {
			sum += m.Latency[k]
			buckets[b] = sum
		}
		h, err := prometheus.NewConstHistogram(
			prometheus.NewDesc("sluice_request_seconds", "Time to the answer, of requests that got one.", []string{"model", "version"}, nil),
			m.Success.Count, float64(m.Success.Ns)/1e9, buckets, m.Name, m.Version)
		if err == nil {
			out <- h
		}
	}
}
