// Package frame judges the claims of publications. It reads them from a data file, runs a simulation for each seed,
// and compares. A claim holds if the 95 % interval of our values lies within its bounds. It fails if the interval
// lies beyond them, and is undecided otherwise. Exact values are judged without an interval.
//
// Special cases: a sample without an interval is decided by a sign test (bySign). A claim about every baseline or
// setting is judged by the one with the extreme mean (Lowest, Highest), with an interval that allows for all of them
// (family.ends). Where some values are only known to lie below a limit, a claim fails only if it also fails at the
// limit (Given). Every verdict comes from Claim.judge.
//
// Each publication is a package: claims.yaml has the claims with their bounds and the expression of our number.
// measures.go has the measures in these expressions and the rows beside the claims (Number). study.go has the lab,
// which makes the runs of a seed, and the parameters that can be changed in it (Knobs). Study runs them.
package frame

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Verdicts of a statement.
const (
	Holds     = "holds"     // the 95 % interval is within the bounds
	Fails     = "fails"     // the interval is beyond the bounds
	Undecided = "undecided" // it is partly within and partly beyond them
	NotTried  = "not-tried" // the cause says why
	OneSeed   = "one-seed"  // one seed has no interval, so there is no verdict
)

// Row is one number of a bench.
type Row struct {
	Bench     string   `json:"bench,omitempty"`
	Setting   string   `json:"setting"`
	Policy    string   `json:"policy"`
	Metric    string   `json:"metric"`
	Ours      float64  `json:"ours"`      // mean over the seeds
	CI95      *float64 `json:"ci95"`      // half width of the 95 % interval (Student's t); null with one seed
	Published *float64 `json:"published"` // null: the publication has no such number
	HeldOut   bool     `json:"held_out"`  // nothing was tuned on this setting; false: something was, or nobody can say
}

// Interval is the mean and the half width of its 95 % confidence interval by Student's t; nil for fewer
// than two values. Values that differ by rounding alone are equal: the half width is zero.
func Interval(v []float64) (float64, *float64) { return interval(v, tail) }

// tail is the probability beyond one end of an interval of 95 %.
const tail = 0.025

// interval is Interval with another tail.
func interval(v []float64, tail float64) (float64, *float64) {
	mean, sd := stat.MeanStdDev(v, nil)
	if len(v) < 2 {
		return mean, nil
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(v) - 1)}.Quantile(1 - tail)
	half := t * sd / math.Sqrt(float64(len(v)))
	if half <= 1e-9*math.Abs(mean) {
		half = 0
	}
	return mean, &half
}

// Statement is a claim with our value and the verdict.
type Statement struct {
	ID        string   `json:"claim"`
	Source    string   `json:"source"` // section, table or figure
	Text      string   `json:"text"`
	Published *float64 `json:"published"` // null: no number is given there
	// PublishedTo: a range is published, from Published to here.
	PublishedTo *float64 `json:"published_to,omitempty"`

	Unit     string   `json:"unit,omitempty"` // of ours and of what is published; x: a multiple
	Ours     *float64 `json:"ours"`           // mean over the seeds; null: the event did not occur
	CI95     *float64 `json:"ci95"`           // half width
	Least    *float64 `json:"least"`          // it holds from here; null: from anywhere
	Most     *float64 `json:"most"`           // to here
	Verdict  string   `json:"verdict"`
	Fitted   bool     `json:"fitted"` // parameters were fitted to this number, so that it holds proves nothing
	Cause    string   `json:"cause"`  // why ours differs, if it fails; why there is no verdict
	Evidence string   `json:"evidence,omitempty"`
	// Changed has the verdicts that change when an assumed parameter is halved or doubled. With one seed there is no
	// verdict, and the side of the bounds (Side) is compared.
	Changed map[string]string `json:"changed,omitempty"`
	Varied  bool              `json:"varied"` // parameters were varied
}

// Judge compares a sample of ours, one value a seed, with the claim. NaN means that the event did not occur with that
// seed; there is no verdict then.
func (c *Claim) Judge(v []float64) *Statement { return c.judge(family{all: [][]float64{v}}) }

