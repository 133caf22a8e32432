package frame

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrBook is the error of an invalid file of claims.
var ErrBook = errors.New("claims")

// ErrOnly is the error if no claim ID begins with Config.Only.
var ErrOnly = errors.New("no claim")

// ErrWith is the error if a study does not support a change.
var ErrWith = errors.New("no such parameter or switch")

// Claim is one claim of the data file: a statement of the publication, and the bounds of our value.
type Claim struct {
	ID        string   `yaml:"id"`
	Source    string   `yaml:"source"` // section, table or figure
	Text      string   `yaml:"text"`
	On        string   `yaml:"on"` // the GPU, if a study has several GPUs
	Published *float64 `yaml:"-"`
	// PublishedTo is the end of a published range; nil: no range. Each end of the range determines one bound.
	PublishedTo *float64 `yaml:"published_to"`
	// Rule is a key of rules, which compute the bounds from Published. "": the bounds are Least and Most.
	Rule   string   `yaml:"-"`
	Least  *float64 `yaml:"least"`
	Most   *float64 `yaml:"most"`
	Fitted bool     `yaml:"-"`
	Cause  string   `yaml:"-"`     // key of a cause in the file
	Long   bool     `yaml:"long"`  // the claim is not checked again with varied parameters
	Times  bool     `yaml:"times"` // a multiple far from one: judged by its geometric mean and the interval of its logarithm
	Exact  bool     `yaml:"exact"` // not random: all seeds have the same value, so one value decides
	Ours   string   `yaml:"-"`     // expression of our number (Measures); "": a probe of the study computes the number
	Unit   string   `yaml:"-"`     // unit of our number; it follows from the units of the measures

	least, most float64
	cause       Cause
}

// Unknown is the cause of a failing claim without a stated cause.
const Unknown = "unknown"

// Cause contains the reason why our result differs from the publication, and the evidence.
type Cause struct {
	Text     string `yaml:"text"`
	Evidence string `yaml:"evidence"`
	// With lists changes (Config.With) that show the cause. The stored results of these changes (Study.Tried) are
	// appended to the text.
	With []string `yaml:"with"`
}

// Why returns the cause of the claim's failure.
func (c *Claim) Why() Cause { return c.cause }

// Tried is a claim's result with a change, and the result of the same runs without the change.
type Tried struct{ Key, ID, Ours, Without, Time, Seeds string }

// String returns the result as it appears in the text of a cause.
func (t *Tried) String() string {
	return fmt.Sprintf("with %s %s in place of %s", t.Key, t.Ours, t.Without)
}

// TriedOf parses a stored list. A line contains the fields of Tried. A line with # as its first field is a comment.
func TriedOf(text []byte) (out []Tried, err error) {
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 6 {
			return nil, fmt.Errorf("%w: %q, change, claim, ours, without, time and seeds are expected", ErrBook, line)
		}
		out = append(out, Tried{f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return out, nil
}

// line is an entry of the data file: a claim, or one claim for each name in Each. In the keys "id", "text" and "ours",
// the name replaces {}. The parts of the name between slashes replace {1}, {2} and so on. In "on", {} is replaced by
// the part before the first slash. A list has one value for all names, or one value for each name.
type line struct {
	Claim     `yaml:",inline"`
	Each      []string      `yaml:"each"`
	Published list[float64] `yaml:"published"`
	Rule      list[string]  `yaml:"rule"`
	Fitted    list[bool]    `yaml:"fitted"`
	Cause     list[string]  `yaml:"cause"`
	Ours      list[string]  `yaml:"ours"`
}

// list is one value or several values.
type list[T any] []T

// at returns the value for the name with index i. After the list's end, it returns the last value; for an empty list,
// the zero value.
func (l list[T]) at(i int) (v T) {
	if n := len(l); n > 0 {
		v = l[min(i, n-1)]
	}
	return v
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *list[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]T)(l))
	}
	*l = make([]T, 1)
	return n.Decode(&(*l)[0])
}

