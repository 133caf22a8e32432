package main

import (
	"bytes"
	"fmt"
	"strings"
)

func emitDoc(s *spec) ([]byte, error) {
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("<!-- %s -->", banner)
	w("# Reference: registers, descriptor, FBCB")
	w("")
	w("Version %d, ABI hash `%016x`. Addresses are byte offsets in a 4 KiB window; registers are 32 bits", s.version, s.hash)
	w("wide, little-endian, and take writes with byte strobes. *Access*: ro answers a write with SLVERR,")
	w("w1c clears the bits written as one, wo reads as zero. *Busy*: whether a write is taken while a")
	w("start runs; where it is not, it answers SLVERR and changes nothing. A write that sets a bit which")
	w("the register does not have, and any access to an address not listed here, answers SLVERR.")
	w("")
	w("## Constants")
	w("")
	w("| name | value | meaning |\n|---|---|---|")
	for _, c := range s.constants {
		w("| %s | %s | %s |", c.name, number(c.value), cell(c.doc))
	}
	w("")
	w("## Registers")
	w("")
	w("| offset | name | access | busy | bits | meaning |\n|---|---|---|---|---|---|")
	for _, r := range s.registers {
		off, busy, bits := fmt.Sprintf("0x%03X", r.offset), "", fmt.Sprintf("%d:0", r.bits-1)
		if r.count > 1 {
			off += fmt.Sprintf(" + 4i, i < %d", r.count)
		}
		if r.busyOK {
			busy = "ok"
		}
		if len(r.fields) > 0 {
			bits = ""
		}
		w("| %s | **%s** | %s | %s | %s | %s |", off, r.name, r.access, busy, bits, cell(r.doc))
		for _, f := range r.fields {
			w("| | %s.%s | | | %s | %s |", r.name, f.name, bitRange(f), f.meaning())
		}
	}
	w("")
	w("## Counters")
	w("")
	w("64 bits each; reading LO latches HI, so read LO first. They stand still outside a start.")
	w("")
	w("| index | LO | HI | name | meaning |\n|---|---|---|---|---|")
	for i, c := range s.counters.list {
		a := s.counters.base + counterSize*int64(i)
		w("| %d | 0x%03X | 0x%03X | %s | %s |", i, a, a+4, c.name, cell(c.doc))
	}
	w("")
	w("## Operators")
	w("")
	w("| value | name | meaning |\n|---|---|---|")
	for _, v := range s.ops {
		w("| %d | %s | %s |", v.value, v.name, cell(v.doc))
	}
	w("")
	n, _ := s.constant("DESC_BYTES")
	w("## Layer descriptor")
	w("")
	w("%d bytes: %d little-endian words. Sizes are in elements (16 bits, 8 of int8) unless they say bytes. Bits not", n, n/4)
	w("named must be zero. A field that is *planned* is software's and of int8's hardware (hw/rtl/int8, hls), and not of the hash: no other has it.")
	w("")
	w("| word | bits | name | meaning |\n|---|---|---|---|")
	for _, f := range s.desc {
		sign := ""
		if f.signed {
			sign = " (signed)"
		}
		w("| %d | %s | %s | %s%s |", f.word, bitRange(f), f.name, f.meaning(), sign)
	}
	w("")
	w("## FBCB entry")
	w("")
	w("| bits | name | meaning |\n|---|---|---|")
	for _, f := range s.fbcb {
		w("| %s | %s | %s |", bitRange(f), f.name, f.meaning())
	}
	w("")
	w("## Codes and limits")
	w("")
	w("Not of the hash.")
	w("")
	w("| value | name | meaning |\n|---|---|---|")
	for _, c := range s.limits {
		w("| %d | %s | %s |", c.value, c.name, cell(c.doc))
	}
	w("")
	w("## Error codes")
	w("")
	w("| code | name | meaning |\n|---|---|---|")
	for _, v := range s.errors {
		w("| %d | %s | %s |", v.value, v.name, cell(v.doc))
	}
	return b.Bytes(), nil
}

func bitRange(f field) string {
	if f.bits == 1 {
		return fmt.Sprint(f.lsb)
	}
	return fmt.Sprintf("%d:%d", f.lsb+f.bits-1, f.lsb)
}

func (f field) meaning() string {
	if f.planned {
		return "*planned*: " + cell(f.doc)
	}
	return cell(f.doc)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
