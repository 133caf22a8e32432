// This file defines each bench. Rates and SLOs come from Kouris et al., "Fluid Batching", section IV. If a bench has no
// figure in that paper, its title states its purpose.

package fluid

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/sched"

	"github.com/sluice-npu/sluice/host/experiments"
)

// Variant is a policy with a mapping.
type Variant struct {
	Policy  string
	Mapping string // empty: the policy's own mapping
}

// String returns the variant's name in rows: fluid, or fluid[r] with another mapping.
func (v Variant) String() string {
	if v.Mapping == "" {
		return v.Policy
	}
	return v.Policy + "[" + v.Mapping + "]"
}

// variantOf returns the variant with a name that String returned.
func variantOf(name string) Variant {
	policy, mapping, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	return Variant{Policy: policy, Mapping: mapping}
}

// Bench is a named set of runs.
type Bench struct {
	Name     string
	Title    string
	Settings []Setting
	Variants []Variant
	Axis     Axis     // x axis of the pictures
	Pictures []string // metrics to draw
	Tables   func(*tabler) error
}

// Axis is the quantity on the x axis: the rate or the SLO of a setting.
type Axis string

const (
	AxisNone Axis = ""
	AxisRate Axis = "requests per second"
	AxisSLO  Axis = "SLO in ms"
)

// At returns the setting's value on the axis.
func (a Axis) At(s Setting) float64 {
	switch a {
	case AxisRate:
		return s.Rate
	case AxisSLO:
		return float64(s.SLO) / 1e6
	}
	return 0
}

// fixed returns the text of the quantity that is the same for all settings of a picture.
func (a Axis) fixed(s Setting) string {
	if a == AxisRate {
		return fmt.Sprintf("SLO %v", time.Duration(s.SLO))
	}
	return fmt.Sprintf("%g/s", s.Rate)
}

// Baseline is the better of our two interpretations of LazyBatching. Claims are judged against this policy.
const Baseline = "lazy-idle"

// lazies contains our two interpretations of LazyBatching. Both are compared with the same published row.
var lazies = []string{"lazy", Baseline}

// order of policies in tables: published policies, then our policies
var order = []string{
	"serial", "fc-adaptb-s", "fc-adaptb-m", "fc-adaptb-l", "r-adaptb-s", "r-adaptb-m", "r-adaptb-l", "lazy", "lazy-idle", "edf", "clockwork", "fluid", "fluid+",
}

// changesTheta reports whether a policy changes exit thresholds. Such a policy runs only with real images, because
// drawn exits have no confidences.
func changesTheta(policy string) bool { return strings.HasSuffix(policy, "theta") }

// Policies returns the registry's policies in the order of tables, without policies that change thresholds. Policies
// that are missing in order come last.
func Policies() []string {
	out := slices.Clone(order)
	rest := sched.Names()
	slices.Sort(rest)
	for _, p := range rest {
		if !slices.Contains(out, p) && !changesTheta(p) {
			out = append(out, p)
		}
	}
	return out
}

func variants(policies ...string) (out []Variant) {
	for _, p := range policies {
		out = append(out, Variant{Policy: p})
	}
	return out
}

const ms = int64(1e6)

// along returns one copy of the setting per rate.
func along(base Setting, rates ...float64) []Setting {
	return vary([]Setting{base}, rates, func(s *Setting, v float64) { s.Rate = v })
}

// slos returns one copy of the setting per SLO. The SLOs are in ms.
func slos(base Setting, slo ...int64) []Setting {
	return vary([]Setting{base}, slo, func(s *Setting, v int64) { s.SLO = v * ms })
}

var (
	fig7Base  = Setting{Network: "resnet50", Board: "zc706", SLO: 400 * ms}
	fig8Base  = Setting{Network: "inceptionv3", Board: "zcu104", SLO: 200 * ms}
	fig7Rates = []float64{5, 8, 10, 12, 15, 18, 20, 22, 25}
	fig8Rates = []float64{20, 25, 30, 35, 40, 45, 50, 55, 60}
	fig9Left  = slos(Setting{Network: "resnet50", Board: "zc706", Rate: 15}, 100, 150, 200, 250, 300, 400, 500, 600)
	fig9Right = slos(Setting{Network: "inceptionv3", Board: "zcu104", Rate: 35}, 75, 100, 150, 200, 250, 300, 400)

	// fig1 contains each setting without early exits, and then with early exits.
	fig1 = vary([]Setting{
		{Network: "resnet50", Board: "zc706", Rate: 25, SLO: 400 * ms},
		{Network: "resnet50", Board: "zcu104", Rate: 25, SLO: 200 * ms},
	}, []string{"none", ""}, func(s *Setting, v string) { s.Exits = v })

	// stringent contains the settings of table II.
	stringent = []Setting{
		{Network: "resnet50", Board: "zc706", Rate: 15, SLO: 200 * ms},
		{Network: "resnet50", Board: "zcu104", Rate: 40, SLO: 100 * ms},
		{Network: "inceptionv3", Board: "zc706", Rate: 15, SLO: 400 * ms},
		{Network: "inceptionv3", Board: "zcu104", Rate: 40, SLO: 200 * ms},
	}
)

