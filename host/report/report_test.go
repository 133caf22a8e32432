package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/report"
)

func result() *engine.Result {
	ids := []device.RequestID{1, 2}
	return &engine.Result{
		Policy: "fluid", Busy: []int64{30}, End: 40,
		Records: []engine.Record{
			{ID: 1, Arrived: 0, Started: 5, Ended: 40, Deadline: 50, Exit: 1, Class: 3, Ending: engine.OnTime},
			{ID: 2, Arrived: 2, Started: -1, Ended: 9, Deadline: 50, Exit: -1, Class: -1, Ending: engine.Cancelled},
		},
		Spans: []engine.Span{{Launch: 1, Segment: 0, Start: 5, End: 20, Requests: ids}, {Segment: -1, Start: 20, End: 25}},
		Steps: []engine.Step{{At: 20, Kind: "preempt", Launch: 1}, {At: 20, Kind: "launch"}, {At: 30, Kind: "merge", Launch: 2, Into: 1}},
	}
}

func TestTrace(t *testing.T) {
	var b bytes.Buffer
	if err := report.Trace(&b, result(), result()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Name, Ph, Cat, ID string
			Pid, Tid          int
			Ts, Dur           float64
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	open := map[string]int{}
	for _, e := range doc.TraceEvents {
		count[e.Ph]++
		if e.Ph == "X" && e.Name == "segment 0, B = 2" && (e.Ts != 0.005 || e.Dur != 0.015) {
			t.Errorf("segment at %g for %g us", e.Ts, e.Dur)
		}
		if e.Ph == "b" || e.Ph == "e" { // async spans pair by category, id and name
			open[e.Cat+e.ID+e.Name] += map[string]int{"b": 1, "e": -1}[e.Ph]
		}
	}
	// Two runs: 2 names, 2 segments, 2 instants, 2 requests and 1 wait each.
	if count["M"] != 4 || count["X"] != 4 || count["i"] != 4 || count["b"] != 6 || count["e"] != 6 {
		t.Errorf("events %v", count)
	}
	for k, n := range open {
		if n != 0 {
			t.Errorf("span %s does not end", k)
		}
	}
}

func TestLatencySVG(t *testing.T) {
	var b bytes.Buffer
	if err := report.LatencySVG(&b, 50, result(), &engine.Result{Policy: "nothing"}); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(&b)
	var text strings.Builder
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
		}
	}
	for _, w := range []string{"fluid", "nothing", "SLO", "latency in ms"} {
		if !strings.Contains(text.String(), w) {
			t.Errorf("the picture does not say %q", w)
		}
	}
}

// Curves, and the names beside them, are inside the picture.
func TestCurvesStayInTheFrame(t *testing.T) {
	r := &engine.Result{Policy: "all at once"}
	for i := range 50 {
		r.Records = append(r.Records, engine.Record{Arrived: 0, Ended: int64(i+1) * 1e6, Exit: 0, Ending: engine.OnTime})
	}
	var b bytes.Buffer
	if err := report.LatencySVG(&b, 20e6, r, r, r, r, r, r, r, r); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), ">all at once<"); n != 6 {
		t.Errorf("%d names, a picture has at most 6", n)
	}
	size := regexp.MustCompile(`viewBox="0 0 ([0-9.]+) ([0-9.]+)"`).FindStringSubmatch(b.String())
	if size == nil {
		t.Fatal("the picture has no size")
	}
	high, err := strconv.ParseFloat(size[2], 64)
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, m := range regexp.MustCompile(`<path d="(M[^"]*)"`).FindAllStringSubmatch(b.String(), -1) {
		points := regexp.MustCompile(`[ML](-?[0-9.]+),(-?[0-9.]+)`).FindAllStringSubmatch(m[1], -1)
		if len(points) < 50 {
			continue
		}
		longest = max(longest, len(points))
		for _, p := range points {
			x, err1 := strconv.ParseFloat(p[1], 64)
			y, err2 := strconv.ParseFloat(p[2], 64)
			// the axis is below, the names to the right
			if err1 != nil || err2 != nil || x < 20 || x > 400 || y < 15 || y > high-4 {
				t.Fatalf("a curve goes to %s, %s", p[1], p[2])
			}
		}
	}
	if longest < 100 { // two points per request
		t.Errorf("the longest curve has %d points", longest)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	tab := report.Table{Head: []string{"", "µ"}}
	tab.Add("long name", "1")
	tab.Add("x", "1234")
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "              µ\nlong name     1\nx          1234\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	for ns, want := range map[int64]string{-1: "-", 12: "12 ns", 123456: "123.5 us", 5e7: "50.0 ms", 2e10: "20.0 s"} {
		if got := report.Ns(ns); got != want {
			t.Errorf("Ns(%d) = %q, want %q", ns, got, want)
		}
	}
	if report.Percent(0.1234) != "12.3 %" || report.Bytes(20_000_000) != "20.0 MB" {
		t.Error(report.Percent(0.1234), report.Bytes(20_000_000))
	}
}
