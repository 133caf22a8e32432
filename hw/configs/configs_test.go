package configs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

func TestEmbedded(t *testing.T) {
	if got, want := Names(), []string{"mid", "run", "small", "tiny", "tinyx", "v13", "v13x", "v5", "v7", "v8", "zc706", "zc706-first", "zc706-mobile", "zcu104", "zcu104-first", "zcu104-mobile", "zcu104-three"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %v, expected %v", got, want)
	}
	hashes := map[uint64]string{}
	for _, name := range Names() {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if d.Reason == "" {
			t.Errorf("%s gives no reason", name)
		}
		if other, dup := hashes[d.Hash()]; dup {
			t.Errorf("%s and %s are the same hardware", name, other)
		}
		hashes[d.Hash()] = name
		path := filepath.Join(t.TempDir(), "copy.yaml")
		text, err := files.ReadFile(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(path); err != nil || got != d {
			t.Errorf("%s read from a file: %+v, %v", name, got, err)
		}
		// a bundle keeps a Design as JSON
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back Design
		if err := json.Unmarshal(raw, &back); err != nil || back != d {
			t.Errorf("%s through JSON: %+v, %v", name, back, err)
		}
	}
}

// Designs of int8 in their own files, with arrays that no int16 configuration has.
func TestInt8Files(t *testing.T) {
	names, err := filepath.Glob("int8/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, file := range names {
		d, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Elaborates(), d.OwnName()); err != nil || !d.Int8() || d.Name+".yaml" != filepath.Base(file) {
			t.Errorf("%s: %+v, %v", file, d, err)
		}
	}
}

func TestDerived(t *testing.T) {
	for tp, want := range map[int]int{2: 4, 3: 8, 4: 8, 5: 16, 7: 16, 8: 16, 9: 32, 13: 32, 64: 128} {
		if got := (Design{TP: tp}).NB(); got != want {
			t.Errorf("NB for T_P = %d is %d, expected %d", tp, got, want)
		}
	}
	d, err := Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	if d.ABufElems() != 16*14336 || d.MACs() != 896 {
		t.Errorf("zc706: %d elements, %d MACs", d.ABufElems(), d.MACs())
	}
}

// sample is a legal design that does not come from a file.
func sample() Design {
	return Design{
		Name: "sample", Reason: "tests", TR: 256, TP: 8, TC: 32, NAXI: 1, AXIBytes: 8, MaxBurst: 16, WLoad: 2, Drain: 8,
		ABufWords: 1024, WRingBeats: 512, CMax: 512, Stack: true, Fluid: true, ClockMHz: 150, DRAM: DRAM{8, 100},
	}
}

// TestHash pins the hash of one design, and shows which fields it includes.
func TestHash(t *testing.T) {
	base := sample()
	const want = 0xe0865001f037f483
	if base.Hash() != want {
		t.Errorf("the hash is %016x, expected %016x: bitstreams and bundles made before are refused", base.Hash(), uint64(want))
	}
	same := base
	same.Name, same.Reason, same.Board, same.ClockMHz, same.DRAM = "x", "y", "zc706", 1, DRAM{1, 1}
	if same.Hash() != base.Hash() {
		t.Error("name, reason, board, clock or DRAM change the hash")
	}
	for i, change := range []func(*Design){
		func(d *Design) { d.TR *= 2 },
		func(d *Design) { d.TP++ },
		func(d *Design) { d.TC++ },
		func(d *Design) { d.NAXI++ },
		func(d *Design) { d.AXIBytes = 16 },
		func(d *Design) { d.MaxBurst++ },
		func(d *Design) { d.WLoad++ },
		func(d *Design) { d.Drain++ },
		func(d *Design) { d.ABufWords++ },
		func(d *Design) { d.WRingBeats *= 2 },
		func(d *Design) { d.Type = TypeInt8 },
		func(d *Design) { d.CMax++ },
		func(d *Design) { d.Stack = false },
		func(d *Design) { d.Fluid = false },
		func(d *Design) { d.Stub = true },
	} {
		d := base
		change(&d)
		if d.Hash() == base.Hash() {
			t.Errorf("change %d does not change the hash", i)
		}
		if slices.Equal(d.VerilatorParams(), base.VerilatorParams()) {
			t.Errorf("change %d does not reach Verilator", i)
		}
	}
}

