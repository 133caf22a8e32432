// How kernels are told to leave: an epoch that comes to the GPU's memory while they run.

package cuda

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Ways in which an epoch comes to the GPU (Facts.Signals).
const (
	SignalsWritten = "written" // by the driver, in a stream's order (cuStreamWriteValue32)
	SignalsCopied  = "copied"  // by a copy of four bytes, behind other copies to the GPU: that takes longer
)

// trySignals finds out how, before anybody relies on it: not every driver writes words in a stream's order, and
// whoever learns that by the first launch that is to leave has none that does.
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
		return fmt.Errorf("%s tells no kernel to leave: a word written in a stream's order is %#x afterwards, expected %#x", l.name, got, word)
	}
	return nil
}

// signals says how, in Facts' words.
func (l *launcher) signalling() string {
	if l.copied != nil {
		return SignalsCopied
	}
	return SignalsWritten
}

// signal has the kernels in a lane's stream see its epoch, of which all others leave.
func (l *launcher) signal(n *lane) error { return l.write(n.control, n.epoch, n.host[epochAt:]) }

// write has kernels see a word; from is pinned memory that nobody else uses until that has happened.
func (l *launcher) write(to driver.Ptr, v uint32, from []byte) error {
	if l.copied == nil {
		return l.lib.WriteWord(to, v, l.signals)
	}
	// An earlier one may still be read: then it comes twice.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(from))), v)
	return l.lib.CopyIn(to, from[:4], l.signals)
}
