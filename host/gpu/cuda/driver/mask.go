// This file writes the masks of streams into the driver's internal data at an undocumented offset, as libsmctrl does.

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// ErrOffset reports that streams of this driver cannot have a mask, because the offset is unknown or wrong.
var ErrOffset = errors.New("masks of streams")

// Offsets contains the offset of a stream's mask, by exact driver version.
type Offsets map[string]int

// KnownOffsets are the offsets for the x86-64 drivers on which J. Bakita tested libsmctrl (libsmctrl.c, comments at
// CU_12_*_MASK_OFF). This project has not tried them.
func KnownOffsets() Offsets {
	return Offsets{
		"525.147.05": 0x4cc, "535.129.03": 0x4e4, "545.29.06": 0x49c, "550.54.14": 0x4ac, "550.54.15": 0x4ac,
		"555.58.02": 0x4ec, "560.35.03": 0x4ec, "565.77": 0x4fc, "570.124.06": 0x4fc,
	}
}

// maxOffset is a limit for offsets: the largest size of a stream's internal data, in bytes.
const maxOffset = 1 << 14

// ReadOffsets reads lines such as "550.54.15: 0x4ac". # starts a comment. Errors contain the text's name "from".
func ReadOffsets(from, text string) (Offsets, error) {
	clean, err := plaintext.Clean([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOffset, from, err)
	}
	out := Offsets{}
	for i, line := range strings.Split(string(clean), "\n") {
		fail := func(why string) (Offsets, error) {
			return nil, fmt.Errorf("%w: %s, line %d: %s; expected VERSION: OFFSET, as in 550.54.15: 0x4ac", ErrOffset, from, i+1, why)
		}
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		version, text, ok := strings.Cut(line, ":")
		if version = strings.TrimSpace(version); !ok || version == "" || strings.ContainsAny(version, " \t") {
			return fail(strconv.Quote(line))
		}
		at, err := strconv.ParseInt(strings.TrimSpace(text), 0, 32)
		if err != nil || at < 0 || at >= maxOffset || at%4 != 0 {
			return fail(fmt.Sprintf("offset %q, a multiple of 4 below %d", strings.TrimSpace(text), maxOffset))
		}
		if _, ok := out[version]; ok {
			return fail("version " + version + " comes twice")
		}
		out[version] = int(at)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: no line of it names a driver; expected VERSION: OFFSET, as in 550.54.15: 0x4ac", ErrOffset, from)
	}
	return out, nil
}

// MaskBits returns the width of a driver's masks: 128 bits since CUDA 12.0 (525), and 64 bits before. It returns an
// error if the GPU has more TPCs than the mask has bits.
func MaskBits(version string, tpcs int) (int, error) {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: driver %q: a version as 550.54.15 is expected", ErrOffset, version)
	}
	bits := 128
	if n < 525 {
		bits = 64
	}
	if tpcs > bits {
		return 0, fmt.Errorf("%w: driver %s has masks of %d bits, the GPU %d TPCs", ErrOffset, version, bits, tpcs)
	}
	return bits, nil
}

// Mask has one bit per TPC. A set bit disables the TPC. The numbering of bits includes defective TPCs.
type Mask [4]uint32

// Disable sets a bit.
func (m *Mask) Disable(bit int) { m[bit/32] |= 1 << (bit % 32) }

// SetMask writes a mask with the given number of bits into a stream. It first checks that the old value is zero, as in
// every new stream. If this value is not zero, the offset is wrong, and SetMask returns an error.
func (l *Lib) SetMask(s Stream, offset, bits int, m Mask) error {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		return fmt.Errorf("%w: the offsets are of x86-64 Linux, this is %s %s", ErrOffset, runtime.GOOS, runtime.GOARCH)
	}
	if offset < 0 || offset >= maxOffset || offset%4 != 0 {
		return fmt.Errorf("%w: offset %#x", ErrOffset, offset)
	}
	base := *(*unsafe.Pointer)(*(*unsafe.Pointer)(unsafe.Pointer(&s)))
	at := (*[5]uint32)(unsafe.Add(base, offset))
	words := at[:]
	if bits == 64 {
		words = at[:2]
	}
	for _, w := range words {
		if w != 0 {
			return fmt.Errorf("%w: at offset %#x of a new stream stands %#x, expected 0: it is not this driver's", ErrOffset, offset, words)
		}
	}
	if bits == 64 {
		words[0], words[1] = m[1], m[0]
		return nil
	}
	words[0] = 1
	copy(words[1:], m[:])
	return nil
}
