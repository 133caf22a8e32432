package timing_test

import (
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/hw/syn/timing"
)

// The longest path of a netlist that yosys has written: from one register through two LUTs to another.
func ExampleNetlist_Analyse() {
	const netlist = `{"modules": {"top": {"ports": {}, "netnames": {}, "cells": {
		"from": {"type": "FDRE", "parameters": {}, "port_directions": {"Q": "output", "C": "input"}, "connections": {"Q": [10], "C": [2]}},
		"l1": {"type": "LUT1", "parameters": {}, "port_directions": {"O": "output", "I0": "input"}, "connections": {"O": [11], "I0": [10]}},
		"l2": {"type": "LUT1", "parameters": {}, "port_directions": {"O": "output", "I0": "input"}, "connections": {"O": [12], "I0": [11]}},
		"to": {"type": "FDRE", "parameters": {}, "port_directions": {"Q": "output", "D": "input", "C": "input"}, "connections": {"Q": [13], "D": [12], "C": [2]}}
	}}}}`
	n, err := timing.Read(strings.NewReader(netlist), "top")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, table := range timing.ByFamily("xcup") {
		a, err := n.Analyse(table, 1, false)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d levels, %.2f ns (estimated) to %s\n", table.Name, a.MaxLevels, a.MaxNS, a.Worst[0].To)
	}
	// Output: usp-2: 2 levels, 0.58 ns (estimated) to to
}