func TestVerilatorParams(t *testing.T) {
	got := strings.Join(sample().VerilatorParams(), " ")
	want := "-GT_R=256 -GT_P=8 -GT_C=32 -GN_AXI=1 -GAXI_BYTES=8 -GMAX_BURST=16 -GW_LOAD=2 -GDRAIN=8 -GABUF_WORDS=1024 " +
		"-GWRING_BEATS=512 -GC_MAX=512 -GSTUB=0 -GSTACK=1 -GFLUID=1 -GDESIGN_HASH=64'he0865001f037f483"
	if got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
}

func TestValidate(t *testing.T) {
	base := sample()
	if err := base.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field  string
		change func(*Design)
		ok     bool
	}{
		{"name", func(d *Design) { d.Name = "" }, false},
		{"name", func(d *Design) { d.Name = "../x" }, false},
		{"board", func(d *Design) { d.Board = "../other" }, false},
		{"board", func(d *Design) { d.Board = "other" }, true},
		{"TR", func(d *Design) { d.TR = 8 }, false},
		{"TR", func(d *Design) { d.TR = 48 }, false},
		{"TR", func(d *Design) { d.TR = 3072 }, false},
		{"TR", func(d *Design) { d.TR = 16 }, true},
		{"TR", func(d *Design) { d.TR = -1024 }, false},
		{"TP", func(d *Design) { d.TP = 1 }, false},
		{"TP", func(d *Design) { d.TP = 65 }, false},
		{"TP", func(d *Design) { d.Type, d.TP = TypeInt8, 3 }, false},
		{"TC", func(d *Design) { d.TC = 1 }, false},
		{"TC", func(d *Design) { d.TC = 513 }, false},
		{"n_axi", func(d *Design) { d.NAXI = 0 }, false},
		{"n_axi", func(d *Design) { d.NAXI = 5 }, false},
		{"axi_bytes", func(d *Design) { d.AXIBytes = 4 }, false},
		{"max_burst", func(d *Design) { d.MaxBurst = 257 }, false},
		{"max_burst", func(d *Design) { d.MaxBurst = 256 }, true},
		{"w_load", func(d *Design) { d.WLoad = 0 }, false},
		{"w_load", func(d *Design) { d.WLoad = d.TC + 1 }, false},
		{"drain", func(d *Design) { d.Drain = d.TC + 1 }, false},
		{"abuf_words", func(d *Design) { d.ABufWords = 0 }, false},
		{"wring_beats", func(d *Design) { d.WRingBeats = 100 }, false},
		{"c_max", func(d *Design) { d.CMax = 0 }, false},
		{"TR", func(d *Design) { d.TR, d.TC, d.CMax = 1<<16, 256, 1024 }, false},
		{"c_max", func(d *Design) { d.CMax = 1<<16 - 2*d.TC }, true},
		{"c_max", func(d *Design) { d.CMax = 1<<16 - 2*d.TC + 1 }, false},
		{"clock_mhz", func(d *Design) { d.ClockMHz = 0 }, false},
		{"dram.bytes_per_cycle", func(d *Design) { d.DRAM.BytesPerCycle = -1 }, false},
		{"dram.latency_cycles", func(d *Design) { d.DRAM.LatencyCycles = -1 }, false},
	} {
		d := base
		c.change(&d)
		err := d.Validate()
		if c.ok {
			if err != nil {
				t.Errorf("%s: %v", c.field, err)
			}
			continue
		}
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field {
			t.Errorf("expected %s to be refused, got %v", c.field, err)
		}
	}
	if err := (Design{}).Validate(); err == nil {
		t.Error("the zero design is accepted")
	}
}

// The table in hw/REFERENCE.md has exactly the keys of a file.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A configuration\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		if cell := strings.SplitN(line, "|", 3); len(cell) == 3 {
			for i, s := range strings.Split(cell[1], "`") {
				if i%2 == 1 {
					got = append(got, s)
				}
			}
		}
	}
	for _, k := range tags {
		if k.key != "dram" { // the table names the keys inside it
			want = append(want, k.key)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the table names %q, a file has %q", got, want)
	}
}

