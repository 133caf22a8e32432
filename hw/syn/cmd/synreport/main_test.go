package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// folder writes the files of a small run, with changes.
func folder(t *testing.T, change map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	small, err := configs.Load("small")
	if err != nil {
		t.Fatal(err)
	}
	levels := make([]string, syn.LevelBits(small, "xc7", "npu_top"))
	for i := range levels {
		levels[i] = fmt.Sprintf(`"%d":{"type":"FDRE","attributes":{"src":"hw/rtl/level.sv:14.13-14.46"}}`, i)
	}
	files := map[string]string{
		"netlist.json": `{"modules":{"npu_top":{"cells":{` + strings.Join(levels, ",") + `}}}}`,
		"stat.txt":     "=== npu_top ===\n   Number of cells:      38\n     DSP48E1    36\n     FDRE     2\n",
		"mem.txt":      "  cell $mem_v2 \\u.mem\n    parameter \\SIZE 512\n    parameter \\WIDTH 16\n",
		"words.txt":    "npu_top/u.q[0]\nnpu_top/u.q[1]\n",
		"packed.txt":   "36\n",
		"log":          "mapping memory npu_top.u.mem via $__XILINX_BLOCKRAM_TDP_\nCPU: user 1.50s system 0.25s\n",
	}
	for name, text := range change {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		args   []string
		code   int
		want   string
	}{
		"good":        {code: 0, want: "DSP 36 (with PREG 36)"},
		"latch":       {change: map[string]string{"log": "mapping memory npu_top.u.mem via $__XILINX_BLOCKRAM_TDP_\nLatch inferred for signal `\\x'\n"}, code: 1, want: "a latch"},
		"unpacked":    {change: map[string]string{"packed.txt": "0\n"}, code: 1, want: "adders went to LUTs"},
		"merged":      {change: map[string]string{"netlist.json": `{"modules":{"npu_top":{"cells":{}}}}`}, code: 1, want: "0 flip-flops in level.sv"},
		"foreign":     {change: map[string]string{"stat.txt": "=== npu_top ===\n   Number of cells:      36\n     DSP48E2    36\n"}, code: 1, want: "36 cells DSP48E2 in a netlist for xc7"},
		"no netlist":  {change: map[string]string{"netlist.json": ""}, code: 3, want: "netlist.json"},
		"large in FF": {change: map[string]string{"log": "using FF mapping for memory npu_top.u.mem\n"}, code: 1, want: "512 words"},
		"no stat":     {change: map[string]string{"stat.txt": ""}, code: 3, want: "stat.txt"},
		"cut stat":    {change: map[string]string{"stat.txt": "=== npu_top ===\n"}, code: 3, want: "no statistics"},
		"bad count":   {change: map[string]string{"packed.txt": "many\n"}, code: 3, want: "packed.txt"},
		"config":      {args: []string{"-config", "nosuch"}, code: 3, want: "nosuch"},
		"extra":       {args: []string{"more"}, code: 2, want: "Usage"},
		"help":        {args: []string{"-help"}, code: 0, want: "-family"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.change)
			args := append([]string{"-config", "small", "-tool", "Yosys 0.23 (x)", "-sources", "s", "-dir", dir}, c.args...)
			var out bytes.Buffer
			if code := run(args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("code %d, expected %d and %q:\n%s", code, c.code, c.want, &out)
			}
			raw, err := os.ReadFile(filepath.Join(dir, "summary.json"))
			if (err == nil) != (name == "good") {
				t.Fatalf("summary.json: %v", err)
			}
			if err != nil {
				return
			}
			var r syn.Run
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			if r.Config != "small" || r.Tool != "Yosys 0.23 (x)" || r.Sources != "s" || r.CPUSeconds != 1.75 || len(r.Memories) != 2 || r.DesignHash == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A board that only has a user's file cannot be checked for fit here; the report says so.
func TestForeignBoard(t *testing.T) {
	text, err := os.ReadFile("../../../configs/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for board, want := range map[string]string{"my-board": "board my-board is not among boards: fit not checked", "zc706": "", `""`: ""} {
		dir := folder(t, nil)
		config := filepath.Join(dir, "small.yaml")
		if err := os.WriteFile(config, regexp.MustCompile(`(?m)^board:.*`).ReplaceAll(text, []byte("board: "+board)), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := run([]string{"-config", config, "-tool", "Yosys 0.23 (x)", "-sources", "s", "-dir", dir}, &out, &errs); code != 0 ||
			!strings.Contains(errs.String(), want) || want == "" && errs.Len() > 0 {
			t.Errorf("%s: code %d, %q, expected %q", board, code, &errs, want)
		}
	}
}

func TestStoreAndHash(t *testing.T) {
	dir, results := folder(t, nil), t.TempDir()
	var out bytes.Buffer
	args := []string{"-config", "small", "-tool", "Yosys 0.23 (x)", "-sources", strings.Repeat("a", 64), "-dir", dir, "-store", results}
	if code := run(args, &out, &out); code != 0 || !strings.Contains(out.String(), "stored in") {
		t.Fatalf("code %d: %s", code, &out)
	}
	runs, err := syn.Results(results)
	if err != nil || len(runs) != 1 || runs[0].Name() != "small-xc7" || runs[0].Memories != nil {
		t.Errorf("%+v, %v", runs, err)
	}
	f := filepath.Join(dir, "top.sv")
	if err := os.WriteFile(f, []byte("module top; endmodule\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if code := run([]string{"-hash", "-top", "top", f}, &out, &out); code != 0 || len(strings.TrimSpace(out.String())) != 64 {
		t.Errorf("code %d: %s", code, &out)
	}
	if code := run([]string{"-hash", "-top", "nosuch", f}, &out, &out); code != 3 {
		t.Errorf("code %d for a module that does not exist", code)
	}
}

// A register at a memory's output becomes part of the memory.
func TestPack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "netlist.json")
	const cells = `{"creator": "yosys", "modules": {"t": {"ports": {"q": {"bits": [5]}}, "cells": {
		"r": {"type": "URAM288", "parameters": {}, "connections": {"CLK": [2], "DOUT_A": [4]}},
		"f": {"type": "FDRE", "parameters": {}, "connections": {"C": [2], "CE": ["1"], "R": ["0"], "D": [4], "Q": [5]}}}}}}`
	if err := os.WriteFile(path, []byte(cells), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-pack", path, "-top", "t"}, 0, "1 outputs of memories have their register\n"},
		{[]string{"-pack", path, "-top", "t"}, 0, "0 outputs of memories have their register\n"},
		{[]string{"-pack", path, "-top", "u"}, 3, "module u"},
		{[]string{"-pack", path + "x", "-top", "t"}, 3, "netlist.jsonx"},
	} {
		var out bytes.Buffer
		if code := run(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: code %d, expected %d and %q:\n%s", c.args, code, c.code, c.want, &out)
		}
	}
}
