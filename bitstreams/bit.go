// Package bitstreams parses the .bit files that Vivado writes and converts them to the .bin format of the kernel's
// FPGA manager. It checks a .bit file against its board and against the manifest in the same folder. The repository
// contains manifests, but no binaries.
package bitstreams

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
)

// ErrBit is wrapped by every error about a .bit file.
var ErrBit = errors.New("bad .bit file")

// maxBit limits the file size. The largest device of the two families needs 39 MB.
const maxBit = 64 << 20

// Header contains the text fields before the configuration data.
type Header struct {
	Design string `json:"design"`  // name of the top module
	UserID string `json:"user_id"` // hexadecimal; "" if absent
	Tool   string `json:"tool"`    // Vivado's version; "" if absent
	Part   string `json:"part"`    // spelled as in the file: 7z045ffg900, xczu7ev-ffvc1156-2-e
	Date   string `json:"date"`
	Time   string `json:"time"`
}

// Bit is a parsed .bit file.
type Bit struct {
	Header
	Device boards.Device `json:"device"` // from the IDCODE in the configuration data
	Data   []byte        `json:"-"`      // configuration words, big-endian
	Sync   int           `json:"sync"`   // offset of the synchronisation word in Data
	Frames int           `json:"frames"` // words written to the frame data register
}

// ReadBit reads and parses a file.
func ReadBit(path string) (*Bit, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read bitstream: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBit+1))
	if err != nil {
		return nil, fmt.Errorf("read bitstream %s: %w", path, err)
	}
	b, err := ParseBit(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// preamble starts every .bit file: a first field that no version of Vivado changes, and the length of the first key.
var preamble = []byte{0, 9, 0x0F, 0xF0, 0x0F, 0xF0, 0x0F, 0xF0, 0x0F, 0xF0, 0, 0, 1}

// ParseBit parses a .bit file. Trailing bytes are an error.
func ParseBit(file []byte) (*Bit, error) {
	if len(file) > maxBit {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBit, maxBit)
	}
	switch {
	case bytes.HasPrefix(file, preamble):
	case bytes.HasPrefix(file, bytes.Repeat([]byte{0xFF}, 32)): // a .bin, which has no preamble and header
		return nil, fmt.Errorf("%w: offset 0: it begins as a .bin does, data without the preamble and header of a .bit: give the .bit that it was made of", ErrBit)
	default:
		return nil, fmt.Errorf("%w: offset 0: expected the preamble % x, found % x", ErrBit, preamble, file[:min(len(file), len(preamble))])
	}
	at := len(preamble)
	var b Bit
	for _, f := range []struct {
		key  byte
		what string
		to   *string
	}{{'a', "design", &b.Design}, {'b', "part", &b.Part}, {'c', "date", &b.Date}, {'d', "time", &b.Time}} {
		if len(file)-at < 3 {
			return nil, fmt.Errorf("%w: offset %d: it ends before the %s", ErrBit, at, f.what)
		}
		if file[at] != f.key {
			return nil, fmt.Errorf("%w: offset %d: expected key %q (%s), found %q", ErrBit, at, f.key, f.what, file[at])
		}
		n := int(binary.BigEndian.Uint16(file[at+1:]))
		at += 3
		if n < 1 || n > len(file)-at {
			return nil, fmt.Errorf("%w: offset %d: a %s of %d bytes, of %d that are left", ErrBit, at, f.what, n, len(file)-at)
		}
		text := file[at : at+n]
		if end := bytes.IndexByte(text, 0); end != n-1 {
			return nil, fmt.Errorf("%w: offset %d: the %s does not end with its first zero byte", ErrBit, at, f.what)
		}
		*f.to = string(text[:n-1])
		if bad := strings.IndexFunc(*f.to, func(r rune) bool { return r < ' ' || r > '~' }); bad >= 0 {
			return nil, fmt.Errorf("%w: offset %d: the %s holds a byte that is not printable", ErrBit, at+bad, f.what)
		}
		at += n
	}
	if len(file)-at < 5 || file[at] != 'e' {
		return nil, fmt.Errorf("%w: offset %d: expected key 'e' and the length of the data", ErrBit, at)
	}
	n := int64(binary.BigEndian.Uint32(file[at+1:]))
	at += 5
	if n != int64(len(file)-at) {
		return nil, fmt.Errorf("%w: offset %d: %d bytes of data are announced, %d follow", ErrBit, at, n, len(file)-at)
	}
	if n%4 != 0 {
		return nil, fmt.Errorf("%w: offset %d: %d bytes of data, expected whole words of 4", ErrBit, at, n)
	}
	b.Data = file[at:]
	parts := strings.Split(b.Design, ";")
	b.Design = parts[0]
	for _, p := range parts[1:] {
		if v, ok := strings.CutPrefix(p, "UserID="); ok {
			b.UserID = v
		}
		if v, ok := strings.CutPrefix(p, "Version="); ok {
			b.Tool = v
		}
		if strings.EqualFold(p, "PARTIAL=TRUE") {
			return nil, fmt.Errorf("%w: its header says %s: it configures a part of the PL, expected the whole", ErrBit, p)
		}
	}
	if err := b.walk(); err != nil {
		return nil, err
	}
	return &b, nil
}

