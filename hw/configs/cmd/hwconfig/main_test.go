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
		{"-whole zcu104", 2, "hwconfig: -whole needs -verilator\n"},
		{"zcu104", 0, `"design_hash"`},
		{"nosuch", 3, ""},
		{"nosuch.yml", 3, "a file that ends in .yaml"},
		{"/dev/null", 3, ""},
		{"", 2, "hwconfig: the configuration is missing"},
		{"a b", 2, `hwconfig: unexpected "b"`},
		{"-list run", 2, "hwconfig: -list goes alone"},
		{"-verilator -cpp run", 2, "hwconfig: -verilator and -cpp"},
		{"-cpp -cosim-beats 0 run", 2, "hwconfig: -cosim-beats: expected 1 or more"},
		{"-bogus", 2, ""},
		{"-help", 0, ""},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &errs); code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("hwconfig %s: exit %d, %q, %q", c.args, code, &out, &errs)
		}
	}
	// errors name the file, the key and the expected value
	text, err := os.ReadFile("../../tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, old, new, flag, want string }{ // old, new: pieces separated by #
		{"tiny", "", "", "-cpp", ""},
		{"other", "", "", "-cpp", `other.yaml: name: expected "other", as the file is called, found "tiny"`},
		{"tiny", "drain: 2 ", "drain: 3 ", "-cpp", "tiny.yaml: drain: expected an even number"},
		{"tiny", "w_load: 2", "w_load: 3", "-verilator -whole", "tiny.yaml: w_load: expected an even number"},
		{"tiny", "n_axi: 1", "n_axi: 2", "-verilator -whole", "tiny.yaml: name: expected one of its own"},
		{"tiny", "TP: 3", "TP: 1", "", "tiny.yaml: TP: expected 2..16, found 1"},
		{"tiny", "TP: 3", "TP: 17", "-verilator -whole", "tiny.yaml: TP: expected 2..16, found 17"},
		{"tiny", "TC: 4", "TC: 516", "", "tiny.yaml: TC: expected a multiple of 4 in 4..512, found 516"},
		{"tiny", "w_load: 2", "w_load: 0", "", "tiny.yaml: w_load: expected an even number in 2..4, found 0"},
		{"tiny", "drain: 2 ", "drain: 0 ", "", "tiny.yaml: drain: expected an even number that divides TC / 2 = 2, found 0"},
		{"mine", "abuf_words: 256 ", "abuf_words: 8194 ", "-verilator -whole", ""}, // without a board
		{"mine", `board: ""`, "board: zcu104", "-verilator -whole", ""},
		{"mine", `board: ""#abuf_words: 256 `, "board: zcu104#abuf_words: 8194 ", "-verilator -whole", "mine.yaml: abuf_words: expected a multiple of 4, as more than 8192 lie in the board's URAM, four to a row, found 8194"},
		{"mine", `board: ""#abuf_words: 256 `, "board: zcu104#abuf_words: 8196 ", "-verilator -whole", ""},
		{"mine", `board: ""#abuf_words: 256 `, "board: zc706#abuf_words: 8194 ", "-verilator -whole", ""}, // without URAM
		{"mine", `board: ""#abuf_words: 256 `, "board: nosuch#abuf_words: 8194 ", "-verilator -whole", ""},
		{"tiny", "n_axi: 1", "n_axi: 2", "-cpp", "tiny.yaml: name: expected one of its own"},
		{"tiny", "w_load: 2", "w_load: 3", "-verilator", ""}, // allowed for a part of the NPU
	} {
		file := filepath.Join(t.TempDir(), c.file+".yaml")
		mine := strings.Replace(string(text), "name: tiny", "name: "+strings.Replace(c.file, "other", "tiny", 1), 1)
		news := strings.Split(c.new, "#")
		for i, old := range strings.Split(c.old, "#") {
			mine = strings.Replace(mine, old, news[i], 1)
		}
		if err := os.WriteFile(file, []byte(mine), 0o644); err != nil {
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
