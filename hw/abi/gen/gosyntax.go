package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// words maps some words to their spelling in Go names. All other words are capitalised.
var words = map[string]string{
	"ABI": "ABI", "AXI": "AXI", "FBCB": "FBCB", "GEMM": "GEMM", "ID": "ID", "IRQ": "IRQ",
	"TR": "TR", "TP": "TP", "TC": "TC", "MAC": "MAC", "MACS": "MACs", "ABUF": "ABuf",
	"WRING": "WRing", "CMAX": "CMax", "KWC": "KWC", "SLVERR": "SLVERR", "DECERR": "DECERR",
}

// camel converts BUILD_TR to BuildTR and W_OFFSET_1 to WOffset1.
func camel(name string) string {
	var b strings.Builder
	for _, w := range strings.Split(name, "_") {
		if s, ok := words[w]; ok {
			b.WriteString(s)
			continue
		}
		b.WriteString(w[:1] + strings.ToLower(w[1:]))
	}
	return b.String()
}

func goIdents(s *spec) []ident {
	ids := []ident{
		{"Hash", 1},
		{"SchemaVersion", 1},
		{"Desc", 1},
		{"FBCB", 1},
		{"Op", 1},
		{"ErrCode", 1},
		{"CntBase", 1},
		{"CntCount", 1},
		{"CounterNames", 1},
		{"DecodeDesc", 1},
		{"DecodeFBCB", 1},
		{"DescReserved", 1},
		{"FBCBReserved", 1},
	}
	for _, c := range slices.Concat(s.constants, s.limits) {
		ids = append(ids, ident{camel(c.name), c.line})
	}
	for _, r := range s.registers {
		n := "Reg" + camel(r.name)
		ids = append(ids, ident{n, r.line}, ident{n + "Mask", r.line})
		if r.count > 1 {
			ids = append(ids, ident{n + "Count", r.line})
		}
		for _, f := range r.fields {
			m := n + camel(f.name)
			ids = append(ids, ident{m + "LSB", f.line}, ident{m + "Bits", f.line}, ident{m + "Mask", f.line})
		}
	}
	for _, c := range s.counters.list {
		ids = append(ids, ident{"Cnt" + camel(c.name), c.line})
	}
	for _, v := range s.ops {
		ids = append(ids, ident{"Op" + camel(v.name), v.line})
	}
	for _, v := range s.errors {
		ids = append(ids, ident{"Err" + camel(v.name), v.line})
	}
	for _, f := range s.desc {
		ids = append(ids, ident{"Desc." + camel(f.name), f.line})
	}
	for _, f := range s.fbcb {
		ids = append(ids, ident{"FBCB." + camel(f.name), f.line})
	}
	return ids
}

// goType returns the smallest Go type that holds a field, and the number of bits of that type.
func goType(f field) (string, int64) {
	if f.name == "OP" {
		return "Op", 8
	}
	if f.bits == 1 {
		return "bool", 1
	}
	for _, n := range []int64{8, 16, 32} {
		if f.bits <= n {
			if f.signed {
				return fmt.Sprintf("int%d", n), n
			}
			return fmt.Sprintf("uint%d", n), n
		}
	}
	return "", 0
}