func (c *Claim) judge(f family) *Statement {
	v := f.extreme()
	s := &Statement{
		ID: c.ID, Source: c.Source, Text: c.Text, Published: c.Published, PublishedTo: c.PublishedTo,
		Unit: c.Unit, Least: finite(c.least), Most: finite(c.most), Fitted: c.Fitted, Cause: c.cause.Text, Evidence: c.cause.Evidence,
	}
	if c.Rule == NotTried {
		s.Verdict = NotTried
		return s
	}
	mean, ci := Interval(v)
	half := *cmp.Or(ci, new(float64))
	if c.times(v) {
		var from, to float64
		mean, from, to = c.ends(v, tail)
		if half = (to - from) / 2; ci != nil {
			ci = &half
		}
	}
	from, to := f.ends(c)
	var why string
	s.Verdict, why = c.verdict(v, mean, half, from, to)
	if count(v, math.IsNaN)+count(v, isInf) == 0 {
		s.Ours, s.CI95 = &mean, ci
	}
	if s.Verdict != Fails { // only what fails differs from the publication; the other verdicts explain themselves
		s.Cause, s.Evidence = cmp.Or(why, map[string]string{
			Undecided: "not decided: a bound lies within the interval",
			OneSeed:   "one seed has no interval",
		}[s.Verdict]), ""
	}
	if s.Verdict == Fails {
		s.Cause = cmp.Or(s.Cause, Unknown)
		if f.most != nil && c.Judge(f.most).Verdict != Fails { // it may hold at the limit of the unknown values
			s.Verdict = Undecided
		}
	}
	return s
}

func isInf(x float64) bool { return math.IsInf(x, 0) }

func count(v []float64, of func(float64) bool) (n int) {
	for _, x := range v {
		if of(x) {
			n++
		}
	}
	return n
}

// verdict judges a sample by its mean and its interval. Where the sample itself allows no verdict, why is the cause.
func (c *Claim) verdict(v []float64, mean, half, from, to float64) (verdict, why string) {
	nothing, infinite := count(v, math.IsNaN), count(v, isInf)
	switch {
	case nothing == len(v):
		return Undecided, "nothing of it happened in the time that was simulated"
	case nothing > 0:
		return Undecided, fmt.Sprintf("nothing of it happened with %d of %d seeds", nothing, len(v))
	case infinite > 0:
		if verdict = c.bySign(v); verdict == Undecided {
			why = fmt.Sprintf("with %d of %d seeds it is a ratio to nothing, which has no mean, and the sign test does not decide it", infinite, len(v))
		}
		return verdict, why
	case c.Exact:
		from, to = mean, mean
	case len(v) < 2:
		return OneSeed, ""
	case half == 0:
		if verdict = c.bySign(v); verdict == Undecided {
			why = fmt.Sprintf("all %d seeds give the same, so there is no interval, and the sign test asks for %d", len(v), signs)
		}
		return verdict, why
	}
	switch {
	case from >= c.least && to <= c.most:
		return Holds, ""
	case to < c.least || from > c.most:
		return Fails, ""
	}
	return Undecided, ""
}

// times reports whether a sample is judged by the logarithms of its values.
func (c *Claim) times(v []float64) bool { return c.Times && slices.Min(v) > 0 && count(v, isInf) == 0 }

// ends returns the mean and the ends of the interval. For multiples (Times) it is the geometric mean with the
// interval of the logarithms.
func (c *Claim) ends(v []float64, tail float64) (mean, from, to float64) {
	of, back := v, func(x float64) float64 { return x }
	if c.times(v) {
		of, back = make([]float64, len(v)), math.Exp
		for i, x := range v {
			of[i] = math.Log(x)
		}
	}
	m, half := interval(of, tail)
	h := *cmp.Or(half, new(float64))
	return back(m), back(m - h), back(m + h)
}

// signs is the least number of values, all on one side, for which a two-sided sign test is significant at 95 %: 2 /
// 2^6 is 3 %.
const signs = 6