// Words and registers of the configuration packets (UG470, UG570: Configuration Packets).
const (
	syncWord  = 0xAA995566
	nopWord   = 0x20000000
	regFDRI   = 2
	regIDCODE = 12
)

// walk follows the configuration packets to the first frame data. They must contain the IDCODE of a known device.
func (b *Bit) walk() error {
	word := func(at int) uint32 { return binary.BigEndian.Uint32(b.Data[at:]) }
	fail := func(at int, format string, args ...any) error {
		return fmt.Errorf("%w: word %d of the data: %s", ErrBit, at/4, fmt.Sprintf(format, args...))
	}
	for b.Sync = 0; ; b.Sync += 4 {
		if b.Sync >= len(b.Data) {
			return fmt.Errorf("%w: no synchronisation word %08x at a multiple of 4 bytes", ErrBit, uint32(syncWord))
		}
		if word(b.Sync) == syncWord {
			break
		}
	}
	reg := -1
	for at := b.Sync + 4; at < len(b.Data); {
		w := word(at)
		n := 0
		switch w >> 29 {
		case 1:
			n, reg = int(w&0x7FF), int(w>>13&0x1F)
		case 2:
			n = int(w & 0x7FFFFFF)
			if reg < 0 {
				return fail(at, "%08x: a packet of type 2 with no register before it", w)
			}
		default:
			return fail(at, "%08x: expected a packet of type 1 or 2", w)
		}
		at += 4
		switch op := w >> 27 & 3; {
		case op == 0: // no operation
			continue
		case op != 2:
			return fail(at-4, "%08x: expected a write, a bitstream has nobody to read for", w)
		case n > (len(b.Data)-at)/4:
			return fail(at-4, "%08x: %d words of payload, %d are left", w, n, (len(b.Data)-at)/4)
		}
		switch {
		case reg == regIDCODE && n == 1:
			var known bool
			if b.Device, known = boards.DeviceByIDCode(word(at)); !known {
				return fail(at, "IDCODE %08x is no device that is known here", word(at)&boards.RevisionMask)
			}
		case reg == regFDRI && n > 0:
			if b.Device.Name == "" {
				return fail(at, "frame data before an IDCODE")
			}
			b.Frames = n
			return nil
		}
		at += 4 * n
	}
	return fmt.Errorf("%w: it writes no frame data", ErrBit)
}

// names returns the spellings that a .bit file can use for a part: the full name, or a name without grade or package.
// Examples: 7z045ffg900 for xc7z045ffg900-2, zu7ev-ffvc1156 for xczu7ev-ffvc1156-2-e.
func names(part string) []string {
	words := strings.Split(boards.Bare(part), "-")
	var all []string
	for n := range words {
		all = append(all, strings.Join(words[:n+1], ""))
	}
	return all
}

// CheckPart compares the file with a board's part (xc7z045ffg900-2): both the name in the header and the device in
// the configuration data must match.
func (b *Bit) CheckPart(part string) error {
	if got := strings.ReplaceAll(boards.Bare(b.Part), "-", ""); !slices.Contains(names(part), got) {
		return fmt.Errorf("%w: it is for the part %s, the board's is %s", ErrMismatch, b.Part, part)
	}
	if d, ok := boards.DeviceOf(part); !ok || d != b.Device {
		return fmt.Errorf("%w: its data is for the device %s, the board's part is %s", ErrMismatch, b.Device.Name, part)
	}
	return nil
}

// Bin converts the data to the format of the kernel's FPGA manager. The result is byte for byte the same as from
// `bootgen -process_bitstream bin`. Words are little-endian, so the bytes of the synchronisation word are 66 55 99 aa.
// Zynq-7000's DMA needs bursts of 32 bytes, so data for Zynq-7000 is padded with no-operation words.
func (b *Bit) Bin() []byte {
	size := len(b.Data)
	if b.Device.Family == boards.Series7 {
		size = (size + 31) / 32 * 32
	}
	out := make([]byte, size)
	for at := 0; at < size; at += 4 {
		w := uint32(nopWord)
		if at < len(b.Data) {
			w = binary.BigEndian.Uint32(b.Data[at:])
		}
		binary.LittleEndian.PutUint32(out[at:], w)
	}
	return out
}
