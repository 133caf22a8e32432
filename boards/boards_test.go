package boards

import (
	"errors"
	"strings"
	"testing"
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

func TestRefuses(t *testing.T) {
	good, err := files.ReadFile("zc706/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		var lines []string
		skip := false
		for line := range strings.Lines(string(good)) {
			if strings.HasPrefix(line, key+":") {
				skip = true
				continue
			}
			if skip && strings.HasPrefix(line, " ") {
				continue
			}
			skip = false
			lines = append(lines, line)
		}
		if _, err := Parse("x", []byte(strings.Join(lines, ""))); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
	for _, c := range [][2]string{
		{"dsp: 900", "dsp: 0"},
		{"dsp: 900", "dsp: -900"},
		{"lut: 218600", "lut: 0"},
		{"bram36: 545", "bram36: many"},
		{"family: xc7", "family: ecp5"},
		{"clock_mhz: 150", "clock_mhz: .nan"},
		{"[15.3, 28]", "[]"},
		{"[15.3, 28]", "[15.3, -.inf]"},
		{"n_axi: 4", "n_axi: 5"},
		{"name: zc706", "name: zc706\nspeed: 3"},
		{"TR: 4652", "TR: 0"},
		{"name: zc706", "name: ../zc706"},
		{"paper_mibit: 19.2", "paper_mibit: -1"},
		{"paper_mibit: 19.2", "# published rows alone"},
		{"paper_mibit: 19.2", "---\npaper_mibit: 19.2"},
	} {
		text := strings.Replace(string(good), c[0], c[1], 1)
		if _, err := Parse("x", []byte(text)); !errors.Is(err, ErrBoard) {
			t.Errorf("%q: %v", c[1], err)
		}
	}
	if _, err := Load("vc707"); !errors.Is(err, ErrBoard) || !strings.Contains(err.Error(), "zc706") {
		t.Errorf("Load of an unknown board: %v", err)
	}
}

// own is a board of a name of its own, as small as a file may be.
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

// A board that no publication knows needs no publication's rows.
func TestOwnBoard(t *testing.T) {
	b, err := Parse("x", []byte(own))
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "my-board_2" || b.DSP != 80 || b.Published != nil || b.PaperMibit != 0 {
		t.Errorf("%+v", b)
	}
}

// Whatever is wrong with a file is said at once.
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

func FuzzParse(f *testing.F) {
	f.Add([]byte(own))
	for _, n := range Names() {
		text, err := files.ReadFile(n + "/board.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Parse("x", text)
		if err == nil {
			err = b.Validate()
		}
		if err != nil && !errors.Is(err, ErrBoard) {
			t.Errorf("%v is no ErrBoard", err)
		}
	})
}
