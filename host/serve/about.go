// Metadata, configuration and statistics of models.

package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

type tensorDoc struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

type modelDoc struct {
	Name     string      `json:"name"`
	Versions []string    `json:"versions"`
	Platform string      `json:"platform"`
	Inputs   []tensorDoc `json:"inputs"`
	Outputs  []tensorDoc `json:"outputs"`
}

const platform = "sluice_bundle"

// width returns the number of elements per sample of an output.
func (m *Model) width(output string) int64 {
	if output == "logits" {
		return int64(m.classes)
	}
	return 1
}

func datatype(output string) string {
	if output == "logits" || output == "confidence" {
		return "FP32"
	}
	return "INT32"
}

func (s *Server) describe(name, version string) (*modelDoc, error) {
	m, err := s.model(name, version)
	if err != nil {
		return nil, err
	}
	d := &modelDoc{
		Name: m.name, Versions: s.versions(name), Platform: platform,
		Inputs: []tensorDoc{{m.inputName(), "FP32", append([]int64{-1}, m.dims()...)}},
	}
	for _, o := range m.names() {
		d.Outputs = append(d.Outputs, tensorDoc{o, datatype(o), []int64{-1, m.width(o)}})
	}
	return d, nil
}

// config returns the model's configuration in Triton's format. The model is marked as decoupled, because a stream
// returns an answer at each exit.
func (s *Server) config(name, version string) (*oip.ModelConfig, error) {
	m, err := s.model(name, version)
	if err != nil {
		return nil, err
	}
	types := map[string]oip.DataType{"FP32": oip.DataType_TYPE_FP32, "INT32": oip.DataType_TYPE_INT32}
	c := &oip.ModelConfig{
		Name: m.name, Platform: platform, Backend: Name, MaxBatchSize: int32(s.opts.Limits.Samples),
		Input:                  []*oip.ModelInput{{Name: m.inputName(), DataType: oip.DataType_TYPE_FP32, Dims: m.dims()}},
		ModelTransactionPolicy: &oip.ModelTransactionPolicy{Decoupled: true},
		Parameters:             map[string]*oip.ModelParameter{},
	}
	for _, o := range m.names() {
		c.Output = append(c.Output, &oip.ModelOutput{Name: o, DataType: types[datatype(o)], Dims: []int64{m.width(o)}})
	}
	exits := make([]string, len(m.net.Exits))
	for i, e := range m.net.Exits {
		exits[i] = e.Name
	}
	theta, err := json.Marshal(m.set.Theta)
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{
		"policy": m.set.Policy, "exits": fmt.Sprint(len(exits)), "exit_names": strings.Join(exits, ","), "exit_threshold": string(theta), "slo_us": fmt.Sprint(int64(m.set.SLO) / 1000),
		"preprocess": m.about.Pixels, m.net.Type() + "_scale": m.net.Scale(), "warning": m.about.Warning,
		"queue": fmt.Sprint(m.set.Queue), "priorities": fmt.Sprint(m.set.Priorities), "device": m.on.name, "label": m.on.info.Label, "bundle_hash": fmt.Sprintf("%016x", m.hash),
	} {
		if v != "" {
			c.Parameters[k] = &oip.ModelParameter{StringValue: v}
		}
	}
	return c, nil
}

// statistics returns the statistics of one model, or of all models.
func (s *Server) statistics(name, version string) (*oip.ModelStatisticsResponse, error) {
	if name != "" {
		if _, err := s.model(name, version); err != nil {
			return nil, err
		}
	}
	out := &oip.ModelStatisticsResponse{}
	s.book.mu.Lock()
	now := s.look() // not published, because a request for statistics must not update the status page
	s.book.mu.Unlock()
	for _, st := range now.Models {
		if name != "" && st.Name != name || version != "" && st.Version != version {
			continue
		}
		of := func(d Durations) *oip.StatisticDuration { return &oip.StatisticDuration{Count: d.Count, Ns: d.Ns} }
		none := of(Durations{Count: st.Compute.Count}) // clients expect the three compute counts to be equal
		ms := &oip.ModelStatistics{
			Name: st.Name, Version: st.Version, LastInference: uint64(st.Last), InferenceCount: st.Samples,
			InferenceStats: &oip.InferStatistics{
				Success: of(st.Success), Fail: of(st.Fail), Queue: of(st.Queue), ComputeInput: none,
				ComputeInfer: of(st.Compute), ComputeOutput: none, CacheHit: of(Durations{}), CacheMiss: of(Durations{}),
			},
		}
		for _, size := range slices.Sorted(maps.Keys(st.Executions)) {
			d := st.Executions[size]
			ms.ExecutionCount += d.Count
			none := of(Durations{Count: d.Count})
			ms.BatchStats = append(ms.BatchStats, &oip.InferBatchStatistics{BatchSize: uint64(size), ComputeInfer: of(d), ComputeInput: none, ComputeOutput: none})
		}
		out.ModelStats = append(out.ModelStats, ms)
	}
	return out, nil
}
