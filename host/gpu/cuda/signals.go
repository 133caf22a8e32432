// The host stops running kernels by writing a new epoch to the GPU's memory.

package cuda

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Ways to write an epoch (Facts.Signals).
const (
	SignalsWritten = "written" // the driver writes the word in stream order (cuStreamWriteValue32)
	SignalsCopied  = "copied"  // a copy of four bytes; slower, because it waits for other copies to the GPU
)

// trySignals finds out, before the first launch, which way works. Not every driver can write words in stream order.
func (l *launcher) trySignals() (err error) {
	at, host, free, err := l.scratch(8, l.signals)
	if err != nil {
		return err
	}
	defer func() {
		if e := free(); err == nil {
			err = e
		}
	}()
	const word = 0x51ce
	if err := l.lib.Fill(at, 0, 1, l.signals); err != nil {
		return err
	}
	l.copied = nil
	if err := l.lib.WriteWord(at, word, l.signals); driver.CodeOf(err) == driver.NotSupported {
		l.copied = err
		if err := l.write(at, word, host[4:]); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := l.lib.CopyOut(host[:4], at, l.signals); err != nil {
		return err
	}
	if err := l.lib.Wait(l.signals); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(host); got != word {
		return fmt.Errorf("%s cannot tell kernels to leave: a word written in a stream's order is %#x afterwards, expected %#x", l.name, got, word)
	}
	return nil
}

// signalling returns the current way to write an epoch (Facts.Signals).
func (l *launcher) signalling() string {
	if l.copied != nil {
		return SignalsCopied
	}
	return SignalsWritten
}

// signal writes a lane's epoch. Kernels of the lane leave if they were launched with another epoch.
func (l *launcher) signal(n *lane) error { return l.write(n.control, n.epoch, n.host[epochAt:]) }

// write writes the word v, which kernels poll. from is pinned memory for this word alone.
func (l *launcher) write(to driver.Ptr, v uint32, from []byte) error {
	if l.copied == nil {
		return l.lib.WriteWord(to, v, l.signals)
	}
	// If an earlier write's copy has not read this memory yet, that copy also transfers the new word. This does no harm.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(from))), v)
	return l.lib.CopyIn(to, from[:4], l.signals)
}
