package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/syn"
	"github.com/sluice-npu/sluice/hw/syn/timing"
)

const netlist = `{"modules": {"t": {"ports": {}, "cells": {
  "a": {"type": "FDRE", "port_directions": {"C": "input", "D": "input", "Q": "output"}, "connections": {"C": [2], "D": [5], "Q": [3]}},
  "l": {"type": "LUT1", "port_directions": {"I0": "input", "O": "output"}, "connections": {"I0": [3], "O": [4]}},
  "b": {"type": "FDRE", "port_directions": {"C": "input", "D": "input", "Q": "output"}, "connections": {"C": [2], "D": [4], "Q": [6]}}},
  "netnames": {"a_q": {"bits": [3], "attributes": {"src": "t.sv:3.1-3.4|u.sv:9.1-12.2"}}, "b_q": {"bits": [6]}}}}}`

func TestOneNetlist(t *testing.T) {
	dir := t.TempDir()
	file, bad := filepath.Join(dir, "n.json"), filepath.Join(dir, "bad.json")
	deep, half := filepath.Join(dir, "deep.json"), filepath.Join(dir, "half.json")
	for path, text := range map[string]string{
		file: netlist, bad: strings.ReplaceAll(netlist, "LUT1", "LUT9"), half: strings.Replace(netlist, "FDRE", "FDRE_1", 1),
		deep: strings.Replace(strings.ReplaceAll(netlist, "LUT1", "cnt"), `{"modules": {`, `{"modules": {"cnt": {"cells": {}}, `, 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-netlist", file, "-top", "t"}, 0, "1 levels, 0 carry chains  a_q (t.sv:3) -> b_q"},
		{[]string{"-netlist", file, "-top", "t", "-grade", "usp-2", "-paths", "1"}, 0, "LUT1     fan-out 1"},
		{[]string{"-netlist", file, "-top", "u"}, 3, "there is no module u: -top names one of t"},
		{[]string{"-netlist", deep, "-top", "t"}, 3, "cell l is module cnt of the same file"},
		{[]string{"-netlist", half, "-top", "t"}, 0, "warning: " + half + ": registers at both edges"},
		{[]string{"-netlist", bad, "-top", "t"}, 3, "LUT9, which the model does not know"},
		{[]string{"-netlist", filepath.Join(dir, "none"), "-top", "t"}, 3, "no such file"},
		{[]string{"-netlist", file, "-top", "t", "-grade", "k9"}, 2, "there is no table k9; there are k7-2, a7-1, usp-2"},
		{[]string{"-netlist", file, "-top", "t", "-nets", "2"}, 0, " 1 levels"},
		{[]string{"-netlist", file, "-top", "t", "-distance", "zc706"}, 0, "with distances on zc706: 1205 MHz"},
		{[]string{"-netlist", file, "-top", "t", "-distance", "zcu104"}, 3, "no distances are known for table k7-2 on zcu104"},
		{[]string{"-netlist", file, "-top", "t", "-distance", "nosuch"}, 3, "there is no \"nosuch\""},
		{[]string{"-distance", "zc706", "-store"}, 2, "is not stored"},
		{[]string{"-netlist", file, "-top", "t", "-distance", "zc706", "-fill"}, 0, "with distances on zc706: 1205 MHz"},
		{[]string{"-fill"}, 2, "-fill goes with -distance"},
		{[]string{"-distance", "zc706", "-deep"}, 2, "-distance does not go with -deep"},
		{[]string{"-netlist", file, "-top", "t", "-registers"}, 0, "cell  register  with  of"},
		{[]string{"-registers"}, 2, "-registers goes with -netlist alone"},
		{[]string{"-netlist", file, "-store"}, 2, "-store does not go with -netlist"},
		{[]string{"-netlist", file, "-top", "t", "-distance", "zc706", "-every", "3"}, 0, "with distances on zc706: 813 MHz"},
		{[]string{"-nets", "0"}, 2, "-nets, -far, -every: expected more than 0"},
		{[]string{"-every", "NaN"}, 2, "-nets, -far, -every: expected more than 0"},
		{[]string{"-every", "2", "-store"}, 2, "is not stored"},
		{[]string{"-far", "2", "-store"}, 2, "is not stored"},
		{[]string{"-root", "../../../..", "-only", "zc706/nothing", "-out", ""}, 3, `unknown "zc706/nothing"`},
		{[]string{"-root", "../../../..", "-only", "zc706/fbcb,zc706/pe_arry", "-out", ""}, 3, `unknown "zc706/pe_arry"`},
		{[]string{"-root", "../../../..", "-only", "zcu104/npu_top", "-out", ""}, 3, "-tops"},
		{[]string{"-root", "../../../..", "-only", "nosuch/fbcb", "-out", ""}, 3, "which is mid, run, small, tiny"},
		{[]string{"-root", "../../../..", "-only", "small/nothing", "-out", ""}, 3, "the modules of small are npu_regs, fbcb"},
		{[]string{"-root", "../../../..", "-only", "small/fbcb", "-out", "", "-store"}, 3, "nothing is stored of small"},
		{[]string{"-root", "../../../..", "-only", "my/mine.yaml/fbcb", "-out", ""}, 3, "my/mine.yaml: no such file"},
		{[]string{"-netlist", file, "-top", "t", "-deep"}, 0, "no path is deeper than 12 levels"},
		{[]string{"-netlist", file, "-top", "t"}, 0, "estimated, by the table k7-2"},
		{[]string{"-only", ""}, 2, "-only is empty"},
		{[]string{"-family", "ice40"}, 2, ""},
		{[]string{"-family", "xcup"}, 2, "-family goes with -only"},
		{[]string{"-root", "../../../..", "-only", "zc706/fbcb", "-family", "xcup", "-out", ""}, 2, "-family xcup: zc706 is for the board zc706, whose family is xc7"},
		{[]string{"-root", "../../../..", "-only", "../../../configs/zc706.yaml/fbcb", "-family", "xcup", "-out", ""}, 2, "-family xcup: zc706 is for the board zc706, whose family is xc7"},
		{[]string{"-root", "../../../..", "-only", "zcu104-first/fbcb", "-family", "xc7", "-out", ""}, 2, "-family xc7: zcu104-first is for the board zcu104, whose family is xcup"},
		{[]string{"-core", "", "-only", "zc706/fbcb"}, 3, "-core is empty"},
		{[]string{"-paths", "-1"}, 2, "by a stated table"},
		{[]string{"more"}, 2, ""},
		{[]string{"-h"}, 0, "by a stated table"},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), tc.args, &out, &out); code != tc.code || !strings.Contains(out.String(), tc.says) {
			t.Errorf("%v: exit %d, expected %d and %q in\n%s", tc.args, code, tc.code, tc.says, &out)
		}
	}
}

