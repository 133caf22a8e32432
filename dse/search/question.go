package search

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// Param is a part of what a sweep was asked, by the name of its flag.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Ask is a Param of any value.
func Ask(name string, v any) Param {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v))
	}
	return Param{name, string(text)}
}

// question is all that the sweep's result depends on, beside the law and the network's layers.
func (s *sweep) question() []Param {
	g, o := &s.g, &s.o
	x, most, template := g.Axes, g.Budget, g.Template
	template.Name, template.Reason, template.DRAM = "", "", configs.DRAM{}
	q := []Param{
		Ask("--network", s.w.Parts), Ask("--board", g.Board), Ask("--bytes-per-cycle", g.Template.DRAM), Ask("--template", template),
		Ask("--mapping", []any{g.Mapping.Points, g.Mapping.Orders}), Ask("--tp", g.TP), Ask("--tc", g.TC), Ask("--tr", g.TR),
		Ask("--clock", x.ClockMHz), Ask("--bandwidth", x.BytesPerCycle), Ask("--ports", x.NAXI), Ask("--port-bytes", x.AXIBytes),
		Ask("--w-load", x.WLoad), Ask("--drain", x.Drain), Ask("--ring", x.WRingBeats), Ask("--abuf", x.ABufWords),
		Ask("--max-dsp", most.DSP), Ask("--max-bram", most.BRAM36), Ask("--max-uram", most.URAM), Ask("--max-lut", most.LUT), Ask("--max-ff", most.FF),
		Ask("--margin", most.Margin),
		Ask("--objective", o.Objective), Ask("--cost", o.Cost), Ask("--weights", o.Weights), Ask("--exit-rate", s.reach), Ask("--max-latency", o.MaxLatency),
		Ask("--exhaustive", o.Exhaustive), Ask("bands", []float64{o.Band, o.CostBand}), Ask("energies", o.Energy), Ask("designs a chunk", chunk),
	}
	if o.Service != nil {
		q = append(q, o.Service.Asked...)
	}
	return q
}

// changed names what another question differs in, with both values where they are short.
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
			out = append(out, fmt.Sprintf("%s was %s, is %s", p.Name, short(was), short(p.Value)))
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

func short(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
