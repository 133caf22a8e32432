// This file writes a bench's tables, statements, pictures and page.

package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/fluid"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/report"
)

// column defines how a table shows a metric: times in ms, or in s if long; shares in percent.
type column struct {
	metric, head string
	show         func(value float64, half *float64) string
}

func scaled(format, unit string, scale, value float64, half *float64) string {
	text := fmt.Sprintf(format, value*scale)
	if half != nil && *half > 0 {
		text += " ± " + fmt.Sprintf(format, *half*scale)
	}
	return strings.TrimSpace(text + " " + unit)
}

func showNs(value float64, half *float64) string {
	switch {
	case value < 0: // no request had a result
		return "-"
	case value >= 10e9:
		return scaled("%.1f", "s", 1e-9, value, half)
	case value < 10e6:
		return scaled("%.3f", "ms", 1e-6, value, half)
	}
	return scaled("%.1f", "ms", 1e-6, value, half)
}

func showShare(value float64, half *float64) string { return scaled("%.1f", "%", 100, value, half) }

func showNumber(value float64, half *float64) string { return scaled("%.2f", "", 1, value, half) }

var columns = []column{
	{"avg_ns", "average", showNs},
	{"p50_ns", "p50", showNs},
	{"p99_ns", "p99", showNs},
	{"violation_rate", "violations", showShare},
	{"dropped_rate", "dropped", showShare},
	{"goodput", "goodput/s", showNumber},
	{"rate", "rate/s", showNumber},
	{"busy", "busy", showShare},
	{"mac_util", "MAC util.", showShare},
	{"calls", "calls/request", showNumber},
}

// judged is an additional column if the table has space. It shows the share of seeds whose run is valid under MLPerf's
// rules for the server scenario, with the SLO as target.
var judged = column{"loadgen_valid", "LoadGen valid", showShare}

func cell(r *frame.Row, c *column) string {
	if r == nil {
		return ""
	}
	return c.show(r.Ours, r.CI95)
}

// rowIndex contains rows by bench, setting, policy and metric.
type rowIndex map[[4]string]*frame.Row

func indexRows(rows []frame.Row) rowIndex {
	at := rowIndex{}
	for i := range rows {
		r := &rows[i]
		at[[4]string{r.Bench, r.Setting, r.Policy, r.Metric}] = r
	}
	return at
}

// runTables returns a table for each setting.
func runTables(at rowIndex, b *fluid.Bench, columns []column) []report.PageTable {
	var out []report.PageTable
	for _, s := range b.Settings {
		t := report.PageTable{Caption: s.String(), Strong: map[int]bool{}, Table: report.Table{Head: []string{"policy"}}}
		for _, c := range columns {
			t.Table.Head = append(t.Table.Head, c.head)
		}
		accuracy := at[[4]string{b.Name, s.String(), b.Variants[0].String(), "accuracy"}] != nil
		if accuracy {
			t.Table.Head = append(t.Table.Head, "accuracy")
		}
		t.Table.Head = append(t.Table.Head, "published average", "violations")
		for _, v := range b.Variants {
			first := at[[4]string{b.Name, s.String(), v.String(), columns[0].metric}]
			if first == nil {
				continue
			}
			row := []string{v.String()}
			for _, c := range columns {
				row = append(row, cell(at[[4]string{b.Name, s.String(), v.String(), c.metric}], &c))
			}
			if accuracy {
				row = append(row, cell(at[[4]string{b.Name, s.String(), v.String(), "accuracy"}], &column{show: showShare}))
			}
			for _, c := range columns {
				if c.metric != "avg_ns" && c.metric != "violation_rate" {
					continue
				}
				p := "null"
				if r := at[[4]string{b.Name, s.String(), v.String(), c.metric}]; r.Published != nil {
					p = c.show(*r.Published, nil)
				}
				row = append(row, p)
			}
			if strings.HasPrefix(v.Policy, "fluid") {
				t.Strong[len(t.Table.Rows)] = true
			}
			t.Table.Add(row...)
		}
		if s.Bandwidth == 0 && !fluid.HeldOut(s, "fluid") {
			t.Caption += " (the bandwidth was fitted to fluid's average here)"
		}
		out = append(out, t)
	}
	return out
}