// bySign decides samples without an interval: equal values have no spread, and a ratio to zero has no mean. The
// verdict is about the median.
func (c *Claim) bySign(v []float64) string {
	if len(v) < signs {
		return Undecided
	}
	switch least, most := slices.Min(v), slices.Max(v); {
	case least >= c.least && most <= c.most:
		return Holds
	case most < c.least || least > c.most:
		return Fails
	}
	return Undecided
}

// finite returns a bound, or nil if it is infinite.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Side says whether the mean is within the bounds. With a single run there is nothing else to compare.
func (s *Statement) Side() string {
	switch {
	case s.Ours == nil:
		return "nothing"
	case (s.Least == nil || *s.Ours >= *s.Least) && (s.Most == nil || *s.Ours <= *s.Most):
		return "within the bounds"
	}
	return "beyond the bounds"
}

// Change is a parameter times a factor (a whole number in place of it, Knobs.Whole), or a switch, whose By is 0.
type Change struct {
	Key string
	By  float64
}

// String names the change as a key of Statement.Changed.
func (c Change) String() string { return fmt.Sprintf("%s x %v", c.Key, c.By) }

// given is the change as ChangeOf reads it.
func (c *Change) given() string {
	if c.By == 0 {
		return c.Key
	}
	return fmt.Sprintf("%s=%v", c.Key, c.By)
}

// Of is the factor of a parameter: 1 if the change is another's, or there is none.
func (c *Change) Of(key string) float64 {
	if c.Is(key) {
		return c.By
	}
	return 1
}

// Is reports whether it is a switch's, or a parameter's.
func (c *Change) Is(key string) bool { return c != nil && c.Key == key }

// ChangeOf reads KEY=FACTOR or KEY=NUMBER, or KEY for a switch; nothing is nil.
func ChangeOf(text string) (*Change, error) {
	if text == "" {
		return nil, nil
	}
	key, by, ok := strings.Cut(text, "=")
	c := &Change{Key: key}
	if ok {
		var err error
		if c.By, err = strconv.ParseFloat(by, 64); err != nil || !(c.By > 0) || math.IsInf(c.By, 0) {
			return nil, fmt.Errorf("%w: %q, KEY=FACTOR with a positive factor, or KEY alone, is expected", ErrWith, text)
		}
	}
	return c, nil
}

// Halves returns two changes per parameter: half and double.
func Halves(keys ...string) (out []Change) {
	for _, k := range keys {
		out = append(out, Change{k, 0.5}, Change{k, 2})
	}
	return out
}

// vary records the statement under a changed parameter, if its verdict (with one seed, its side) differs.
func (s *Statement) vary(what string, then *Statement) {
	was, is := s.Verdict, then.Verdict
	if was == OneSeed || is == OneSeed {
		was, is = s.Side(), then.Side()
	}
	if s.Varied = true; was == is {
		return
	}
	if s.Changed == nil {
		s.Changed = map[string]string{}
	}
	s.Changed[what] = is
}

// Print prints claims and their count, a line each.
func Print(to io.Writer, all []Statement) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "claim\tours\t± 95 %\tpublished\tverdict\tnote\tcause")
	for i := range all {
		fmt.Fprintln(w, strings.Join(all[i].Cells(), "\t"))
	}
	fmt.Fprintln(w, Count(all))
	return w.Flush()
}

// Cells are the columns of a claim: id, ours with its unit, half of the interval, published, verdict, note, cause.
func (s *Statement) Cells() []string {
	ours, half, published, note := "-", "", "", ""
	if s.Ours != nil {
		ours = strings.TrimSpace(fmt.Sprintf("%.4g %s", *s.Ours, s.Unit))
	}
	if s.CI95 != nil {
		half = fmt.Sprintf("± %.3g", *s.CI95)
	}
	if s.Published != nil {
		published = fmt.Sprintf("(%.4g)", *s.Published)
	}
	if s.PublishedTo != nil {
		published = fmt.Sprintf("(%.4g to %.4g)", *s.Published, *s.PublishedTo)
	}
	if s.Fitted {
		note = "fitted"
	}
	if len(s.Changed) > 0 {
		note = strings.TrimSpace(fmt.Sprintf("%s changes with %d of the assumed parameters", note, len(s.Changed)))
	}
	return []string{s.ID, ours, half, published, s.Verdict, note, s.Cause}
}