func emitGo(s *spec) ([]byte, error) {
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("// %s\n\npackage abi\n", banner)
	w("import (\n\"encoding/binary\"\n\"fmt\"\n)\n")
	w("// Hash is the first 64 bits of SHA-256 of the description's canonical form, as the hardware\n// answers in ABI_HASH0 and ABI_HASH1.")
	w("const Hash uint64 = 0x%016x\n", s.hash)
	w("// SchemaVersion is the version of the register map, as the hardware answers in VERSION.")
	w("const SchemaVersion = %d\n", s.version)

	w("// Constants of the description.\nconst (")
	for _, c := range s.constants {
		w("%s = %s // %s", camel(c.name), number(c.value), c.doc)
	}
	w(")\n")

	w("// Codes of values, and limits that the bits of a field do not say.\nconst (")
	for _, c := range s.limits {
		w("%s = %s // %s", camel(c.name), number(c.value), c.doc)
	}
	w(")\n")

	w("// Registers: byte offsets. A Mask has ones where the register, or one of its fields, has bits.\nconst (")
	for _, r := range s.registers {
		n := "Reg" + camel(r.name)
		doc := r.access
		if r.busyOK {
			doc += ", also while busy"
		}
		w("%s = 0x%03X // %s: %s", n, r.offset, doc, r.doc)
		w("%sMask = 0x%08X", n, r.mask())
		if r.count > 1 {
			w("%sCount = %d // registers, 4 bytes apart", n, r.count)
		}
		for _, f := range r.fields {
			m := n + camel(f.name)
			w("%sLSB = %d // %s", m, f.lsb, f.doc)
			w("%sBits = %d", m, f.bits)
			w("%sMask = 0x%08X", m, fieldMask(f.lsb, f.bits))
		}
		w("")
	}
	w(")\n")
	w("// registers is the register map as a table, by offset.\nvar registers = [...]Register{")
	for _, r := range s.registers {
		w("{%q, 0x%03X, %d, 0x%08X, %t, %t, %t},", r.name, r.offset, max(r.count, 1), r.mask(),
			r.access != "wo", r.access != "ro", r.busyOK)
	}
	w("}\n")

	w("// Counters: LO of counter i is the register CntBase + 8*i, HI the next one.\nconst (")
	w("CntBase = 0x%03X\n", s.counters.base)
	for i, c := range s.counters.list {
		w("Cnt%s = %d // %s", camel(c.name), i, c.doc)
	}
	w("\nCntCount = %d\n)\n", len(s.counters.list))
	w("// CounterNames are the counters' names in lower case, by index.\nvar CounterNames = [CntCount]string{")
	for _, c := range s.counters.list {
		w("%q,", strings.ToLower(c.name))
	}
	w("}\n")

	w("// Op is a layer's operator.\ntype Op uint8\n\n// Operators.\nconst (")
	for _, v := range s.ops {
		w("Op%s Op = %d // %s", camel(v.name), v.value, v.doc)
	}
	w(")\n\nvar opNames = [...]string{")
	for _, v := range s.ops {
		w("%q,", v.name)
	}
	w("}\n")
	w("// ErrCode says why a start failed (register ERROR, field CODE).\ntype ErrCode uint8\n\n// Error codes.\nconst (")
	for _, v := range s.errors {
		w("Err%s ErrCode = %d // %s", camel(v.name), v.value, v.doc)
	}
	w(")\n\nvar errNames = [...]string{")
	for _, v := range s.errors {
		w("%q,", v.name)
	}
	w("}\n\nvar errDocs = [...]string{")
	for _, v := range s.errors {
		w("%q,", v.doc)
	}
	w("}\n")

	bytes, _ := s.constant("DESC_BYTES")
	nWords := bytes / 4
	w("// Desc describes one layer. Sizes are in elements (16 bits, 8 of int8) unless they say bytes.\ntype Desc struct {")
	for _, f := range s.desc {
		t, _ := goType(f)
		w("%s %s // %d bits: %s", camel(f.name), t, f.bits, f.doc)
	}
	w("}\n")
	w("// DescReserved has ones where a descriptor's words must be zero.\nvar DescReserved = [DescBytes / 4]uint32{")
	for _, m := range reservedWords(s.desc, nWords) {
		w("0x%08X,", m)
	}
	w("}\n")
	w("// Encode packs a descriptor as the hardware reads it: %d little-endian words. It refuses a\n// value beyond its field's bits and a Magic other than DescMagic.", nWords)
	w("func (d *Desc) Encode() ([DescBytes]byte, error) {\nvar out [DescBytes]byte\nvar w [DescBytes / 4]uint32")
	w("if d.Magic != DescMagic {\nreturn out, fmt.Errorf(\"abi: encode descriptor: Magic is 0x%%02X, expected 0x%%02X\", d.Magic, DescMagic)\n}")
	for _, f := range s.desc {
		packField(w, "descriptor", "out", f)
	}
	w("for i, v := range w {\nbinary.LittleEndian.PutUint32(out[4*i:], v)\n}\nreturn out, nil\n}\n")
	w("// DecodeDesc is the inverse of Encode. It refuses a wrong length, a wrong magic byte and bits that\n// must be zero; it does not judge the values.")
	w("func DecodeDesc(b []byte) (Desc, error) {\nvar d Desc\nif len(b) != DescBytes {\nreturn d, fmt.Errorf(\"abi: decode descriptor: %%d bytes, expected %%d\", len(b), DescBytes)\n}")
	w("var w [DescBytes / 4]uint32\nfor i := range w {\nw[i] = binary.LittleEndian.Uint32(b[4*i:])\nif bad := w[i] & DescReserved[i]; bad != 0 {\nreturn d, fmt.Errorf(\"abi: decode descriptor: word %%d: reserved bits 0x%%08X are set\", i, bad)\n}\n}")
	for _, f := range s.desc {
		w("d.%s = %s", camel(f.name), unpackField(f, fmt.Sprintf("w[%d]", f.word)))
	}
	w("if d.Magic != DescMagic {\nreturn Desc{}, fmt.Errorf(\"abi: decode descriptor: magic is 0x%%02X, expected 0x%%02X\", d.Magic, DescMagic)\n}\nreturn d, nil\n}\n")

	w("// FBCB is one entry of the Fluid Batching Control Block.\ntype FBCB struct {")
	for _, f := range s.fbcb {
		t, _ := goType(f)
		w("%s %s // %d bits: %s", camel(f.name), t, f.bits, f.doc)
	}
	w("}\n\n// FBCBReserved has ones where an entry must be zero.\nconst FBCBReserved = 0x%08X\n", reservedWords(s.fbcb, 1)[0])
	w("// Encode packs an entry; it refuses a value beyond its field's bits.\nfunc (d FBCB) Encode() (uint32, error) {\nvar w [1]uint32")
	for _, f := range s.fbcb {
		packField(w, "FBCB entry", "0", f)
	}
	w("return w[0], nil\n}\n")
	w("// DecodeFBCB is the inverse of Encode; it refuses bits that must be zero.\nfunc DecodeFBCB(v uint32) (FBCB, error) {")
	w("if bad := v & FBCBReserved; bad != 0 {\nreturn FBCB{}, fmt.Errorf(\"abi: decode FBCB entry: reserved bits 0x%%08X are set\", bad)\n}\nvar d FBCB")
	for _, f := range s.fbcb {
		w("d.%s = %s", camel(f.name), unpackField(f, "v"))
	}
	w("return d, nil\n}")

	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format Go: %w\n%s", err, b.Bytes())
	}
	return out, nil
}

