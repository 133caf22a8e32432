package boards

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

func TestLoad(t *testing.T) {
	for name, want := range map[string]Board{
		"zc706":  {Device: "Z7045", DSP: 900, BRAM36: 545, URAM: 0, LUT: 218600, FF: 437200, ClockMHz: 150},
		"zcu104": {Device: "ZU7EV", DSP: 1728, BRAM36: 312, URAM: 96, LUT: 230400, FF: 460800, ClockMHz: 200},
		// DS987, DS190, DS891
		"kv260":      {Device: "XCK26", DSP: 1248, BRAM36: 144, URAM: 64, LUT: 117120, FF: 234240, ClockMHz: 200},
		"pynq-z2":    {Device: "Z7020", DSP: 220, BRAM36: 140, LUT: 53200, FF: 106400, ClockMHz: 100},
		"ultra96-v2": {Device: "ZU3EG", DSP: 360, BRAM36: 216, LUT: 70560, FF: 141120, ClockMHz: 150},
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
		published := 0
		if strings.HasPrefix(name, "zc") {
			published = 2
		}
		if len(b.Published) != published {
			t.Errorf("%s: %d published rows", name, len(b.Published))
		}
	}
	if got := strings.Join(Names(), " "); got != "kv260 pynq-z2 ultra96-v2 zc706 zcu104" {
		t.Errorf("Names: %s", got)
	}
}

