package experiments_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// What a change gave (tried.txt) is of a change that a cause names, and stands behind the cause of what fails; every cause that
// names one has it for each of its claims that fails.
func TestTried(t *testing.T) {
	for _, p := range publications(t) {
		if p.name == "Fluid Batching" {
			continue
		}
		claims, err := frame.Book([]byte(read(t, p.claims)))
		if err != nil {
			t.Fatal(err)
		}
		tried, err := frame.TriedOf([]byte(read(t, filepath.Join(filepath.Dir(p.claims), "tried.txt"))))
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]*frame.Claim{}
		for i := range claims {
			of[claims[i].ID] = &claims[i]
		}
		said := map[string]int{}
		for i := range tried {
			x := &tried[i]
			c := of[x.ID]
			if c == nil {
				t.Errorf("%s: no claim %s was tried with %s", p.name, x.ID, x.Key)
				continue
			}
			if s := p.of[x.ID]; slices.Contains(c.Why().With, x.Key) && s.Verdict == frame.Fails {
				if said[x.ID]++; !strings.Contains(s.Cause+";", "; "+x.String()+";") {
					t.Errorf("%s: the cause of %s does not say %q: %s", p.path, x.ID, x.String(), s.Cause)
				}
			}
		}
		for id, s := range p.of {
			if s.Verdict != frame.Fails {
				continue
			}
			if strings.HasPrefix(s.Cause, frame.Unknown) {
				t.Errorf("%s: the cause of %s is unknown", p.path, id)
			}
			if why := of[id].Why(); len(why.With) > 0 && said[id] == 0 {
				t.Errorf("%s: nothing of %v was tried for %s", p.path, why.With, id)
			} else if !strings.HasPrefix(s.Cause, why.Text) {
				t.Errorf("%s: %s has another cause than the book: %s", p.path, id, s.Cause)
			}
		}
	}
}
