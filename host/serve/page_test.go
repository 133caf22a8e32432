package serve_test

import (
	"context"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/report/reporttest"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// oneEvent ends a stream of events after the first: the browser's virtual time waits for a stream that is open.
type oneEvent struct {
	http.ResponseWriter
	end func()
}

func (o oneEvent) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o oneEvent) Flush() {
	_ = http.NewResponseController(o.ResponseWriter).Flush() // the browser may have gone
	o.end()
}

// TestPage: in a browser the status page shows the values of the metrics, and its script has no errors.
func TestPage(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	for range 3 {
		if _, err := s.ModelInfer(t.Context(), question(2, map[string]*oip.InferParameter{"slo_us": whole(60e6)})); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"max_exit": whole(7)}))
	s.Take()
	status := s.Status()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			ctx, end := context.WithCancel(r.Context())
			defer end()
			w, r = oneEvent{w, end}, r.WithContext(ctx)
		}
		status.ServeHTTP(w, r)
	}))
	defer server.Close()
	dom := string(reporttest.Open(t, server.URL+"/", "--virtual-time-budget=1000"))

	w := httptest.NewRecorder()
	status.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	metrics := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			metrics[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	of := func(name, label string) string {
		t.Helper()
		v, ok := metrics[name+"{"+label+`model="tiny",version="1"}`]
		if !ok {
			t.Errorf("the metrics lack %s{%s...}", name, label)
		}
		return v
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`<tr><th>([^<]*)</th><td[^>]*>([^<]*)</td></tr>`).FindAllStringSubmatch(dom, -1) {
		rows[m[1]] = html.UnescapeString(m[2])
	}
	for name, want := range map[string]string{
		"requests":           fmt.Sprintf("4 (InvalidArgument %s, OK %s)", of("sluice_requests_total", `code="InvalidArgument",`), of("sluice_requests_total", `code="OK",`)),
		"waiting or running": of("sluice_queued", ""),
		"deadlines":          of("sluice_deadlines_met_total", "") + " met, " + of("sluice_deadlines_missed_total", "") + " missed",
		"exits taken":        of("sluice_exits_total", `exit="0",`) + " / " + of("sluice_exits_total", `exit="1",`),
		"failures":           metrics[`sluice_device_faults_total{device="soft"}`] + " faults, " + metrics[`sluice_device_hangs_total{device="soft"}`] + " of them hangs",
	} {
		if rows[name] != want {
			t.Errorf("%s: the page shows %q, the metrics say %q", name, rows[name], want)
		}
	}
	if want := metrics[`sluice_device_batches_total{device="soft"}`] + " batches"; !strings.HasSuffix(rows["busy"], ", "+want) {
		t.Errorf("busy: the page shows %q, the metrics say %s", rows["busy"], want)
	}
	seconds := func(v string) float64 {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if ms := 1e3 * seconds(of("sluice_request_seconds_sum", "")) / seconds(of("sluice_request_seconds_count", "")); math.Abs(seconds(strings.TrimSuffix(rows["average answer"], " ms"))-ms) > ms/100 { // three digits
		t.Errorf("average answer: the page shows %q, the metrics say %g ms", rows["average answer"], ms)
	}
	for what, metric := range map[string]string{
		"soft": `sluice_device_ready{design="tiny",device="soft",label="estimated",policy="fluid"}`, "tiny:1": `sluice_model_ready{device="soft",model="tiny",version="1"}`,
	} {
		if ready := regexp.MustCompile(`<h2>` + what + ` <small class="ok">ready</small>`).MatchString(dom); metrics[metric] != "1" || !ready {
			t.Errorf("%s: the page shows it ready: %v, the metrics say %q", what, ready, metrics[metric])
		}
	}
	if want := ">snapshot " + metrics["sluice_snapshot"] + ", "; !strings.Contains(dom, want) {
		t.Errorf("the page is not of the metrics' snapshot: expected %q", want)
	}
	buckets := regexp.MustCompile(`(?m)^sluice_request_seconds_bucket.*le="(.*)"} (.*)$`).FindAllStringSubmatch(w.Body.String(), -1)
	bars, answers := regexp.MustCompile(`<title>(\d+) answers</title>`).FindAllStringSubmatch(dom, -1), 0
	for i, b := range bars {
		var n int
		fmt.Sscan(b[1], &n)
		answers += n
		if i < len(buckets) && fmt.Sprint(answers) != buckets[i][2] {
			t.Errorf("%d answers in the bars up to %s s, the metrics say %s", answers, buckets[i][1], buckets[i][2])
		}
	}
	if want := of("sluice_request_seconds_count", ""); fmt.Sprint(answers) != want || len(bars) != len(buckets) {
		t.Errorf("%d bars of %d answers in all, the metrics say %s answers", len(bars), answers, want)
	}
	if !regexp.MustCompile(`<td class="bad">InvalidArgument</td><td>[^<]*max_exit`).MatchString(dom) {
		t.Error("the request that was rejected is not in the list")
	}
}