// without returns a file without one of its keys ("group.key" within a group).
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
		for _, key := range slices.Concat(keys, buildKeys) {
			_, err := Parse("x", without(t, text, key))
			if !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), `key "`+key+`" is missing`) || strings.Count(err.Error(), "\n") != 0 {
				t.Errorf("%s without %s: %v", name, key, err)
			}
		}
		// only the keys for a search, none for a build
		for _, key := range append([]string{"board_part"}, buildKeys...) {
			if key == "board_part" && !strings.Contains(string(text), key) || strings.HasPrefix(key, "ports.") == false && strings.Contains(key, ".") {
				continue
			}
			text = without(t, text, key)
		}
		lacking := []string{"part", "speed_grade", "idcode", "clocks", "ports.axi", "ports.addr_bits", "ports.names", "registers", "interrupt", "uio", "ddr"}
		if b, err := Parse("x", text); err != nil || b.Buildable() || !slices.Equal(b.Lacking(), lacking) {
			t.Errorf("%s without what is for building: %v", name, err)
		}
	}
	for _, c := range []struct{ board, old, new, want string }{
		{"zc706", "dsp: 900", "dsp: 0", "dsp"},
		{"zc706", "dsp: 900", "dsp: -900", "dsp"},
		{"zc706", "dsp: 900", "dsp: 900.9", "x: bad board: dsp: expected a whole number, found 900.9"},
		{"zc706", "bram36: 545", "bram36: 94.5", "x: bad board: bram36: expected a whole number, found 94.5"},
		{"zc706", "uram: 0", "uram: 0.5", "x: bad board: uram: expected a whole number, found 0.5"},
		{"zc706", "n_axi: 4", "n_axi: 2.9", "x: bad board: ports.n_axi: expected a whole number, found 2.9"},
		{"zc706", "lut: 218600", "lut: 0", "lut"},
		{"zc706", "bram36: 545", "bram36: many", "line"},
		{"zc706", "family: xc7", "family: ecp5", "family"},
		{"zc706", "clock_mhz: 150", "clock_mhz: .nan", "x: bad board: clock_mhz: expected more than 0, at most 1000, found NaN"},
		{"zc706", "clock_mhz: 150", "clock_mhz: -150", "clock_mhz: expected more than 0, at most 1000, found -150"},
		{"zc706", "clock_mhz: 150", "clock_mhz: 150000000", "clock_mhz: expected more than 0, at most 1000, found 1.5e+08"},
		{"zc706", "dsp: 900", "dsp: 900000", "dsp: expected 1..20000, found 900000"},
		{"zc706", "bram36: 545", "bram36: 19200000", "bram36: expected 1..20000"},
		{"zc706", "uram: 0", "uram: -1", "uram: expected 0..20000"},
		{"zc706", "lut: 218600", "lut: 2186000000", "lut: expected 1..20000000"},
		{"zc706", "[15.3, 22, 24, 28]", "[15.3, 65]", "dram.bytes_per_cycle: expected more than 0, at most 64, what 4 ports of 8 bytes read and write in a cycle, found 65"},
		{"zc706", "[15.3, 22, 24, 28]", "[-15.3]", "bytes_per_cycle: expected more than 0"},
		{"zc706", "[15.3, 22, 24, 28]", "[.nan]", "bytes_per_cycle: expected more than 0"},
		{"zc706", "paper_mibit: 19.2", "paper_mibit: .inf", "paper_mibit: expected more than 0, at most 10000"},
		{"zc706", "[15.3, 22, 24, 28]", "[]", "bytes_per_cycle"},
		{"zc706", "[15.3, 22, 24, 28]", "[15.3, -.inf]", "bytes_per_cycle"},
		{"zc706", "n_axi: 4", "n_axi: 5", "n_axi"},
		{"zc706", "name: zc706", "name: zc706\nspeed: 3", "speed"},
		{"zc706", "name: zc706", "name: ../zc706", "name"},
		{"zc706", "TR: 4652", "TR: 0", "published"},
		{"zc706", "paper_mibit: 19.2", "paper_mibit: -1", "paper_mibit"},
		{"zc706", "paper_mibit: 19.2", "# published rows alone", "paper_mibit"},
		{"zc706", "paper_mibit: 19.2", "---\npaper_mibit: 19.2", "one YAML document"},
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
		{"zc706", "idcode: 0x03731093", "idcode: 0x03727093", "idcode: expected 0x03731093, that of xc7z045"},
		{"zc706", "speed_grade: -2", "speed_grade: -1", "speed_grade: expected -2, as part"},
		{"zc706", "device: Z7045", "device: Z7020", "device: expected the device of part"},
		{"zc706", "device: Z7045", "device: Z704", "device: expected the device of part"},
		{"zc706", "part: xc7z045", "part: xc7z055", "part"},
		{"zc706", "part: xc7z045", "part: xck26", "part"},
		{"zc706", "clock_mhz: 150", "clock_mhz: 0.1", "clock_mhz: expected 4.69..464"},
		{"zc706", "clock_mhz: 150", "clock_mhz: 1e6", "clock_mhz: expected 4.69..464"},
		{"zcu104", "clock_mhz: 200", "clock_mhz: 700", "clock_mhz: expected 6.25..667"},
		{"zc706", "pl_mhz: 100", "pl_mhz: 5", "pl_mhz"},
		{"zc706", "board_part: xilinx.com:zc706:part0:1.4", `board_part: "x [exec touch /tmp/x] ; puts hi"`, "board_part: expected vendor:board:part0:version"},
		{"zc706", "board_part: xilinx.com:zc706:part0:1.4", `board_part: "xilinx.com:zc706:part0:1.4\nputs hi"`, "board_part"},
		{"zc706", "board_part: xilinx.com:zc706:part0:1.4", "board_part: $x:zc706:part0:1.4", "board_part"},
		{"zcu104", "[HP0, HP3, HP1]", "[HP1, HP3, HP2]", "shares with HP1"},
		{"zcu104", "[HP0, HP3, HP1]", "[HP0]", "at least 2 names"},
		{"zcu104", "[30, 45]", "[30, 97]", "at most 96, what 3 ports of 16 bytes"},
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
	// all errors at once
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

// TestDevices: every possible part of a board has an IDCODE, whatever its qualification.
func TestDevices(t *testing.T) {
	for part, want := range map[string]string{
		"xc7z007sclg225-1": "xc7z007s", "xc7z014sclg400-1": "xc7z014s", "xa7z020clg400-1i": "xc7z020", "xq7z045rf900-1i": "xc7z045", "7z045ffg900": "xc7z045",
		"xczu1cg-sbva484-1-e": "xczu1", "xczu19eg-ffvb1517-1-e": "xczu19", "xazu3eg-sfva625-1-i": "xczu3", "xqzu7ev-ffrc1156-1-m": "xczu7", "xck24-ubva530-2LV-c": "xck24",
		"xc7z0455ffg900-2": "", "xczu71eg-x-1-e": "", "7": "", "": "", "xc": "", "xc7z": "", "xc7k325tffg900-2": "",
	} {
		if d, ok := DeviceOf(part); d.Name != want || ok != (want != "") {
			t.Errorf("%s: %v, %v, expected %q", part, d, ok, want)
		}
	}
	for _, d := range devices {
		if back, ok := DeviceByIDCode(d.IDCode | 0x30000000); !ok || back != d {
			t.Errorf("%v: by its IDCODE %v, %v", d, back, ok)
		}
	}
	for _, c := range []struct {
		device, part string
		same         bool
	}{
		{"Z7045", "xc7z045ffg900-2", true},
		{"Z-7020", "xa7z020clg400-1", true},
		{"XC7Z020", "xc7z020clg400-1", true},
		{"ZU7EV", "xczu7ev-ffvc1156-2-e", true},
		{"XCK26", "xck26-sfvc784-2LV-c", true},
		{"ZU7EG", "xczu7ev-ffvc1156-2-e", false},
		{"ZU7", "xczu7ev-ffvc1156-2-e", false},
		{"Z7007S", "xc7z007sclg225-1", true},
		{"", "xc7z020clg400-1", false},
	} {
		if sameDevice(c.device, c.part) != c.same {
			t.Errorf("%q and %s: expected %v", c.device, c.part, c.same)
		}
	}
}

// own is a minimal file of a board with its own name.
const own = `name: my-board_2
device: Z7010
family: xc7
dsp: 80
bram36: 60
uram: 0
lut: 17600
ff: 35200
clock_mhz: 100
ports: {n_axi: 2, axi_bytes: 8, max_burst: 16}
dram: {bytes_per_cycle: [8], latency_cycles: 60}
`

// A board without a publication needs no published rows.
func TestOwnBoard(t *testing.T) {
	b, err := Parse("x", []byte(own))
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "my-board_2" || b.DSP != 80 || b.Published != nil || b.PaperMibit != 0 {
		t.Errorf("%+v", b)
	}
}

// All errors of a file are reported at once.
func TestRefusesAllAtOnce(t *testing.T) {
	text := own
	for _, c := range [][2]string{
		{"name: my-board_2", "name: My Board"},
		{"family: xc7", "family: virtex"},
		{"dsp: 80", "dsp: many"},
		{"lut: 17600\n", ""},
		{"clock_mhz: 100", "clock_mhz: 0"},
		{"n_axi: 2", "n_axi: 9"},
		{"[8]", "[]"},
		{"uram: 0", "uram: 0\nspeed: 3"},
	} {
		text = strings.Replace(text, c[0], c[1], 1)
	}
	_, err := Parse("my.yaml", []byte(text))
	if !errors.Is(err, ErrBoard) {
		t.Fatal(err)
	}
	for _, says := range []string{
		`name: expected`, "family: expected xc7 or xcup, found virtex", "many", `key "lut" is missing`, "clock_mhz: expected more than 0",
		"ports.n_axi: expected 1..4, found 9", "dram.bytes_per_cycle: expected at least one", "speed",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said of\n%s\n%v", says, text, err)
		}
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "my.yaml: ") {
			t.Errorf("%q names no file", line)
		}
	}
}

