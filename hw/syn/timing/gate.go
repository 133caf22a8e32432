package timing

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// MostLevels is the largest allowed number of LUTs and wide multiplexers in a path.
const MostLevels = 12

// Slack is the allowed relative growth of a path over its stored length. A different mapping of the same RTL changes a
// path by about this share.
const Slack = 0.03

// Row is the result of `make timing` for one module.
type Row struct {
	Config  string  `json:"config"`
	Family  string  `json:"family"`
	Grade   string  `json:"grade"`
	Module  string  `json:"module"`
	Levels  int     `json:"levels"`            // levels of the deepest path
	NS      float64 `json:"ns"`                // delay of the slowest path
	LimitNS float64 `json:"limit_ns"`          // clock period
	GateNS  float64 `json:"gate_ns,omitempty"` // result of Most; only in out/timing/summary.json
	Slow    int     `json:"slow"`              // number of ends later than GateNS
	Deep    int     `json:"deep"`              // number of ends with more than MostLevels
	Ends    int     `json:"ends"`              // number of pins where paths end
	From    string  `json:"from"`
	To      string  `json:"to"`
	RTL     string  `json:"rtl"`     // lines of the path's start and end
	Sources string  `json:"sources"` // hash of the module's RTL, as in hw/syn
	Flow    string  `json:"flow"`    // hash of parameters and flow, including yosys' version
	Model   string  `json:"model"`   // Model at the time of the analysis
}

// Key returns the text that identifies a row.
func (r *Row) Key() string { return r.Config + " " + r.Grade + " " + r.Module }

// Uncertainty is an estimate of the clock's jitter and skew, in ns.
const Uncertainty = 0.2

// Most returns the longest allowed path in ns: the period minus Uncertainty.
func (r *Row) Most() float64 { return round(r.LimitNS - Uncertainty) }

// late reports whether a path is too long.
func (r *Row) late() bool { return r.NS > r.Most() }

// Meets reports whether the longest path and the deepest path are within their limits.
func (r *Row) Meets() bool { return !r.late() && r.Levels <= MostLevels }

// RowOf returns the row of an analysis.
func RowOf(config, module string, a *Analysis, limit float64) Row {
	w := a.Worst[0]
	r := Row{
		Model:  Model(),
		Config: config, Family: a.Table.Family, Grade: a.Table.Name, Module: module,
		Levels: a.MaxLevels, NS: round(a.MaxNS), LimitNS: round(limit), Ends: a.Ends,
		From: w.From, To: w.To, RTL: w.FromRTL + " -> " + w.ToRTL,
	}
	r.Slow, r.Deep = a.Count(limit-Uncertainty, MostLevels)
	return r
}

func round(ns float64) float64 { return math.Round(ns*1000) / 1000 }

// Summary is the content of out/timing/summary.json and of the stored figures.
type Summary struct {
	Schema int    `json:"schema"`
	Label  string `json:"label"`
	Rows   []Row  `json:"rows"`
}

// Label indicates that the figures come from a table, without placement.
const Label = "estimated"

// Load reads a summary. It rejects unknown keys, duplicate rows and impossible figures.
func Load(r io.Reader) (*Summary, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var s Summary
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("timing figures: %w", err)
	}
	if s.Schema != 1 || s.Label != Label {
		return nil, fmt.Errorf("timing figures: schema %d, label %q: expected 1 and %q", s.Schema, s.Label, Label)
	}
	seen := map[string]bool{}
	for i := range s.Rows {
		r := &s.Rows[i]
		switch {
		case r.Config == "" || r.Family == "" || r.Grade == "" || r.Module == "" || len(r.Sources) != 64 || len(r.Flow) != 64 || len(r.Model) != 64:
			return nil, fmt.Errorf("timing figures: row %d: a name or a hash is missing", i)
		case !(r.NS > 0) || !(r.LimitNS > 0) || r.Levels < 0 || r.Ends <= 0:
			return nil, fmt.Errorf("timing figures: row %d (%s): ns %g, limit %g, levels %d, ends %d", i, r.Key(), r.NS, r.LimitNS, r.Levels, r.Ends)
		case seen[r.Key()]:
			return nil, fmt.Errorf("timing figures: row %d: %s is listed twice", i, r.Key())
		}
		seen[r.Key()] = true
	}
	return &s, nil
}

// LoadFile reads a summary from a file. If the file is missing, the summary has no rows.
func LoadFile(path string) (*Summary, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &Summary{Schema: 1, Label: Label}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("timing figures: %w", err)
	}
	defer f.Close()
	s, err := Load(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Find returns the row with a key, or nil.
func (s *Summary) Find(key string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Key() == key {
			return &s.Rows[i]
		}
	}
	return nil
}

// Put adds or replaces a row.
func (s *Summary) Put(r Row) {
	if old := s.Find(r.Key()); old != nil {
		*old = r
		return
	}
	s.Rows = append(s.Rows, r)
	slices.SortFunc(s.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Config, b.Config), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Grade, b.Grade))
	})
}

// Write writes a summary to a file atomically.
func (s *Summary) Write(path string) error {
	s.Schema, s.Label = 1, Label
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("timing figures: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("timing figures: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("timing figures: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Report writes a summary to a file, and adds the longest allowed path to each row.
func (s *Summary) Report(path string) error {
	gated := Summary{Rows: slices.Clone(s.Rows)}
	for i := range gated.Rows {
		gated.Rows[i].GateNS = gated.Rows[i].Most()
	}
	return gated.Write(path)
}

// Gate returns an error if a path of a row is too long or too deep. If stored is not nil, Gate also compares the two
// rows. The path must not exceed the stored path by more than Slack, and nine tenths of the path ends must remain.
func Gate(stored *Row, now Row) error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format+" (%s to %s, %s)", append(append([]any{now.Key()}, a...), now.From, now.To, now.RTL)...))
	}
	if now.late() {
		bad("%.2f ns, the limit is %.2f less the clock's uncertainty", now.NS, now.LimitNS)
	}
	if now.Levels > MostLevels {
		bad("%d levels, the limit is %d", now.Levels, MostLevels)
	}
	if stored == nil {
		return errors.Join(errs...)
	}
	if now.NS > stored.NS*(1+Slack) {
		bad("%.2f ns, stored are %.2f", now.NS, stored.NS)
	}
	if least := stored.Ends * 9 / 10; now.Ends < least {
		bad("%d ends, stored are %d: where that is meant, -store", now.Ends, stored.Ends)
	}
	return errors.Join(errs...)
}
