// Package frame judges the claims of publications. It reads the claims from a data file, runs a simulation for each
// seed, and compares our values with the claims. A claim holds if the 95 % interval of our values is within its bounds.
// It fails if the whole interval is outside. Otherwise it is undecided. Exact values are judged without an interval.
//
// There are three special cases. A sample without an interval is decided by a sign test (bySign). A claim about every
// baseline or setting is judged by the sample with the lowest or highest mean (Lowest, Highest). This mean's interval
// depends on all samples (family.ends). If some values are known only by limits, a claim fails only if it fails at both
// limits (Given). Every verdict comes from Claim.judge.
//
// Each publication has a package. Its claims.yaml contains the claims, their bounds, and the expressions of our
// numbers. measures.go contains the measures in these expressions, and further rows (Number). study.go contains the
// lab, which executes the runs of one seed, and the parameters that can be changed (Knobs).
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

// Statements have these verdicts.
const (
	Holds     = "holds"     // the 95 % interval is within the bounds
	Fails     = "fails"     // the whole interval is outside the bounds
	Undecided = "undecided" // a part of the interval is within the bounds
	NotTried  = "not-tried" // not simulated; the field Cause contains the reason
	OneSeed   = "one-seed"  // one seed has no interval, so there is no verdict
)

type Row struct {
	Bench     string   `json:"bench,omitempty"`
	Setting   string   `json:"setting"`
	Policy    string   `json:"policy"`
	Metric    string   `json:"metric"`
	Ours      float64  `json:"ours"`      // mean over the seeds
	CI95      *float64 `json:"ci95"`      // half width of the 95 % interval (Student's t); null with one seed
	Published *float64 `json:"published"` // null: the publication has no such number
	HeldOut   bool     `json:"held_out"`  // no parameter was tuned on this setting; false: tuned, or unknown
}

// Interval returns the mean, and the half width of its 95 % confidence interval by Student's t (nil for fewer than two
// values). If the values differ only by rounding, the half width is zero.
func Interval(v []float64) (float64, *float64) { return interval(v, tail) }

// tail is the probability on each side of a 95 % interval.
const tail = 0.025

// interval is Interval with a given tail probability.
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
	Published *float64 `json:"published"` // null: the source contains no number
	// PublishedTo is the end of a published range that starts at Published; nil: no range is published.
	PublishedTo *float64 `json:"published_to,omitempty"`

	Unit     string   `json:"unit,omitempty"` // unit of our value and of the published value; x: a multiple
	Ours     *float64 `json:"ours"`           // mean over the seeds; null: the event did not occur
	CI95     *float64 `json:"ci95"`           // half width of the interval
	Least    *float64 `json:"least"`          // lower bound; null: none
	Most     *float64 `json:"most"`           // upper bound; null: none
	Verdict  string   `json:"verdict"`
	Fitted   bool     `json:"fitted"` // parameters were fitted to this number, so the verdict "holds" proves nothing
	Cause    string   `json:"cause"`  // reason why our value differs (the claim fails), or why there is no verdict
	Evidence string   `json:"evidence,omitempty"`
	// If a change of an assumed parameter (half or double) changes the verdict, Changed contains the new verdict. With
	// one seed there is no verdict, so Changed contains the new result of Side.
	Changed map[string]string `json:"changed,omitempty"`
	Varied  bool              `json:"varied"` // parameters were varied
}

// Judge compares our sample, one value per seed, with the claim. NaN means that the event did not occur with this seed.
// With a NaN in the sample, the claim is undecided.
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
	if s.Verdict != Fails { // the cause in the file explains only a failure
		s.Cause, s.Evidence = cmp.Or(why, map[string]string{
			Undecided: "not decided: a bound lies within the interval",
			OneSeed:   "one seed has no interval",
		}[s.Verdict]), ""
	}
	if s.Verdict == Fails {
		s.Cause = cmp.Or(s.Cause, Unknown)
		if f.most != nil && c.Judge(f.most).Verdict != Fails { // the claim does not fail at the upper limits
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

// verdict judges a sample by its mean and its interval. If the sample allows no verdict, "why" contains the reason.
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

// times reports whether the logarithms of a sample's values are judged.
func (c *Claim) times(v []float64) bool { return c.Times && slices.Min(v) > 0 && count(v, isInf) == 0 }

// ends returns the mean and the ends of the interval. For multiples (Times), the mean is the geometric mean, and the
// interval is computed from the logarithms.
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

// signs is the smallest number of values with which a two-sided sign test can be significant at 95 %. Six values are on
// one side by chance with a probability of 2 / 2^6, or 3 %.
const signs = 6

// bySign decides samples without an interval. Their values are equal, so there is no spread, or contain quotients by
// zero, so there is no mean. The verdict applies to the median.
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

// Side returns, as text, whether the mean is within the bounds. With a single run, only the side can be compared.
func (s *Statement) Side() string {
	switch {
	case s.Ours == nil:
		return "nothing"
	case (s.Least == nil || *s.Ours >= *s.Least) && (s.Most == nil || *s.Ours <= *s.Most):
		return "within the bounds"
	}
	return "beyond the bounds"
}

// Change is a change of a parameter or a switch. By is the factor of the parameter, the new value of a parameter in
// Knobs.Whole, or 0 for a switch.
type Change struct {
	Key string
	By  float64
}

// String returns the change's key in Statement.Changed.
func (c Change) String() string { return fmt.Sprintf("%s x %v", c.Key, c.By) }

// given returns the change in the form that ChangeOf reads.
func (c *Change) given() string {
	if c.By == 0 {
		return c.Key
	}
	return fmt.Sprintf("%s=%v", c.Key, c.By)
}

// Of returns the factor of a parameter. It returns 1 if c is nil or changes another parameter.
func (c *Change) Of(key string) float64 {
	if c.Is(key) {
		return c.By
	}
	return 1
}

// Is reports whether c changes this switch or parameter.
func (c *Change) Is(key string) bool { return c != nil && c.Key == key }

// ChangeOf reads KEY=FACTOR or KEY=NUMBER, or KEY for a switch. For an empty text it returns nil.
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

// vary records the verdict with a changed parameter if the verdict differs. With one seed, it compares and records the
// side instead.
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

// Print prints one line per claim, and then the number of claims with each verdict.
func Print(to io.Writer, all []Statement) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "claim\tours\t± 95 %\tpublished\tverdict\tnote\tcause")
	for i := range all {
		fmt.Fprintln(w, strings.Join(all[i].Cells(), "\t"))
	}
	fmt.Fprintln(w, Count(all))
	return w.Flush()
}

