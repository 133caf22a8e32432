package npu

import (
	"context"
	"errors"
	"fmt"
)

// Resp is the response of an AXI transaction.
type Resp uint8

// Responses. Two of them are errors; a quiet build answers a refused access with OKAY.
const (
	RespOKAY   Resp = 0
	RespSLVERR Resp = 2
	RespDECERR Resp = 3
)

// String is the response's name.
func (r Resp) String() string {
	switch r {
	case 0, 1:
		return "OKAY"
	case RespSLVERR:
		return "SLVERR"
	case RespDECERR:
		return "DECERR"
	}
	return fmt.Sprintf("response %d", uint8(r))
}

// BusError is a register access that the hardware refused: no register at the address, a write to a read-only
// register or during a start, or undefined bits.
type BusError struct {
	Write bool
	Off   uint32
	Val   uint32 // written value, if the access was a write
	Resp  Resp
}

// Error describes the refused access.
func (e *BusError) Error() string {
	if e.Write {
		return fmt.Sprintf("write of %#08x to register %#03x: %v", e.Val, e.Off, e.Resp)
	}
	return fmt.Sprintf("read of register %#03x: %v", e.Off, e.Resp)
}

// ErrNoIRQ says that WaitIRQ reached its limit.
var ErrNoIRQ = errors.New("no interrupt within the limit of cycles")

// Bus is a driver's access to an NPU. Only one goroutine at a time may use registers and WaitIRQ. Several may use the memory.
type Bus interface {
	// ReadReg and WriteReg return a *BusError for an AXI error.
	ReadReg(off uint32) (uint32, error)
	WriteReg(off, v uint32) error
	// DRAM is the memory that the NPU sees from address base on.
	DRAM() (window []byte, base uint64)
	// WaitIRQ waits until the interrupt line is high. It returns ErrNoIRQ after limit cycles of the device's clock, or
	// the context's error. cycles is the number of cycles waited, if the bus knows it.
	WaitIRQ(ctx context.Context, limit uint64) (cycles uint64, err error)
	Close() error
}

// Waiter is a bus whose register accesses may block and must therefore end with a context.
type Waiter interface {
	// Until makes accesses end when ctx ends, until done is called. It must not be called during an access.
	Until(ctx context.Context) (done func())
}

// HardResetter is a bus that can reset the hardware to power-on. Registers are lost, memory is not.
type HardResetter interface {
	HardReset() error
}

// Direction says who wrote memory that the other will read.
type Direction uint8

// Directions of Sync.
const (
	ToDevice   Direction = 1 // the CPU wrote, the NPU will read
	FromDevice Direction = 2 // the NPU wrote, the CPU will read
)

// Syncer is a bus whose memory is not coherent. A range must be synchronised between a CPU write and the start that reads it,
// and between the end of a start and the CPU's read. The memory of a bus without Sync is coherent.
type Syncer interface {
	// Sync takes an offset into the window and a length.
	Sync(off, n int64, dir Direction) error
}
