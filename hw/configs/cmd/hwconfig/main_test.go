package main

import (
	"bytes"
	"encoding/json"
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
	var out, errs bytes.Buffer
	run([]string{"run"}, &out, &errs)
	var d configs.Design
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.TP != 8 {
		t.Errorf("JSON of run: %+v, %v", d, err)
	}
}
