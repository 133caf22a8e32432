// Package vectors reads and writes test vectors (sim/VECTORS.md). The simulators of the RTL and of the HLS kernel play
// such a file, and host/npu plays it on a bus.
package vectors

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/sluice-npu/sluice/dse/files"
)

// Magic starts every file.
const Magic = "SLVEC001"

// MaxFile is the largest file, in bytes.
const MaxFile = 1 << 32

// Errors of a reader. Every returned error wraps one of these errors and contains the position in the file.
var (
	ErrMagic     = errors.New("not a file of test vectors")
	ErrTruncated = errors.New("the file ends without an END record")
	ErrRecord    = errors.New("malformed record")
	ErrChecksum  = errors.New("checksum does not match")
	ErrTrailing  = errors.New("bytes after the END record")
	ErrTooLarge  = errors.New("longer than a file may be")
)

// Kind is a record's kind in the file.
type Kind uint32

// Kinds.
const (
	KindMemWrite   Kind = 1
	KindRegWrite   Kind = 2
	KindRegExpect  Kind = 3
	KindRun        Kind = 4
	KindMemExpect  Kind = 5
	KindMeta       Kind = 6
	KindEnd        Kind = 7
	KindRegRefused Kind = 8
)

// Record is one step: MemWrite, RegWrite, RegRefused, RegExpect, Run, MemExpect or Meta.
type Record interface {
	// Kind returns the record's kind.
	Kind() Kind
	payload() ([]byte, error)
}

// MemWrite writes memory at an address of the NPU.
type MemWrite struct {
	Addr uint64
	Data []byte // at least one byte
}

// MemExpect compares memory.
type MemExpect struct {
	Addr uint64
	Data []byte // at least one byte
}

// RegWrite writes a register; the response must be OKAY.
type RegWrite struct{ Off, Val uint32 }

// RegRefused writes a register; the response must be an error.
type RegRefused struct{ Off, Val uint32 }

// RegExpect reads a register and compares the bits of Mask.
type RegExpect struct{ Off, Mask, Val uint32 }

// Run advances the clock until the interrupt is high, at most by MaxCycles. Then the interrupt must equal ExpectIRQ.
type Run struct {
	MaxCycles uint64
	ExpectIRQ bool
}

// Meta is JSON for people and tools; a player ignores it.
type Meta struct{ JSON []byte }

// Kind implements Record.
func (MemWrite) Kind() Kind { return KindMemWrite }

// Kind implements Record.
func (MemExpect) Kind() Kind { return KindMemExpect }

// Kind implements Record.
func (RegWrite) Kind() Kind { return KindRegWrite }

// Kind implements Record.
func (RegRefused) Kind() Kind { return KindRegRefused }

// Kind implements Record.
func (RegExpect) Kind() Kind { return KindRegExpect }

// Kind implements Record.
func (Run) Kind() Kind { return KindRun }

// Kind implements Record.
func (Meta) Kind() Kind { return KindMeta }

func mem(addr uint64, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: no bytes for address %#x", ErrRecord, addr)
	}
	return append(binary.LittleEndian.AppendUint64(nil, addr), data...), nil
}

func words(w ...uint32) ([]byte, error) {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b, nil
}

func (r MemWrite) payload() ([]byte, error)   { return mem(r.Addr, r.Data) }
func (r MemExpect) payload() ([]byte, error)  { return mem(r.Addr, r.Data) }
func (r RegWrite) payload() ([]byte, error)   { return words(r.Off, r.Val) }
func (r RegRefused) payload() ([]byte, error) { return words(r.Off, r.Val) }
func (r RegExpect) payload() ([]byte, error)  { return words(r.Off, r.Mask, r.Val) }

func (r Run) payload() ([]byte, error) {
	irq := uint32(0)
	if r.ExpectIRQ {
		irq = 1
	}
	return words(uint32(r.MaxCycles), uint32(r.MaxCycles>>32), irq, 0)
}

func (r Meta) payload() ([]byte, error) {
	if !json.Valid(r.JSON) {
		return nil, fmt.Errorf("%w: META is not JSON", ErrRecord)
	}
	return r.JSON, nil
}

// Writer writes a file. Readers reject the file if Close was not called.
type Writer struct {
	w    *bufio.Writer
	crc  hash.Hash32
	size int64
	err  error
}

// NewWriter starts a file.
func NewWriter(w io.Writer) *Writer {
	x := &Writer{w: bufio.NewWriter(w), crc: crc32.NewIEEE()}
	x.put([]byte(Magic))
	return x
}

func (x *Writer) put(b []byte) {
	if x.err != nil {
		return
	}
	if x.size += int64(len(b)); x.size > MaxFile {
		x.err = ErrTooLarge
		return
	}
	x.crc.Write(b) // never fails
	_, x.err = x.w.Write(b)
}

func (x *Writer) record(kind Kind, payload []byte) {
	head := binary.LittleEndian.AppendUint32(nil, uint32(kind))
	x.put(binary.LittleEndian.AppendUint32(head, uint32(len(payload))))
	x.put(payload)
}

// Write appends records. After an error it writes nothing more.
func (x *Writer) Write(records ...Record) error {
	for _, r := range records {
		p, err := r.payload()
		if err == nil && int64(len(p)) > MaxFile-64 {
			err = ErrTooLarge
		}
		if err != nil {
			return fmt.Errorf("write vectors: %w", err)
		}
		x.record(r.Kind(), p)
	}
	if x.err != nil {
		return fmt.Errorf("write vectors: %w", x.err)
	}
	return nil
}

