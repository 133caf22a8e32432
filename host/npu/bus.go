package npu

import (
	"context"
	"errors"
	"fmt"
)

// Resp is the response of an AXI transaction.
type Resp uint8

// Responses. SLVERR and DECERR are errors. A quiet build answers a refused access with OKAY.
const (
	RespOKAY   Resp = 0
	RespSLVERR Resp = 2
	RespDECERR Resp = 3
)

// String returns the response's name.
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

// BusError is a register access that the hardware refused: no register at the address, a write to a read-only register,
// a write during a start, or undefined bits.
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

// ErrNoIRQ means that WaitIRQ reached its limit.
var ErrNoIRQ = errors.New("no interrupt within the limit of cycles")

// Bus is a driver's access to an NPU. Only one goroutine at a time may use registers and WaitIRQ. Memory may be shared.
type Bus interface {
	// ReadReg and WriteReg return a *BusError for an AXI error.
	ReadReg(off uint32) (uint32, error)
	WriteReg(off, v uint32) error
	// DRAM returns the shared memory. The NPU addresses it from base.
	DRAM() (window []byte, base uint64)
	// WaitIRQ waits until the interrupt line is high. It returns ErrNoIRQ after limit cycles of the device's clock, or
	// the context's error. cycles is the length of the wait in cycles, if the bus can measure it.
	WaitIRQ(ctx context.Context, limit uint64) (cycles uint64, err error)
	Close() error
}

// Waiter is a bus on which register accesses may block. Therefore the accesses need a context.
type Waiter interface {
	// Until sets the context of register accesses, so that they end with ctx. A call of done undoes this. Until must not
	// be called during an access.
	Until(ctx context.Context) (done func())
}

// HardResetter is a bus that can reset the hardware to its power-on state. This clears registers, but not memory.
type HardResetter interface {
	HardReset() error
}

// Direction is the direction of a transfer through memory.
type Direction uint8

// Directions of Sync.
const (
	ToDevice   Direction = 1 // the CPU has written, and the NPU will read
	FromDevice Direction = 2 // the NPU has written, and the CPU will read
)

// Syncer is a bus with memory that is not coherent. A range must be synchronised after the CPU's write and before the
// start that reads the range. It must also be synchronised after a start and before the CPU's read. Other buses have
// coherent memory.
type Syncer interface {
	// Sync synchronises n bytes at the offset off in the window.
	Sync(off, n int64, dir Direction) error
}
