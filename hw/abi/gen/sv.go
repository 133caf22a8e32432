package main

import (
	"bytes"
	"fmt"
	"strings"
)

func svIdents(s *spec) []ident {
	ids := []ident{
		{"ABI_HASH", 1}, {"ABI_VERSION", 1}, {"CNT_BASE", 1}, {"CNT_COUNT", 1}, {"DESC_RSVD_MASK", 1}, {"FBCB_RSVD_MASK", 1},
	}
	for _, c := range s.constants {
		ids = append(ids, ident{c.name, c.line})
	}
	for _, r := range s.registers {
		n := "REG_" + r.name
		ids = append(ids, ident{n, r.line}, ident{n + "_MASK", r.line}, ident{n + "_BUSY_OK", r.line})
		if r.count > 1 {
			ids = append(ids, ident{n + "_COUNT", r.line})
		}
		for _, f := range r.fields {
			ids = append(ids, ident{n + "_" + f.name + "_LSB", f.line}, ident{n + "_" + f.name + "_W", f.line})
		}
	}
	for _, c := range s.counters.list {
		ids = append(ids, ident{"CNT_" + c.name, c.line})
	}
	for _, v := range s.ops {
		ids = append(ids, ident{"OP_" + v.name, v.line})
	}
	for _, v := range s.errors {
		ids = append(ids, ident{"ERR_" + v.name, v.line})
	}
	return ids
}

// emitSV returns the package of int16 designs.
func emitSV(s *spec) ([]byte, error) { return emitSVInt8(s.built()) }

// emitSVInt8 returns the package of int8 designs, including the planned fields.
func emitSVInt8(s *spec) ([]byte, error) {
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("// %s", banner)
	w("//")
	w("// What hardware and software share, as SystemVerilog. A descriptor read from DRAM (word 0 in the")
	w("// low bits) is cut by assigning the vector to a scalar variable of type desc_t; no function here")
	w("// returns a struct and no array holds one, because yosys 0.23 gets both silently wrong.")
	w("")
	w("/* verilator lint_off UNUSEDPARAM */  // a user reads a few of these, never all")
	w("package abi_pkg;")
	w("")
	w("  localparam logic [63:0] ABI_HASH = 64'h%016x;", s.hash)
	w("  localparam logic [31:0] ABI_VERSION = 32'd%d;", s.version)
	w("")
	for _, c := range s.constants {
		svComment(w, c.doc)
		w("  localparam int unsigned %s = 32'h%X;", c.name, c.value)
	}
	w("")
	w("  // Registers: byte offsets. A MASK has ones where the register has bits; BUSY_OK tells whether")
	w("  // it may be written while a start runs (access is stated, not encoded).")
	for _, r := range s.registers {
		svComment(w, fmt.Sprintf("%s: %s", access(r), r.doc))
		w("  localparam logic [%d:0] REG_%s = %d'h%03X;", addrBits-1, r.name, addrBits, r.offset)
		w("  localparam logic [31:0] REG_%s_MASK = 32'h%08X;", r.name, r.mask())
		if r.access != "ro" {
			w("  localparam bit REG_%s_BUSY_OK = 1'b%d;", r.name, btoi(r.busyOK))
		}
		if r.count > 1 {
			w("  localparam int unsigned REG_%s_COUNT = %d;", r.name, r.count)
		}
		for _, f := range r.fields {
			w("  localparam int unsigned REG_%s_%s_LSB = %d;", r.name, f.name, f.lsb)
			w("  localparam int unsigned REG_%s_%s_W = %d;", r.name, f.name, f.bits)
		}
	}
	w("")
	w("  // Counters: LO of counter i at CNT_BASE + 8*i, HI 4 bytes on.")
	w("  localparam logic [%d:0] CNT_BASE = %d'h%03X;", addrBits-1, addrBits, s.counters.base)
	w("  localparam int unsigned CNT_COUNT = %d;", len(s.counters.list))
	for i, c := range s.counters.list {
		svComment(w, c.doc)
		w("  localparam int unsigned CNT_%s = %d;", c.name, i)
	}
	w("")
	for _, v := range s.ops {
		svComment(w, v.doc)
		w("  localparam logic [3:0] OP_%s = 4'd%d;", v.name, v.value)
	}
	w("")
	for _, v := range s.errors {
		svComment(w, v.doc)
		w("  localparam logic [7:0] ERR_%s = 8'd%d;", v.name, v.value)
	}
	w("")
	n, _ := s.constant("DESC_BYTES")
	w("  // One layer, %d bits: the first field stands highest.", 8*n)
	svStruct(w, "desc_t", s.desc, n/4)
	w("")
	w("  // Ones where a descriptor must be zero.")
	w("  localparam logic [%d:0] DESC_RSVD_MASK = {", 8*n-1)
	masks := reservedWords(s.desc, n/4)
	for i := len(masks) - 1; i >= 0; i-- {
		comma := ","
		if i == 0 {
			comma = ""
		}
		w("    32'h%08X%s", masks[i], comma)
	}
	w("  };")
	w("")
	w("  // One entry of the Fluid Batching Control Block.")
	svStruct(w, "fbcb_t", s.fbcb, 1)
	w("")
	w("  localparam logic [31:0] FBCB_RSVD_MASK = 32'h%08X;", reservedWords(s.fbcb, 1)[0])
	w("")
	w("endpackage")
	w("/* verilator lint_on UNUSEDPARAM */")
	return b.Bytes(), nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// svComment writes a comment inside the package, wrapped at 100 columns.
func svComment(w func(string, ...any), text string) {
	line := "  //"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 100 {
			w("%s", line)
			line = "  //  "
		}
		line += " " + word
	}
	w("%s", line)
}

func access(r register) string {
	if r.busyOK {
		return r.access + ", also while busy"
	}
	return r.access
}

// svStruct writes a packed struct, highest bit first. Gaps become fields rsvd_<word>_<lsb>.
func svStruct(w func(string, ...any), name string, fields []field, words int64) {
	var lines []string
	gap := func(word, from, to int64) {
		if from < to {
			lines = append(lines, fmt.Sprintf("    logic%s rsvd_%d_%d;", svRange(to-from), word, from))
		}
	}
	i := 0
	for word := range words {
		end := int64(0)
		for ; i < len(fields) && fields[i].word == word; i++ {
			f := fields[i]
			gap(word, end, f.lsb)
			sign := ""
			if f.signed {
				sign = " signed"
			}
			lines = append(lines, fmt.Sprintf("    logic%s%s %s;", sign, svRange(f.bits), strings.ToLower(f.name)))
			end = f.lsb + f.bits
		}
		gap(word, end, 32)
	}
	w("  typedef struct packed {")
	for i := len(lines) - 1; i >= 0; i-- {
		w("%s", lines[i])
	}
	w("  } %s;", name)
}

func svRange(bits int64) string {
	if bits == 1 {
		return ""
	}
	return fmt.Sprintf(" [%d:0]", bits-1)
}
