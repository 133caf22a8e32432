package syn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// memory returns a netlist of a memory with two outputs and a register at each.
func memory(kind, params, extra string, first, second string) []byte {
	return []byte(fmt.Sprintf(`{"creator": "test", "modules": {"t": {"attributes": {"top": "1"}, "ports": {"q": {"direction": "output", "bits": [8, 9]}}, "cells": {
		"r": {"hide_name": 0, "type": %q, "parameters": {%s}, "attributes": {"src": "x.sv:1"}, "port_directions": {}, "connections": {%s}},
		"f": {"hide_name": 1, "type": "FDRE", "parameters": {"INIT": "x"}, "attributes": {}, "port_directions": {}, "connections": {%s, "D": [4], "Q": [8]}},
		"g": {"hide_name": 1, "type": "FDRE", "parameters": {"INIT": "0"}, "attributes": {}, "port_directions": {}, "connections": {%s, "D": [5], "Q": [9]}}
	}, "netnames": {}}}}`, kind, params, extra, first, second))
}

func TestPackOutputs(t *testing.T) {
	const moves = `"C": [2], "CE": [3], "R": ["0"]`
	tdp := `"CLKARDCLK": [2], "CLKBWRCLK": [2], "REGCEAREGCE": ["0"], "REGCEB": ["0"], "DOBDO": [4, 5, 6, "x"]`
	sdp := `"CLKARDCLK": [2], "CLKBWRCLK": [2], "DOADO": [4], "DOBDO": [5]`
	for _, c := range []struct {
		name, kind, params, ports, first, second string
		want                                     string // expected in the cell; empty: the registers are not moved
	}{
		{"port B", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, moves, `"DOB_REG":"00000000000000000000000000000001"`},
		{"its enable", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, moves, `"REGCEB":[3]`},
		{"its bits, and one that nothing reads", "RAMB18E1", `"RAM_MODE": "TDP"`, tdp, moves, moves, `"DOBDO":[8,9,6,"x"]`},
		{"the other port has none", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, moves, `"REGCEAREGCE":["0"]`},
		{"as wide as both ports", "RAMB36E1", `"RAM_MODE": "SDP"`, sdp, moves, moves, `"REGCEAREGCE":[3]`},
		{"so in UltraScale+", "RAMB36E2", `"READ_WIDTH_A": "1001000"`, strings.NewReplacer("DOADO", "DOUTADOUT", "DOBDO", "DOUTBDOUT").Replace(sdp), moves, moves, `"DOUTBDOUT":[9]`},
		{"URAM", "URAM288", `"OREG_A": "FALSE"`, `"CLK": [2], "DOUT_A": [4, 5]`, moves, moves, `"OREG_A":"TRUE"`},
		{"its enable, which yosys leaves out", "URAM288", `"OREG_A": "FALSE"`, `"CLK": [2], "DOUT_A": [4, 5]`, moves, moves, `"port_directions":{"OREG_CE_A":"input"}`},
		{"another enable", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, `"C": [2], "CE": ["1"], "R": ["0"]`, ""},
		{"another clock", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, `"C": [7], "CE": [3], "R": ["0"]`, ""},
		{"a reset", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves, `"C": [2], "CE": [3], "R": [7]`, ""},
		{"read beside it", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp + `, "DIADI": [4]`, moves, moves, ""},
		{"no register", "RAMB36E1", `"RAM_MODE": "TDP"`, strings.Replace(tdp, "6, ", "8, ", 1), moves, moves, ""},
		{"has its register", "RAMB36E1", `"RAM_MODE": "TDP", "DOB_REG": "00000000000000000000000000000001"`, tdp, moves, moves, ""},
		{"an input inverted", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves + `, "D": [4], "Q": [8]}, "parameters": {"IS_D_INVERTED": "1"}, "x": {"A": [2]`, moves, ""},
		{"kept", "RAMB36E1", `"RAM_MODE": "TDP"`, tdp, moves + `, "D": [4], "Q": [8]}, "attributes": {"keep": "1"}, "x": {"A": [2]`, moves, ""},
		{"no memory", "LUT1", ``, tdp, moves, moves, ""},
	} {
		text, n, err := PackOutputs(memory(c.kind, c.params, c.ports, c.first, c.second), "t")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var doc struct {
			Modules map[string]struct {
				Cells map[string]json.RawMessage `json:"cells"`
			} `json:"modules"`
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		cells := doc.Modules["t"].Cells
		switch {
		case c.want == "" && (n != 0 || len(cells) != 3):
			t.Errorf("%s: packed %d, %d cells are left of 3", c.name, n, len(cells))
		case c.want != "" && (n != 1 || len(cells) != 1):
			t.Errorf("%s: packed %d, %d cells are left, expected the memory alone", c.name, n, len(cells))
		case !strings.Contains(string(cells["r"]), c.want):
			t.Errorf("%s: no %s in %s", c.name, c.want, cells["r"])
		}
	}
	for _, text := range []string{"", "{}", `{"modules": {"t": {"cells": {"r": {"connections": {"D": ["w"]}}}, "ports": {}}}}`} {
		if _, _, err := PackOutputs([]byte(text), "t"); !errors.Is(err, ErrPack) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
