package npu

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Messages of sim/PROTOCOL.md: 64 bytes in each direction, little-endian.
const (
	cosimMagic   = 0x43504E53
	cosimVersion = 1
	messageBytes = 64
)

type cosimOp uint32

const (
	opHello       cosimOp = 1
	opReadReg     cosimOp = 2
	opWriteReg    cosimOp = 3
	opRun         cosimOp = 4
	opReset       cosimOp = 5
	opAddFault    cosimOp = 6
	opClearFaults cosimOp = 7
	opSetMemory   cosimOp = 8
	opStats       cosimOp = 9
	opTrace       cosimOp = 10
	opQuit        cosimOp = 11
	opEvent       cosimOp = 12
)

var cosimStatus = [...]string{
	"ok", "bad length", "unknown operation", "bad argument", "no hello", "other protocol", "register bus hangs", "not offered",
}

// CosimError is an error answer of the co-simulation process.
type CosimError struct {
	Status uint32 // sim/PROTOCOL.md, "Status"
	Text   string
}

// Error returns the status and the process's message.
func (e *CosimError) Error() string {
	name := fmt.Sprintf("status %d", e.Status)
	if e.Status < uint32(len(cosimStatus)) {
		name = cosimStatus[e.Status]
	}
	return fmt.Sprintf("co-simulation: %s: %s", name, e.Text)
}

// request returns a message: the operation, the tag, and the payload as little-endian words.
func request(op cosimOp, tag uint32, payload ...uint32) []byte {
	b := make([]byte, 0, messageBytes)
	b = binary.LittleEndian.AppendUint32(b, uint32(op))
	b = binary.LittleEndian.AppendUint32(b, tag)
	for _, v := range payload {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b[:messageBytes]
}

type answer struct {
	op      cosimOp
	tag     uint32
	status  uint32
	irq     bool
	cycles  uint64
	payload [40]byte
}

func decodeAnswer(b []byte) (answer, error) {
	var a answer
	if len(b) != messageBytes {
		return a, fmt.Errorf("an answer of %d bytes, expected %d", len(b), messageBytes)
	}
	a.op = cosimOp(binary.LittleEndian.Uint32(b))
	a.tag = binary.LittleEndian.Uint32(b[4:])
	a.status = binary.LittleEndian.Uint32(b[8:])
	a.irq = binary.LittleEndian.Uint32(b[12:]) != 0
	a.cycles = binary.LittleEndian.Uint64(b[16:])
	copy(a.payload[:], b[24:])
	return a, nil
}

func (a *answer) u16(at int) uint16 { return binary.LittleEndian.Uint16(a.payload[at:]) }
func (a *answer) u32(at int) uint32 { return binary.LittleEndian.Uint32(a.payload[at:]) }
func (a *answer) u64(at int) uint64 { return binary.LittleEndian.Uint64(a.payload[at:]) }

// text returns a NUL-terminated string of at most n bytes.
func (a *answer) text(at, n int) string {
	s, _, _ := bytes.Cut(a.payload[at:at+n], []byte{0})
	return string(s)
}
