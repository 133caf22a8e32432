// Package npu drives the NPU. Driver implements device.Blocking over a Bus of registers, memory and one interrupt.
// Cosim is the bus of the co-simulation process (sim/PROTOCOL.md). Golden tests record register traffic and play it
// back.
//
// The driver owns the bus's memory. The memory contains the descriptors, packed weights and slots of each network. The
// driver starts one segment at a time and reads logits from the slots. To remove a sample from a batch, the driver
// removes it from the slot table, without copying data.
package npu
