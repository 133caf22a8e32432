// This file measures the publication's claims (claims.yaml).

package fluid

import (
	"context"
	_ "embed"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// lab provides the runs of a suite with one seed.
type lab struct {
	ctx  context.Context
	s    *Suite
	seed uint64
	with *frame.Change // change of a board's serving bandwidth; nil: as fitted
}

// served returns the run of a policy at a setting.
func (l *lab) served(s Setting, policy string) (*Metrics, error) {
	if l.with != nil && s.Board == l.with.Key && s.Bandwidth == 0 {
		s.Bandwidth = ServingBandwidth(s.Board) * l.with.By
	}
	return l.s.run(l.ctx, s, variantOf(policy), l.seed)
}

// model returns the model of ResNet-50 on a board, with a mapping and a bandwidth.
func (l *lab) model(board, mapping string, gbs float64, backbone bool) (*Model, error) {
	return l.s.Models.Model(l.ctx, ModelKey{Network: "resnet50", Board: board, Mapping: mapping, Bandwidth: gbs, Backbone: backbone})
}

// boundaries returns the ratio of layers that requests run to exits that they reach, for ResNet-50 on the ZC706.
func (l *lab) boundaries() (float64, error) {
	m, err := l.model("zc706", MappingFluid, ServingBandwidth("zc706"), false)
	if err != nil {
		return 0, err
	}
	exits, layers := 0.0, 0.0
	for seg, n := range m.Layers {
		p := m.share(publishedRates["resnet50"], seg)
		layers += p * float64(n)
		exits += p
	}
	return layers / exits, nil
}

// ways finds the best mapping of each of ResNet-50's four segments on the ZC706, and returns how many of them differ.
func (l *lab) ways(gbs float64) (float64, error) {
	best := map[string]bool{}
	for s := range 4 {
		most, name := 0.0, ""
		for _, mapping := range []string{MappingFC, MappingR, MappingP} {
			m, err := l.model("zc706", mapping, gbs, false)
			if err != nil {
				return 0, err
			}
			// Simpler mappings come first, so of two equally good mappings the simpler mapping is chosen.
			if g := gops(m.MACs[s], 8, m.Table.At(s, s, 8)); g > most*1.001 {
				most, name = g, mapping
			}
		}
		best[name] = true
	}
	return float64(len(best)), nil
}

// ofPeak returns the throughput of the network without exits as a share of the ZC706's peak.
func (l *lab) ofPeak(mapping string, batch int, gbs float64) (float64, error) {
	m, err := l.model("zc706", mapping, gbs, true)
	if err != nil {
		return 0, err
	}
	return m.gops(batch) / (2 * m.PeakMACs / 1e9), nil
}

// double returns the time in ms of a batch on the ZCU104 that is twice as large as B_max; NaN: unknown.
func (l *lab) double(gbs float64) (float64, error) {
	m, err := l.model("zcu104", MappingFluid, gbs, false)
	if err != nil {
		return 0, err
	}
	if m.Double == 0 {
		return math.NaN(), nil
	}
	return float64(m.Double) / 1e6, nil
}

// measures returns the measures of the claims. A mapping in brackets after a policy's name replaces the policy's own
// mapping.
func measures() frame.Measures[*lab] {
	settings := map[string]Setting{}
	for _, b := range Benches() {
		for _, s := range b.Settings {
			settings[s.String()] = s
		}
	}
	out := frame.Measures[*lab]{
		"boundaries":                func(l *lab, _ frame.Args) (float64, error) { return l.boundaries() },
		"ways gbs":                  func(l *lab, of frame.Args) (float64, error) { return l.ways(of.Float(0)) },
		"of_peak MAPPING batch gbs": func(l *lab, of frame.Args) (float64, error) { return l.ofPeak(of[0], of.Int(1), of.Float(2)) },
		"double_ms gbs":             func(l *lab, of frame.Args) (float64, error) { return l.double(of.Float(0)) },
	}
	frame.AddMetrics(out, "SETTING POLICY", func(l *lab, of frame.Args) (*Metrics, error) {
		return l.served(settings[of[0]], of[1])
	}, numbers)
	return out
}

// Statements judges the claims that the configuration selects, with the suite's seeds.
func (s *Suite) Statements(ctx context.Context, c frame.Config) ([]frame.Statement, error) {
	study := frame.Study[*lab]{
		Book: book, Tried: tried, Measures: measures(), Apart: true,
		Labs: func(_ string, x *frame.Change) (out []*lab, err error) {
			for _, seed := range s.Seeds {
				out = append(out, &lab{ctx, s, seed, x})
			}
			return out, nil
		},
		Knobs: func(string) (*frame.Knobs, error) {
			return &frame.Knobs{Keys: slices.Sorted(maps.Keys(Bandwidths()["serving"]))}, nil
		},
	}
	c.Seeds, c.Ns = s.Seeds, 1
	r, err := study.Run(ctx, &c)
	if err != nil {
		return nil, err
	}
	return r.Statements, nil
}
