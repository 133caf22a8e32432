// Package verify holds hardware against its references: campaigns of faults and of random layers, whole
// segments and served images bit for bit, counters of the build without MACs, the orders of actions,
// golden against onnxruntime, and the coverage of all that. It drives the hardware at its registers
// (Rig), or any device beside a reference (Shadow): no driver and no backend of its own is behind it.
// What finds a difference names its seed.
package verify

import "errors"

// ErrMismatch is the error of a device whose results or memory are not its reference's.
var ErrMismatch = errors.New("the device differs from its reference")