// A unit of a user's configuration is synthesised with the parameters of npu_core, and is not compared with other
// results.
func TestOwnConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../../configs/zc706.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("name: zc706", "name: mine", "TP: 7 ", "TP: 6 ", "TP: 7\n", "TP: 6\n", "clock_mhz: 150", "clock_mhz: 100", "board: zc706", "board: mine").Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	list, err := jobs(&options{root: "../../../..", only: file + "/gemm_seq"}, &said)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	j := list[0]
	if j.own != file || j.config != "mine" || j.module != "gemm_seq" || !slices.Equal(j.set, []string{"NB=16"}) || j.limit != 10 || j.family != "xc7" || len(j.sources) != 64 {
		t.Errorf("%+v", j)
	}
	if want := `board "mine" is not among boards`; !strings.Contains(said.String(), want) {
		t.Errorf("%q, expected %q", &said, want)
	}
	if list, err = jobs(&options{root: "../../../..", only: file, family: "xcup"}, &said); err != nil || len(list) < 10 || list[0].family != "xcup" {
		t.Errorf("all of it: %v, %v", list, err)
	}
	// a reference design has its board's family; small has no board
	if list, err = jobs(&options{root: "../../../..", only: "zc706/gemm_seq", family: "xc7"}, &said); err != nil || len(list) != 1 || list[0].own != "" {
		t.Errorf("a reference in its family: %v, %v", list, err)
	}
	if list, err = jobs(&options{root: "../../../..", only: "small/gemm_seq", family: "xcup"}, &said); err != nil || len(list) != 1 || list[0].own != "small" || list[0].family != "xcup" {
		t.Errorf("small in another family: %v, %v", list, err)
	}
	said.Reset()
	if list, err = jobs(&options{root: "../../../..", only: file + "/gemm_seq," + file + "/pool"}, &said); err != nil || len(list) != 2 || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("two units of one: %v, %v, %q", list, err, &said)
	}
	posing := filepath.Join(t.TempDir(), "zc706.yaml") // same name as the reference, but other content
	if err := os.WriteFile(posing, []byte(strings.Replace(string(text), "TP: 7", "TP: 6", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if list, err = jobs(&options{root: "../../../..", only: posing + "/gemm_seq"}, &said); err == nil || !strings.Contains(err.Error(), "name: expected one of its own") {
		t.Errorf("one that is called like a reference: %v, %v", list, err)
	}
	if list, err = jobs(&options{root: "../../../..", only: "zc706/gemm_seq,zcu104-first/pool"}, &said); err != nil || len(list) != 2 || list[0].own != "" || list[1].own != "zcu104-first" || list[1].family != "xcup" {
		t.Errorf("a reference and another: %v, %v", list, err)
	}
	// Each table is for one speed grade.
	for board, want := range map[string]struct {
		grades, says string
	}{
		"zc706":      {"k7-2", ""},
		"pynq-z2":    {"a7-1", ""},
		"zcu104":     {"usp-2", ""},
		"ultra96-v2": {"usp-2", "no table is of ultra96-v2's part (xczu3eg-sbva484-1"},
		"kv260":      {"usp-2", "no table is of kv260's part (xck26-sfvc784-2LV"},
	} {
		file := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(file, []byte(strings.NewReplacer("name: zc706", "name: mine", "board: zc706", "board: "+board).Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		said.Reset()
		list, err := jobs(&options{root: "../../../..", only: file + "/fbcb"}, &said)
		if err != nil || len(list) != 1 {
			t.Fatal(board, list, err)
		}
		var grades []string
		for _, table := range list[0].tables {
			grades = append(grades, table.Name)
		}
		if got := strings.Join(grades, " "); got != want.grades || !strings.Contains(said.String(), want.says) || want.says == "" && said.Len() != 0 {
			t.Errorf("%s: %s, %q: expected %s, %q", board, got, &said, want.grades, want.says)
		}
	}
}

// stale names the results whose RTL has changed, except those that were just updated.
func TestStale(t *testing.T) {
	const root = "../../../.."
	s, err := timing.LoadFile(root + "/hw/syn/results/timing/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	named := func(now ...timing.Row) []string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "figures.json")
		if err := s.Write(path); err != nil {
			t.Fatal(err)
		}
		old, err := stale(root, path, timing.Summary{Rows: now})
		if err != nil {
			t.Fatal(err)
		}
		return old
	}
	for i := range s.Rows { // make all rows current
		r := &s.Rows[i]
		if r.Sources, err = syn.SourcesIn(root, r.Module); err != nil {
			t.Fatal(err)
		}
		r.Model = timing.Model()
	}
	if old := named(); len(old) != 0 {
		t.Errorf("of today's: %v", old)
	}
	const top, unit = "zc706 k7-2 npu_top", "zcu104 usp-2 drain"
	s.Find(top).Sources = strings.Repeat("0", 64)
	s.Find(unit).Model = strings.Repeat("0", 64)
	if old := named(); !slices.Equal(slices.Sorted(slices.Values(old)), []string{top, unit}) {
		t.Errorf("one of other RTL, one of another model: %v", old)
	}
	if old := named(*s.Find(top)); !slices.Equal(old, []string{unit}) {
		t.Errorf("one of them looked at: %v", old)
	}
}
