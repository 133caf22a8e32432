package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

func TestRun(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	dir := t.TempDir()
	d, err := configs.Load("zcu104")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := syn.SourcesIn(root, "pe_array")
	if err != nil {
		t.Fatal(err)
	}
	for i, suffix := range []string{"", "-nofluid", "-nostack", "-plain"} {
		c := d
		c.Name, c.Fluid, c.Stack = d.Name+suffix, i%2 == 0, i/2 == 0
		r := syn.Run{
			Config: c.Name, Design: c, DesignHash: fmt.Sprintf("%016x", c.Hash()), Family: "xcup", Top: "pe_array", Tool: "Yosys 0.23",
			Sources: sources, Resources: syn.Resources{DSP: 1716, BRAM18: 528, LUT: 40000 - 5000*i}, PackedDSP: 1716,
		}
		if i == 3 {
			r.Sources = strings.Repeat("0", 64)
		}
		if _, err := syn.Store(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"-dir " + dir, 0, []string{"synthesised, yosys 0.23", "1716", "264", "stale", "current", "2.17 %", "4.34 %"}},
		{"-current -dir " + dir, 1, []string{"1 of 4 results are stale"}},
		{"-dir " + t.TempDir(), 3, []string{"no results"}},
		{"-bogus", 2, []string{"Example"}},
		{"more", 2, []string{"Example"}},
		{"-help", 0, []string{"Example"}},
	} {
		var out bytes.Buffer
		code := run(append([]string{"-root", root}, strings.Fields(c.args)...), &out, &out)
		if code != c.code {
			t.Errorf("%s: code %d, expected %d:\n%s", c.args, code, c.code, &out)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", c.args, want, &out)
			}
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"-root", root, "-dir", dir, "-json"}, &out, &errs); code != 0 {
		t.Fatal(code, &errs)
	}
	var doc struct {
		Label     string
		Resources []struct {
			Config  string
			Current bool
		}
		Overheads []syn.Overhead
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Label != "synthesised" || len(doc.Resources) != 4 ||
		!doc.Resources[0].Current || doc.Resources[2].Current || len(doc.Overheads) != 1 || doc.Overheads[0].StackLUTs != 10000 {
		t.Errorf("%+v, %v", doc, err)
	}
}
