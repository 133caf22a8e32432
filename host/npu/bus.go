package npu

import (
	"context"
	"errors"
	"fmt"
)

// Resp is the response of an AXI transaction.
type Resp uint8

// Responses: those that are errors, and what a build that is quiet answers to what it refuses.
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

// BusError is a register access that the hardware refused: an address without a register, a write
// to a read-only one, a write while a start runs, bits that are not there.
type BusError struct {
	Write bool
	Off   uint32
	Val   uint32 // what was to be written
	Resp  Resp
}

// Error says which access was refused.
func (e *BusError) Error() string {
	if e.Write {
		return fmt.Sprintf("write of %#08x to register %#03x: %v", e.Val, e.Off, e.Resp)
	}
	return fmt.Sprintf("read of register %#03x: %v", e.Off, e.Resp)
}

// ErrNoIRQ is WaitIRQ's answer where the limit came first.
var ErrNoIRQ = errors.New("no interrupt within the limit of cycles")

// Bus is how a driver reaches an NPU. Register accesses and WaitIRQ are for one goroutine at a
// time; memory is shared.
type Bus interface {
	// ReadReg and WriteReg answer a *BusError where the hardware answers an AXI error.
	ReadReg(off uint32) (uint32, error)
	WriteReg(off, v uint32) error
	// DRAM is the memory that the NPU sees from address base on.
	DRAM() (window []byte, base uint64)
	// WaitIRQ waits until the interrupt line is high, or answers ErrNoIRQ after limit cycles of the
	// device's clock, or the context's error. It says how many cycles went by, as far as the bus
	// knows.
	WaitIRQ(ctx context.Context, limit uint64) (cycles uint64, err error)
	Close() error
}

// Waiter is a bus whose register accesses may wait, and have to end with a context.
type Waiter interface {
	// Until makes them end with ctx too until done is called. Accesses are not concurrent with it.
	Until(ctx context.Context) (done func())
}

// HardResetter is a bus that can put the hardware back to power-on; all registers are lost, memory
// is not.
type HardResetter interface {
	HardReset() error
}

// Direction is who has written memory that the other will read.
type Direction uint8

// Directions of a Sync.
const (
	ToDevice   Direction = 1 // the CPU has written, the NPU will read
	FromDevice Direction = 2 // the NPU has written, the CPU will read
)

// Syncer is a bus whose memory is not coherent: between the CPU's write and the start that reads it,
// and between the end of a start and the CPU's read, the stretch must be synchronised. A bus without
// it is coherent.
type Syncer interface {
	// Sync takes an offset into the window and a length.
	Sync(off, n int64, dir Direction) error
}
