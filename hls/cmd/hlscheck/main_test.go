package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The output of -resources for different boards: the configuration's own, a named one, one from a file, none. The
// exit code tells whether all boards are large enough. The numbers themselves are tested in package estimate.
func TestResources(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(small, []byte(`name: small-board
device: XC7Z007S
family: xc7
dsp: 66
bram36: 29
uram: 0
lut: 14400
ff: 28800
clock_mhz: 100
ports: {n_axi: 2, axi_bytes: 8, max_burst: 16}
dram: {bytes_per_cycle: [8], latency_cycles: 60}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     string
		code     int
		has, not []string
	}{
		{"tiny", 0, []string{"tiny on xc7 without a board, estimated", "logic not counted"}, []string{" of "}},
		{"-board zc706 tiny", 0, []string{"tiny on zc706, estimated", "30 of 545", "12 of 900"}, nil},
		{"zc706", 1, []string{"zc706 on zc706, estimated", "741 of 545", "896 of 900"}, nil},
		{"-board zcu104 zc706", 1, []string{"zc706 on zcu104, estimated", " of 312", "896 of 1728"}, nil},
		{"-board " + small + " tiny", 1, []string{"tiny on small-board, estimated", "30 of 29", "12 of 66"}, nil},
		{"-board zc706 zc706 tiny", 1, []string{"741 of 545", "30 of 545"}, nil}, // the last fits, not all do
		{"-board nowhere tiny", 3, []string{"hlscheck: tiny: load board", `there is no "nowhere"`}, []string{"estimated"}},
		{"-board " + small + ".no.yaml tiny", 3, []string{"hlscheck: tiny: load board"}, []string{"estimated"}},
		{"nowhere", 3, []string{"hlscheck: ", "nowhere"}, []string{"estimated"}},
		{"", 2, []string{"hlscheck -resources [-board NAME|FILE.yaml] CONFIG..."}, nil},
	} {
		var out strings.Builder
		args := append([]string{"-resources"}, strings.Fields(c.args)...)
		if code := run(args, &out, &out); code != c.code {
			t.Errorf("%s: exit code %d, expected %d\n%s", args, code, c.code, out.String())
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", args, want, out.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q in\n%s", args, not, out.String())
			}
		}
	}
	// -board without -resources is rejected, as it would be ignored.
	var out strings.Builder
	if code := run([]string{"-board", "zc706", "tiny"}, &out, &out); code != 2 || !strings.Contains(out.String(), "with -resources: the board") {
		t.Errorf("-board without -resources: exit code %d\n%s", code, out.String())
	}
}
