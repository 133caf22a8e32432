// Package abi is the Go face of what hardware and software share: register offsets, the layer
// descriptor, the FBCB entry, operators, error codes and counters. All of it is generated from
// abi.yaml by ./gen; REFERENCE.md is the same for people. Values are in the units the reference
// page states: elements of 16 bits, bytes, cycles.
package abi

import "fmt"

//go:generate go run ./gen -root ../..

// String is the operator's name in abi.yaml.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Valid tells whether the hardware knows the operator.
func (o Op) Valid() bool { return int(o) < len(opNames) }

// String is the code's name in abi.yaml.
func (e ErrCode) String() string {
	if int(e) < len(errNames) {
		return errNames[e]
	}
	return fmt.Sprintf("ErrCode(%d)", uint8(e))
}

// Doc says what the code means.
func (e ErrCode) Doc() string {
	if int(e) < len(errDocs) {
		return errDocs[e]
	}
	return "unknown to this build"
}

// CounterLo is the offset of the low word of counter i; reading it latches the high word, which
// stands 4 bytes on.
func CounterLo(i int) uint32 { return CntBase + 8*uint32(i) }

// FBCBAddr is the value of register FBCB_ADDR that points at the entry of (layer, batch).
// batch is 1..BMax.
func FBCBAddr(layer, batch int) uint32 {
	return uint32(layer)<<RegFBCBAddrLayerLSB&RegFBCBAddrLayerMask |
		uint32(batch-1)<<RegFBCBAddrBatchLSB&RegFBCBAddrBatchMask
}

// Ops are all operators.
func Ops() []Op {
	all := make([]Op, len(opNames))
	for i := range all {
		all[i] = Op(i)
	}
	return all
}

// ErrCodes are all error codes, ErrNone first.
func ErrCodes() []ErrCode {
	all := make([]ErrCode, len(errNames))
	for i := range all {
		all[i] = ErrCode(i)
	}
	return all
}