// withBandwidth sets the DRAM bandwidth of each setting by its board.
func withBandwidth(settings []Setting, gbs func(board string) float64) []Setting {
	out := slices.Clone(settings)
	for i := range out {
		out[i].Bandwidth = gbs(out[i].Board)
	}
	return out
}

// vary returns one setting for each combination of a setting and a value.
func vary[T any](settings []Setting, values []T, set func(*Setting, T)) []Setting {
	var out []Setting
	for _, s := range settings {
		for _, v := range values {
			s := s
			set(&s, v)
			out = append(out, s)
		}
	}
	return out
}

// Benches returns all benches, in the order of their tables. They use the policies of the registry.
func Benches() []Bench {
	all := variants(Policies()...)
	ablated := variants("serial", "r-adaptb-s", Baseline, "fluid", "fluid+")
	for _, v := range slices.Clone(ablated) {
		for _, m := range []string{MappingR, MappingP, MappingNoStack, MappingNoFluid, MappingFluid} {
			if m != sched.MappingOf(v.Policy) {
				ablated = append(ablated, Variant{Policy: v.Policy, Mapping: m})
			}
		}
	}
	mid, fig7, fig8 := middle(), along(fig7Base, fig7Rates...), along(fig8Base, fig8Rates...)
	plainSerial := []Variant{{Policy: "serial", Mapping: MappingR}} // without Stackable PEs
	// the baselines, on arrays designed for them (as published) and on fluid's array
	var theirs []Variant
	for _, p := range all {
		if m := sched.MappingOf(p.Policy); p.Policy != "serial" && (m == MappingR || m == MappingFC) {
			theirs = append(theirs, Variant{Policy: p.Policy, Mapping: m + own}, Variant{Policy: p.Policy, Mapping: MappingFluid})
		}
	}
	return []Bench{
		{
			Name: "fig1", Title: "Batching and early exits (figure 1)", Settings: fig1,
			Variants: variants("serial", "fc-adaptb-s", "fc-adaptb-m", "fc-adaptb-l", "r-adaptb-s", "r-adaptb-m", "r-adaptb-l", "fluid"),
			Tables:   fig1b,
		},
		{
			Name: "fig7", Title: "ResNet-50 on ZC706, SLO 400 ms (figure 7)", Settings: fig7, Variants: slices.Concat(all, plainSerial),
			Axis: AxisRate, Pictures: []string{"rate", "avg_ns", "busy", "mac_util", "p99_ns"},
		},
		{
			Name: "fig8", Title: "Inception-v3 on ZCU104, SLO 200 ms (figure 8)", Settings: fig8, Variants: slices.Concat(all, plainSerial),
			Axis: AxisRate, Pictures: []string{"rate", "avg_ns", "busy", "mac_util", "p99_ns"},
		},
		{
			Name: "fig9", Title: "Violations against the SLO (figure 9)", Settings: slices.Concat(fig9Left, fig9Right), Variants: all,
			Axis: AxisSLO, Pictures: []string{"violation_rate"},
		},
		{Name: "fig10", Title: "Static batches without exits (figure 10)", Tables: fig10},
		{Name: "table1", Title: "Design points (table I)", Tables: table1},
		{
			Name: "table2", Title: "Comparison with LazyBatching (table II)",
			Settings: slices.Concat(stringent, withBandwidth(stringent, NominalBandwidth), withBandwidth(stringent[:1], ThroughputBandwidth)),
			Variants: all,
		},
		{
			Name: "own", Title: "Baselines on designs of their own, and on fluid's hardware",
			Settings: slices.Concat(stringent, fig7[len(fig7)-1:], fig8[len(fig8)-1:]), Variants: slices.Concat(all, theirs),
		},
		{Name: "ablation", Title: "Scheduler and mapping, one without the other", Settings: slices.Concat(stringent, mid), Variants: ablated},
		{
			Name: "overload", Title: "Up to and beyond what the device can do",
			Settings: slices.Concat(along(fig7Base, 18, 20, 22, 24, 26, 28, 32), along(fig8Base, 34, 38, 42, 46, 50, 55, 65)), Variants: all,
			Axis: AxisRate, Pictures: []string{"goodput", "violation_rate"},
		},
		{
			Name: "bursts", Title: "Other arrivals than Poisson", Variants: all,
			Settings: vary(mid, []string{
				"gamma:cv=2", "gamma:cv=4", "markov:dwell=2:high=3:share=0.1", "markov:dwell=10:high=2:share=0.2",
				"periodic:jitter=0", "periodic:jitter=0.5", "day:day=600:depth=0.8", "closed:4", "closed:12",
			}, func(s *Setting, v string) { s.Arrivals = v }),
		},
		{
			Name: "heldout", Title: "Settings that no policy was developed on", Variants: all,
			Settings: slices.Concat(unseen(), withBandwidth(unseen(), NominalBandwidth)),
		},
		{
			Name: "exits", Title: "Other exit rates, and the confidences of a real network", Variants: append(all, variants("fluid+theta")...),
			Settings: append(vary(mid, []string{"none", "late", "uniform", "early"}, func(s *Setting, v string) { s.Exits = v }), realSettings()...),
		},
		{
			Name: "sensitivity", Title: "Largest batch, bandwidth, SLO", Variants: variants("serial", "r-adaptb-s", "lazy", Baseline, "edf", "clockwork", "fluid", "fluid+"),
			Settings: slices.Concat(
				vary(stringent[:2], []int{1, 2, 4, 6, 8}, func(s *Setting, v int) { s.BMax = v }),
				vary(stringent[:1], []float64{1.9, 2.1, 2.3, 2.6, 3, 4.2}, func(s *Setting, v float64) { s.Bandwidth = v }),
				vary(stringent[1:2], []float64{4.5, 5, 5.5, 6, 8}, func(s *Setting, v float64) { s.Bandwidth = v }),
				vary(mid, []int64{100, 150, 250, 300, 600}, func(s *Setting, v int64) { s.SLO = v * ms }),
			),
		},
	}
}

