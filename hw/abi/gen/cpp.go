package main

import (
	"bytes"
	"fmt"
)

func emitCPP(s *spec) ([]byte, error) {
	s = s.built()
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("// %s", banner)
	w("//")
	w("// What hardware and software share, as C++14 constants. A descriptor is an array of DESC_WORDS")
	w("// little-endian words, cut with get() and built with set().")
	w("// clang-format off")
	w("#ifndef SLUICE_ABI_HPP")
	w("#define SLUICE_ABI_HPP")
	w("")
	w("#include <cstdint>")
	w("")
	w("namespace sluice_abi {")
	w("")
	w("constexpr std::uint64_t ABI_HASH = 0x%016xULL;", s.hash)
	w("constexpr std::uint32_t ABI_VERSION = %d;", s.version)
	w("")
	for _, c := range s.constants {
		w("constexpr std::uint32_t %s = 0x%X;  // %s", c.name, c.value, c.doc)
	}
	n, _ := s.constant("DESC_BYTES")
	w("constexpr std::uint32_t DESC_WORDS = %d;", n/4)
	w("")
	w("// Registers: byte offsets; a MASK has ones where the register, or the field, has bits.")
	for _, r := range s.registers {
		w("constexpr std::uint32_t REG_%s = 0x%03X;  // %s (%s)", r.name, r.offset, r.doc, access(r))
		w("constexpr std::uint32_t REG_%s_MASK = 0x%08X;", r.name, r.mask())
		if r.count > 1 {
			w("constexpr std::uint32_t REG_%s_COUNT = %d;", r.name, r.count)
		}
		for _, f := range r.fields {
			w("constexpr std::uint32_t REG_%s_%s_LSB = %d;", r.name, f.name, f.lsb)
			w("constexpr std::uint32_t REG_%s_%s_W = %d;", r.name, f.name, f.bits)
			w("constexpr std::uint32_t REG_%s_%s_MASK = 0x%08X;", r.name, f.name, fieldMask(f.lsb, f.bits))
		}
	}
	w("")
	w("// The same as a table, for what walks the register map.")
	w("struct Register {")
	w("  const char *name;")
	w("  std::uint32_t offset, mask, count;")
	w("  bool readable, writable, one_to_clear, busy_ok;")
	w("};")
	w("constexpr Register REGISTERS[] = {")
	for _, r := range s.registers {
		w("    {%q, 0x%03X, 0x%08X, %d, %t, %t, %t, %t},", r.name, r.offset, r.mask(), r.count,
			r.access != "wo", r.access != "ro", r.access == "w1c", r.busyOK)
	}
	w("};")
	w("")
	w("// Counters: LO of counter i at CNT_BASE + 8*i, HI 4 bytes on.")
	w("constexpr std::uint32_t CNT_BASE = 0x%03X;", s.counters.base)
	w("constexpr std::uint32_t CNT_COUNT = %d;", len(s.counters.list))
	for i, c := range s.counters.list {
		w("constexpr std::uint32_t CNT_%s = %d;  // %s", c.name, i, c.doc)
	}
	w("")
	for _, v := range s.ops {
		w("constexpr std::uint32_t OP_%s = %d;  // %s", v.name, v.value, v.doc)
	}
	w("")
	for _, v := range s.errors {
		w("constexpr std::uint32_t ERR_%s = %d;  // %s", v.name, v.value, v.doc)
	}
	w("")
	w("// Field is a run of bits in an array of 32-bit words.")
	w("struct Field {")
	w("  std::uint32_t word, lsb, bits;")
	w("  bool is_signed;")
	w("};")
	w("")
	w("constexpr std::uint32_t mask(const Field &f) {")
	w("  return static_cast<std::uint32_t>((std::uint64_t{1} << f.bits) - 1);")
	w("}")
	w("")
	w("// get reads a field; a signed one comes sign-extended.")
	w("constexpr std::int64_t get(const std::uint32_t *words, const Field &f) {")
	w("  return static_cast<std::int64_t>((words[f.word] >> f.lsb) & mask(f)) -")
	w("         ((f.is_signed && ((words[f.word] >> (f.lsb + f.bits - 1)) & 1u))")
	w("              ? (std::int64_t{1} << f.bits)")
	w("              : 0);")
	w("}")
	w("")
	w("// set writes the low bits of a value into a field.")
	w("inline void set(std::uint32_t *words, const Field &f, std::int64_t value) {")
	w("  words[f.word] = (words[f.word] & ~(mask(f) << f.lsb)) |")
	w("                  ((static_cast<std::uint32_t>(value) & mask(f)) << f.lsb);")
	w("}")
	w("")
	w("// Descriptor fields.")
	for _, f := range s.desc {
		w("constexpr Field DESC_%s = {%d, %d, %d, %t};  // %s", fieldConst(f), f.word, f.lsb, f.bits, f.signed, f.doc)
	}
	w("// Ones where a descriptor's words must be zero.")
	w("constexpr std::uint32_t DESC_RSVD_MASK[DESC_WORDS] = {")
	for _, m := range reservedWords(s.desc, n/4) {
		w("    0x%08X,", m)
	}
	w("};")
	w("")
	w("// Fields of an FBCB entry (one word).")
	for _, f := range s.fbcb {
		w("constexpr Field FBCB_%s = {0, %d, %d, false};  // %s", f.name, f.lsb, f.bits, f.doc)
	}
	w("constexpr std::uint32_t FBCB_RSVD_MASK = 0x%08X;", reservedWords(s.fbcb, 1)[0])
	w("")
	w("constexpr const char *OP_NAMES[] = {")
	for _, v := range s.ops {
		w("    %q,", v.name)
	}
	w("};")
	w("constexpr const char *ERR_NAMES[] = {")
	for _, v := range s.errors {
		w("    %q,", v.name)
	}
	w("};")
	w("constexpr const char *CNT_NAMES[] = {")
	for _, c := range s.counters.list {
		w("    %q,", c.name)
	}
	w("};")
	w("")
	w("}  // namespace sluice_abi")
	w("")
	w("#endif  // SLUICE_ABI_HPP")
	return b.Bytes(), nil
}

// fieldConst returns a field's name in C++. The prefix separates the field MAGIC from the constant DESC_MAGIC.
func fieldConst(f field) string { return "F_" + f.name }