// TestSaysOnce: an error about the whole file is reported once, with the file's name once per line.
func TestSaysOnce(t *testing.T) {
	for name, text := range map[string]string{
		"a key twice": "name: mine\n" + own, "pasted twice": own + own, "a list": "- 1\n- 2\n",
	} {
		_, err := Parse("my.yaml", []byte(text))
		if !errors.Is(err, ErrBoard) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen := map[string]bool{}
		for line := range strings.Lines(err.Error()) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "my.yaml: bad board: ") || strings.Count(line, "bad board") != 1 || seen[line] {
				t.Errorf("%s: %q", name, line)
			}
			seen[line] = true
		}
	}
}

// TestOverlay: the cached memory lies next to the NPU's own, within the board's memory. If that is impossible, only
// the cached overlay is rejected.
func TestOverlay(t *testing.T) {
	for _, c := range []struct {
		board       string
		base, bytes uint64
		want        string // "": refused
	}{
		{"zc706", 0x30000000, 0x10000000, "reg = <0x20000000 0x8000000>;"},
		{"zcu104", 0x60000000, 0x10000000, "reg = <0x0 0x50000000 0x0 0x8000000>;"},
		{"zc706", 0x8000000, 0x18000000, ""},  // would lie below 0
		{"zc706", 0x10000000, 0x10000000, ""}, // at 0, where the kernel is
		{"zc706", 0x30000000, 0x1000, ""},     // half a page
		{"zc706", 0x30000000, 0x400000, ""},   // half of the kernel's smallest pool
	} {
		b, err := Load(c.board)
		if err != nil {
			t.Fatal(err)
		}
		b.DDR.NPUBase, b.DDR.NPUBytes = c.base, c.bytes
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		if text, err := b.Overlay(false); err != nil || !strings.Contains(text, fmt.Sprintf("-memory@%x {", c.base)) {
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
		text, err := b.Overlay(true)
		switch {
		case c.want == "" && (!errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), "ddr.npu_base")):
			t.Errorf("%+v: %v\n%s", c, err, text)
		case c.want != "" && (err != nil || !strings.Contains(text, c.want)):
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
	}
}

// TestImages: building an image for a board without one fails before anything is built.
func TestImages(t *testing.T) {
	for _, name := range append(Names(), "nosuch") {
		if name == "zc706" || name == "zcu104" {
			continue
		}
		cmd := exec.Command("image/build.sh", name)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "GOFLAGS=-mod=none"} // without the build tools
		text, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(text), "images exist for zc706 and zcu104") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// A file without a document is not a board; the error says so.
func TestParseEmpty(t *testing.T) {
	if _, err := Parse("b.yaml", []byte("# nothing\n")); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), "found none") {
		t.Error(err)
	}
}

// Every file is either a board that can be written and read again, or rejected.
func FuzzParse(f *testing.F) {
	f.Add([]byte(own))
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

// A byte order mark and CR LF do not change a board. Numbers that YAML would read as octal are rejected.
func TestTextsAsProgramsWriteThem(t *testing.T) {
	text, err := files.ReadFile("zc706/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("b.yaml", []byte("\ufeff"+strings.ReplaceAll(string(text), "\n", "\r\n")))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for bad, says := range map[string]string{strings.Replace(string(text), "dsp: ", "dsp: 0", 1): "a number is ambiguous", "\xff\xfea\x00": "UTF-16"} {
		if _, err := Parse("b.yaml", []byte(bad)); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
