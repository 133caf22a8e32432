package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../../../../hw/configs/zcu104.yaml")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "odd.yaml")
	if err := os.WriteFile(odd, []byte(strings.NewReplacer("name: zcu104", "name: odd", "abuf_words: 16384", "abuf_words: 8194").Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "boardip: -board is missing\n"},
		{[]string{"-out", dir}, 2, "boardip: -board is missing\n"},
		{[]string{"-board", "zc706"}, 2, "boardip: -out is missing\n"},
		{[]string{"-board", "zc706", "-out", dir, "small"}, 2, `boardip: unexpected "small"`},
		{[]string{"-h"}, 0, "Example: "},
		{[]string{"-board", "zcu104", "-config", odd, "-out", dir}, 3, "abuf_words: expected a multiple of 4"},
		{[]string{"-board", "zc706", "-config", "small", "-out", dir}, 0, ""},
		{[]string{"-board", "zc706", "-config", "small", "-out", dir, "-check"}, 0, ""},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("boardip %v: exit %d, expected %d and %q: %s", c.args, code, c.code, c.says, &errs)
		}
	}
}
