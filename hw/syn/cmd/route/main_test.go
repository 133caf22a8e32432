package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	other := filepath.Join(t.TempDir(), "picorv32.v")
	if err := os.WriteFile(other, []byte("module other ();\nendmodule\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "on an ECP5"},
		{nil, 2, "-core"},
		{[]string{"-stored", "-store"}, 2, "-core"},
		{[]string{"-stored", "more"}, 2, "-core"},
		{[]string{"-root", "../../../..", "-stored"}, 0, "picorv32_axi"},
		{[]string{"-root", "../../../..", "-stored", "-only", "run_gen"}, 0, "run_gen"},
		{[]string{"-root", "../../../..", "-stored", "-only", "run_gin"}, 3, `unknown "run_gin"`},
		{[]string{"-root", t.TempDir(), "-stored"}, 3, "small-picorv32_axi.json"},
		{[]string{"-root", "../../../..", "-core", other + "x"}, 3, "no such file"},
		{[]string{"-root", "../../../..", "-core", other}, 3, "not the picorv32"},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), tc.args, &out, &out); code != tc.code || !strings.Contains(out.String(), tc.says) {
			t.Errorf("%v: exit %d, expected %d and %q in\n%s", tc.args, code, tc.code, tc.says, &out)
		}
	}
}