// Reproduced returns the benches of the publication's tables and figures.
func Reproduced() []string {
	return []string{"fig1", "fig7", "fig8", "fig9", "fig10", "table1", "table2", "own", "ablation"}
}

// Only restricts the benches to the given policies. It returns an error if a bench runs none of these policies.
func Only(benches []Bench, policies []string) ([]Bench, error) {
	for _, p := range policies {
		if !known(p) {
			return nil, fmt.Errorf("%w %q; there are %s", sched.ErrUnknownPolicy, p, strings.Join(sched.Names(), ", "))
		}
	}
	out := slices.Clone(benches)
	for i := range out {
		b := &out[i]
		had := len(b.Variants) > 0
		b.Variants = slices.DeleteFunc(slices.Clone(b.Variants), func(v Variant) bool { return !slices.Contains(policies, v.Policy) })
		if had && len(b.Variants) == 0 {
			return nil, fmt.Errorf("%w: bench %s runs none of %s", experiments.ErrSetup, b.Name, strings.Join(policies, ", "))
		}
	}
	return out, nil
}

// TraceBench replays the named traces (SuiteConfig.Traces) at the rates of two medium and two stringent settings.
func TraceBench(names []string) Bench {
	var traces []string
	for _, n := range names {
		traces = append(traces, "trace:"+n)
	}
	settings := slices.Concat(middle(), stringent[:2])
	return Bench{
		Name: "trace", Title: "Published traces, replayed at other rates", Variants: variants(Policies()...),
		Settings: vary(settings, traces, func(s *Setting, v string) { s.Arrivals = v }),
	}
}

// middle returns the settings of medium load.
func middle() []Setting {
	return []Setting{
		{Network: "resnet50", Board: "zc706", Rate: 15, SLO: 400 * ms},
		{Network: "inceptionv3", Board: "zcu104", Rate: 30, SLO: 200 * ms},
	}
}

// RealNetwork is the name of the network with trained weights, and RealBoard the name of its hardware configuration.
const (
	RealNetwork = "fashion"
	RealBoard   = "run"
)

// realSettings returns settings of the trained network with loads of 0.7, 0.9 and 1.1 of serial's capacity. The SLO is
// five times the time of a single image. Rates and SLO were computed from the compiled bundle's latency table.
func realSettings() []Setting {
	return along(Setting{Network: RealNetwork, Board: RealBoard, SLO: 3 * ms}, 3600, 4600, 5600)
}

// Select returns benches by name; "all" selects all benches. Duplicates are removed.
func Select(names []string) ([]Bench, error) {
	all := Benches()
	var known, want []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	for _, n := range names {
		switch {
		case n == "all":
			want = append(want, known...)
		case slices.Contains(known, n):
			want = append(want, n)
		default:
			return nil, fmt.Errorf("%w: there is no bench %q; there are %s, all", experiments.ErrSetup, n, strings.Join(known, ", "))
		}
	}
	var out []Bench
	for i := range all {
		if slices.Contains(want, all[i].Name) {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no bench is named; there are %s, all", experiments.ErrSetup, strings.Join(known, ", "))
	}
	return out, nil
}