// claims returns the claims of an entry.
func (l *line) claims() ([]Claim, error) {
	each := l.Each
	if each == nil {
		each = []string{""}
	}
	for _, n := range []int{len(l.Published), len(l.Rule), len(l.Fitted), len(l.Cause), len(l.Ours)} {
		if n > 1 && n != len(each) {
			return nil, fmt.Errorf("%w: %q: a list of %d for %d claims", ErrBook, l.ID, n, len(each))
		}
	}
	var out []Claim
	for i, name := range each {
		c := l.Claim
		c.Ours = l.Ours.at(i)
		for _, s := range []*string{&c.ID, &c.Text, &c.On, &c.Ours} {
			*s = strings.ReplaceAll(*s, "{}", name)
			for i, part := range strings.Split(name, "/") {
				*s = strings.ReplaceAll(*s, fmt.Sprintf("{%d}", i+1), part)
			}
		}
		c.On, _, _ = strings.Cut(c.On, "/")
		if len(l.Published) > 0 {
			c.Published = new(l.Published.at(i))
		}
		c.Rule, c.Fitted, c.Cause = l.Rule.at(i), l.Fitted.at(i), l.Cause.at(i)
		out = append(out, c)
	}
	return out, nil
}

// rules compute the bounds from a published number.
var rules = map[string]func(p float64) (least, most float64){
	"near": func(p float64) (float64, float64) { return min(0.75*p, 1.25*p), max(0.75*p, 1.25*p) }, // within 25 %
	"15 %": func(p float64) (float64, float64) { return 0.85 * p, 1.15 * p },
	"5 %":  func(p float64) (float64, float64) { return 0.95 * p, 1.05 * p },
	// For a multiple below two: our value can differ by half of the gain, which is the difference between p and 1. A
	// quarter of p would be too much, because a value without gain would be accepted. For larger multiples, half of the
	// gain would be more than a quarter of p.
	"gain":     func(p float64) (float64, float64) { a, b := 1+0.5*(p-1), 1+1.5*(p-1); return min(a, b), max(a, b) },
	"5 points": func(p float64) (float64, float64) { return p - 0.05, p + 0.05 }, // for a share
	"3 points": func(p float64) (float64, float64) { return p - 0.03, p + 0.03 },
	"at most":  func(p float64) (float64, float64) { return math.Inf(-1), p },
	"at least": func(p float64) (float64, float64) { return p, math.Inf(1) },
}

// Book reads a publication's claims.
func Book(text []byte) ([]Claim, error) {
	claims, _, err := read(text)
	return claims, err
}

