package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

var update = flag.Bool("update", false, "write hw/frames.json from build/frames, and the table of hw/README.md")

// The table of hw/README is generated from the rows of hw/frames.json, and the machine still yields one of them.
func TestFrames(t *testing.T) {
	const stored, readme, head = "../../../hw/frames.json", "../../../hw/README.md", "| design | "
	var rows []npuRow
	if *update {
		rows = framesCounted(t)
		text, err := json.MarshalIndent(rows, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stored, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(readme); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, head) }) + 2
	to := from
	for strings.HasPrefix(lines[to], "| `") {
		to++
	}
	want := framesTable(t, rows)
	if *update {
		lines = slices.Replace(lines, from, to, want...)
		if err := os.WriteFile(readme, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !slices.Equal(lines[from:to], want) {
		t.Errorf("%s: the table has\n%s\nexpected\n%s", readme, strings.Join(lines[from:to], "\n"), strings.Join(want, "\n"))
	}
	for _, r := range rows { // the rows that are not counted again here
		frames, off := float64(r.Batch)*r.ClockMHz*1e6/float64(r.Machine), float64(r.Machine)/float64(r.Law)-1
		if math.Abs(r.Frames/frames-1) > 1e-9 || off < -0.01 || off > 0.07 {
			t.Errorf("%s on %s, batch %d: %g frames/s, expected %g of its cycles; these are %+.1f %% beside the law's, expected -1 to 7 %%", r.Network, r.Config, r.Batch, r.Frames, frames, 100*off)
		}
	}
	least := slices.MinFunc(rows, func(a, b npuRow) int { return int(a.Machine - b.Machine) })
	code, stdout, stderr := call("bench-npu", "--json", "--machine", "--network", least.Network, "--config", framesPath(least.Config), "--batch", fmt.Sprint(least.Batch), "--bandwidth", fmt.Sprint(least.Bandwidth))
	var doc benchNPUDoc
	if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if got := doc.Rows[0].Machine; got != least.Machine {
		t.Errorf("%s on %s: %d cycles by the machine, stored %d: hw/frames.sh counts all anew", least.Network, least.Config, got, least.Machine)
	}
}

// framesCounted returns the rows that hw/frames.sh wrote.
func framesCounted(t *testing.T) (rows []npuRow) {
	files, err := filepath.Glob("../../../build/frames/*/summary.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no build/frames/*/summary.json: run hw/frames.sh (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc benchNPUDoc
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rows = append(rows, doc.Rows...)
	}
	return rows
}

func framesPath(config string) string {
	path := "../../../hw/configs/int8/" + config + ".yaml"
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return config
}

// framesTable returns a line for each design and memory; ResNet-50's frames/s also per DSP and clock.
func framesTable(t *testing.T, rows []npuRow) (lines []string) {
	slices.SortStableFunc(rows, func(a, b npuRow) int { return a.Batch - b.Batch })
	type place struct {
		config string
		gbps   float64
	}
	var places []place
	for _, r := range rows {
		if p := (place{r.Config, r.GBps}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return strings.Compare(fmt.Sprintf("%s %5.1f", a.config, a.gbps), fmt.Sprintf("%s %5.1f", b.config, b.gbps))
	})
	for _, p := range places {
		d, err := configs.Load(framesPath(p.config))
		if err != nil {
			t.Fatal(err)
		}
		board, err := boards.Load(d.Board)
		if err != nil {
			t.Fatal(err)
		}
		dsps := resource.Of(board, d).DSP
		var cells [4][]string
		for _, r := range rows {
			if (place{r.Config, r.GBps}) != p {
				continue
			}
			n := slices.Index([]string{"resnet50", "inceptionv3", "mobilenetv2"}, r.Network)
			cells[n] = append(cells[n], fmt.Sprintf("%.1f", r.Frames))
			if n == 0 {
				cells[3] = append(cells[3], fmt.Sprintf("%.3f", 1e3*r.Frames/float64(dsps)/r.ClockMHz))
			}
		}
		line := fmt.Sprintf("| `%s`, <%d, %d, %d> | %s | %g | %.1f | %d |", d.Name, d.TR, d.TP, d.TC, cmp.Or(d.Type, configs.TypeInt16), d.ClockMHz, p.gbps, dsps)
		for _, c := range cells {
			line += strings.TrimRight(" "+strings.Join(c, ", "), " ") + " |"
		}
		lines = append(lines, line+" |")
	}
	return lines
}