// A configuration with the name of an embedded one must have the same hardware.
func TestOwnName(t *testing.T) {
	tiny, err := Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		refused bool
		change  func(*Design)
	}{
		{false, func(d *Design) { d.ClockMHz++ }},
		{true, func(d *Design) { d.NAXI++ }},
		{false, func(d *Design) { d.NAXI++; d.Name = "tiny9" }},
		{true, func(d *Design) { d.Name = "runtime" }},
		{true, func(d *Design) { d.Name = "tiny-check" }},
	} {
		d := tiny
		c.change(&d)
		err := d.OwnName()
		var fe *FieldError
		if c.refused != errors.As(err, &fe) || c.refused && (fe.Field != "name" || !strings.Contains(err.Error(), "hw/configs/tiny.yaml") && d.Name == "tiny") {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// Values at which the RTL would stop are rejected before anything is built.
func TestElaborates(t *testing.T) {
	for _, name := range Names() {
		if d, err := Load(name); err != nil || d.Elaborates() != nil {
			t.Errorf("%s: %v, %v", name, err, d.Elaborates())
		}
	}
	for _, c := range []struct {
		field  string // "": accepted
		change func(*Design)
	}{
		{"", func(*Design) {}},
		{"name", func(d *Design) { d.Name = "" }},
		{"TP", func(d *Design) { d.TP = 17 }},
		{"TP", func(d *Design) { d.Type, d.TP = TypeInt8, 31 }},
		{"TC", func(d *Design) { d.TC = 33 }},
		{"TC", func(d *Design) { d.TC = 31 }},
		{"TC", func(d *Design) { d.TC, d.Drain = 10, 2 }}, // TC/2 is odd: no even drain divides it
		{"", func(d *Design) { d.TC, d.Drain, d.CMax = 12, 6, 126 }},
		{"w_load", func(d *Design) { d.WLoad = 3 }},
		{"drain", func(d *Design) { d.Drain = 5 }},
		{"drain", func(d *Design) { d.Drain = 12 }},
		{"drain", func(d *Design) { d.Drain = 32 }},
		{"drain", func(d *Design) { d.TP, d.TC, d.Drain = 2, 128, 16 }},
		{"c_max", func(d *Design) { d.CMax = 500 }},
		{"wring_beats", func(d *Design) { d.WRingBeats = 16 }},
		{"", func(d *Design) { d.WRingBeats = 32 }},
		{"wring_beats", func(d *Design) { d.NAXI, d.WRingBeats = 2, 32 }}, // wide beats of 16 bytes
		{"", func(d *Design) { d.NAXI, d.WRingBeats = 4, 64 }},            // of 32: requests of 8
		{"axi_bytes", func(d *Design) { d.TP, d.AXIBytes, d.Drain = 2, 16, 2 }},
		{"type", func(d *Design) { d.Type = "int4" }},
		{"", func(d *Design) { d.Type = TypeInt8 }},
		{"axi_bytes", func(d *Design) { d.TP, d.AXIBytes, d.Drain, d.Type = 4, 16, 2, TypeInt8 }}, // one byte per lane
		{"c_max", func(d *Design) { d.CMax, d.Type = 32736, TypeInt8 }},
	} {
		d := sample()
		c.change(&d)
		err := d.Elaborates()
		var fe *FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field) {
			t.Errorf("expected %q to be refused of %+v, got %v", c.field, d, err)
		}
	}
}

// Values that the RTL supports and the HLS kernel does not give a message, not a compiler error.
func TestForHLS(t *testing.T) {
	for _, c := range []struct {
		field, says string // "": accepted
		change      func(*Design)
	}{
		{"", "", func(*Design) {}},
		{"TC", "even", func(d *Design) { d.TC = 33 }},
		{"stub", "multipliers", func(d *Design) { d.Stub = true }},
		{"", "", func(d *Design) { d.Type = TypeInt8 }},
		{"abuf_words", "even", func(d *Design) { d.ABufWords = 1023 }},
		{"wring_beats", "more than 32", func(d *Design) { d.WRingBeats = 32 }},
		{"", "", func(d *Design) { d.WRingBeats = 64 }},
	} {
		d := sample()
		c.change(&d)
		if c.field != "TC" && d.Elaborates() != nil {
			t.Errorf("%+v: %v", d, d.Elaborates())
		}
		err := d.ForHLS()
		var fe *FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("expected %q to be refused of %+v, got %v", c.field, d, err)
		}
	}
}

