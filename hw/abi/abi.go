// Package abi defines the interface between hardware and software: register offsets, the layer descriptor, the FBCB
// entry, operators, error codes and counters. ./gen generates the definitions from abi.yaml. REFERENCE.md describes
// them with their units: elements of 16 bits, bytes, cycles.
package abi

import "fmt"

//go:generate go run ./gen -root ../..

// String returns the operator's name in abi.yaml.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Valid reports whether the hardware supports the operator.
func (o Op) Valid() bool { return int(o) < len(opNames) }

// String returns the error code's name in abi.yaml.
func (e ErrCode) String() string {
	if int(e) < len(errNames) {
		return errNames[e]
	}
	return fmt.Sprintf("ErrCode(%d)", uint8(e))
}

// Doc returns a description of the error code.
func (e ErrCode) Doc() string {
	if int(e) < len(errDocs) {
		return errDocs[e]
	}
	return "unknown to this build"
}

// CounterLo returns the offset of counter i's low word. A read of this word latches the high word, 4 bytes later.
func CounterLo(i int) uint32 { return CntBase + 8*uint32(i) }

// FBCBAddr returns the value of register FBCB_ADDR for the entry of (layer, batch). batch is 1..BMax.
func FBCBAddr(layer, batch int) uint32 {
	return uint32(layer)<<RegFBCBAddrLayerLSB&RegFBCBAddrLayerMask |
		uint32(batch-1)<<RegFBCBAddrBatchLSB&RegFBCBAddrBatchMask
}

// Ops returns all operators.
func Ops() []Op {
	all := make([]Op, len(opNames))
	for i := range all {
		all[i] = Op(i)
	}
	return all
}

// ErrCodes returns all error codes, ErrNone first.
func ErrCodes() []ErrCode {
	all := make([]ErrCode, len(errNames))
	for i := range all {
		all[i] = ErrCode(i)
	}
	return all
}

// Register is a register, or an array of registers 4 bytes apart.
type Register struct {
	Name               string
	Offset, Count      uint32
	Mask               uint32 // implemented bits
	Readable, Writable bool
	BusyOK             bool // writable while a start runs
}

// RegisterAt returns the register at a byte offset, or false. Words of counters are also registers.
func RegisterAt(off uint32) (Register, bool) {
	if off%4 != 0 {
		return Register{}, false
	}
	if off >= CntBase && off < CntBase+8*CntCount {
		return Register{Name: "counter", Offset: off, Count: 1, Mask: 0xFFFFFFFF, Readable: true}, true
	}
	for _, r := range registers {
		if off >= r.Offset && off < r.Offset+4*r.Count {
			return r, true
		}
	}
	return Register{}, false
}

// Refused reports whether the register map requires SLVERR as the answer to an access. busy is true while a start runs.
// The hardware can also reject a written value.
func Refused(off uint32, write bool, value uint32, busy bool) bool {
	r, ok := RegisterAt(off)
	switch {
	case !ok:
		return true
	case !write:
		return false // a write-only register reads as zero
	case !r.Writable || value&^r.Mask != 0 || off == RegFBCBData && value&FBCBReserved != 0:
		return true
	}
	return busy && !r.BusyOK || busy && off == RegCtrl && value&(RegCtrlStartMask|RegCtrlClearCountersMask) != 0
}
