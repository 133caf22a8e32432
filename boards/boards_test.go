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
