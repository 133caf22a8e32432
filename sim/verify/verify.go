// Package verify compares hardware with its references: campaigns of faults and of random layers, whole segments and
// served images bit for bit, counters of the build without MACs, the order of actions, golden with onnxruntime, and
// the coverage of all these. It drives the hardware at its registers (Rig), or any device beside a reference
// (Shadow), and uses no driver of its own. Every difference is reported with its seed.
package verify

import "errors"

// ErrMismatch says that a device's results or memory differ from its reference's.
var ErrMismatch = errors.New("the device differs from its reference")