func packField(w func(string, ...any), what, zero string, f field) {
	n := camel(f.name)
	t, bits := goType(f)
	if f.bits < bits {
		w("if uint32(d.%s)>>%d != 0 {\nreturn %s, fmt.Errorf(\"abi: encode %s: %s is %%d, beyond %d bits\", d.%s)\n}",
			n, f.bits, zero, what, n, f.bits, n)
	}
	switch {
	case t == "bool":
		w("if d.%s {\nw[%d] |= 1 << %d\n}", n, f.word, f.lsb)
	case f.signed:
		w("w[%d] |= uint32(uint%d(d.%s)) << %d", f.word, bits, n, f.lsb)
	default:
		w("w[%d] |= uint32(d.%s) << %d", f.word, n, f.lsb)
	}
}

func unpackField(f field, word string) string {
	t, bits := goType(f)
	switch {
	case t == "bool":
		return fmt.Sprintf("%s>>%d&1 != 0", word, f.lsb)
	case f.bits == bits:
		return fmt.Sprintf("%s(%s >> %d)", t, word, f.lsb)
	default:
		return fmt.Sprintf("%s(%s >> %d & 0x%X)", t, word, f.lsb, fieldMask(0, f.bits))
	}
}

// reservedWords returns one mask per word. The bits outside all fields are 1.
func reservedWords(fields []field, n int64) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = ^uint32(0)
	}
	for _, f := range fields {
		out[f.word] &^= fieldMask(f.lsb, f.bits)
	}
	return out
}

// number formats small numbers in decimal and other numbers in hexadecimal.
func number(v int64) string {
	if v <= 1024 && v != 0xD5 {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("0x%X", v)
}