// lawTables returns tables of the rows that belong to no setting of the bench b, or of all rows if b is nil. Each table
// shows one metric, with settings as rows and policies as columns.
func lawTables(rows []frame.Row, b *fluid.Bench) []report.PageTable {
	settings := map[string]bool{}
	if b != nil {
		for _, s := range b.Settings {
			settings[s.String()] = true
		}
	}
	var metrics []string
	perMetric := map[string][]frame.Row{}
	for _, r := range rows {
		if b != nil && r.Bench != b.Name || settings[r.Setting] {
			continue
		}
		if perMetric[r.Metric] == nil {
			metrics = append(metrics, r.Metric)
		}
		perMetric[r.Metric] = append(perMetric[r.Metric], r)
	}
	var out []report.PageTable
	for _, m := range metrics {
		t := report.PageTable{Caption: m, Table: report.Table{Head: []string{"setting"}}}
		var policies, down []string
		shown := map[[2]string]string{}
		for _, r := range perMetric[m] {
			if !slices.Contains(policies, r.Policy) {
				policies = append(policies, r.Policy)
			}
			if !slices.Contains(down, r.Setting) {
				down = append(down, r.Setting)
			}
			text := fmt.Sprintf("%.4g", r.Ours)
			if r.Published != nil {
				text += fmt.Sprintf(" (published %.4g)", *r.Published)
			}
			shown[[2]string{r.Setting, r.Policy}] = text
		}
		t.Table.Head = append(t.Table.Head, policies...)
		for _, s := range down {
			row := []string{s}
			for _, p := range policies {
				row = append(row, shown[[2]string{s, p}])
			}
			t.Table.Add(row...)
		}
		out = append(out, t)
	}
	return out
}

func (c *benchSuiteCmd) print(w io.Writer, doc *suiteDoc, benches []fluid.Bench) error {
	at := indexRows(doc.Rows)
	fmt.Fprintf(w, "%d requests a run, %d seeds; %s; DRAM in GB/s: %s\n", doc.N, len(doc.Seeds), doc.Label, bandwidthText())
	for i := range benches {
		b := &benches[i]
		fmt.Fprintf(w, "\n%s: %s\n", b.Name, b.Title)
		for _, t := range slices.Concat(runTables(at, b, columns), lawTables(doc.Rows, b)) {
			fmt.Fprintf(w, "\n%s\n", t.Caption)
			if err := t.Table.Write(w); err != nil {
				return err
			}
		}
	}
	files := "summary.json and report.html"
	if report.Draws {
		files = "summary.json, report.html and pictures"
	}
	fmt.Fprintf(w, "\nwrote %s/%s\n", c.Out, files)
	return nil
}

func bandwidthText() string {
	return fmt.Sprintf("ZC706 %g, ZCU104 %g, fitted to fluid's two published averages (the configurations' %g and %g beside them in table2; throughput at %g and %g)",
		fluid.ServingBandwidth("zc706"), fluid.ServingBandwidth("zcu104"),
		fluid.NominalBandwidth("zc706"), fluid.NominalBandwidth("zcu104"),
		fluid.ThroughputBandwidth("zc706"), fluid.ThroughputBandwidth("zcu104"))
}

// page writes the pictures and the page that contains them.
func (c *benchSuiteCmd) page(doc *suiteDoc, suite *fluid.Suite, benches []fluid.Bench) error {
	sections, err := c.sections(suite, benches)
	if err != nil {
		return err
	}
	page := report.Page{
		Title: "sluice bench " + strings.Join(doc.Benches, " "),
		Lead: []string{
			fmt.Sprintf("%d requests a run, seeds %s; intervals are 95 %% over seeds. Virtual time over latency tables from the compiler and the law of cycles: %s.", doc.N, strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Seeds), " ", ","), "[]"), doc.Label),
			"DRAM bandwidth in GB/s: " + bandwidthText() + ".",
		},
		Sections: sections,
	}
	return cli.WriteFile(filepath.Join(c.Out, "report.html"), page.Write)
}

// sections returns the tables and pictures of each bench. It also writes the pictures to files.
func (c *benchSuiteCmd) sections(suite *fluid.Suite, benches []fluid.Bench) (out []report.Section, err error) {
	at := indexRows(suite.Rows)
	for i := range benches {
		b := &benches[i]
		sec := report.Section{ID: b.Name, Title: b.Title, Tables: slices.Concat(runTables(at, b, append(slices.Clone(columns), judged)), lawTables(suite.Rows, b))}
		for _, p := range suite.Pictures(b) {
			if !report.Draws {
				break // the page already has its tables
			}
			var svg bytes.Buffer
			if err := report.LinesSVG(&svg, p.Picture); err != nil {
				return nil, err
			}
			if err := cli.WriteFile(filepath.Join(c.Out, p.Name+".svg"), func(w io.Writer) error { _, err := w.Write(svg.Bytes()); return err }); err != nil {
				return nil, err
			}
			sec.Pictures = append(sec.Pictures, svg.String())
		}
		out = append(out, sec)
	}
	return out, nil
}
