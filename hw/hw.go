// Package hw holds the RTL that a program was built beside, so that it knows where it is whether what was found on the
// RTL still holds.
package hw

import "embed"

// RTL is what hw/syn synthesises, from this folder.
//
//go:embed rtl/*.sv rtl/files.f xilinx/*.sv
var RTL embed.FS
