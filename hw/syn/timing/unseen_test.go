package timing

import (
	"errors"
	"strings"
	"testing"
)

// The errors for a missing module and for a hierarchical module differ from the error for an unknown cell.
func TestFlat(t *testing.T) {
	const text = `{"modules": {"LUT1": {"attributes": {"blackbox": "1"}}, "cnt": {"cells": {}},
		"t": {"cells": {"u": {"type": "cnt"}, "l": {"type": "LUT1"}}}, "v": {"cells": {"l": {"type": "LUT1"}, "m": {"type": "FROB"}}}}}`
	for top, want := range map[string]string{
		"t": "cell u is module cnt of the same file: a netlist is read flat", "none": "there is no module none: -top names one of cnt, t, v", "v": "", "cnt": "",
	} {
		err := Flat([]byte(text), top)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrNetlist) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", top, err, want)
		}
	}
	if err := Flat([]byte("no json"), "t"); err != nil { // Read reports the error
		t.Error(err)
	}
}

// Unseen reports every netlist with more than one clock or with both edges of a clock.
func TestUnseen(t *testing.T) {
	const (
		edges  = "both edges"
		clocks = "2 clocks"
	)
	for name, c := range map[string]struct {
		cells []string
		want  []string
	}{
		"one clock":               {[]string{"FDRE a *Q=10 D=11 C=1", "FDRE b *Q=11 D=10 C=1"}, nil},
		"through a buffer":        {[]string{"FDRE a *Q=10 D=11 C=1", "BUFG g *O=5 I=1", "FDRE b *Q=11 D=10 C=5"}, nil},
		"the falling edge alone":  {[]string{"FDRE_1 a *Q=10 D=11 C=1", "FDRE b *Q=11 D=10 C=1 #IS_C_INVERTED=1"}, nil},
		"the other edge, cell":    {[]string{"FDRE_1 a *Q=10 D=11 C=1", "FDRE b *Q=11 D=10 C=1"}, []string{edges}},
		"the other edge, by word": {[]string{"FDRE a *Q=10 D=11 C=1 #IS_C_INVERTED=1", "FDRE b *Q=11 D=10 C=1"}, []string{edges}},
		"an inverter":             {[]string{"FDRE a *Q=10 D=11 C=1", "INV g *O=5 I=1", "FDRE b *Q=11 D=10 C=5"}, []string{edges}},
		"twice inverted":          {[]string{"FDRE a *Q=10 D=11 C=1", "INV g *O=5 I=1", "FDRE_1 b *Q=11 D=10 C=5"}, nil},
		"two clocks":              {[]string{"FDRE a *Q=10 D=11 C=1", "FDRE b *Q=11 D=10 C=2"}, []string{clocks}},
		"a memory's":              {[]string{"FDRE a *Q=10 D=11 C=1", "RAMB18E1 r *DOADO=11 CLKARDCLK=2"}, []string{clocks}},
		"a made clock, both":      {[]string{"FDRE a *Q=10 D=11 C=1", "FDRE_1 b *Q=11 D=10 C=10"}, []string{edges, "2 clocks (a_q, net 1)"}},
	} {
		got := read(t, netlist(c.cells...)).Unseen()
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
