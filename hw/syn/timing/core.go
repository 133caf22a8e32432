package timing

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// CoreModule is the name of the core that calibrates the tables.
const CoreModule = "picorv32_axi"

// Published returns the core's clock period in Vivado (TWO_CYCLE_ALU), in ns, from picorv32's README.
func Published(grade string) (ns float64, ok bool) {
	ns, ok = map[string]float64{"k7-2": 2.4, "usp-2": 1.4}[grade]
	return ns, ok
}

// Core returns picorv32.v with the configuration of the published figures.
func Core(text []byte) ([]byte, error) {
	const off, on = "TWO_CYCLE_ALU = 0", "TWO_CYCLE_ALU = 1"
	if !bytes.Contains(text, []byte(off)) || !bytes.Contains(text, []byte("module "+CoreModule+" ")) {
		return nil, fmt.Errorf("%w: it is not the picorv32 that the tables are held against", ErrNetlist)
	}
	return bytes.ReplaceAll(text, []byte(off), []byte(on)), nil
}

// WriteCore writes the result of Core to a file below root. It returns the path relative to root.
func WriteCore(root, from string) (rtl string, err error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	if text, err = Core(text); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	rtl = filepath.Join("build", "syn", "core", CoreModule+".sv")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, rtl)), 0o755); err != nil {
		return "", err
	}
	return rtl, os.WriteFile(filepath.Join(root, rtl), text, 0o644)
}
