package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/report/reporttest"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// sample is a small search, with a name that would end a script if it were not escaped.
func sample(t *testing.T) *Data {
	t.Helper()
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := search.NewWorkload(g)
	if err != nil {
		t.Fatal(err)
	}
	b, err := boards.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	ref, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	grid, err := search.NewGrid(b, ref)
	if err != nil {
		t.Fatal(err)
	}
	grid.TP, grid.TC = search.Range{Lo: 3, Hi: 6}, search.Range{Lo: 4, Hi: 32}
	r, err := search.Sweep(context.Background(), w, grid, search.Options{Objective: search.GOPS})
	if err != nil {
		t.Fatal(err)
	}
	d := &Data{
		Title: `tiny </script><b> & "quotes"`, Label: "estimated", Network: "tiny", Board: "zc706", Objective: "gops", Grid: r.Grid,
		Designs: r.Designs, Space: r.Space, Evaluated: r.Evaluated, Searched: r.Searched, Design: r.Best.Design,
		Resources: resource.Of(b, r.Best.Design), Peak: 100, Bandwidth: 2.3,
		Ranks: []RankRow{{"published </script>", "infeasible: <it> does not fit"}},
	}
	d.Used = d.Resources.Utilisation(b)
	d.Points, d.Best = Dots(r)
	if d.Layers, err = Layers(w, r.Best.Design, grid.Mapping); err != nil {
		t.Fatal(err)
	}
	if d.Ablation, err = search.Ablate(w, r.Best.Design, grid.Mapping); err != nil {
		t.Fatal(err)
	}
	return d
}

func page(t *testing.T, d *Data) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page works without other files, and no string of the data can end its script.
func TestSelfContained(t *testing.T) {
	text := page(t, sample(t))
	if m := regexp.MustCompile(`(?i)(src|href)="([^#][^"]*)"|@import|url\(|fetch\(|XMLHttpRequest|import\(`).FindString(text); m != "" {
		t.Errorf("the page refers to something else: %s", m)
	}
	for _, u := range regexp.MustCompile(`https?://[^"'\s]+`).FindAllString(text, -1) {
		if u != "http://www.w3.org/2000/svg" { // the name space of SVG, not a link
			t.Errorf("the page names %s", u)
		}
	}
	if n := strings.Count(text, "</script>"); n != 3 {
		t.Errorf("%d script ends, the page has three scripts", n)
	}
}

