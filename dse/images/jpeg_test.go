package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// jpegSegment returns a marker with its content.
func jpegSegment(marker byte, content ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(content)+2)), content...)
}

// The checked size is that of the decoded frame. A size within a skipped segment is ignored.
func TestJPEGSize(t *testing.T) {
	small, huge := jpegSegment(0xc0, 8, 0, 1, 0, 1, 1, 1, 0x11, 0), jpegSegment(0xc2, 8, 0xff, 0xff, 0xff, 0xff, 1, 1, 0x11, 0)
	for says, parts := range map[string][][]byte{
		"65535 x 65535 pixels":                        {huge},
		"a second picture begins within the first":    {jpegSegment(0xd8, small...), huge},
		"a frame's head of another length":            {jpegSegment(0xc0, 8, 0, 1)},
		"0 x 1 pixels of 1 components, expected 1, 3": {jpegSegment(0xc0, 8, 0, 1, 0, 0, 1, 1, 0x11, 0)},
	} {
		data := append([]byte{0xff, 0xd8}, bytes.Join(parts, nil)...)
		if _, err := decode(data); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A scan of a few bytes processes all pixels.
func TestJPEGScans(t *testing.T) {
	parts := [][]byte{
		{0xff, 0xd8},
		jpegSegment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...), jpegSegment(0xc2, 8, 0, 1, 0, 1, 1, 1, 0x11, 0),
		jpegSegment(0xc4, append([]byte{0x00, 1}, make([]byte, 16)...)...), jpegSegment(0xc4, append([]byte{0x10, 1}, make([]byte, 16)...)...),
		jpegSegment(0xda, 1, 1, 0, 0, 0, 0),
		{0},
	}
	for k := byte(1); k <= 7; k++ {
		parts = append(parts, jpegSegment(0xda, 1, 1, 0, k, k, 13), []byte{0})
		for low := byte(13); low > 0; low-- { // one bit more
			parts = append(parts, jpegSegment(0xda, 1, 1, 0, k, k, low<<4|(low-1)), []byte{0})
		}
	}
	parts = append(parts, jpegSegment(0xda, 1, 1, 0, 8, 62, 0), []byte{0})
	end := []byte{0xff, 0xd9}
	if _, err := decode(bytes.Join(append(parts, end), nil)); err != nil {
		t.Errorf("100 scans: %v", err)
	}
	more := append(parts, jpegSegment(0xda, 1, 1, 0, 63, 63, 0), []byte{0})
	if _, err := decode(bytes.Join(append(more, end), nil)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "more than 100 scans") {
		t.Errorf("one scan more: %v", err)
	}
}