func TestParseRefused(t *testing.T) {
	raw, err := yaml.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	if d, err := Parse("f.yaml", raw); err != nil || d != sample() {
		t.Fatalf("the sample comes back as %+v, %v", d, err)
	}
	if _, err := Parse("f.yaml", []byte("# nothing\n")); err == nil || !strings.Contains(err.Error(), "f.yaml: expected a YAML document, found none") {
		t.Errorf("an empty file: %v", err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":    {"TR: 256", "TR: 256\nTQ: 1", "TQ"},
		"nested key":     {"latency_cycles: 100", "latency_cycles: 100\n    banks: 8", "banks"},
		"missing key":    {"stack: true", "# ", `"stack" is missing`},
		"key twice":      {"TR: 256", "TR: 256\nTR: 256", "already defined"},
		"not a number":   {"TR: 256", "TR: many", "many"},
		"fraction":       {"TR: 256", "TR: 256.5", "256.5"},
		"octal":          {"TR: 256", "TR: 0256", "line 4: a number is ambiguous: octal or decimal: 0256"},
		"UTF-16":         {"", "\xff\xfe", "UTF-16"},
		"null":           {"stack: true", "stack: null", "stack"},
		"null stub":      {"stub: false", "stub: null", "stub"},
		"text as bool":   {"fluid: true", "fluid: yes", "fluid"},
		"number as bool": {"post: false", "post: 1", `post: expected true or false, found int "1"`},
		"text as number": {"TR: 256", "TR: many", `f.yaml:4: TR: expected a whole number, found str "many"`},
		"list":           {"TR: 256", "TR: [256]", "f.yaml:4: TR: expected a whole number, found seq"},
		"null dram":      {"bytes_per_cycle: 8", "bytes_per_cycle: null", "dram.bytes_per_cycle"},
		"no latency":     {"latency_cycles: 100", "# none", "dram.latency_cycles"},
		"not a number2":  {"clock_mhz: 150", "clock_mhz: .nan", "clock_mhz"},
		"infinite":       {"clock_mhz: 150", "clock_mhz: .inf", "clock_mhz"},
		"range":          {"TP: 8", "TP: 100", "TP: expected 2..16, found 100"},
		"two documents":  {"clock_mhz", "---\nclock_mhz", ""},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%s: the sample does not hold %q", name, c.old)
		}
		_, err := Parse("f.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load("nosuch"); err == nil || !strings.Contains(err.Error(), "zc706") {
		t.Errorf("an unknown name: %v", err)
	}
	if _, err := Load("./nosuch.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	long := filepath.Join(t.TempDir(), "long.yaml")
	if err := os.WriteFile(long, []byte(strings.Repeat("# \n", maxFile)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range Names() {
		text, err := files.ReadFile(n + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("f.yaml", text)
		if err != nil {
			return
		}
		if err := d.Validate(); err != nil {
			t.Errorf("accepted, yet %v", err)
		}
	})
}

func TestInt8ByName(t *testing.T) {
	d, err := Load("run-int8")
	base, errBase := Load("run")
	if err != nil || errBase != nil || d != base.Typed("int8") || d.Name != "run-int8" || d.Hash() == base.Hash() {
		t.Fatalf("run-int8 is %+v (%v, %v), expected run of that type", d, err, errBase)
	}
	if back := d.Typed("int16"); back != base {
		t.Errorf("run-int8 in int16 is %+v, expected run", back)
	}
	if err := d.OwnName(); err != nil {
		t.Error(err)
	}
	if d.TR *= 2; d.OwnName() == nil {
		t.Error("a design of other parameters may be called run-int8")
	}
	if _, err := Load("none-int8"); err == nil || !strings.Contains(err.Error(), `there is no "none-int8"`) {
		t.Error(err)
	}
	for name, says := range map[string]string{"tiny-int8": "tiny-int8: TP: expected 4..30, found 3", "tinyx-int8": "TP: expected 4..30", "small-int8": "", "tiny": ""} {
		if _, err := Load(name); (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", name, err, says)
		}
	}
}