// Cells returns the columns of a claim: ID, our value with its unit, half width of the interval, published value,
// verdict, note, cause.
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

// Count returns the number of statements with each verdict, as text. Statements that hold with fitted parameters are
// counted separately.
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

// ErrQuiet means that neither side of a comparison had an event, such as a missed deadline. A probe returns a value
// with ErrQuiet; this value is used if another seed had an event. If no seed had an event, all values become NaN.
var ErrQuiet = errors.New("nothing happened")

// Sampler computes a claim's sample from the labs of all seeds: a Probe, or a result of Lowest, Highest, Ratio, Given.
type Sampler[L any] interface {
	sample(labs []L, workers int) (family, error)
}

// family contains the samples of a claim about every baseline or setting. If sign is 1, the sample with the lowest mean
// is selected. If sign is -1, the sample with the highest mean is selected.
type family struct {
	all  [][]float64
	sign float64
	most []float64 // upper limits, if the field "all" has only lower limits of some values; nil: all values are known
}

// extreme returns the sample with the extreme mean over all seeds. The extremes of each seed would be a biased sample,
// and short runs would increase the bias.
func (f family) extreme() (low []float64) {
	least := math.Inf(1)
	for _, v := range f.all {
		if mean := f.sign * stat.Mean(v, nil); low == nil || mean < least || math.IsNaN(mean) {
			low, least = v, mean
		}
	}
	return low
}

// ends returns the interval of the lowest mean. The lower end is the smallest lower end of all samples. It keeps the
// full confidence, because it is not above the lower end of the sample with the lowest mean. The upper end is the
// smallest upper end of all samples. All upper ends must be correct at once, so each uses only a part of the tail
// (Bonferroni). For the highest mean, the two ends exchange their roles.
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

// Probe computes one number from a lab. A lab contains the runs of one seed.
type Probe[L any] func(L) (float64, error)

// Fold combines the numbers of several probes into one number. It returns ErrQuiet if all probes return ErrQuiet.
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

// Lowest returns a sampler for the lowest of several probes. With this sampler, a claim about every baseline is judged
// against the best baseline.
func Lowest[L any](all ...Probe[L]) Sampler[L] { return extreme[L]{1, all} }

// Highest returns a sampler for the highest of several probes.
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

// Ratio divides the samples of a by the samples of b, seed by seed. If one of a and b is from Lowest and the other is
// from Highest, the result contains the ratios of all pairs. If both are from the same function, each sample of a is
// divided by the extreme sample of b.
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

// Given returns a sampler that returns the values v without a lab. If v contains only lower limits of some values, most
// contains the upper limits. If all values are known, most is nil.
func Given[L any](v, most []float64) Sampler[L] { return given[L]{all: [][]float64{v}, most: most} }

type given[L any] family

func (g given[L]) sample([]L, int) (family, error) { return family(g), nil }

// Sample computes a value for every lab. All values are NaN if every lab returns ErrQuiet. If the sampler has several
// samples, Sample returns the extreme sample.
func Sample[L any](labs []L, of Sampler[L]) ([]float64, error) {
	f, err := of.sample(labs, 1)
	return f.extreme(), err
}

// sample computes a value for each lab. At most "workers" labs run at the same time.
func (p Probe[L]) sample(labs []L, workers int) (family, error) {
	v, quiet, err := each(labs, p, workers)
	return family{all: [][]float64{nothing(v, quiet)}}, err
}

// nothing returns its argument v. If quiet is set, it first replaces all values by NaN.
func nothing(v []float64, quiet bool) []float64 {
	if quiet {
		for i := range v {
			v[i] = math.NaN()
		}
	}
	return v
}

// each returns the values of all labs. It also reports whether all labs returned ErrQuiet.
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

// Metric computes a number for a Row from the outcome of a run.
type Metric[O any] struct {
	Name string
	Of   func(O) float64
}

// Fields returns a metric for each float64 field with a JSON name, in the order of the fields.
func Fields[O any]() (out []Metric[*O]) {
	t := reflect.TypeFor[O]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" && t.Field(i).Type.Kind() == reflect.Float64 {
			out = append(out, Metric[*O]{name, func(o *O) float64 { return reflect.ValueOf(o).Elem().Field(i).Float() }})
		}
	}
	return out
}

// Rows returns one row per metric, with the metric's mean over the runs, which have different seeds. The other fields
// of a row come from r. If a metric is NaN or infinite in a run, its row is omitted.
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

// measured appends a row with the mean of a sample, if this mean is finite.
func (r Row) measured(rows []Row, v []float64) []Row {
	if r.Ours, r.CI95 = Interval(v); math.IsNaN(r.Ours) || isInf(r.Ours) {
		return rows
	}
	return append(rows, r)
}