// read reads the claims, and the sets of names that their expressions use.
func read(text []byte) ([]Claim, map[string][]string, error) {
	var file struct {
		Causes map[string]Cause    `yaml:"causes"`
		Sets   map[string][]string `yaml:"sets"`
		Units  map[string]string   `yaml:"units"` // by measure: its unit
		Lines  []line              `yaml:"claims"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBook, err)
	}
	var claims []Claim
	for i := range file.Lines {
		more, err := file.Lines[i].claims()
		if err != nil {
			return nil, nil, err
		}
		claims = append(claims, more...)
	}
	seen, used := map[string]bool{}, map[string]bool{}
	for i := range claims {
		c := &claims[i]
		c.Unit = unit(c.Ours, file.Units)
		err := c.resolve(file.Causes)
		if c.ID == "" || c.Source == "" || c.Text == "" || seen[c.ID] {
			err = errors.New("an id of its own, a source and a text are expected")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: claim %d (%q): %w", ErrBook, i+1, c.ID, err)
		}
		seen[c.ID], used[c.Cause] = true, true
	}
	for k := range file.Causes {
		if !used[k] {
			return nil, nil, fmt.Errorf("%w: no claim has the cause %q", ErrBook, k)
		}
	}
	return claims, file.Sets, nil
}

// resolve finds a claim's cause and bounds.
func (c *Claim) resolve(causes map[string]Cause) error {
	if c.cause = causes[c.Cause]; c.Cause != "" && (c.cause.Text == "" || c.cause.Evidence == "") {
		return fmt.Errorf("there is no cause %q with a text and an evidence", c.Cause)
	}
	c.least, c.most = math.Inf(-1), math.Inf(1)
	bounded, rule := c.Least != nil || c.Most != nil, rules[c.Rule]
	switch {
	case c.Rule == NotTried:
		if c.Cause == "" || bounded {
			return errors.New("a cause and no bounds are expected of what is " + c.Rule)
		}
		return nil
	case rule != nil && c.Published != nil && !bounded:
		c.least, c.most = rule(*c.Published)
		if c.PublishedTo != nil {
			_, c.most = rule(*c.PublishedTo)
		}
	case c.Rule != "" || c.PublishedTo != nil || !bounded:
		return errors.New("a rule with a published number, or bounds without a rule are expected")
	}
	c.least, c.most = *cmp.Or(c.Least, &c.least), *cmp.Or(c.Most, &c.most)
	if p := c.Published; c.Rule == "near" && *p > 1 && *p < 2 || c.Rule == "gain" && *cmp.Or(c.PublishedTo, p) >= 2 {
		return fmt.Errorf("%s of %g: gain of a multiple of less than two, within a quarter of which is no gain too, near of any other", c.Rule, *p)
	}
	if !(c.least <= c.most) {
		return fmt.Errorf("bounds of %g to %g", c.least, c.most)
	}
	return nil
}

// Config selects the part of a study to run, and the length of its runs.
type Config struct {
	Seeds   []uint64
	Ns      int64   // virtual time per run, in ns
	Only    string  // if set: only statements with this ID prefix are checked, and there are no rows
	Vary    bool    // halve and double every assumed parameter
	With    *Change // change that tests a suspected cause, in every run; nil: none
	Workers int     // number of runs at the same time, if the study supports it
	Tell    func(what string)
}

// Say reports progress.
func (c *Config) Say(what string) {
	if c.Tell != nil {
		c.Tell(what)
	}
}

// Number is a row with the expression of its value (Measures).
type Number struct {
	Row
	On, Ours string
}

// Numbers returns one row per metric. A row's expression is METRIC(ARGUMENTS); the argument "of" contains ARGUMENTS.
func Numbers(on string, r Row, of string, metrics ...string) (out []Number) {
	for _, m := range metrics {
		r.Metric = m
		out = append(out, Number{r, on, m + "(" + of + ")"})
	}
	return out
}

// Knobs are the parameters and switches that a study can change.
type Knobs struct {
	Switches []string
	Keys     []string // parameters that can be multiplied by a factor
	Whole    []string // parameters that can be set to a whole number
	Vary     []Change // changes that Config.Vary runs; nil: half and double of every key
}

// knows returns ErrWith if a change is unknown, or if its value is invalid for its kind.
func (k *Knobs) knows(x *Change) error {
	whole := slices.Contains(k.Whole, x.Key) && x.By >= 1 && x.By <= 1<<20 && x.By == math.Trunc(x.By)
	if whole || slices.Contains(k.Keys, x.Key) && x.By > 0 || slices.Contains(k.Switches, x.Key) && x.By == 0 {
		return nil
	}
	there := func(value string, keys []string) (out []string) {
		for _, key := range keys {
			out = append(out, key+value)
		}
		return out
	}
	all := slices.Concat(k.Switches, there("=WHOLE NUMBER", k.Whole), there("=FACTOR", k.Keys))
	return fmt.Errorf("%w: %s; there are %s", ErrWith, x.given(), strings.Join(all, ", "))
}

// Study contains the claims of a publication, and the probes that check the claims. L is the type of a lab.
type Study[L any] struct {
	Book  []byte
	Tried []byte // stored results of changes (TriedOf)
	// Measures compute the numbers of claims with an expression. For other claims, Probes compute the numbers, by ID.
	Measures Measures[L]
	Probes   map[string]Sampler[L]
	samplers map[string]Sampler[L]
	// Labs returns a lab for each seed, on one GPU (Claim.On). The labs apply the change x; nil: no change.
	Labs  func(on string, x *Change) ([]L, error)
	Knobs func(on string) (*Knobs, error) // the possible changes
	// Apart means that labs share no state, so several labs can run at the same time (Config.Workers).
	Apart   bool
	Numbers []Number // further rows from the same labs
}

// Samplers returns the samplers of all claims that the study tries, by ID. A sampler is an expression or a probe.
func (s *Study[L]) Samplers() (map[string]Sampler[L], error) {
	all, sets, err := read(s.Book)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(s.Probes)
	if out == nil {
		out = map[string]Sampler[L]{}
	}
	tried := 0
	for i := range all {
		c := &all[i]
		if c.Ours != "" {
			if out[c.ID], err = s.Measures.Sampler(c.Ours, sets); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrBook, c.ID, err)
			}
		}
		if _, one := out[c.ID]; one == (c.Rule == NotTried) {
			return nil, fmt.Errorf("%w: %s has a probe and was not tried, or neither", ErrBook, c.ID)
		}
		if c.Rule != NotTried {
			tried++
		}
	}
	if len(out) != tried {
		return nil, fmt.Errorf("%w: %d probes for %d claims", ErrBook, len(out), tried)
	}
	return out, nil
}

// Result contains the claims with their verdicts, and the rows.
type Result struct {
	Rows       []Row
	Statements []Statement
}

// Run checks every claim and computes the rows. With Config.Vary, it checks the claims again with every change.
func (s *Study[L]) Run(ctx context.Context, c *Config) (*Result, error) {
	if len(c.Seeds) == 0 || c.Ns < 1 {
		return nil, fmt.Errorf("%w: %d seeds and %d ns are to be run, at least one of each is expected", ErrBook, len(c.Seeds), c.Ns)
	}
	var err error
	if s.samplers, err = s.Samplers(); err != nil {
		return nil, err
	}
	all, _ := Book(s.Book)
	claims := slices.DeleteFunc(all, func(k Claim) bool { return !strings.HasPrefix(k.ID, c.Only) })
	if len(claims) == 0 {
		return nil, fmt.Errorf("%w begins with %q", ErrOnly, c.Only)
	}
	tried, err := TriedOf(s.Tried)
	if err != nil {
		return nil, err
	}
	r, made := &Result{Rows: []Row{}}, map[string][]L{}
	labs := func(on string) ([]L, error) {
		if made[on] == nil {
			if c.With != nil {
				k, err := s.Knobs(on)
				if err == nil {
					err = k.knows(c.With)
				}
				if err != nil {
					return nil, err
				}
			}
			var err error
			if made[on], err = s.Labs(on, c.With); err != nil {
				return nil, err
			}
		}
		return made[on], ctx.Err()
	}
	for i := range claims {
		k := &claims[i]
		c.Say(k.ID)
		l, err := labs(k.On)
		if err != nil {
			return nil, err
		}
		st, err := s.state(c, k, l)
		if err != nil {
			return nil, err
		}
		for i := range tried {
			if t := &tried[i]; c.With == nil && st.Verdict == Fails && t.ID == k.ID && slices.Contains(k.cause.With, t.Key) {
				st.Cause += "; " + t.String()
			}
		}
		r.Statements = append(r.Statements, *st)
	}
	for i := 0; i < len(s.Numbers) && c.Only == ""; i++ {
		n := &s.Numbers[i]
		if x := n.Setting + " " + n.Policy; i == 0 || x != s.Numbers[i-1].Setting+" "+s.Numbers[i-1].Policy {
			c.Say(x)
		}
		l, err := labs(n.On)
		if err != nil {
			return nil, err
		}
		values, err := s.values(c, n, l)
		if err != nil {
			return nil, err
		}
		r.Rows = n.measured(r.Rows, values)
	}
	if c.Vary {
		for on := range made {
			if err := s.vary(c, on, claims, r.Statements); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// values returns the values of a number, one per lab.
func (s *Study[L]) values(c *Config, n *Number, labs []L) ([]float64, error) {
	of, err := s.Measures.Sampler(n.Ours, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s of %s %s: %w", ErrBook, n.Metric, n.Setting, n.Policy, err)
	}
	f, err := of.sample(labs, s.workers(c))
	return f.extreme(), err
}

// workers returns the number of labs that can run at the same time.
func (s *Study[L]) workers(c *Config) int {
	if s.Apart {
		return c.Workers
	}
	return 1
}

func (s *Study[L]) state(c *Config, k *Claim, labs []L) (*Statement, error) {
	var f family
	var err error
	if k.Exact { // two seeds verify that the value is exact
		labs = labs[:min(2, len(labs))]
	}
	if of := s.samplers[k.ID]; of != nil {
		f, err = of.sample(labs, s.workers(c))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.ID, err)
	}
	if v := f.extreme(); k.Exact && slices.ContainsFunc(v, func(x float64) bool { return x != v[0] && !math.IsNaN(x) }) {
		return nil, fmt.Errorf("%w: %s is said to be exact, and differs from seed to seed: %v", ErrBook, k.ID, v)
	}
	return k.judge(f), nil
}

func (s *Study[L]) vary(c *Config, on string, claims []Claim, all []Statement) error {
	k, err := s.Knobs(on)
	if err != nil {
		return err
	}
	changes := k.Vary
	if changes == nil {
		changes = Halves(k.Keys...)
	}
	for _, x := range changes {
		c.Say(strings.TrimSpace(on + " with " + x.String()))
		labs, err := s.Labs(on, &x)
		if err != nil {
			return err
		}
		for i := range claims {
			k := &claims[i]
			if k.On != on || k.Long || s.samplers[k.ID] == nil {
				continue
			}
			then, err := s.state(c, k, labs)
			if err != nil {
				return err
			}
			all[i].vary(x.String(), then)
		}
	}
	return nil
}
