package experiments_test

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// as reports whether the shown number is x, rounded to its last digit.
func as(shown, digits string, x float64) bool {
	v, err := strconv.ParseFloat(shown, 64)
	return err == nil && math.Abs(v-x) <= 0.5001*math.Pow(10, -float64(len(digits)))+1e-3*math.Abs(v)
}

// figures returns the texts with marks, each with its publication and, in order, the claims of its numbers:
//
//	... 1.23 (1.4) times ... <!-- figures PUBLICATION: CLAIM CLAIM!published ... -->
//
// A text begins after the last empty line, at a list item or table row, or after the previous mark.
func figures(text string) (out [][3]string) {
	from := 0
	for _, m := range figureMark.FindAllStringSubmatchIndex(text, -1) {
		block := text[from:m[0]]
		for _, begin := range []string{"\n\n", "\n- ", "\n| "} {
			if i := strings.LastIndex(block, begin); i >= 0 {
				block = block[i+2:]
			}
		}
		out = append(out, [3]string{block, text[m[2]:m[3]], text[m[4]:m[5]]})
		from = m[1]
	}
	return out
}

var (
	figureMark = regexp.MustCompile(`<!-- figures ([a-z]+): (.*?) -->`)
	// figure matches numbers with a decimal point, an interval or a per cent sign, or alone in brackets, and a verdict
	// after them. Numbers of files, versions, seeds and sizes are not figures.
	figure   = regexp.MustCompile(`(?:^|[ (+])(-?[0-9]+(?:\.([0-9]+))?)(?: ± ([0-9]+(?:\.([0-9]+))?))?(\)| %)?(?: \((holds|fails|undecided)\))?`)
	sequence = regexp.MustCompile(`([0-9])((?: to |, | and )[0-9.]+ %)`) // the per cent sign of the last number in a list
	span     = regexp.MustCompile("`[^`]*`")
	item     = regexp.MustCompile(`^(-?)(?:(lowest|highest)!)?([^!@]+)(?:@([^!]+))?(?:!(published|without|off|below))?$`)
)

// value is a stored value to which an item of a mark refers.
type value struct {
	id, unit, verdict string
	x                 float64
	half              *float64
}

// values returns the values of an item. CLAIM is the stored value of a claim; a * in it matches any part of a name.
// CLAIM!published is the published value, CLAIM@KEY the value with a change, and CLAIM@KEY!without the value of the same
// runs without the change. lowest!CLAIM and highest!CLAIM select one of several values; a minus before an item changes
// the sign. !below is the share by which the value is below the published one, !off the relative reduction by a change.
func (p *printed) values(t *testing.T, text string, tried []frame.Tried) (out []value) {
	m := item.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	is := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(m[3]), `\*`, ".*") + "$")
	for _, id := range p.order {
		s := p.of[id]
		v := value{id, s.Unit, s.Verdict, math.NaN(), nil}
		switch {
		case !is.MatchString(id):
			continue
		case m[4] != "":
			for i := range tried {
				if x := &tried[i]; x.ID == id && x.Key == m[4] {
					ours, half, _ := strings.Cut(map[bool]string{true: x.Without, false: x.Ours}[m[5] == "without"], "±")
					v.x, _ = strconv.ParseFloat(ours, 64)
					if h, err := strconv.ParseFloat(half, 64); err == nil {
						v.half = &h
					}
					if v.verdict = ""; m[5] == "off" {
						without, _ := strconv.ParseFloat(x.Without, 64)
						v.x, v.unit = 1-v.x/without, "share"
					}
				}
			}
		case m[5] == "published" && s.Published != nil:
			v.x = *s.Published
		case m[5] == "below" && s.Published != nil && s.Ours != nil:
			v.x, v.unit = 1 - *s.Ours / *s.Published, "share"
		case m[5] == "" && s.Ours != nil:
			v.x, v.half = *s.Ours, s.CI95
		}
		if math.IsNaN(v.x) {
			if strings.Contains(m[3], "*") {
				continue
			}
			return nil
		}
		if m[1] == "-" {
			v.x = -v.x
		}
		out = append(out, v)
	}
	by := func(a, b value) int { return cmp.Compare(a.x, b.x) }
	switch {
	case len(out) == 0:
	case m[2] == "lowest":
		out = []value{slices.MinFunc(out, by)}
	case m[2] == "highest":
		out = []value{slices.MaxFunc(out, by)}
	}
	return out
}

