package experiments_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// as reports whether what is shown is x to its last digit.
func as(shown, digits string, x float64) bool {
	v, err := strconv.ParseFloat(shown, 64)
	return err == nil && math.Abs(v-x) <= 0.5001*math.Pow(10, -float64(len(digits)))+1e-3*math.Abs(v)
}

// figures are the texts that a mark holds, with the publication, its claims and the numbers that are left out:
//
//	... 1.23 times ... <!-- figures PUBLICATION: CLAIM CLAIM ... ; not NUMBER NUMBER ... -->
//
// A text begins behind the last empty line, at the list's item or the row of a table, or behind the mark before. Of a claim's
// name a * is any part.
func figures(text string) (out [][4]string) {
	from := 0
	for _, m := range figureMark.FindAllStringSubmatchIndex(text, -1) {
		block := text[from:m[0]]
		for _, begin := range []string{"\n\n", "\n- ", "\n| "} {
			if i := strings.LastIndex(block, begin); i >= 0 {
				block = block[i+2:]
			}
		}
		out = append(out, [4]string{block, text[m[2]:m[3]], text[m[4]:m[5]], ""})
		if m[6] >= 0 {
			out[len(out)-1][3] = text[m[6]:m[7]]
		}
		from = m[1]
	}
	return out
}

var (
	figureMark = regexp.MustCompile(`<!-- figures ([a-z]+): ([^;]*?)(?:; not ([^;]*?))? -->`)
	// those with a decimal point, or in per cent; a file's number, a version, a seed, a size are none
	figure = regexp.MustCompile(`(?:^|[ (±])(-?[0-9]+(?:\.([0-9]+))?)( %| ± [0-9.]+ %| ± [0-9.]+ points)?`)
	span   = regexp.MustCompile("`[^`]*`")
)

// Every marked figure of the READMEs is stored: ours of the named claims, its interval or what is published, to its last digit, as it is,
// in per cent, as what it is more than one, in ms of ns; or it is in their texts and causes, or was tried.
func TestFigures(t *testing.T) {
	all := map[string]printed{}
	for _, p := range publications(t) {
		all[filepath.Base(filepath.Dir(p.claims))] = p
	}
	marks, held := 0, 0
	check := func(path, text string) (wrong []string) {
		for _, m := range figures(text) {
			marks++
			p, ok := all[m[1]]
			var ids []string
			var known []float64
			for _, pattern := range strings.Fields(m[2]) {
				is := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
				n := len(ids)
				for _, id := range p.order {
					if s := p.of[id]; is.MatchString(id) {
						ids = append(ids, id)
						for _, x := range []*float64{s.Ours, s.CI95, s.Published, s.PublishedTo} {
							if x != nil {
								known = append(known, *x, 100**x, 100*(*x-1))
							}
						}
					}
				}
				if n == len(ids) {
					t.Errorf("%s: %s has no claim %q", path, m[1], pattern)
				}
			}
			if !ok {
				t.Errorf("%s: no publication %q", path, m[1])
				continue
			}
			known = append(known, p.numbers(t, ids, 1)...)
			for _, f := range figure.FindAllStringSubmatch(span.ReplaceAllString(m[0], ""), -1) {
				if f[2] == "" && f[3] == "" || slices.Contains(strings.Fields(m[3]), f[1]) {
					continue
				}
				held++
				if !slices.ContainsFunc(known, func(x float64) bool { return as(f[1], f[2], x) }) {
					wrong = append(wrong, f[1])
				}
			}
		}
		return wrong
	}
	for _, pattern := range []string{"../../README.md", "*/README.md", "../gpu/*.md", "../jellyfish/*.md"} {
		paths, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := check(path, string(text)); len(wrong) > 0 {
				t.Errorf("%s: %s are stored nowhere for the claims of their marks", path, strings.Join(wrong, ", "))
			}
		}
	}
	t.Logf("%d figures behind %d marks", held, marks)
	if marks == 0 || held < marks {
		t.Errorf("%d figures behind %d marks", held, marks)
	}
	s := all["fluid"].of["fig7/rate"]
	right := strconv.FormatFloat(*s.Ours, 'f', 1, 64)
	for body, want := range map[string]int{right + " a second": 0, "x 99.9 a second, 98 %": 2, "99.9\n\n" + right: 0, "99.9 a second": 1} {
		if wrong := check("", body+" <!-- figures fluid: fig7/rate -->"); len(wrong) != want {
			t.Errorf("%q: %v are wrong", body, wrong)
		}
	}
}
