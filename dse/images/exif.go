package images

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// orientation returns the EXIF orientation of a JPEG, PNG or WebP file, 1 to 8; 1 if it has none.
func orientation(data []byte) int {
	if o := fromTIFF(exif(data)); o > 1 && o <= 8 {
		return o
	}
	return 1
}

// exif returns the block of EXIF data of a file, which begins like a TIFF file; nil if there is none.
func exif(data []byte) []byte {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		return exifOfJPEG(data[2:])
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return chunk(data[8:], "eXIf", 4, func(head []byte) (string, int) {
			return string(head[4:8]), int(binary.BigEndian.Uint32(head))
		})
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		block := chunk(data[12:], "EXIF", 0, func(head []byte) (string, int) {
			size := int(binary.LittleEndian.Uint32(head[4:]))
			return string(head[:4]), size + size&1
		})
		return bytes.TrimPrefix(block, []byte("Exif\x00\x00"))
	}
	return nil
}

// exifOfJPEG searches the segments before the pixels.
func exifOfJPEG(data []byte) []byte {
	const app1, scan = 0xe1, 0xda
	for len(data) >= 4 && data[0] == 0xff {
		if data[1] == 0xff { // a fill byte
			data = data[1:]
			continue
		}
		size := 2 + int(binary.BigEndian.Uint16(data[2:]))
		if data[1] == scan || size > len(data) || size < 4 {
			return nil
		}
		if block, ok := bytes.CutPrefix(data[4:size], []byte("Exif\x00\x00")); ok && data[1] == app1 {
			return block
		}
		data = data[size:]
	}
	return nil
}

// chunk finds a chunk by name in a file that consists of chunks, each with a header of 8 bytes and possibly a
// trailer.
func chunk(data []byte, name string, tail int, parse func(head []byte) (string, int)) []byte {
	for len(data) >= 8 {
		kind, size := parse(data[:8])
		data = data[8:]
		if size < 0 || size > len(data) {
			return nil
		}
		if kind == name {
			return data[:size]
		}
		data = data[min(size+tail, len(data)):]
	}
	return nil
}

// fromTIFF reads the orientation tag in the first directory; 0 if it is missing.
func fromTIFF(data []byte) int {
	const tag, short, entry = 0x112, 3, 12
	if len(data) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(data[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 0
	}
	at := int64(order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return 0
	}
	n := int(order.Uint16(data[at:]))
	for list := data[at+2:]; n > 0 && len(list) >= entry; n, list = n-1, list[entry:] {
		if order.Uint16(list) == tag && order.Uint16(list[2:]) == short {
			return int(order.Uint16(list[8:]))
		}
	}
	return 0
}

// turn records the orientation of picture i.
func (s *Set) turn(i, orientation int, how string) {
	if orientation == 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned[i] == 0 {
		s.turns++
	}
	if s.turned[i] = byte(orientation); s.turns == 1 || i < s.first {
		s.first = i
	}
	text := "they are read as they are stored, as PIL and torchvision do; --exif turn turns them upright, as OpenCV and PIL's exif_transpose do"
	if how == EXIFTurn {
		text = "they are turned upright (--exif turn)"
	}
	s.notes["turned"] = fmt.Sprintf("%d of %d pictures have an EXIF orientation other than 1 (%s has %d): %s", s.turns, len(s.names), s.names[s.first], s.turned[s.first], text)
}
