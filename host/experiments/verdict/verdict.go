// Package verdict judges what a publication says by what a simulation gives for each seed: it holds,
// fails, or is undecided at 95 %; and whether that stays when what was assumed is another. It knows
// nothing of what is simulated: that is each bench's.
package verdict

import (
	"cmp"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/host/experiments"
)

// Verdicts of a statement.
const (
	Holds     = "holds"
	Fails     = "fails"
	Undecided = "undecided" // at 95 %
	OneSeed   = "one seed"  // no interval, so no verdict
)

// Claim is a statement before it is looked at: what is published, and from where to where ours may be.
type Claim struct {
	ID, Text    string
	Published   *float64 // nil: the publication gives no number
	Least, Most float64
	Fitted      bool
	Why         string // why ours differs, where it does
}

// Near is a claim of a number, which holds within a quarter of it.
func Near(id, text string, published float64) Claim {
	return Claim{ID: id, Text: text, Published: &published, Least: 0.75 * published, Most: 1.25 * published}
}

// AtMost is a claim of an upper bound.
func AtMost(id, text string, published float64) Claim {
	return Claim{ID: id, Text: text, Published: &published, Least: math.Inf(-1), Most: published}
}

// AtLeast is a claim of a lower bound.
func AtLeast(id, text string, published float64) Claim {
	return Claim{ID: id, Text: text, Published: &published, Least: published, Most: math.Inf(1)}
}

// Gain is a claim of a multiple of one, which holds where what it is beyond (or below) one is within a
// half of what is published: a quarter of the number would take no gain for a gain.
func Gain(id, text string, published float64) Claim {
	a, b := 1+0.5*(published-1), 1+1.5*(published-1)
	return Claim{ID: id, Text: text, Published: &published, Least: min(a, b), Most: max(a, b)}
}

// Between is a claim of a range of multiples of one, which holds where what it is beyond one is at least
// a half of the least, and at most one and a half of the most; no one number is published.
func Between(id, text string, from, to float64) Claim {
	return Claim{ID: id, Text: text, Least: 1 + 0.5*(from-1), Most: 1 + 1.5*(to-1)}
}

// Within is a claim of a number, which holds where ours is no further from it than by.
func Within(id, text string, published, by float64) Claim {
	return Claim{ID: id, Text: text, Published: &published, Least: published - by, Most: published + by}
}

// Ours is a claim whose threshold is ours, since the publication says it in words or gives a range.
func (c Claim) Ours() Claim { c.Published = nil; return c }

// Statement is one thing that a publication says, and what the simulation says of it.
type Statement struct {
	ID        string   `json:"id"`
	Text      string   `json:"text"`
	Published *float64 `json:"published"` // null: no number is given there
	Ours      *float64 `json:"ours"`      // mean over the seeds; null: nothing of it happened
	CI95      *float64 `json:"ci95"`      // half width
	Ratio     *float64 `json:"ratio"`     // ours / published; null where that is nothing
	Least     *float64 `json:"least"`     // it holds from here; null: from anywhere
	Most      *float64 `json:"most"`      // to here
	Verdict   string   `json:"verdict"`
	// Fitted: parameters were set by this very number, so that it proves nothing.
	Fitted bool `json:"fitted"`
	// Changed: the verdict, or with one seed the side of the bounds (Side), where it is another when an
	// assumed parameter is halved or doubled.
	Changed map[string]string `json:"changed,omitempty"`
	Varied  bool              `json:"varied"`        // that was looked at
	Why     string            `json:"why,omitempty"` // why ours differs
}

