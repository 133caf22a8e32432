package report_test

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/report"
)

// MLPerf states 662 queries for p = 0.99 and 64 for p = 0.9 (mlperf.conf, MultiStream; the rules, SingleStream):
// early stopping with one query over the target. With none it is ln(1-c)/ln(p).
func TestMinPassing(t *testing.T) {
	for _, c := range []struct {
		t    int
		p    float64
		want int
	}{{0, 0.99, 459}, {1, 0.99, 662}, {0, 0.9, 44}, {1, 0.9, 64}} {
		if got := report.MinPassing(c.t, c.p, 0.99); got != c.want {
			t.Errorf("%d over at p = %g: %d queries, expected %d", c.t, c.p, got, c.want)
		}
	}
	for n, last := 0, 0; n < 300; n += 7 {
		m := report.MinPassing(n, 0.99, 0.99)
		if m <= last || m < 100*n {
			t.Fatalf("%d over: %d queries after %d", n, m, last)
		}
		last = m
	}
}

func TestServer(t *testing.T) {
	ns := func(fast, slow int) []int64 {
		out := make([]int64, fast+slow)
		for i := range out {
			out[i] = 10
			if i < slow {
				out[i] = 11
			}
		}
		return out
	}
	const long = int64(600e9)
	rules := report.ServerRules{Target: 10}
	for _, c := range []struct {
		name       string
		latencies  []int64
		queries    int
		duration   int64
		valid      bool
		over, want int
		why        string
	}{
		{"enough", ns(661, 1), 662, long, true, 1, 662, ""},
		{"one too few", ns(660, 1), 661, long, false, 1, 662, "ask for 662 queries"},
		{"no result counts as over", ns(661, 0), 662, long, true, 1, 662, ""},
		{"too short", ns(1000, 1), 1001, long - 1, false, 1, 662, "expected 600.0 s"},
		{"too late", ns(97, 3), 100, long, false, 3, report.MinPassing(3, 0.99, 0.99), "3 of 100 queries"},
		{"nothing", nil, 0, long, false, 0, 459, "0 of 0"},
	} {
		v := report.Server(rules, c.latencies, c.queries, c.duration)
		if v.Valid != c.valid || v.Overlatency != c.over || v.MinQueries != c.want || !strings.Contains(v.Why, c.why) || (v.Why == "") != c.valid {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	if v := report.Server(report.ServerRules{Target: 10, Percentile: 0.9, MinDuration: 1}, ns(63, 1), 64, 1); !v.Valid {
		t.Errorf("other rules: %+v", v)
	}
}
