package boards

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

func TestLoad(t *testing.T) {
	for name, want := range map[string]Board{
		"zc706":  {Device: "Z7045", DSP: 900, BRAM36: 545, URAM: 0, LUT: 218600, FF: 437200, ClockMHz: 150},
		"zcu104": {Device: "ZU7EV", DSP: 1728, BRAM36: 312, URAM: 96, LUT: 230400, FF: 460800, ClockMHz: 200},
	} {
		b, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		got := Board{Device: b.Device, DSP: b.DSP, BRAM36: b.BRAM36, URAM: b.URAM, LUT: b.LUT, FF: b.FF, ClockMHz: b.ClockMHz}
		if b.Name != name || got.Device != want.Device || got.DSP != want.DSP || got.BRAM36 != want.BRAM36 ||
			got.URAM != want.URAM || got.LUT != want.LUT || got.FF != want.FF || got.ClockMHz != want.ClockMHz {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if len(b.Published) != 2 {
			t.Errorf("%s: %d published rows", name, len(b.Published))
		}
	}
	if got := strings.Join(Names(), " "); got != "zc706 zcu104" {
		t.Errorf("Names: %s", got)
	}
}

// without is a file that lacks a key ("group.key" within a group).
func without(t *testing.T, text []byte, path string) []byte {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	in := doc
	group, key, nested := strings.Cut(path, ".")
	if nested {
		in = doc[group].(map[string]any)
	} else {
		key = path
	}
	if _, ok := in[key]; !ok {
		t.Fatalf("there is no key %s", path)
	}
	delete(in, key)
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRefuses(t *testing.T) {
	good := map[string]string{}
	for _, name := range Names() {
		text, err := files.ReadFile(name + "/board.yaml")
		if err != nil {
			t.Fatal(err)
		}
		good[name] = string(text)
		for _, key := range keys {
			_, err := Parse("x", without(t, text, key))
			if !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), `key "`+key+`" is missing`) || strings.Count(err.Error(), "\n") != 0 {
				t.Errorf("%s without %s: %v", name, key, err)
			}
		}
		for _, key := range []string{"published", "paper_mibit", "board_part"} {
			if _, err := Parse("x", without(t, text, key)); err != nil {
				t.Errorf("%s without %s: %v", name, key, err)
			}
		}
	}
	for _, c := range []struct{ board, old, new, want string }{
		{"zc706", "dsp: 900", "dsp: 0", "dsp"},
		{"zc706", "dsp: 900", "dsp: -900", "dsp"},
		{"zc706", "lut: 218600", "lut: 0", "lut"},
		{"zc706", "bram36: 545", "bram36: many", "line"},
		{"zc706", "family: xc7", "family: ecp5", "family"},
		{"zc706", "clock_mhz: 150", "clock_mhz: .nan", "clock_mhz"},
		{"zc706", "[15.3, 28]", "[]", "bytes_per_cycle"},
		{"zc706", "[15.3, 28]", "[15.3, -.inf]", "bytes_per_cycle"},
		{"zc706", "n_axi: 4", "n_axi: 5", "n_axi"},
		{"zc706", "name: zc706", "name: zc706\nspeed: 3", "speed"},
		{"zc706", "name: zc706", "name: ../zc706", "name"},
		{"zc706", "TR: 4652", "TR: 0", "published"},
		{"zc706", "paper_mibit: 19.2", "paper_mibit: -1", "paper_mibit"},
		{"zc706", "part: xc7z045", "part: xczu9", "part"},
		{"zc706", "speed_grade: -2", "speed_grade: 2", "speed_grade"},
		{"zc706", "idcode: 0x03731093", "idcode: 0x13731093", "idcode"},
		{"zc706", "ps_ref_mhz: 33.333333", "ps_ref_mhz: 0", "ps_ref_mhz"},
		{"zc706", "pl_mhz: 100", "pl_mhz: .inf", "pl_mhz"},
		{"zc706", "axi: axi3", "axi: axi4", "ports.axi"},
		{"zc706", "addr_bits: 32", "addr_bits: 40", "addr_bits"},
		{"zc706", "max_burst: 16", "max_burst: 32", "max_burst"},
		{"zc706", "axi_bytes: 8", "axi_bytes: 16", "axi_bytes"},
		{"zc706", "HP2, HP3]", "HP2, HP2]", "each once"},
		{"zc706", "HP2, HP3]", "HP2, HP4]", "HP4"},
		{"zc706", "HP2, HP3]", "HP2]", "4 names"},
		{"zc706", "port: GP0", "port: HPM0", "registers.port"},
		{"zc706", "base: 0x43C00000", "base: 0x43C01000", "registers.base"},
		{"zc706", "base: 0x43C00000", "base: 0x80000000", "registers.base"},
		{"zc706", "bytes: 0x10000}", "bytes: 0x800}", "registers.base"},
		{"zc706", "line: 0", "line: 8", "interrupt.line"},
		{"zc706", "spi: 29", "spi: 30", "interrupt.spi"},
		{"zc706", "uio: sluice-npu", "uio: a/b", "uio"},
		{"zc706", "npu_base: 0x30000000", "npu_base: 0x30000001", "npu_base"},
		{"zc706", "npu_base: 0x30000000", "npu_base: 0x3F000000", "npu_base"},
		{"zc706", "base: 0x0, bytes: 0x40000000", "base: 0x40000000, bytes: 0x100000000", "ddr"},
		{"zcu104", "[HP0, HP3]", "[HP1, HP2]", "shares with HP1"},
		{"zcu104", "max_burst: 16", "max_burst: 64", "max_burst"},
	} {
		text := strings.Replace(good[c.board], c.old, c.new, 1)
		if text == good[c.board] {
			t.Fatalf("%s has no %q", c.board, c.old)
		}
		if _, err := Parse("x", []byte(text)); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v", c.board, c.new, err)
		}
	}
	// all at once
	text := strings.NewReplacer("dsp: 900", "dsp: 0", "uio: sluice-npu\n", "", "axi: axi3", "axi: axi5", "name: zc706", "nmae: zc706").Replace(good["zc706"])
	_, err := Parse("x", []byte(text))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"dsp:", `"uio"`, "ports.axi:", "nmae", `"name"`} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("not said once of all that is wrong: %s in %v", want, err)
		}
	}
	if _, err := Load("vc707"); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), "zc706") {
		t.Errorf("Load of an unknown board: %v", err)
	}
}

// A file is a board that can be written and read again, or refused.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, err := files.ReadFile(name + "/board.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Parse("x", text)
		if err != nil {
			if !errors.Is(err, ErrBoard) {
				t.Error(err)
			}
			return
		}
		again, err := yaml.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("again", again)
		if err != nil || !reflect.DeepEqual(back, b) {
			t.Errorf("%+v is read again as %+v, %v", b, back, err)
		}
	})
}
