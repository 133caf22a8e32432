package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/resource"
)

// A register is attributed by its name, a LUT by the cells that it drives, through other LUTs and carries.
func TestUnits(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "hw", "rtl"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"npu_core.sv": "\n  pool #(.NB(NB)) u_pool (\n  ) u_array (\n", "npu_top.sv": "  ) u_regs (\n  ) u_core (\n"} {
		if err := os.WriteFile(filepath.Join(root, "hw", "rtl", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	split := func(text string) (map[string]resource.Cells, error) {
		n, err := read(strings.NewReader(text), root)
		if err != nil {
			return nil, err
		}
		return n.units()
	}
	const netlist = `{"modules": {"npu_top": {
  "cells": {
    "$1": {"type": "INV", "port_directions": {"I": "input", "O": "output"}, "connections": {"I": [2], "O": [3]}},
    "$2": {"type": "LUT6", "port_directions": {"I0": "input", "I1": "input", "O": "output"}, "connections": {"I0": [3], "I1": ["1"], "O": [4]}},
    "$3": {"type": "CARRY4", "port_directions": {"S": "input", "O": "output"}, "connections": {"S": ["0", 4], "O": [5, 6]}},
    "$4": {"type": "FDRE", "port_directions": {"D": "input", "Q": "output"}, "connections": {"D": [5], "Q": [7]}},
    "$5": {"type": "FDRE", "port_directions": {"D": "input", "Q": "output"}, "connections": {"D": [7], "Q": [2]}},
    "$6": {"type": "SRL16E", "port_directions": {"D": "input", "Q": "output"}, "connections": {"D": [2], "Q": [8]}},
    "u_core.u_act.mem.0.0": {"type": "RAM32M", "port_directions": {"DIA": "input", "DOA": "output"}, "connections": {"DIA": [8], "DOA": [9]}},
    "$7": {"type": "LUT1", "port_directions": {"I0": "input", "O": "output"}, "connections": {"I0": [9], "O": [10]}},
    "$8": {"type": "LUT2", "port_directions": {"I0": "input", "O": "output"}, "connections": {"I0": [9], "O": [11]}},
    "$9": {"type": "FDRE", "attributes": {"src": "npu_top.sv:2.5-3.4|hw/rtl/pe_array.sv:9.3-9.9|hw/rtl/npu_core.sv:3.5-9.4"}, "port_directions": {"D": "input", "Q": "output"},
      "connections": {"D": ["0"], "Q": [12]}}
  },
  "netnames": {"u_core.u_pool.acc_q": {"bits": [7]}, "u_regs.a_q": {"bits": [2]}, "m_o": {"bits": [10]}, "u_core.busy": {"bits": [11]}, "$1.x": {"bits": [12]},
    "u_core.u_pool.x_i": {"bits": [12]}}
}}}`
	got, err := split(netlist)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]resource.Cells{
		"pool": {LUT: 2, FF: 1}, "regs": {FF: 1}, "act": {SRL: 1}, "core": {LUT: 2},
		"array": {FF: 1}, // by its place, not by the name of where it leads
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// cells between units count with the unit after them; a cell of an unknown unit is an error
	got, err = split(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_words"))
	if err != nil || got["out"] != want["pool"] {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = split(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_start"))
	if sum := (resource.Cells{LUT: 4, FF: 1}); err != nil || got["core"] != sum {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := split(strings.ReplaceAll(netlist, "u_core.u_pool", "u_core.u_pond")); !errors.Is(err, resource.ErrRuns) || !strings.Contains(err.Error(), "u_pond") {
		t.Errorf("an instance that the law does not know: %v", err)
	}
}
