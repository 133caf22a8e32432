package experiments_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// The stored cause of a failed claim is the book's, followed by the results of the changes that it names (tried.txt), at
// least one per claim. If only texts or tried.txt change and no number, -update writes the causes.
func TestTried(t *testing.T) {
	for _, p := range publications(t) {
		claims, err := frame.Book([]byte(read(t, p.claims)))
		if err != nil {
			t.Fatal(err)
		}
		tried, err := frame.TriedOf([]byte(read(t, filepath.Join(filepath.Dir(p.claims), "tried.txt"))))
		if err != nil {
			t.Fatal(err)
		}
		for i := range tried {
			x := &tried[i]
			if !slices.ContainsFunc(claims, func(c frame.Claim) bool { return c.ID == x.ID }) {
				t.Errorf("%s: no claim %s was tried with %s", p.name, x.ID, x.Key)
			}
		}
		lines := strings.Split(read(t, p.path), "\n")
		for i := range claims {
			c := &claims[i]
			s, why := p.of[c.ID], c.Why()
			if s.Verdict != frame.Fails {
				continue
			}
			want := why.Text
			for i := range tried {
				if x := &tried[i]; x.ID == c.ID && slices.Contains(why.With, x.Key) {
					want += "; " + x.String()
				}
			}
			switch {
			case want == "" || strings.HasPrefix(want, frame.Unknown):
				t.Errorf("%s: the cause of %s is unknown", p.path, c.ID)
			case want == why.Text && len(why.With) > 0:
				t.Errorf("%s: nothing of %v was tried for %s", p.path, why.With, c.ID)
			case *update:
				lines[i+1] = strings.TrimSuffix(lines[i+1], s.Cause) + want
			case s.Cause != want:
				t.Errorf("%s: the cause of %s is %q, the book and tried.txt have %q", p.path, c.ID, s.Cause, want)
			}
		}
		if *update {
			if err := os.WriteFile(p.path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