// Count says how many statements hold. Those that hold because parameters were fitted to them are counted separately,
// and so are those with one seed.
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
	for _, v := range []struct{ verdict, text string }{{NotTried, "%d are not tried"}, {OneSeed, "of %d one seed decides nothing"}} {
		if n[v.verdict] > 0 {
			text += fmt.Sprintf("; "+v.text, n[v.verdict])
		}
	}
	return text
}

// ErrQuiet is returned with the value of a comparison in which neither side had an event, such as a missed deadline.
// The value counts if other seeds had events. If no seed had one, there is no sample.
var ErrQuiet = errors.New("nothing happened")

// Sampler computes a claim's sample from the labs of all seeds: a Probe, or what Lowest, Highest and Given return.
type Sampler[L any] interface {
	sample(labs []L, workers int) (family, error)
}

// family is the samples of a claim about every baseline or setting. sign selects the one with the lowest mean (1) or
// the highest (-1).
type family struct {
	all  [][]float64
	sign float64
	most []float64 // upper limits of values in all that are only known from below; nil: all are known
}

// extreme is the sample with the extreme mean over all seeds. The extreme of each seed would be biased, the more so
// the shorter the runs.
func (f family) extreme() (low []float64) {
	least := math.Inf(1)
	for _, v := range f.all {
		if mean := f.sign * stat.Mean(v, nil); low == nil || mean < least || math.IsNaN(mean) {
			low, least = v, mean
		}
	}
	return low
}

// ends is the interval of the lowest mean. Its lower end is the least of the single lower ends: one of the samples is
// the lowest, and its end has the full confidence. Its upper end is the least of the upper ends, which must all hold
// at once, so each uses its part of the tail (Bonferroni). For the highest mean the ends swap roles.
func (f family) ends(c *Claim) (from, to float64) {
	if len(f.all) < 2 {
		_, from, to = c.ends(f.extreme(), tail)
		return from, to
	}
	part := tail / float64(len(f.all))
	lows, highs := []float64{}, []float64{}
	for _, v := range f.all {
		low, high := tail, part
		if f.sign < 0 {
			low, high = part, tail
		}
		_, a, _ := c.ends(v, low)
		_, _, b := c.ends(v, high)
		lows, highs = append(lows, a), append(highs, b)
	}
	if f.sign < 0 {
		return slices.Max(lows), slices.Max(highs)
	}
	return slices.Min(lows), slices.Min(highs)
}

// Probe computes one number from a lab, which has the runs of one seed.
type Probe[L any] func(L) (float64, error)

// Fold combines several numbers into one. It returns ErrQuiet if all of them do.
func Fold[L any](with func(a, b float64) float64, all ...Probe[L]) Probe[L] {
	return func(l L) (float64, error) {
		v := math.NaN()
		quiet := 0
		for i, p := range all {
			x, err := p(l)
			switch {
			case errors.Is(err, ErrQuiet):
				quiet++
			case err != nil:
				return 0, err
			}
			if i > 0 {
				x = with(v, x)
			}
			v = x
		}
		if quiet == len(all) {
			return v, ErrQuiet
		}
		return v, nil
	}
}

// Lowest is the least of several: a claim about every baseline is judged against the best.
func Lowest[L any](all ...Probe[L]) Sampler[L] { return extreme[L]{1, all} }

// Highest is the largest of several.
func Highest[L any](all ...Probe[L]) Sampler[L] { return extreme[L]{-1, all} }

type extreme[L any] struct {
	sign float64
	all  []Probe[L]
}

