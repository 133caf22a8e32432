package npu

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Errors of the driver. Errors that an engine handles are in package device. An error from the hardware is an *HWError.
// A refused register access is a *BusError. A *BusError also matches ErrRefused if the hardware answered with OKAY.
var (
	ErrHardware = errors.New("not an NPU that this driver knows")
	ErrMismatch = device.ErrMismatch
	ErrRequest  = device.ErrRequest
	ErrMemory   = device.ErrMemory
	ErrRefused  = errors.New("refused, as ACCESS tells") // only from builds that answer a refused access with OKAY
	ErrHang     = device.ErrHang
	ErrReset    = device.ErrReset
	ErrBusy     = device.ErrBusy
	ErrClosed   = fmt.Errorf("%w: closed", device.ErrGone)
)

// HWError is the error of a start, from the registers ERROR and ERROR_ADDR.
type HWError struct {
	Code  abi.ErrCode
	Layer int
	Port  int    // AXI port of a bus error
	Addr  uint32 // low 32 bits of the address of a bus or range error
}

// Error returns the error's code and place.
func (e *HWError) Error() string {
	s := fmt.Sprintf("hardware error %v in layer %d", e.Code, e.Layer)
	if e.bus() {
		s += fmt.Sprintf(", port %d, address %#x", e.Port, e.Addr)
	}
	return s + ": " + e.Code.Doc()
}

func (e *HWError) bus() bool {
	switch e.Code {
	case abi.ErrReadSLVERR, abi.ErrReadDECERR, abi.ErrWriteSLVERR, abi.ErrWriteDECERR:
		return true
	}
	return false
}

// Is reports whether target has the same code; the place is ignored: errors.Is(err, &HWError{Code: abi.ErrWatchdog}).
// If the hardware's watchdog ended the start, the error also matches ErrHang.
func (e *HWError) Is(target error) bool {
	if target == ErrHang {
		return e.Code == abi.ErrWatchdog
	}
	t, ok := target.(*HWError)
	return ok && *t == HWError{Code: e.Code}
}
