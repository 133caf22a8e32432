package jellyfish

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// written is a zoo in the file's format.
func written(z Zoo) string {
	var s strings.Builder
	s.WriteString("name,side,bytes,accuracy")
	for b := range z[0].P99 {
		fmt.Fprintf(&s, ",b%d", b+1)
	}
	s.WriteByte('\n')
	for _, n := range z {
		fmt.Fprintf(&s, "%s,%d,%d,%g", n.Name, n.Side, n.Bytes, n.Accuracy)
		for _, ns := range n.P99 {
			fmt.Fprintf(&s, ",%.6f", float64(ns)/1e6)
		}
		s.WriteByte('\n')
	}
	return s.String()
}

// A zoo that is written and read again is the same zoo.
func TestReadZoo(t *testing.T) {
	z := Synthetic(1)
	got, err := ReadZoo("zoo.csv", strings.NewReader("\ufeff"+written(z)))
	if err != nil {
		t.Fatal(err)
	}
	same := slices.EqualFunc(z, got, func(a, b Net) bool {
		return a.Name == b.Name && a.Side == b.Side && a.Bytes == b.Bytes && a.Accuracy == b.Accuracy && slices.Equal(a.P99, b.P99)
	})
	if !same {
		t.Errorf("%v, expected %v", got, z)
	}
	for _, bad := range []struct{ text, says string }{
		{"", "zoo.csv: empty, a header is expected"},
		{"name,side,bytes,accuracy\n", "zoo.csv:1: 4 columns"},
		{"name,side,bytes,accuracy,b2\n", `column 5 is "b2"`},
		{"name,side,bytes,accuracy,b1\n", "0 networks, expected 1..255"},
		{"name,side,bytes,accuracy,b1\na,128,10000,0.2\n", "zoo.csv:2: 4 fields, expected 5"},
		{"name,side,bytes,accuracy,b1\na,128,10000,0.2,fast\n", `zoo.csv:2: b1: "fast", expected 0.001 to 1e+06`},
		{"name,side,bytes,accuracy,b1\n\na,128,1.5,0.2,3\n", `zoo.csv:3: bytes: "1.5", expected a whole number`},
		{"name,side,bytes,accuracy,b1\na,128,10000,20,3\n", `zoo.csv:2: accuracy: "20", expected 1e-06 to 1`},
		{"name,side,bytes,accuracy,b1\na,128,10000,0.2,NaN\n", `b1: "NaN"`},
		{"name,side,bytes,accuracy,b1\na,128,10000,0.2,3\na,160,12000,0.3,4\n", `is called "a": names are expected, each once`},
		{"name,side,bytes,accuracy,b1\na\x1b[2J,128,10000,0.2,3\n", `zoo.csv:2: name: "a\x1b[2J", expected characters that can be printed`},
	} {
		_, err := ReadZoo("zoo.csv", strings.NewReader(bad.text))
		if !errors.Is(err, ErrZoo) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%q: %v, expected %q", bad.text, err, bad.says)
		}
	}
}

// An accepted zoo allows a selection.
func FuzzReadZoo(f *testing.F) {
	f.Add("name,side,bytes,accuracy,b1,b2\na,128,10000,0.2,3,5\nb,352,56000,0.4,9,12\n")
	f.Add(written(Synthetic(1)))
	f.Fuzz(func(t *testing.T, text string) {
		z, err := ReadZoo("fuzz", strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrZoo) {
				t.Fatalf("%v is no ErrZoo", err)
			}
			return
		}
		for j := range z {
			if j > 0 && (z[j].Accuracy <= z[j-1].Accuracy || z[j].Bytes < z[j-1].Bytes || !quick(z[j-1].P99, z[j].P99)) {
				t.Fatalf("%v after %v", z[j], z[j-1])
			}
		}
		p, err := NewProblem(z, []Client{{Rate: 25, SLO: 100e6, Bandwidth: 20e6}}, 2, Aligned)
		if err != nil {
			t.Fatal(err)
		}
		if c := (Search{}).Select(p, nil, 1); len(c.Nets) != 2 {
			t.Fatalf("%d networks for two workers", len(c.Nets))
		}
	})
}
