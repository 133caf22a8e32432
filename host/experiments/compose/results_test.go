package compose

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// The tables of RESULTS.md are what `sluice bench compose` wrote into testdata/summary.json.
func TestResults(t *testing.T) {
	text, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Seeds  []uint64    `json:"seeds"`
		TimeNs int64       `json:"time_ns"`
		Rows   []frame.Row `json:"rows"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprintf("(%d seeds, %d s on the GPU and %d s over links, 95 %% intervals)", len(doc.Seeds), doc.TimeNs/1e9, doc.TimeNs/1e8); !strings.Contains(string(text), said) {
		t.Errorf("RESULTS.md does not say %q", said)
	}
	cells := map[[3]string]*frame.Row{}
	policies := map[string][]string{}
	for i := range doc.Rows {
		r := &doc.Rows[i]
		if _, ok := cells[[3]string{r.Setting, r.Policy, "any"}]; !ok {
			policies[r.Setting] = append(policies[r.Setting], r.Policy)
		}
		cells[[3]string{r.Setting, r.Policy, r.Metric}], cells[[3]string{r.Setting, r.Policy, "any"}] = r, r
	}
	cell := func(setting, policy, metric string, digits int) string {
		r := cells[[3]string{setting, policy, metric}]
		switch {
		case r == nil:
			return ""
		case metric == "left_early":
			return fmt.Sprintf("%.0f", 100*r.Ours)
		case r.CI95 == nil:
			t.Fatalf("%s, %s: %s has no interval", setting, policy, metric)
		}
		return fmt.Sprintf("%.*f ± %.*f", digits, 100*r.Ours, digits, 100**r.CI95)
	}
	rows := 0
	line := func(cells ...string) {
		rows++
		if want := "| " + strings.Join(cells, " | ") + " |\n"; !strings.Contains(string(text), want) {
			t.Errorf("RESULTS.md does not have the row\n%s", want)
		}
	}
	const gpu = "strait+exits/l4"
	for _, p := range policies[gpu] {
		line(p, cell(gpu, p, "high_violation_rate", 1), cell(gpu, p, "low_violation_rate", 1), cell(gpu, p, "expected_error_p95", 1), cell(gpu, p, "left_early", 0))
	}
	for _, what := range []string{"jellyfish+thresholds/", "jellyfish+fluid/"} {
		for _, p := range policies[what+"wifi"] {
			all := []string{p}
			for _, link := range []string{"wifi", "lte", "steps"} {
				all = append(all, cell(what+link, p, "miss_rate", 2), cell(what+link, p, "accuracy", 1), cell(what+link, p, "on_time_times_accuracy", 1))
			}
			line(all...)
		}
	}
	if rows != 5+3+8 || strings.Count(string(text), " ± ") < rows {
		t.Errorf("%d rows", rows)
	}
}
