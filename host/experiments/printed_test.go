package experiments_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// What was printed of the publications names a cause beside every claim that fails or is undecided, and the
// last line counts the others.
func TestPrintedCauses(t *testing.T) {
	line := regexp.MustCompile(`^\S+ .*?  (holds|fails|undecided|ill-posed|not-tried)(?:  +(fitted))?(?:  +(\S.*))?$`)
	for _, path := range []string{"../gpu/reef.txt", "../gpu/seeb.txt"} {
		text, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		var all []frame.Statement
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		last := len(lines) - 1
		for _, l := range lines[:last] {
			m := line.FindStringSubmatch(strings.TrimRight(l, " "))
			if m == nil {
				t.Errorf("%s: no verdict: %s", path, l)
				continue
			}
			verdict, fitted, cause := m[1], m[2] != "", m[3]
			if verdict != frame.Holds && cause == "" {
				t.Errorf("%s: no cause: %s", path, l)
			}
			all = append(all, frame.Statement{Verdict: verdict, Fitted: fitted})
		}
		if want := frame.Count(all); lines[last] != want {
			t.Errorf("%s: the last line is %q, the lines above give %q", path, lines[last], want)
		}
	}
}
