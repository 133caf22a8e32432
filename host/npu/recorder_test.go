package npu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// Register traffic as text, one access per line:
//
//	w 040 00000001        a write, answered OKAY
//	w 060 00000000 SLVERR a write, answered SLVERR
//	r 044 00000002        a read and its value
//	r ffc SLVERR          a read, answered SLVERR
//	irq 1234              waited, the interrupt came after so many cycles
//	irq 1000 none         waited, it did not come
//	reset                 a hard reset
//
// Memory is not recorded: it is as large as the networks are, and golden results check it.

// Recorder is a bus that records the traffic of another.
type Recorder struct {
	Bus
	w   *bufio.Writer
	err error
}

// NewRecorder records to w. Close flushes it and closes the recorded bus.
func NewRecorder(b Bus, w io.Writer) *Recorder { return &Recorder{Bus: b, w: bufio.NewWriter(w)} }

func (r *Recorder) line(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format+"\n", args...)
	}
}

// answered records an access unless the bus itself failed, which a playback cannot repeat.
func (r *Recorder) answered(err error, access, value string) {
	var b *BusError
	switch {
	case err == nil:
		r.line("%s%s", access, value)
	case errors.As(err, &b):
		r.line("%s %v", access, b.Resp)
	}
}

// ReadReg implements Bus.
func (r *Recorder) ReadReg(off uint32) (uint32, error) {
	v, err := r.Bus.ReadReg(off)
	r.answered(err, fmt.Sprintf("r %03x", off), fmt.Sprintf(" %08x", v))
	return v, err
}

// WriteReg implements Bus.
func (r *Recorder) WriteReg(off, v uint32) error {
	err := r.Bus.WriteReg(off, v)
	r.answered(err, fmt.Sprintf("w %03x %08x", off, v), "")
	return err
}

// WaitIRQ implements Bus.
func (r *Recorder) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	n, err := r.Bus.WaitIRQ(ctx, limit)
	switch {
	case err == nil:
		r.line("irq %d", n)
	case errors.Is(err, ErrNoIRQ):
		r.line("irq %d none", n)
	}
	return n, err
}

// Until implements Waiter if the recorded bus does.
func (r *Recorder) Until(ctx context.Context) (done func()) {
	if w, ok := r.Bus.(Waiter); ok {
		return w.Until(ctx)
	}
	return func() {}
}

// HardReset implements HardResetter if the recorded bus does.
func (r *Recorder) HardReset() error {
	h, ok := r.Bus.(HardResetter)
	if !ok {
		return errors.New("there is no hard reset on this bus")
	}
	if err := h.HardReset(); err != nil {
		return err
	}
	r.line("reset")
	return nil
}

// Close implements Bus.
func (r *Recorder) Close() error {
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return errors.Join(r.err, r.Bus.Close())
}

// ErrPlayback says that traffic differs from the recording.
var ErrPlayback = errors.New("register traffic differs from the recording")

// Playback is a bus that expects the recorded traffic and returns the recorded answers.
type Playback struct {
	in   *bufio.Scanner
	line int
	mem  []byte
	base uint64
}

// NewPlayback plays a recording; mem is the memory that the NPU sees from base on.
func NewPlayback(r io.Reader, mem []byte, base uint64) *Playback {
	return &Playback{in: bufio.NewScanner(r), mem: mem, base: base}
}

// next returns the rest of the next line, which must begin with the caller's access.
func (p *Playback) next(access string) (rest string, err error) {
	if !p.in.Scan() {
		if err := p.in.Err(); err != nil {
			return "", fmt.Errorf("playback: %w", err)
		}
		return "", fmt.Errorf("%w: %q after its end", ErrPlayback, access)
	}
	p.line++
	text := p.in.Text()
	if len(text) < len(access) || text[:len(access)] != access {
		return "", fmt.Errorf("%w: line %d is %q, the driver does %q", ErrPlayback, p.line, text, access)
	}
	return text[len(access):], nil
}

func (p *Playback) malformed(rest string) error {
	return fmt.Errorf("%w: line %d ends in %q", ErrPlayback, p.line, rest)
}

func respOf(rest string) (Resp, bool) {
	for _, r := range []Resp{RespSLVERR, RespDECERR} {
		if rest == " "+r.String() {
			return r, true
		}
	}
	return 0, false
}

// ReadReg implements Bus.
func (p *Playback) ReadReg(off uint32) (uint32, error) {
	rest, err := p.next(fmt.Sprintf("r %03x", off))
	if err != nil {
		return 0, err
	}
	if r, ok := respOf(rest); ok {
		return 0, &BusError{Off: off, Resp: r}
	}
	var v uint32
	if n, err := fmt.Sscanf(rest, "%x", &v); n != 1 || err != nil {
		return 0, p.malformed(rest)
	}
	return v, nil
}

// WriteReg implements Bus.
func (p *Playback) WriteReg(off, v uint32) error {
	rest, err := p.next(fmt.Sprintf("w %03x %08x", off, v))
	if err != nil {
		return err
	}
	if r, ok := respOf(rest); ok {
		return &BusError{Write: true, Off: off, Val: v, Resp: r}
	}
	if rest != "" {
		return p.malformed(rest)
	}
	return nil
}

// DRAM implements Bus.
func (p *Playback) DRAM() ([]byte, uint64) { return p.mem, p.base }

// WaitIRQ implements Bus.
func (p *Playback) WaitIRQ(ctx context.Context, _ uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	rest, err := p.next("irq ")
	if err != nil {
		return 0, err
	}
	var n uint64
	var none string
	switch fields, _ := fmt.Sscanf(rest, "%d %s", &n, &none); {
	case fields == 1:
		return n, nil
	case fields == 2 && none == "none":
		return n, ErrNoIRQ
	}
	return 0, p.malformed(rest)
}

// HardReset implements HardResetter.
func (p *Playback) HardReset() error {
	rest, err := p.next("reset")
	if err == nil && rest != "" {
		err = p.malformed(rest)
	}
	return err
}

// Close implements Bus; unplayed traffic is an error.
func (p *Playback) Close() error {
	if p.in.Scan() {
		return fmt.Errorf("%w: line %d, %q, did not come", ErrPlayback, p.line+1, p.in.Text())
	}
	if err := p.in.Err(); err != nil {
		return fmt.Errorf("playback: %w", err)
	}
	return nil
}
