// Package npu drives the NPU: Driver implements device.Blocking over a Bus of registers, memory and
// one interrupt. Cosim is the bus of the co-simulation process (sim/PROTOCOL.md); a recorder and
// its playback turn register traffic into golden tests.
//
// The driver owns the memory it is given: per network its descriptors, its packed weights and its
// slots, one behind the other. It starts one segment at a time and reads logits straight from the
// slots; samples leave a batch by leaving the slot table, nothing is copied.
package npu
