// Package verify compares hardware with its references. It runs campaigns of faults and of random layers, and compares
// whole segments and served images bit for bit. It also compares the counters of the build without MACs, the order of
// actions, and golden with onnxruntime, and measures coverage. Rig drives the hardware through registers, and Shadow
// runs any device beside a reference. Every difference is reported with its seed.
package verify

import "errors"

// ErrMismatch reports that the results or memory of a device and its reference differ.
var ErrMismatch = errors.New("the device differs from its reference")