// The figures of a marked text are, in the order of the mark, the stored values of the claims, with interval and
// verdict if they are shown, to the last digit that both have. _ marks a figure that belongs to no claim. In per cent,
// a share is shown times a hundred, and a multiple as its excess over one.
func TestFigures(t *testing.T) {
	all := map[string]printed{}
	for _, p := range publications(t) {
		all[filepath.Base(filepath.Dir(p.claims))] = p
	}
	marks, held := 0, 0
	check := func(text string) (wrong []string) {
		for _, m := range figures(text) {
			marks++
			p, ok := all[m[1]]
			if !ok {
				wrong = append(wrong, "no publication "+m[1])
				continue
			}
			tried, err := frame.TriedOf([]byte(read(t, filepath.Join(filepath.Dir(p.claims), "tried.txt"))))
			if err != nil {
				t.Fatal(err)
			}
			var want []value
			for _, text := range strings.Fields(m[2]) {
				v := []value{{id: text}}
				if text != "_" {
					v = p.values(t, text, tried)
				}
				if len(v) == 0 {
					wrong = append(wrong, "nothing is stored of "+text)
				}
				want = append(want, v...)
			}
			body := span.ReplaceAllString(m[0], "")
			for range 3 {
				body = sequence.ReplaceAllString(body, "$1 %$2")
			}
			n := 0
			for _, f := range figure.FindAllStringSubmatch(body, -1) {
				percent, alone := f[5] == " %", f[5] == ")" && strings.HasPrefix(f[0], "(")
				if f[2] == "" && f[3] == "" && !percent && !alone {
					continue
				}
				if n++; n > len(want) {
					wrong = append(wrong, f[1]+" is of no claim")
					continue
				}
				v := want[n-1]
				if v.id == "_" {
					continue
				}
				held++
				scale, off := 1.0, 0.0
				switch {
				case percent && v.unit == "share":
					scale = 100
				case percent && v.unit == "x":
					scale, off = 100, -1
				}
				stored := func(shown, digits string, x float64) bool {
					y, err := strconv.ParseFloat(shown, 64)
					four := math.Pow(10, math.Floor(math.Log10(max(math.Abs(x), 1e-9)))-3) * scale
					return err == nil && math.Abs(y-scale*x) <= 0.5001*(math.Pow(10, -float64(len(digits)))+four)
				}
				switch {
				case !stored(f[1], f[2], v.x+off):
					wrong = append(wrong, fmt.Sprintf("%s for %s, %.4g", f[1], v.id, scale*(v.x+off)))
				case f[3] != "" && (v.half == nil || !stored(f[3], f[4], *v.half)):
					wrong = append(wrong, fmt.Sprintf("± %s for %s", f[3], v.id))
				case f[6] != "" && f[6] != v.verdict:
					wrong = append(wrong, fmt.Sprintf("(%s) for %s", f[6], v.id))
				}
			}
			if n < len(want) {
				wrong = append(wrong, fmt.Sprintf("%d figures of %d, %s is not shown", n, len(want), want[n].id))
			}
		}
		return wrong
	}
	for _, pattern := range []string{"../../README.md", "*.md", "*/*.md", "../gpu/*.md", "../jellyfish/*.md"} {
		paths, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			for _, w := range check(read(t, path)) {
				t.Errorf("%s: %s", path, w)
			}
		}
	}
	t.Logf("%d figures behind %d marks", held, marks)
	if marks == 0 || held < marks {
		t.Errorf("%d figures behind %d marks", held, marks)
	}
	s := all["fluid"].of["fig7/rate"]
	right := strconv.FormatFloat(*s.Ours, 'f', 1, 64)
	for body, want := range map[string]int{
		right + " a second (20)": 0, "x 99.9 a second (20)": 1, "99.9\n\n" + right + " (20)": 0, "20.0 a second (" + right + ")": 2, right: 1,
		right + " (20), 98 %": 1, right + " ± 9.9 (20)": 1, right + " (fails) (20)": 1, right + " (holds) (20)": 0,
	} {
		if wrong := check(body + " <!-- figures fluid: fig7/rate fig7/rate!published -->"); len(wrong) != want {
			t.Errorf("%q: %v", body, wrong)
		}
	}
}