// Judge sets what the seeds gave beside what was published; why is said where it does not hold. A value
// that is no number says that nothing of it happened: there is no verdict then.
func (c *Claim) Judge(v []float64) *Statement {
	mean, ci := experiments.Interval(v)
	s := &Statement{ID: c.ID, Text: c.Text, Published: c.Published, Least: finite(c.Least), Most: finite(c.Most), Fitted: c.Fitted, CI95: ci}
	if math.IsNaN(mean) || math.IsInf(mean, 0) {
		s.CI95, s.Verdict, s.Why = nil, Undecided, "nothing of it happened in the time that was simulated"
		return s
	}
	s.Ours = &mean
	if s.Published != nil && *s.Published != 0 {
		ratio := mean / *s.Published
		s.Ratio = &ratio
	}
	switch half := *cmp.Or(ci, new(float64)); {
	case ci == nil:
		s.Verdict = OneSeed
	case mean-half >= c.Least && mean+half <= c.Most:
		s.Verdict = Holds
	case mean+half < c.Least || mean-half > c.Most:
		s.Verdict = Fails
	default:
		s.Verdict = Undecided
	}
	if s.Verdict != Holds {
		s.Why = c.Why
	}
	return s
}

// finite is a bound, nil where it is none.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Side is on which side of its bounds the mean is, whatever the seeds say of its uncertainty: what there
// is to compare of single runs.
func (s *Statement) Side() string {
	switch {
	case s.Ours == nil:
		return "nothing"
	case (s.Least == nil || *s.Ours >= *s.Least) && (s.Most == nil || *s.Ours <= *s.Most):
		return "within the bounds"
	}
	return "beyond the bounds"
}

// Mean is ours, for people.
func (s *Statement) Mean() string {
	if s.Ours == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *s.Ours)
}

// Number is what was published, for people.
func (s *Statement) Number() string {
	if s.Published == nil {
		return ""
	}
	return fmt.Sprintf("(%.4g)", *s.Published)
}

// Change is a parameter times a factor.
type Change struct {
	Key string
	By  float64
}

// String names it as Statement.Changed does.
func (c Change) String() string { return fmt.Sprintf("%s x %v", c.Key, c.By) }

// Halves has each parameter halved and doubled.
func Halves(keys ...string) (out []Change) {
	for _, k := range keys {
		out = append(out, Change{k, 0.5}, Change{k, 2})
	}
	return out
}

// Vary looks again with each change, one at a time: look gives what becomes of the statements then, in
// their order, nil for those that it left out. Each is compared with what was given beside it in base,
// where the same was run without a change; base nil: with the statements themselves.
func Vary(all, base []Statement, changes []Change, look func(Change) ([]*Statement, error)) error {
	if base == nil {
		base = all
	}
	for _, c := range changes {
		then, err := look(c)
		if err != nil {
			return err
		}
		for i, s := range then {
			if s != nil {
				all[i].vary(c.String(), &base[i], s)
			}
		}
	}
	return nil
}

// vary takes in what became of the statement: another verdict, or with one seed another side of its bounds.
func (s *Statement) vary(what string, before, then *Statement) {
	was, is := before.Verdict, then.Verdict
	if was == OneSeed || is == OneSeed {
		was, is = before.Side(), then.Side()
	}
	if s.Varied = true; was == is {
		return
	}
	if s.Changed == nil {
		s.Changed = map[string]string{}
	}
	s.Changed[what] = is
}

// Count is how many statements hold, for people; those that hold because parameters were set by them are
// none of them, and of those that were looked at with one seed nothing is said.
func Count(all []Statement) string {
	n := map[string]int{}
	fitted := 0
	for i := range all {
		if all[i].Fitted && all[i].Verdict == Holds {
			fitted++
		} else {
			n[all[i].Verdict]++
		}
	}
	more := ""
	if fitted > 0 {
		more = fmt.Sprintf("%d more by fitting, ", fitted)
	}
	text := fmt.Sprintf("%d of %d statements hold, %s%d fail, %d are undecided (simulated)", n[Holds], len(all), more, n[Fails], n[Undecided])
	if n[OneSeed] > 0 {
		text += fmt.Sprintf("; of %d one seed decides nothing", n[OneSeed])
	}
	return text
}
