// These benches require no runs: throughput by batch and mapping, and design points.

package fluid

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// tabler collects the rows that do not require a run.
type tabler struct {
	ctx    context.Context
	models Models
	bench  string
	rows   []frame.Row
}

func (t *tabler) add(setting, policy, metric string, ours float64, published *float64) {
	t.rows = append(t.rows, frame.Row{
		Bench: t.bench, Setting: setting, Policy: policy, Metric: metric, Ours: ours, Published: published, HeldOut: true,
	})
}

// mappings in the order of tables
var mappings = []string{MappingFC, MappingR, MappingP, MappingNoStack, MappingNoFluid, MappingFluid}

// bandwidths returns the DRAM bandwidths for which throughput is computed: ThroughputBandwidth and, if it differs,
// ServingBandwidth.
func bandwidths(board string) []float64 {
	b := []float64{ThroughputBandwidth(board)}
	if s := ServingBandwidth(board); s != b[0] {
		b = append(b, s)
	}
	return b
}

// fig1b adds the throughput of each quarter of ResNet-50 on the ZC706 at batch size 8.
func fig1b(t *tabler) error {
	const network, board, batch = "resnet50", "zc706", 8
	for _, gbs := range bandwidths(board) {
		setting := fmt.Sprintf("%s/%s/-/-/%gGBps/B=%d", network, board, gbs, batch)
		row := func(policy string, m *Model, b int) {
			for s, macs := range m.MACs {
				t.add(setting, policy, fmt.Sprintf("segment%d_gops", s), gops(macs, b, m.Table.At(s, s, b)), nil)
			}
		}
		for i, mapping := range mappings {
			m, err := t.models.Model(t.ctx, ModelKey{Network: network, Board: board, Mapping: mapping, Bandwidth: gbs})
			if err != nil {
				return err
			}
			if i == 0 {
				row("serial", m, 1)
			}
			row(mapping, m, batch)
			if i == len(mappings)-1 {
				t.add(setting, "peak", "gops", 2*m.PeakMACs/1e9, nil)
			}
		}
	}
	return nil
}

// gops returns a throughput in 10^9 operations per second. A MAC counts as two operations.
func gops(macs int64, batch int, ns int64) float64 {
	return 2 * float64(macs) * float64(batch) / float64(ns)
}

// gops returns the throughput of the whole network.
func (m *Model) gops(batch int) float64 {
	total := int64(0)
	for _, macs := range m.MACs {
		total += macs
	}
	return gops(total, batch, m.Table.At(0, m.Table.Segments()-1, batch))
}

// fig10 adds the throughput of the networks without exits, by batch and mapping.
func fig10(t *tabler) error {
	for _, p := range table1Published {
		for _, gbs := range bandwidths(p.board) {
			for _, mapping := range mappings {
				m, err := t.models.Model(t.ctx, ModelKey{Network: p.network, Board: p.board, Mapping: mapping, Bandwidth: gbs, Backbone: true})
				if err != nil {
					return err
				}
				for b := 1; b <= m.Table.MaxBatch(); b++ {
					setting := fmt.Sprintf("%s/%s/-/-/%gGBps/B=%d", p.network, p.board, gbs, b)
					t.add(setting, mapping, "gops", m.gops(b), nil)
					t.add(setting, mapping, "peak_share", m.gops(b)/(2*m.PeakMACs/1e9), nil)
					t.add(setting, mapping, "batch_ns", float64(m.Table.At(0, m.Table.Segments()-1, b)), nil)
				}
			}
		}
	}
	return nil
}

// table1 compares our design points with the published design points.
func table1(t *tabler) error {
	for _, p := range table1Published {
		m, err := t.models.Model(t.ctx, ModelKey{Network: p.network, Board: p.board, Mapping: MappingFluid, Bandwidth: ServingBandwidth(p.board)})
		if err != nil {
			return err
		}
		setting := fmt.Sprintf("%s/%s/-/-", p.network, p.board)
		for _, v := range []struct {
			metric    string
			ours      int
			published float64
		}{{"T_R", m.TR, p.tr}, {"T_P", m.TP, p.tp}, {"T_C", m.TC, p.tc}, {"macs_per_cycle", m.TP * m.TC, p.tp * p.tc}} {
			t.add(setting, "design", v.metric, float64(v.ours), &v.published)
		}
		t.add(setting, "design", "dsp_share", float64(m.TP*m.TC)/boardDSPs[p.board], &p.dsp)
	}
	return nil
}
