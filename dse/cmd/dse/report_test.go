package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/report/reporttest"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The reports of every board, and of a board that is only a file, open in a browser with all their charts, and give the
// band of designs of which nothing was counted.
func TestReportOfEveryBoard(t *testing.T) {
	text, err := os.ReadFile("../../../boards/pynq-z2/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "bench-9.yaml")
	if err := os.WriteFile(own, []byte(strings.Replace(string(text), "name: pynq-z2", "name: bench-9", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	hidden := regexp.MustCompile(`<p id="failed" hidden=""`)
	charts := map[string]*regexp.Regexp{ // an element of each chart, up to its own end
		"design space": regexp.MustCompile(`(?s)<div id="pareto"[^>]*><svg.*?<circle`),
		"roofline":     regexp.MustCompile(`(?s)<div id="roofline"[^>]*><svg.*?<circle`),
		"layers":       regexp.MustCompile(`(?s)<div id="bars"[^>]*><svg.*?<rect`),
		"FBCB":         regexp.MustCompile(`(?s)<div id="heat"[^>]*><svg.*?<rect class="cell"`),
		"ablation":     regexp.MustCompile(`(?s)<div id="ab-plot"[^>]*><svg.*?<path class="curve"`),
		"layer table":  regexp.MustCompile(`(?s)<div id="layer-table"[^>]*><table>.*?<td`),
	}
	band, err := counted.Of(configs.Design{}, "tiny", false)
	if err != nil || band.Counted {
		t.Fatal(band, err)
	}
	for _, board := range append(boards.Names(), own) {
		t.Run(strings.TrimSuffix(filepath.Base(board), ".yaml"), func(t *testing.T) {
			dir := t.TempDir()
			code, stdout, stderr := call("report", "--json", "--network", "tiny", "--board", board, "--out", dir)
			if code != cli.OK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			files, _ := checkDoc(t, stdout, "layers", "infeasible", "files")["files"].([]any)
			for _, f := range files {
				if info, err := os.Stat(f.(string)); err != nil || info.Size() < 1000 {
					t.Errorf("%v: %v", f, err)
				}
			}
			if len(files) != 11 { // five pictures, light and dark, and the page
				t.Errorf("files %v", files)
			}
			dom := reporttest.Open(t, "file://"+filepath.Join(dir, "report.html"))
			if !hidden.Match(dom) {
				t.Errorf("the script failed: %s", regexp.MustCompile(`<p id="failed".*?</p>`).Find(dom))
			}
			if !strings.Contains(string(dom), band.String()) {
				t.Errorf("the page has no band: %s", regexp.MustCompile(`<p class="note">.*?</p>`).Find(dom))
			}
			for name, mark := range charts {
				if !mark.Match(dom) {
					t.Errorf("there is no chart: %s", name)
				}
			}
		})
	}
}

// A board without published designs has a margin by default; one with published designs is ranked with all its
// resources.
func TestDefaultMargin(t *testing.T) {
	for _, c := range []struct {
		board, margin, says string
	}{
		{"kv260", "", "at most 998 DSPs"}, // 80 % of 1,248
		{"kv260", "0.5", "at most 624 DSPs"},
		{"kv260", "0", ""},
		{"zc706", "", ""},
		{"zc706", "0.5", "at most 450 DSPs"},
	} {
		b, err := boards.Load(c.board)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"sweep", "--network", "tiny", "--board", c.board, "--tr", "256..256", "--tp", "4..4", "--tc", "16..32"}
		if c.margin != "" {
			args = append(args, "--margin", c.margin)
		}
		code, stdout, stderr := call(args...)
		if code != cli.OK {
			t.Fatalf("%s, margin %q: exit code %d: %s", c.board, c.margin, code, stderr)
		}
		if c.says == "" && strings.Contains(stdout, "of the "+b.Device+" at most") || !strings.Contains(stdout, c.says) {
			t.Errorf("%s, margin %q: want %q, got %.900s", c.board, c.margin, c.says, stdout)
		}
	}
}
