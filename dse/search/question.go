package search

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// Param is one setting of a sweep, with the name of its flag.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Ask returns a Param with any value.
func Ask(name string, v any) Param {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v))
	}
	return Param{name, string(text)}
}

// question lists all settings that the result of the sweep depends on. The law and the layers are not settings.
func (s *sweep) question() []Param {
	g, o := &s.g, &s.o
	x, most, template := g.Axes, g.Budget, g.Template
	template.Name, template.Reason, template.DRAM = "", "", configs.DRAM{}
	first, with := s.w.Parts[0], []string{}
	for _, p := range s.w.Parts[1:] {
		with = append(with, fmt.Sprintf("%s of %d segments and %d MACs=%.9g", p.Name, p.Segments, p.MACs, p.Share/first.Share))
	}
	q := []Param{
		Ask("--network", fmt.Sprintf("%s of %d segments and %d MACs", first.Name, first.Segments, first.MACs)), Ask("--with", with), Ask("--board", g.Board), Ask("--bytes-per-cycle", g.Template.DRAM), Ask("--template", template),
		Ask("--mapping", []any{g.Mapping.Points, g.Mapping.Orders}), Ask("--tp", g.TP), Ask("--tc", g.TC), Ask("--tr", g.TR),
		Ask("--clock", x.ClockMHz), Ask("--bandwidth", x.BytesPerCycle), Ask("--ports", x.NAXI), Ask("--port-bytes", x.AXIBytes),
		Ask("--w-load", x.WLoad), Ask("--drain", x.Drain), Ask("--ring", x.WRingBeats), Ask("--abuf", x.ABufWords),
		Ask("--depthwise", x.Depthwise), Ask("--post", x.Post), Ask("--type", x.Type),
		Ask("--max-dsp", most.DSP), Ask("--max-bram", most.BRAM36), Ask("--max-uram", most.URAM), Ask("--max-lut", most.LUT), Ask("--max-ff", most.FF),
		Ask("--margin", most.Margin),
		Ask("--objective", o.Objective), Ask("--cost", o.Cost), Ask("--weights", o.Weights), Ask("--exit-rate", s.reach), Ask("--max-latency", o.MaxLatency),
		Ask("--exhaustive", o.Exhaustive), Ask("bands", []float64{o.Band, o.CostBand}), Ask("energies", o.Energy), Ask("designs a chunk", chunk),
	}
	asked := slices.Clone(o.Asked)
	if o.Service != nil {
		asked = append(asked, o.Service.Asked...)
	}
	for _, p := range asked {
		if i := slices.IndexFunc(q, func(have Param) bool { return have.Name == p.Name }); i >= 0 {
			q[i] = p
		} else {
			q = append(q, p)
		}
	}
	return q
}

// changed returns an error that lists the settings that differ between two questions, with shortened values.
func changed(before, now []Param) error {
	at := map[string]string{}
	for _, p := range before {
		at[p.Name] = p.Value
	}
	var out []string
	for _, p := range now {
		was, ok := at[p.Name]
		delete(at, p.Name)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s is new: %s", p.Name, short(p.Value)))
		case was != p.Value:
			out = append(out, differences(p.Name, was, p.Value)...)
		}
	}
	for _, p := range before {
		if v, gone := at[p.Name]; gone {
			out = append(out, fmt.Sprintf("%s was %s, is not asked now", p.Name, short(v)))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return fmt.Errorf("it was asked something else: %s; remove it to begin anew", strings.Join(out, "; "))
}

// differences describes how two values differ. For JSON objects it compares the values of each key.
func differences(name, was, is string) (out []string) {
	var a, b map[string]json.RawMessage
	if json.Unmarshal([]byte(was), &a) == nil && json.Unmarshal([]byte(is), &b) == nil && a != nil && b != nil {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if x, y := string(a[k]), string(b[k]); x != y {
				out = append(out, fmt.Sprintf("%s %s was %s, is %s", name, k, short(cmp.Or(x, "absent")), short(cmp.Or(y, "absent"))))
			}
		}
	}
	if out == nil {
		out = []string{fmt.Sprintf("%s was %s, is %s", name, short(was), short(is))}
	}
	return out
}

func short(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