func (x extreme[L]) sample(labs []L, workers int) (family, error) {
	f, silent := family{sign: x.sign}, true
	for _, p := range x.all {
		v, quiet, err := each(labs, p, workers)
		if err != nil {
			return f, err
		}
		f.all, silent = append(f.all, v), silent && quiet
	}
	if silent {
		f.all = [][]float64{nothing(f.all[0], true)}
	}
	return f, nil
}

// Ratio is one sample over another, seed by seed. The lowest of several over the highest of several covers every
// pair, and so does the highest over the lowest. The best over the best compares every numerator with the best
// denominator.
func Ratio[L any](a, b Sampler[L]) Sampler[L] { return ratio[L]{a, b} }

type ratio[L any] struct{ a, b Sampler[L] }

func (r ratio[L]) sample(labs []L, workers int) (family, error) {
	a, err := r.a.sample(labs, workers)
	if err != nil {
		return a, err
	}
	b, err := r.b.sample(labs, workers)
	if a.sign == b.sign {
		b.all = [][]float64{b.extreme()}
	}
	out := family{sign: cmp.Or(a.sign, -b.sign)}
	for _, x := range a.all {
		for _, y := range b.all {
			v := make([]float64, len(y))
			for i := range y {
				v[i] = x[i] / y[i]
			}
			out.all = append(out.all, v)
		}
	}
	return out, err
}

// Given is a sample that needs no lab. most has upper limits of values that are known only from below; nil: all are
// known.
func Given[L any](v, most []float64) Sampler[L] { return given[L]{all: [][]float64{v}, most: most} }

type given[L any] family

func (g given[L]) sample([]L, int) (family, error) { return family(g), nil }

// Sample computes a value for every lab; all NaN if all labs are quiet. For several samples it is the extreme one.
func Sample[L any](labs []L, of Sampler[L]) ([]float64, error) {
	f, err := of.sample(labs, 1)
	return f.extreme(), err
}

// sample computes up to workers labs at a time.
func (p Probe[L]) sample(labs []L, workers int) (family, error) {
	v, quiet, err := each(labs, p, workers)
	return family{all: [][]float64{nothing(v, quiet)}}, err
}

// nothing replaces every value of a quiet sample by NaN.
func nothing(v []float64, quiet bool) []float64 {
	if quiet {
		for i := range v {
			v[i] = math.NaN()
		}
	}
	return v
}

// each computes the values of all labs, and whether all are quiet.
func each[L any](labs []L, of Probe[L], workers int) ([]float64, bool, error) {
	v := make([]float64, len(labs))
	var quiet atomic.Int32
	var g errgroup.Group
	g.SetLimit(max(1, workers))
	for i, l := range labs {
		g.Go(func() (err error) {
			if v[i], err = of(l); errors.Is(err, ErrQuiet) {
				quiet.Add(1)
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	return v, int(quiet.Load()) == len(labs), err
}

// Metric is a number that rows are made of.
type Metric[O any] struct {
	Name string
	Of   func(O) float64
}

// Fields returns a metric for each float64 field of a run that has a JSON name, in order.
func Fields[O any]() (out []Metric[*O]) {
	t := reflect.TypeFor[O]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" && t.Field(i).Type.Kind() == reflect.Float64 {
			out = append(out, Metric[*O]{name, func(o *O) float64 { return reflect.ValueOf(o).Elem().Field(i).Float() }})
		}
	}
	return out
}

// Rows averages metrics over runs, one a seed, and takes the other fields from r. A metric that is missing in a run
// is left out.
func Rows[O any](r Row, runs []O, metrics []Metric[O]) (rows []Row) {
	for _, m := range metrics {
		var v []float64
		for _, o := range runs {
			v = append(v, m.Of(o))
		}
		r.Metric = m.Name
		rows = r.measured(rows, v)
	}
	return rows
}

// measured adds the row with the mean of a sample, if it has one.
func (r Row) measured(rows []Row, v []float64) []Row {
	if r.Ours, r.CI95 = Interval(v); math.IsNaN(r.Ours) || isInf(r.Ours) {
		return rows
	}
	return append(rows, r)
}
