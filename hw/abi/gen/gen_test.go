package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func description(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), source))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestUpToDate is the golden test: the committed files are those generated from abi.yaml.
func TestUpToDate(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"-check", "-root", root(t)}, &out, &errs); code != 0 {
		t.Errorf("gen -check: exit %d\n%s%s", code, &out, &errs)
	}
}

// TestCheck writes into an empty tree, changes a file, and expects -check to name it.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	yaml := filepath.Join(dir, source)
	if err := os.MkdirAll(filepath.Dir(yaml), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(yaml, []byte(description(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(append(args, "-root", dir), &out, &errs); code != want {
			t.Fatalf("gen %v: exit %d, expected %d\n%s%s", args, code, want, &out, &errs)
		}
		return out.String() + errs.String()
	}
	if got := do(1, "-check"); strings.Count(got, "missing") != len(outputs) {
		t.Errorf("an empty tree: %s", got)
	}
	do(0)
	if got := do(0, "-check"); got != "" {
		t.Errorf("fresh files: %s", got)
	}
	for _, o := range outputs {
		path := filepath.Join(dir, o.path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text[:200], []byte(banner)) {
			t.Errorf("%s does not begin with the banner", o.path)
		}
		if err := os.WriteFile(path, append(text, "x\n"...), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := do(1, "-check"); !strings.HasPrefix(got, o.path+":") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s spoilt: -check says %q", o.path, got)
		}
		do(0)
	}
	do(2, "surplus")
	do(2, "-unknown")
	if err := os.WriteFile(yaml, []byte("schema: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	do(3)
}

// TestRefused makes one change per case and expects an error that names the line and the problem.
func TestRefused(t *testing.T) {
	good := description(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":         {"name: B_MAX,", "name: B_MAX, unit: samples,", `unknown key "unit"`},
		"unknown top key":     {"version: 1\n", "version: 1\nextra: 2\n", `unknown key "extra"`},
		"missing key":         {"{name: VERSION,       offset: 0x004, ", "{name: VERSION, ", `key "offset" is missing`},
		"key twice":           {"version: 1\n", "version: 1\nversion: 2\n", "stands twice"},
		"not a number":        {"value: 256,", "value: many,", "expected a number"},
		"octal":               {"value: 256,", "value: 0400,", "expected a number"},
		"negative constant":   {"value: 256,", "value: -1,", "does not fit 32 bits"},
		"wide constant":       {"value: 256,", "value: 0x100000000,", "does not fit 32 bits"},
		"schema":              {"sluice-abi/1", "sluice-abi/2", "expected sluice-abi/1"},
		"registers overlap":   {"offset: 0x008, access: ro", "offset: 0x004, access: ro", "overlaps or stands before"},
		"offset not aligned":  {"offset: 0x008, access: ro", "offset: 0x006, access: ro", "multiple of 4"},
		"offset into array":   {"count: 8,", "count: 25,", "beyond the counters"},
		"table not B_MAX":     {"count: 8,", "count: 4,", "is not B_MAX"},
		"access":              {"offset: 0x008, access: ro", "offset: 0x008, access: rx", "expected ro, rw, w1c or wo"},
		"busy":                {"access: rw, busy: ok", "access: rw, busy: maybe", "expected ok or nothing"},
		"busy of ro":          {"offset: 0x008, access: ro", "offset: 0x008, access: ro, busy: ok", "read-only"},
		"bits and fields":     {"    access: ro\n    doc: memory ports", "    access: ro\n    bits: 3\n    doc: memory ports", "exclude each other"},
		"register twice":      {"{name: VERSION, ", "{name: ID, ", "stands already at line"},
		"lower case":          {"{name: VERSION, ", "{name: version, ", "upper case"},
		"field overlap":       {"{name: AXI_BYTES, lsb: 4,", "{name: AXI_BYTES, lsb: 3,", "overlaps or stands before"},
		"field too wide":      {"{name: MAX_BURST, lsb: 12, bits: 12", "{name: MAX_BURST, lsb: 12, bits: 33", "is not in 1..32"},
		"field leaves":        {"{name: FLUID,     lsb: 26, bits: 1", "{name: FLUID,     lsb: 26, bits: 7", "leave the word"},
		"field without bits":  {"{name: N_AXI,     lsb: 0,  bits: 4", "{name: N_AXI,     lsb: 0,  bits: 0", "is not in 1..32"},
		"counter base":        {"base: 0x100", "base: 0xFFC", "misaligned or leaves"},
		"counter twice":       {"name: STARTS,", "name: MACS,", "stands already"},
		"generated twice":     {"name: STARTS,", "name: COUNT,", "generated name CNT_COUNT stands twice"},
		"op gap":              {"{name: AVG_POOL, value: 2", "{name: AVG_POOL, value: 3", "expected 2, found 3"},
		"error order":         {"code: 1, ", "code: 2, ", "expected 1, found 2"},
		"descriptor overlap":  {"word: 0,  lsb: 4, ", "word: 0,  lsb: 3, ", "overlaps or stands before"},
		"descriptor order":    {"word: 5,  lsb: 0, ", "word: 3,  lsb: 0, ", "stands behind word"},
		"descriptor hole":     {"{name: BIAS_COUNT, word: 22,", "{name: BIAS_COUNT, word: 23,", "nothing describes word 22"},
		"descriptor too long": {"{name: AVG_SHIFT,  word: 31,", "{name: AVG_SHIFT,  word: 32,", "word 32 is not in 0..31"},
		"descriptor short":    {"DESC_BYTES,  value: 128", "DESC_BYTES,  value: 132", "nothing describes word 32"},
		"descriptor twice":    {"{name: IN_W, ", "{name: IN_H, ", "stands already"},
		"signed bits":         {"word: 11, lsb: 0,  bits: 16, signed", "word: 11, lsb: 0,  bits: 12, signed", "a signed field has"},
		"signed word":         {"signed: true", "signed: yes", "expected true or false"},
		"no magic":            {"{name: MAGIC, ", "{name: MAGIK, ", "expected a field MAGIC"},
		"keyword":             {"{name: SHIFT,      word: 8", "{name: WITH,      word: 8", "reserved"},
		"fbcb overlap":        {"{name: K,         lsb: 4,", "{name: K,         lsb: 3,", "overlaps"},
		"empty list":          {"ops:\n", "ops: []\nopz:\n", "not empty"},
		"two documents":       {"schema:", "a: 1\n---\nschema:", "expected one YAML document"},
		"not a mapping":       {"  - {name: B_MAX,       value: 8,     doc: largest batch (samples of one start)}", "  - B_MAX", "expected a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(good, c.old) < 1 {
				t.Fatalf("abi.yaml no longer holds %q", c.old)
			}
			_, err := parse("abi.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "abi.yaml:") {
				t.Errorf("refused with %q, expected abi.yaml:LINE and %q", err, c.want)
			}
		})
	}
	for _, text := range []string{"", "[]", "a: [", "\x00", "&a [*a]", "- 1"} {
		if _, err := parse("abi.yaml", []byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestLine: the error names the right line.
func TestLine(t *testing.T) {
	text := description(t)
	at := strings.Index(text, "{name: AXI_BYTES, lsb: 4,")
	line := 1 + strings.Count(text[:at], "\n")
	_, err := parse("abi.yaml", []byte(strings.Replace(text, "{name: AXI_BYTES, lsb: 4,", "{name: AXI_BYTES, lsb: 3,", 1)))
	if want := "abi.yaml:" + number(int64(line)) + ":"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("refused with %v, expected %s", err, want)
	}
}

func hash(t *testing.T, text string) uint64 {
	t.Helper()
	s, err := parse("abi.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.hash
}

// TestHash: descriptions do not change the hash, meanings do.
func TestHash(t *testing.T) {
	good := description(t)
	want := hash(t, good)
	for name, c := range map[string]struct {
		old, new string
		same     bool
	}{
		"comment":          {"schema:", "# a comment\nschema:", true},
		"doc":              {"doc: largest batch", "doc: the largest batch", true},
		"error doc":        {"doc: a shift beyond its range", "doc: no such operator", true},
		"spelling":         {"value: 256,", "value: 0x100,", true},
		"key order":        {"{name: B_MAX,       value: 8,", "{value: 8, name: B_MAX,", true},
		"order":            {"  - {name: ADDR_BITS,   value: 40,    doc: width of a DRAM byte address}\n", "", false},
		"default":          {"offset: 0x080, access: rw,", "offset: 0x080, access: rw, bits: 32,", true},
		"constant":         {"value: 256,", "value: 255,", false},
		"version":          {"version: 1\n", "version: 2\n", false},
		"offset":           {"offset: 0x038,", "offset: 0x034,", false},
		"access":           {"offset: 0x080, access: rw", "offset: 0x080, access: wo", false},
		"busy":             {"offset: 0x080, access: rw", "offset: 0x080, access: rw, busy: ok", false},
		"bits":             {"bits: 6, count: 8", "bits: 5, count: 8", false},
		"field":            {"{name: LAST,  lsb: 8, bits: 8", "{name: LAST,  lsb: 8, bits: 9", false},
		"field name":       {"{name: LAST,  lsb: 8", "{name: FINAL, lsb: 8", false},
		"counter base":     {"base: 0x100", "base: 0x108", false},
		"descriptor bit":   {"{name: SHIFT,      word: 8,  lsb: 24,", "{name: SHIFT,      word: 8,  lsb: 25,", false},
		"descriptor width": {"bits: 17,", "bits: 18,", false},
		"signed":           {"bits: 16, signed: true, doc: upper", "bits: 16, signed: false, doc: upper", false},
		"fbcb":             {"{name: TILE_B,    lsb: 12,", "{name: TILE_B,    lsb: 11,", false},
		"error name":       {"name: WATCHDOG,      code", "name: TIMEOUT,      code", false},
	} {
		if strings.Count(good, c.old) < 1 {
			t.Fatalf("%s: abi.yaml no longer holds %q", name, c.old)
		}
		got := hash(t, strings.Replace(good, c.old, c.new, 1))
		if (got == want) != c.same {
			t.Errorf("%s: the hash is %016x, was %016x; expected same = %t", name, got, want, c.same)
		}
	}
	// constants may be in any order
	line := "  - {name: B_MAX,       value: 8,     doc: largest batch (samples of one start)}\n"
	moved := strings.Replace(strings.Replace(good, line, "", 1), "\n# access:", "\n"+line+"\n# access:", 1)
	if moved == good || hash(t, strings.Replace(moved, "\n\n  - {name: B_MAX", "\n  - {name: B_MAX", 1)) != want {
		t.Error("the order of constants changes the hash")
	}
	// two counters swapped changes the meaning
	a, b := "{name: MAC_CYCLES, ", "{name: STARTS, "
	swapped := strings.Replace(strings.Replace(strings.Replace(good, a, "@", 1), b, a, 1), "@", b, 1)
	if hash(t, swapped) == want {
		t.Error("swapping counters does not change the hash")
	}
}

// TestPlanned: a planned field reaches software and int8 hardware. The files of int16 hardware and the hash do not change.
func TestPlanned(t *testing.T) {
	at := "- {name: MAGIC,      word: 0,"
	more := strings.Replace(description(t), at, "- {name: SOON, word: 0, lsb: 20, bits: 1, planned: true, doc: x}\n  "+at, 1)
	was, err := parse("was", []byte(description(t)))
	if err != nil {
		t.Fatal(err)
	}
	is, err := parse("is", []byte(more))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		a, errA := o.emit(was)
		b, errB := o.emit(is)
		gets := slices.Contains([]string{"hw/abi/abi_gen.go", "hw/abi/REFERENCE.md", "hw/rtl/int8/abi_pkg.sv", "hls/include/sluice_planned.hpp"}, o.path)
		if errA != nil || errB != nil || bytes.Equal(a, b) == gets {
			t.Errorf("%s: a planned field changes it: %t, expected %t (%v, %v)", o.path, !bytes.Equal(a, b), gets, errA, errB)
		}
	}
	if is.hash != was.hash {
		t.Error("a planned field changes the hash")
	}
}

func TestCamel(t *testing.T) {
	for in, want := range map[string]string{
		"CTRL": "Ctrl", "BUILD_TR": "BuildTR", "W_OFFSET_1": "WOffset1", "IRQ_STATUS": "IRQStatus",
		"B_R": "BR", "KEEP_IN": "KeepIn", "TILE_ROWS": "TileRows", "ABI_HASH0": "ABIHash0",
	} {
		if got := camel(in); got != want {
			t.Errorf("camel(%s) = %s, expected %s", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("../abi.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("schema: sluice-abi/1\nversion: 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse("abi.yaml", text)
		if err != nil {
			return
		}
		for _, o := range outputs {
			if _, err := o.emit(s); err != nil {
				t.Errorf("accepted, but %s cannot be emitted: %v", o.path, err)
			}
		}
	})
}
