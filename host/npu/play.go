package npu

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/sim/vectors"
)

// Tally counts the actions of Play.
type Tally struct {
	Records, Registers, Runs int
	Bytes                    int64
	Cycles                   uint64
}

// Mismatch is the first record of a vector file that differs from the hardware's behaviour.
type Mismatch struct {
	Record int // from 0
	What   string
}

// Error returns the record's number and the difference.
func (m *Mismatch) Error() string { return fmt.Sprintf("record %d: %s", m.Record, m.What) }

// Play plays test vectors (sim/VECTORS.md) on a bus until the first mismatch. It returns this mismatch as a *Mismatch.
func Play(ctx context.Context, b Bus, records []vectors.Record) (Tally, error) {
	var t Tally
	for i, r := range records {
		what, err := t.record(ctx, b, r)
		if err != nil {
			return t, fmt.Errorf("record %d: %w", i, err)
		}
		if what != "" {
			return t, &Mismatch{i, what}
		}
		t.Records++
	}
	return t, nil
}

func (t *Tally) record(ctx context.Context, b Bus, r vectors.Record) (mismatch string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	mem := func(addr uint64, n int) []byte {
		window, base := b.DRAM()
		t.Bytes += int64(n)
		if addr < base || n > len(window) || addr-base > uint64(len(window)-n) {
			return nil
		}
		return window[addr-base:][:n]
	}
	switch r := r.(type) {
	case vectors.MemWrite:
		m := mem(r.Addr, len(r.Data))
		if m == nil {
			return fmt.Sprintf("%d bytes at %#x are outside of memory", len(r.Data), r.Addr), nil
		}
		copy(m, r.Data)
	case vectors.MemExpect:
		m := mem(r.Addr, len(r.Data))
		if m == nil {
			return fmt.Sprintf("%d bytes at %#x are outside of memory", len(r.Data), r.Addr), nil
		}
		if bytes.Equal(m, r.Data) {
			return "", nil
		}
		for i, want := range r.Data {
			if m[i] != want {
				return fmt.Sprintf("memory at %#x is %#02x, expected %#02x", r.Addr+uint64(i), m[i], want), nil
			}
		}
	case vectors.RegWrite:
		return t.write(b, r.Off, r.Val, false)
	case vectors.RegRefused:
		return t.write(b, r.Off, r.Val, true)
	case vectors.RegExpect:
		t.Registers++
		v, err := b.ReadReg(r.Off)
		if refused := (*BusError)(nil); errors.As(err, &refused) {
			return err.Error(), nil
		} else if err != nil {
			return "", err
		}
		if v&r.Mask != r.Val&r.Mask {
			return fmt.Sprintf("register %#03x is %#08x, expected %#08x under %#08x", r.Off, v, r.Val, r.Mask), nil
		}
	case vectors.Run:
		t.Runs++
		n, err := b.WaitIRQ(ctx, r.MaxCycles)
		t.Cycles += n
		if err != nil && !errors.Is(err, ErrNoIRQ) {
			return "", err
		}
		if irq := err == nil; irq != r.ExpectIRQ {
			return fmt.Sprintf("interrupt is %v after %d cycles", irq, n), nil
		}
	case vectors.Meta:
	default:
		return "", fmt.Errorf("a record of kind %d cannot be played", r.Kind())
	}
	return "", nil
}

func (t *Tally) write(b Bus, off, v uint32, refused bool) (mismatch string, err error) {
	t.Registers++
	err = b.WriteReg(off, v)
	bus := (*BusError)(nil)
	if err != nil && !errors.As(err, &bus) {
		return "", err
	}
	switch {
	case refused && err == nil:
		return fmt.Sprintf("write of %#08x to register %#03x was not refused", v, off), nil
	case !refused && err != nil:
		return err.Error(), nil
	}
	return "", nil
}
