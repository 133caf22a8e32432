package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/counted"
)

// The printed band is right: fashion on zc706 at 8 bytes per cycle has the band of its starts that were counted there,
// and the printed cycles are within this band of the counted ones.
func TestPrintedBand(t *testing.T) {
	text, err := os.ReadFile("../../../hw/configs/zc706.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "zc706.yaml")
	at8 := strings.Replace(string(text), "bytes_per_cycle: 15.3", "bytes_per_cycle: 8", 1)
	if err := os.WriteFile(config, []byte(at8), 0o600); err != nil || at8 == string(text) {
		t.Fatal("no zc706 at 8 bytes a cycle: ", err)
	}
	f, err := os.Open("../../counted/networks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, all, err := counted.ReadStarts(f)
	if err != nil {
		t.Fatal(err)
	}
	var here []counted.Layer
	cycles := map[int]int64{} // by batch
	for _, l := range all {
		if l.Network == "fashion" && l.Config == "zc706" && l.Bandwidth == 8 {
			here = append(here, l)
			cycles[l.Batch] += l.Cycles
		}
	}
	s := counted.Summarise(here)
	want := fmt.Sprintf("its %d starts counted on this design at this memory are off, on average/at worst, by %.1f/%.1f %%", s.N, 100*s.Mean, 100*s.Worst)
	for batch, counted := range cycles {
		code, stdout, stderr := call("explain", "--network", "fashion", "--config", config, "--batch", fmt.Sprint(batch))
		if code != 0 || !strings.Contains(stdout, want) {
			t.Fatalf("explain, B = %d: status %d, expected %q: %s%s", batch, code, want, stdout, stderr)
		}
		var n int64
		_, line, _ := strings.Cut(stdout, "fashion on zc706, batch ")
		if _, err := fmt.Sscanf(line, fmt.Sprint(batch)+": %d cycles", &n); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if off := float64(n-counted) / float64(counted); off > s.Worst || off < -s.Worst {
			t.Errorf("B = %d: %d cycles are printed, %d were counted, %.1f %% more; at worst it should be %.1f %%", batch, n, counted, 100*off, 100*s.Worst)
		}
		code, stdout, _ = call("compare", "--network", "fashion", "--a", config, "--b", "mid", "--batch", fmt.Sprint(batch))
		if _, a, _ := strings.Cut(stdout, "A: zc706"); code != 0 || !strings.Contains(strings.Split(a, "B: mid")[0], want) {
			t.Errorf("compare, B = %d: status %d, expected %q: %s", batch, code, want, stdout)
		}
		_, stdout, _ = call("compare", "--network", "fashion", "--a", config, "--b", "mid", "--batch", fmt.Sprint(batch), "--json")
		var doc compareDoc
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil || doc.A.Band == nil || doc.A.Band.N != s.N || doc.A.Band.Mean != s.Mean || doc.A.Band.Worst != s.Worst {
			t.Errorf("compare --json, B = %d: %v, a band of %+v, expected %+v", batch, err, doc.A.Band, s)
		}
	}
	if len(cycles) < 3 {
		t.Errorf("starts of %d batches", len(cycles))
	}
}

// Counted starts of a network are not used for it with another input, without exits, or under other mappings.
func TestBandOfAnother(t *testing.T) {
	const own, none = "cycles: its 8 starts counted", "cycles: nothing of it was counted"
	for _, c := range []struct {
		flags []string
		a, b  string
	}{
		{nil, own, own},
		{[]string{"--mapping-a", "basic"}, none, own},
		{[]string{"--backbone"}, "of other networks", "of other networks"},
		{[]string{"--input-side", "56"}, "of other networks", "of other networks"},
		{[]string{"--gates"}, "of other networks", "of other networks"},
	} {
		code, stdout, stderr := call(append([]string{"compare", "--network", "tiny", "--a", "mid", "--b", "mid"}, c.flags...)...)
		_, a, _ := strings.Cut(stdout, "\nA: mid")
		a, b, _ := strings.Cut(a, "\nB: mid")
		if code != 0 || !strings.Contains(a, c.a) || !strings.Contains(b, c.b) {
			t.Errorf("%v: status %d, expected %q and %q: %s%s", c.flags, code, c.a, c.b, stdout, stderr)
		}
	}
}