// Close writes the END record. It does not close the underlying writer.
func (x *Writer) Close() error {
	sum := x.crc.Sum32()
	p, _ := words(sum)
	x.record(KindEnd, p)
	if x.err == nil {
		x.err = x.w.Flush()
	}
	if x.err != nil {
		return fmt.Errorf("write vectors: %w", x.err)
	}
	x.err = errors.New("the file is closed")
	return nil
}

// WriteFile writes a file atomically.
func WriteFile(path string, records []Record) error {
	f, err := files.New(path)
	if err != nil {
		return fmt.Errorf("write vectors %s: %w", path, err)
	}
	defer f.Cleanup() // does nothing after the rename
	w := NewWriter(f)
	if err := w.Write(records...); err != nil {
		return fmt.Errorf("write vectors %s: %w", path, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write vectors %s: %w", path, err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write vectors %s: %w", path, err)
	}
	return nil
}

// ReadFile reads a whole file.
func ReadFile(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read vectors: %w", err)
	}
	defer f.Close()
	records, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read vectors %s: %w", path, err)
	}
	return records, nil
}

// Read reads and checks a whole file, so that no record is played from a file with a damaged end.
func Read(r io.Reader) ([]Record, error) {
	x := &reader{r: bufio.NewReader(r), crc: crc32.NewIEEE()}
	magic, err := x.take(8)
	if err != nil || string(magic) != Magic {
		return nil, fmt.Errorf("%w: expected %q at its start", ErrMagic, Magic)
	}
	var records []Record
	for {
		at, sum := x.at, x.crc.Sum32()
		head, err := x.take(8)
		if err != nil {
			return nil, fmt.Errorf("offset %d: %w", at, err)
		}
		kind, length := Kind(binary.LittleEndian.Uint32(head)), int64(binary.LittleEndian.Uint32(head[4:]))
		p, err := x.take(length)
		if err != nil {
			return nil, fmt.Errorf("offset %d: a record of %d bytes: %w", at, length, err)
		}
		if kind == KindEnd {
			return records, x.end(at, p, sum)
		}
		rec, err := decode(kind, p)
		if err != nil {
			return nil, fmt.Errorf("offset %d: %w", at, err)
		}
		records = append(records, rec)
	}
}

type reader struct {
	r   *bufio.Reader
	crc hash.Hash32
	at  int64
}

// take reads n bytes. It allocates memory as the bytes arrive, because n can be wrong.
func (x *reader) take(n int64) ([]byte, error) {
	if x.at+n > MaxFile {
		return nil, ErrTooLarge
	}
	var b bytes.Buffer
	got, err := io.CopyN(&b, x.r, n)
	if errors.Is(err, io.EOF) && got < n {
		return nil, ErrTruncated
	}
	if err != nil {
		return nil, err
	}
	x.at += n
	x.crc.Write(b.Bytes()) // never fails
	return b.Bytes(), nil
}

func (x *reader) end(at int64, p []byte, sum uint32) error {
	if len(p) != 4 {
		return fmt.Errorf("offset %d: %w: END has %d bytes, expected 4", at, ErrRecord, len(p))
	}
	if want := binary.LittleEndian.Uint32(p); want != sum {
		return fmt.Errorf("offset %d: %w: %08x, END says %08x", at, ErrChecksum, sum, want)
	}
	if _, err := x.r.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return fmt.Errorf("offset %d: %w", x.at, err)
		}
		return fmt.Errorf("offset %d: %w", x.at, ErrTrailing)
	}
	return nil
}

func decode(kind Kind, p []byte) (Record, error) {
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(p[4*i:]) }
	size := func(want int) error {
		if len(p) != want {
			return fmt.Errorf("%w: kind %d has %d bytes, expected %d", ErrRecord, kind, len(p), want)
		}
		return nil
	}
	switch kind {
	case KindMemWrite, KindMemExpect:
		if len(p) <= 8 {
			return nil, fmt.Errorf("%w: kind %d has %d bytes, expected more than 8", ErrRecord, kind, len(p))
		}
		addr := binary.LittleEndian.Uint64(p)
		if kind == KindMemWrite {
			return MemWrite{addr, p[8:]}, nil
		}
		return MemExpect{addr, p[8:]}, nil
	case KindRegWrite, KindRegRefused:
		if err := size(8); err != nil {
			return nil, err
		}
		if kind == KindRegWrite {
			return RegWrite{u32(0), u32(1)}, nil
		}
		return RegRefused{u32(0), u32(1)}, nil
	case KindRegExpect:
		if err := size(12); err != nil {
			return nil, err
		}
		return RegExpect{u32(0), u32(1), u32(2)}, nil
	case KindRun:
		if err := size(16); err != nil {
			return nil, err
		}
		if u32(2) > 1 || u32(3) != 0 {
			return nil, fmt.Errorf("%w: RUN expects an interrupt of 0 or 1 and a zero word", ErrRecord)
		}
		return Run{binary.LittleEndian.Uint64(p), u32(2) == 1}, nil
	case KindMeta:
		if !json.Valid(p) {
			return nil, fmt.Errorf("%w: META is not JSON", ErrRecord)
		}
		return Meta{p}, nil
	default:
		return nil, fmt.Errorf("%w: unknown kind %d", ErrRecord, kind)
	}
}
