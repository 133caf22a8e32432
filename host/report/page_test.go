package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/report"
)

func lines(log bool) report.Picture {
	return report.Picture{
		Title: "a < b", X: "rate", Y: "ms", Log: log,
		Series: []report.Series{
			{Name: "serial", X: []float64{1, 2, 3}, Y: []float64{5, math.Inf(1), 7}, CI: []float64{1, 0, 100}},
			{Name: "fluid+", X: []float64{1, 2}, Y: []float64{0, 4}},
			{Name: "nowhere", X: []float64{1}, Y: []float64{math.NaN()}},
		},
	}
}

func draw(t *testing.T, p report.Picture) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.LinesSVG(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Too many names are rejected; faint lines have none.
func TestSixNames(t *testing.T) {
	var p report.Picture
	for i := range 9 {
		p.Series = append(p.Series, report.Series{Name: "policy", X: []float64{1, 2}, Y: []float64{1, float64(i)}, Faint: i >= 6})
	}
	if n := strings.Count(draw(t, p), ">policy<"); n != 6 {
		t.Errorf("%d names, want 6", n)
	}
	p.Series[6].Faint = false
	if err := report.LinesSVG(io.Discard, p); err == nil || !strings.Contains(err.Error(), "more than 6 curves") {
		t.Errorf("seven names: %v", err)
	}
}

func TestLinesSVG(t *testing.T) {
	for _, log := range []bool{false, true} {
		svg := draw(t, lines(log))
		d := xml.NewDecoder(strings.NewReader(svg))
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
		for _, w := range []string{"serial", "fluid+", "a < b", "rate"} {
			if !strings.Contains(text.String(), w) {
				t.Errorf("the picture (log %v) does not say %q", log, w)
			}
		}
		if strings.Contains(text.String(), "nowhere") {
			t.Error("a line without a point is in the legend")
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Error("the picture has places that are no numbers")
		}
		if svg != draw(t, lines(log)) {
			t.Error("the same picture differs")
		}
	}
	draw(t, report.Picture{Title: "empty", Log: true})
	if err := report.LinesSVG(io.Discard, report.Picture{Series: []report.Series{{X: []float64{1}}}}); err == nil {
		t.Error("a place without a value is drawn")
	}
}

func TestPage(t *testing.T) {
	tab := report.Table{Head: []string{"policy", "ms"}}
	tab.Add("<fluid>", "1 & 2")
	p := report.Page{
		Title: "t", Lead: []string{"lead <x>"},
		Sections: []report.Section{{
			ID: "s", Title: "section", Text: []string{"text"}, Pictures: []string{draw(t, lines(true))},
			Tables: []report.PageTable{{Caption: "cap", Table: tab, Strong: map[int]bool{0: true}}},
		}},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	for _, w := range []string{"lead &lt;x&gt;", "&lt;fluid&gt;", "1 &amp; 2", `<tr class="strong">`, "<svg", "</svg>", `href="#s"`} {
		if !strings.Contains(html, w) {
			t.Errorf("the page lacks %q", w)
		}
	}
	// Self-contained: the page loads nothing, and an embedded document has no prologue.
	for _, w := range []string{"<script", "src=", "<link", "@import", "url(", "<?xml", "<!DOCTYPE svg"} {
		if strings.Contains(html, w) {
			t.Errorf("the page has %q", w)
		}
	}
}
