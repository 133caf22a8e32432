// Package npu drives the NPU. Driver implements device.Blocking over a Bus of registers, memory and one interrupt.
// Cosim is the bus of the co-simulation process (sim/PROTOCOL.md). A recorder and its playback make golden tests of
// register traffic.
//
// The driver owns the memory that it is given: for each network its descriptors, packed weights and slots. It starts
// one segment at a time and reads logits from the slots. A sample leaves a batch by leaving the slot table; nothing
// is copied.
package npu
