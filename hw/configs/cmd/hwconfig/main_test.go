package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/configs"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-list", 0, "zc706\n"},
		{"-verilator zcu104", 0, "-GT_P=13"},
		{"-verilator -whole zcu104", 0, "-GT_P=13"},
		{"-whole zcu104", 2, ""},
		{"zcu104", 0, `"design_hash"`},
		{"nosuch", 3, ""},
		{"", 2, ""},
		{"a b", 2, ""},
		{"-list run", 2, ""},
		{"-bogus", 2, ""},
		{"-help", 0, ""},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &errs); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("hwconfig %s: exit %d, %q, %q", c.args, code, &out, &errs)
		}
	}
	// files: what is wrong is said with the file, the key and what was expected
	text, err := os.ReadFile("../../tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, old, new, flag, want string }{
		{"tiny", "", "", "-cpp", ""},
		{"other", "", "", "-cpp", `other.yaml: name: expected "other", as the file is called, found "tiny"`},
		{"tiny", "drain: 2 ", "drain: 3 ", "-cpp", "tiny.yaml: drain: expected an even number"},
		{"tiny", "w_load: 2", "w_load: 3", "-verilator -whole", "tiny.yaml: w_load: expected an even number"},
		{"tiny", "n_axi: 1", "n_axi: 2", "-verilator -whole", "tiny.yaml: name: expected one of its own"},
		{"tiny", "n_axi: 1", "n_axi: 2", "-cpp", "tiny.yaml: name: expected one of its own"},
		{"tiny", "w_load: 2", "w_load: 3", "-verilator", ""}, // a part of the NPU may do with it
	} {
		file := filepath.Join(t.TempDir(), c.file+".yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := run(append(strings.Fields(c.flag), file), &out, &errs)
		if (code == 0) != (c.want == "") || !strings.Contains(errs.String(), c.want) || code != 0 && (code != 3 || out.Len() > 0) {
			t.Errorf("%s: exit %d, %q; want %q", c.file, code, &errs, c.want)
		}
	}
	var out, errs bytes.Buffer
	run([]string{"run"}, &out, &errs)
	var d configs.Design
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.TP != 8 {
		t.Errorf("JSON of run: %+v, %v", d, err)
	}
}
