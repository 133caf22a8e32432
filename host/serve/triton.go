// Triton's metrics, with Triton's names and units, for dashboards and autoscalers that support only these metrics.

package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

func failure(code string) string {
	switch code {
	case codes.ResourceExhausted.String(), codes.Unavailable.String(), codes.DeadlineExceeded.String():
		return "REJECTED"
	case codes.Canceled.String():
		return "CANCELED"
	case codes.Internal.String():
		return "BACKEND"
	}
	return "OTHER"
}

// triton exports a snapshot to Prometheus with Triton's names.
type triton struct{ p *Snapshot }

// Describe implements prometheus.Collector. It describes nothing, since the metrics depend on the models.
func (triton) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c triton) Collect(out chan<- prometheus.Metric) {
	for i := range c.p.Models {
		m := &c.p.Models[i]
		executions := uint64(0)
		for _, d := range m.Executions {
			executions += d.Count
		}
		send := func(kind prometheus.ValueType, name, help string, v uint64, reason ...string) {
			keys := append([]string{"model", "version"}, []string{"reason"}[:len(reason)]...)
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, keys, nil), kind, float64(v), append([]string{m.Name, m.Version}, reason...)...)
		}
		count := func(name, help string, v uint64, reason ...string) {
			send(prometheus.CounterValue, name, help, v, reason...)
		}
		failed := map[string]uint64{"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}
		for code, n := range m.Requests {
			if code != codes.OK.String() {
				failed[failure(code)] += n
			}
		}
		count("nv_inference_request_success", "Number of successful inference requests, all batch sizes", m.Success.Count)
		for reason, n := range failed {
			count("nv_inference_request_failure", "Number of failed inference requests, all batch sizes", n, reason)
		}
		count("nv_inference_count", "Number of inferences performed (does not include cached requests)", m.Samples)
		count("nv_inference_exec_count", "Number of model executions performed (does not include cached requests)", executions)
		count("nv_inference_request_duration_us", "Cumulative inference request duration in microseconds (includes cached requests)", m.Success.Ns/1000)
		count("nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds (includes cached requests)", m.Queue.Ns/1000)
		count("nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds (does not include cached requests)", 0)
		count("nv_inference_compute_infer_duration_us", "Cumulative compute inference duration in microseconds (does not include cached requests)", m.Compute.Ns/1000)
		count("nv_inference_compute_output_duration_us", "Cumulative inference compute output duration in microseconds (does not include cached requests)", 0)
		send(prometheus.GaugeValue, "nv_inference_pending_request_count", "Instantaneous number of pending requests awaiting execution per-model.", uint64(m.Pending))
	}
}
