package links

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Drawn traces have the stated minimum, maximum and mean rate, and are the same for the same seed.
func TestStats(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Stats
	}{{"wifi", WiFi()}, {"lte", LTE()}} {
		for seed := range uint64(20) {
			tr := c.s.Draw(c.name, 600, seed, Memory)
			sum := int64(0)
			for _, b := range tr.Bits {
				sum += b
			}
			if got := float64(sum) / float64(len(tr.Bits)) / 1e6; math.Abs(got-c.s.Mean) > 0.01 {
				t.Errorf("%s, seed %d: a mean of %g Mbit/s, expected %g", c.name, seed, got, c.s.Mean)
			}
			if l, m := slices.Min(tr.Bits), slices.Max(tr.Bits); l != int64(c.s.Least*1e6) || m != int64(c.s.Most*1e6) {
				t.Errorf("%s, seed %d: %d to %d bits/s", c.name, seed, l, m)
			}
			again, err := Named(c.name, seed, Memory)
			if err != nil || !slices.Equal(again.Bits, tr.Bits) {
				t.Errorf("%s, seed %d: another trace, %v", c.name, seed, err)
			}
		}
		if slices.Equal(c.s.Draw("", 600, 1, Memory).Bits, c.s.Draw("", 600, 2, Memory).Bits) {
			t.Error("two seeds give one trace")
		}
	}
	// Their assumed properties: consecutive seconds are correlated (0.9 in the normal process), and rates follow a
	// beta distribution whose parameters add up to 4, before the ends are stretched.
	for _, s := range []Stats{WiFi(), LTE()} {
		share := (s.Mean - s.Least) / (s.Most - s.Least)
		beta := math.Sqrt(share*(1-share)/5) * (s.Most - s.Least)
		spread, next := 0.0, 0.0
		const seeds = 20
		for seed := range uint64(seeds) {
			tr := s.Draw("", 600, seed, Memory)
			v, c := 0.0, 0.0
			for i, b := range tr.Bits {
				x := float64(b)/1e6 - s.Mean
				v += x * x / 600
				if i > 0 {
					c += x * (float64(tr.Bits[i-1])/1e6 - s.Mean) / 600
				}
			}
			spread, next = spread+math.Sqrt(v)/seeds, next+c/v/seeds
		}
		if next < 0.8 || next > 0.95 || spread < 0.75*beta || spread > 1.25*beta {
			t.Errorf("%+v: a second's correlation with the next is %.2f, the spread %.1f Mbit/s, of a beta distribution %.1f", s, next, spread, beta)
		}
	}
	s := Steps()
	for at, want := range map[Time]int64{0: 20e6, 19_999_999_999: 20e6, 20e9: 15e6, 40e9: 10e6, 79e9: 7.5e6, 80e9: 20e6} {
		if got := s.Rate(at); got != want {
			t.Errorf("steps at %d ns: %d, expected %d", at, got, want)
		}
	}
}

func TestArrive(t *testing.T) {
	s := &Trace{Bits: []int64{8e6, 16e6}} // 1 and 2 MB/s
	for _, c := range []struct{ start, bytes, want Time }{
		{0, 500_000, 500e6},
		{0, 1_000_000, 1e9},
		{0, 2_000_000, 1.5e9},
		{1_500_000_000, 1_000_000, 2e9},
		{500_000_000, 3_000_000, 2.5e9},
		{0, 1, 1000},
		{0, 0, 0},
	} {
		if got := s.Arrive(c.start, c.bytes); got != c.want {
			t.Errorf("%d bytes from %d: %d, expected %d", c.bytes, c.start, got, c.want)
		}
	}
	// 6 GiB are 51,539,607,552 bits: at 100 Gbit/s 0.515396 s, although bits times ns exceed 63 bits.
	if got := (&Trace{Bits: []int64{100e9}}).Arrive(1e9, 6<<30); got < 1e9+515_396_076 || got > 1e9+515_396_090 {
		t.Errorf("6 GiB at 100 Gbit/s arrive at %d", got)
	}
	// An outage of one second adds exactly that, wherever it is.
	out := &Trace{Bits: []int64{8e6, 0, 8e6}}
	for _, c := range []struct{ start, bytes, want Time }{{0, 1_500_000, 2.5e9}, {1_200_000_000, 500_000, 2.5e9}, {500_000_000, 500_000, 1e9}} {
		if got := out.Arrive(c.start, c.bytes); got != c.want {
			t.Errorf("%d bytes from %d over an outage: %d, expected %d", c.bytes, c.start, got, c.want)
		}
	}
	// In parts or at once the time is the same, except for rounding up at each part.
	rapid.Check(t, func(r *rapid.T) {
		tr := &Trace{Bits: rapid.SliceOfN(rapid.Int64Range(1000, 1e12), 1, 5).Draw(r, "rates")}
		start := rapid.Int64Range(0, 5e12).Draw(r, "start")
		a, b := rapid.Int64Range(0, 1e5).Draw(r, "a"), rapid.Int64Range(0, 1e5).Draw(r, "b")
		once, parts := tr.Arrive(start, a+b), tr.Arrive(tr.Arrive(start, a), b)
		// part of a bit is lost at the end of each part and each second
		if off := 4 * (second/slices.Min(tr.Bits) + 1); once < start || parts < once-off || parts > once+off {
			r.Fatalf("%d and %d bytes: %d at once, %d in parts", a, b, once, parts)
		}
	})
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(path, []byte("# Mbit/s\n20\n\n7.5 # slow\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := Named(path, 0, Memory)
	if err != nil || !slices.Equal(tr.Bits, []int64{20e6, 7.5e6}) {
		t.Errorf("%v, %v", tr, err)
	}
	for text, want := range map[string]string{
		"":                             "no value",
		"1\nfast\n":                    "x:2: \"fast\"",
		"0\n0 # out\n":                 "all of 2 values are 0",
		"0.0001\n":                     "x:1",
		"1\n2\ufeff\n":                 "x:2",
		"-3\n":                         "x:1",
		"NaN\n":                        "x:1",
		"1e99\n":                       "x:1",
		"1,5\n":                        "x:1",
		strings.Repeat("9", 1e5):       "x",
		strings.Repeat("1\n", 1<<20+1): "more than",
	} {
		if _, err := Read("x", strings.NewReader(text)); !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, expected %q", text, err, want)
		}
	}
	if tr, err := Read("x", strings.NewReader("\ufeff20\r\n0\r\n7.5\r\n")); err != nil || !slices.Equal(tr.Bits, []int64{20e6, 0, 7.5e6}) {
		t.Errorf("with a byte order mark and an outage: %v, %v", tr, err)
	}
	if _, err := Named("no such trace", 0, Memory); !errors.Is(err, ErrTrace) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("20\n7.5\n"))
	f.Add([]byte("0x1p-2 # hex\n1e3"))
	f.Add([]byte("0\n75\n0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := Read("f", bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrTrace) {
				t.Error(err)
			}
			return
		}
		// eight seconds at the minimum rate, each after outages; one round of the trace contains all of them
		rounds := int64(9)
		for _, r := range tr.Bits {
			if r != 0 && r < 1000 || r > 1e12 {
				t.Errorf("%d bits/s", r)
			}
			if r == 0 {
				rounds = 9 * int64(len(tr.Bits))
			}
		}
		if at := tr.Arrive(7, 1000); at <= 7 || at > rounds*second {
			t.Errorf("a transfer ends at %d", at)
		}
	})
}
