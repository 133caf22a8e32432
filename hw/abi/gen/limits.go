package main

import (
	"bytes"
	"fmt"
)

// emitLimits returns the C++ header with the limits. It is separate from emitCPP's header, because every change of
// emitCPP's header rebuilds all files that include it.
func emitLimits(s *spec) ([]byte, error) {
	var b bytes.Buffer
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("// %s", banner)
	w("//")
	w("// Codes of values, and limits that the bits of a field do not say.")
	w("// clang-format off")
	w("#ifndef SLUICE_LIMITS_HPP")
	w("#define SLUICE_LIMITS_HPP")
	w("")
	w("namespace sluice_abi {")
	w("")
	for _, c := range s.limits {
		w("constexpr int %s = 0x%X;  // %s", c.name, c.value, c.doc)
	}
	w("")
	w("}  // namespace sluice_abi")
	w("")
	w("#endif  // SLUICE_LIMITS_HPP")
	return b.Bytes(), nil
}
