package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const netlist = `{"modules": {"t": {"ports": {}, "cells": {
  "a": {"type": "FDRE", "port_directions": {"C": "input", "D": "input", "Q": "output"}, "connections": {"C": [2], "D": [5], "Q": [3]}},
  "l": {"type": "LUT1", "port_directions": {"I0": "input", "O": "output"}, "connections": {"I0": [3], "O": [4]}},
  "b": {"type": "FDRE", "port_directions": {"C": "input", "D": "input", "Q": "output"}, "connections": {"C": [2], "D": [4], "Q": [6]}}},
  "netnames": {"a_q": {"bits": [3], "attributes": {"src": "t.sv:3.1-3.4|u.sv:9.1-12.2"}}, "b_q": {"bits": [6]}}}}}`

func TestOneNetlist(t *testing.T) {
	dir := t.TempDir()
	file, bad := filepath.Join(dir, "n.json"), filepath.Join(dir, "bad.json")
	for path, text := range map[string]string{file: netlist, bad: strings.ReplaceAll(netlist, "LUT1", "LUT9")} {
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
		{[]string{"-netlist", file, "-top", "u"}, 3, "there is no module u"},
		{[]string{"-netlist", bad, "-top", "t"}, 3, "LUT9, which the model does not know"},
		{[]string{"-netlist", filepath.Join(dir, "none"), "-top", "t"}, 3, "no such file"},
		{[]string{"-netlist", file, "-top", "t", "-grade", "k9"}, 3, "there is no table k9"},
		{[]string{"-root", "../../../..", "-only", "zc706/nothing", "-out", ""}, 3, `nothing is "zc706/nothing"`},
		{[]string{"-root", "../../../..", "-only", "zc706/fbcb,zc706/pe_arry", "-out", ""}, 3, `nothing is "zc706/pe_arry"`},
		{[]string{"-root", "../../../..", "-only", "zcu104/npu_top", "-out", ""}, 3, "-tops"},
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