func TestSVGs(t *testing.T) {
	files, err := SVGs(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	// required texts of each picture: its axes, and the entries of its legend or the ends of its scale
	for name, says := range map[string][]string{
		"pareto":   {"DSPs", "GOP/s, weighted over batch sizes 1 to 8", "Pareto front", "best"},
		"roofline": {"operations a byte of DRAM traffic", "GOP/s", "B = 1", "B = 8", "peak 100 GOP/s", "DRAM 2.3 GB/s"}, "layers": {"cycles", "/conv1/Conv"},
		"fbcb": {"batch size", "% of multipliers at work", ">100<"}, "ablation": {"batch size", "GOP/s", "serial", "ours"},
	} {
		for suffix, paper := range map[string]string{"": "#FFFFFF", "-dark": "#14181D"} {
			draw, ok := files[name+suffix+".svg"]
			if !ok {
				t.Errorf("there is no %s%s.svg", name, suffix)
				continue
			}
			var b bytes.Buffer
			if err := draw(&b); err != nil {
				t.Fatal(err)
			}
			for _, s := range append(says, paper) {
				if !strings.Contains(b.String(), s) {
					t.Errorf("%s%s.svg does not say %q", name, suffix, s)
				}
			}
		}
	}
	for name, draw := range files {
		var b bytes.Buffer
		if err := draw(&b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		elements := 0
		for dec := xml.NewDecoder(&b); ; {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, ok := tok.(xml.StartElement); ok {
				elements++
			}
		}
		if elements < 30 {
			t.Errorf("%s: %d elements only", name, elements)
		}
	}
	if _, err := SVGs(&Data{}); !errors.Is(err, ErrData) {
		t.Errorf("SVGs of nothing: %v", err)
	}
	if err := HTML(io.Discard, &Data{}); !errors.Is(err, ErrData) {
		t.Errorf("a page of nothing: %v", err)
	}
}

// driver uses every control of the page and records what is then visible.
const driver = `
window.addEventListener('load', () => {
  const seen = {errors: window.problems}, $ = (id) => document.getElementById(id);
  const set = (id, v, event) => { $(id).value = v; if ($(id).value !== v) window.problems.push(id + ' has no ' + v); $(id).dispatchEvent(new Event(event || 'change')); };
  const count = (id, what) => $(id).querySelectorAll(what).length;
  const names = (id) => [...$(id).querySelectorAll('text.name')].map((e) => e.textContent);
  seen.title = document.title;
  seen.dots = count('pareto', 'circle');
  $('only').checked = true; $('only').dispatchEvent(new Event('change'));
  seen.front = count('pareto', 'circle');
  set('px', 'b1_ms'); set('py', 'batch');
  seen.axis = names('pareto');
  const before = $('picked').querySelector('h3').textContent;
  const other = [...$('pareto').querySelectorAll('circle')].find((c) => c.getAttribute('r') !== '7');
  other.dispatchEvent(new MouseEvent('mousemove', {clientX: 5, clientY: 5}));
  seen.tip = $('tip').textContent;
  other.dispatchEvent(new MouseEvent('click'));
  seen.picked = [before, $('picked').querySelector('h3').textContent];
  seen.roofline1 = count('roofline', 'circle'); seen.bars1 = $('bars').textContent;
  set('batch', '8', 'input');
  seen.batch = $('batch-out').textContent; seen.bars8 = $('bars').textContent; seen.roofline8 = names('roofline');
  set('sort', 'cycles');
  seen.sorted = [...$('layer-table').querySelectorAll('tbody tr td:nth-child(8)')].map((e) => Number(e.textContent.replaceAll(',', '')));
  seen.bounds = [...$('bound').options].map((o) => o.value).filter((v) => v);
  const bound = $('layer-table').querySelector('tbody tr td:nth-child(10)').textContent;
  set('bound', bound);
  seen.only = [...new Set([...$('layer-table').querySelectorAll('tbody tr td:nth-child(10)')].map((e) => e.textContent))];
  seen.want = bound;
  seen.cells = count('heat', 'rect');
  const heat = $('heat').innerHTML; set('heat-by', 'util');
  seen.recoloured = heat !== $('heat').innerHTML;
  const ab = $('ab-table').textContent; set('ab-seg', '0');
  seen.segment = ab !== $('ab-table').textContent; seen.lines = count('ab-plot', 'path') - 1;
  seen.ranks = $('ranks').textContent;
  const out = document.createElement('pre'); out.id = 'seen'; out.textContent = JSON.stringify(seen); document.body.appendChild(out);
});`

type seen struct {
	Errors                 []string
	Title, Tip, Batch      string
	Dots, Front, Cells     int
	Axis, Picked, Roofline []string
	Bars1, Bars8           string
	Sorted                 []int64
	Bounds, Only           []string
	Want, Ranks            string
	Recoloured, Segment    bool
	Lines, Roofline1       int
	Roofline8              []string
}

// A board without published designs, and a search without ablation, still provide lists to the page's script.
func TestEmptyLists(t *testing.T) {
	d := sample(t)
	d.Ranks, d.Ablation = nil, nil
	text := page(t, d)
	for _, want := range []string{`"ranks":[]`, `"ablation":[]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// The page works in a browser: every control has its effect, and no script fails.
func TestInChromium(t *testing.T) {
	d := sample(t)
	text := page(t, d)
	text = strings.Replace(text, "<head>", `<head><script>window.problems = []; window.onerror = (m, _, l, c) => window.problems.push(m + ' at ' + l + ':' + c);
document.addEventListener('securitypolicyviolation', (e) => window.problems.push('needs ' + e.blockedURI));</script>`, 1)
	text = strings.Replace(text, "</body>", "<script>"+driver+"</script></body>", 1)
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	dom := reporttest.Open(t, "file://"+file)
	m := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindSubmatch(dom)
	if m == nil {
		t.Fatalf("the controls were not used; the page begins %.2000s", dom)
	}
	var s seen
	if err := json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &s); err != nil {
		t.Fatal(err)
	}
	front := 0
	for _, p := range d.Points {
		if p.Front {
			front++
		}
	}
	check := func(ok bool, format string, args ...any) {
		t.Helper()
		if !ok {
			t.Errorf(format, args...)
		}
	}
	check(len(s.Errors) == 0, "the script says %v", s.Errors)
	check(s.Title == d.Title, "the title is %q", s.Title)
	check(s.Dots == len(d.Points), "%d dots for %d designs", s.Dots, len(d.Points))
	check(s.Front == front && front < len(d.Points), "%d dots for a front of %d", s.Front, front)
	check(strings.Contains(strings.Join(s.Axis, "|"), "latency at B = 1"), "the axes are named %v", s.Axis)
	check(strings.Contains(s.Tip, "GOP/s"), "the tool tip says %q", s.Tip)
	check(len(s.Picked) == 2 && s.Picked[0] != s.Picked[1] && strings.HasPrefix(s.Picked[1], "<"), "a click picked %v", s.Picked)
	check(s.Batch == "8" && s.Bars1 != s.Bars8 && strings.Contains(strings.Join(s.Roofline8, "|"), "B = 8"), "batch 8: %q, %v", s.Batch, s.Roofline8)
	check(s.Roofline1 > 0, "no dot in the roofline")
	for i := 1; i < len(s.Sorted); i++ {
		check(s.Sorted[i] <= s.Sorted[i-1], "by cycles: %v", s.Sorted)
	}
	check(len(s.Sorted) == len(d.Layers), "%d rows for %d layers", len(s.Sorted), len(d.Layers))
	check(len(s.Bounds) > 0 && len(s.Only) == 1 && s.Only[0] == s.Want, "only %s: %v of %v", s.Want, s.Only, s.Bounds)
	check(s.Cells == 8*len(d.Layers) && s.Recoloured, "%d cells for %d layers, recoloured %v", s.Cells, len(d.Layers), s.Recoloured)
	check(s.Segment && s.Lines >= len(d.Ablation), "subnet %v, %d lines for %d rows", s.Segment, s.Lines, len(d.Ablation))
	check(strings.Contains(s.Ranks, "<it> does not fit"), "the ranks say %q", s.Ranks)
}

// Every text of a picture is inside it, as drawn by a browser.
func TestTextsAreWithin(t *testing.T) {
	files, err := SVGs(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("<body>")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "<div title=%q>", name)
		if err := files[name](&b); err != nil {
			t.Fatal(err)
		}
		b.WriteString("</div>")
	}
	b.WriteString(`<script>
const cut = [];
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text')) {
    const r = text.getBoundingClientRect();
    if (r.left < box.left || r.right > box.right || r.top < box.top || r.bottom > box.bottom) cut.push(svg.parentNode.title + ': ' + text.textContent);
  }
}
document.body.innerHTML = '<pre id="cut">' + document.querySelectorAll('text').length + ' texts, cut: ' + cut.join(', ') + '.</pre>';
</script>`)
	file := filepath.Join(t.TempDir(), "pictures.html")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)<pre id="cut">(.*?)</pre>`).FindSubmatch(reporttest.Open(t, "file://"+file))
	if m == nil || !regexp.MustCompile(`^[1-9]\d\d+ texts, cut: \.$`).Match(m[1]) {
		t.Errorf("%s", m)
	}
}

// The bounds shown in the bars are those of cost, so every colour has a name.
func TestBoundsAreNamed(t *testing.T) {
	d := sample(t)
	known := fmt.Sprint(cost.BoundCompute, cost.BoundDepth, cost.BoundLoad, cost.BoundDrain, cost.BoundWeights, cost.BoundActivations, cost.BoundWrite, cost.BoundPool)
	for _, b := range d.bounds() {
		if !strings.Contains(known, b) {
			t.Errorf("bound %q", b)
		}
	}
	if n := len(d.bounds()); n > len(light.lines) {
		t.Errorf("%d bounds for %d colours", n, len(light.lines))
	}
}
