package main

import (
	"bytes"
	"fmt"
)

// emitPlanned returns the C++ header of the planned fields, for the HLS kernel of int8 designs. It includes emitCPP's.
func emitPlanned(s *spec) ([]byte, error) {
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("// %s", banner)
	w("//")
	w("// The planned fields, and where a descriptor has none of any kind.")
	w("// clang-format off")
	w("#ifndef SLUICE_PLANNED_HPP")
	w("#define SLUICE_PLANNED_HPP")
	w("")
	w("#include \"sluice_abi.hpp\"")
	w("")
	w("namespace sluice_abi {")
	w("")
	for _, r := range s.registers {
		for _, f := range r.fields {
			if f.planned {
				w("constexpr std::uint32_t REG_%s_%s_LSB = %d;  // %s", r.name, f.name, f.lsb, f.doc)
			}
		}
	}
	for _, f := range s.desc {
		if f.planned {
			w("constexpr Field DESC_%s = {%d, %d, %d, %t};  // %s", fieldConst(f), f.word, f.lsb, f.bits, f.signed, f.doc)
		}
	}
	w("// Ones where a descriptor of int8 must be zero.")
	n, _ := s.constant("DESC_BYTES")
	w("constexpr std::uint32_t DESC_RSVD_MASK_INT8[DESC_WORDS] = {")
	for _, m := range reservedWords(s.desc, n/4) {
		w("    0x%08X,", m)
	}
	w("};")
	w("")
	w("}  // namespace sluice_abi")
	w("")
	w("#endif  // SLUICE_PLANNED_HPP")
	return b.Bytes(), nil
}
