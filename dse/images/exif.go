package images

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
)

// inXMP finds the orientation in XMP, as PIL does.
var inXMP = regexp.MustCompile(`tiff:Orientation(?:="|>)([1-8])`)

// orientation returns the EXIF orientation of a JPEG, PNG or WebP file, 1 to 8. If the file has no EXIF orientation, it
// uses XMP, which photo editors write. The default is 1.
func orientation(data []byte) int {
	exif, xmp := metadata(data)
	o := fromTIFF(exif)
	if m := inXMP.FindSubmatch(xmp); o == 0 && m != nil {
		o = int(m[1][0] - '0')
	}
	if o > 1 && o <= 8 {
		return o
	}
	return 1
}

// metadata returns the EXIF block, which begins like a TIFF file, and the XMP block. A missing block is nil.
func metadata(data []byte) (exif, xmp []byte) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		return segment(data[2:], "Exif\x00\x00"), segment(data[2:], "http://ns.adobe.com/xap/1.0/\x00")
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		find := func(name, prefix string) []byte {
			return chunk(data[8:], name, prefix, 4, func(head []byte) (string, int) {
				return string(head[4:8]), int(binary.BigEndian.Uint32(head))
			})
		}
		if exif = find("eXIf", ""); exif == nil {
			exif = rawProfile(find("zTXt", "Raw profile type exif\x00\x00"))
		}
		return exif, find("iTXt", "XML:com.adobe.xmp\x00")
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		find := func(name string) []byte {
			return chunk(data[12:], name, "", 0, func(head []byte) (string, int) {
				size := int(binary.LittleEndian.Uint32(head[4:]))
				return string(head[:4]), size + size&1
			})
		}
		return bytes.TrimPrefix(find("EXIF"), []byte("Exif\x00\x00")), find("XMP ")
	}
	return nil, nil
}

// segment searches the headers before the pixels of a JPEG for the APP1 segment whose content begins with `name`. It
// returns the content after the name.
func segment(data []byte, name string) []byte {
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
		if block, ok := bytes.CutPrefix(data[4:size], []byte(name)); ok && data[1] == app1 {
			return block
		}
		data = data[size:]
	}
	return nil
}

// chunk finds a chunk by its name and the prefix of its content, and returns the rest of the content. The file consists
// of chunks. Each chunk has a header of 8 bytes and a trailer of `tail` bytes.
func chunk(data []byte, name, prefix string, tail int, parse func(head []byte) (string, int)) []byte {
	for len(data) >= 8 {
		kind, size := parse(data[:8])
		data = data[8:]
		if size < 0 || size > len(data) {
			return nil
		}
		if rest, ok := bytes.CutPrefix(data[:size], []byte(prefix)); ok && kind == name {
			return rest
		}
		data = data[min(size+tail, len(data)):]
	}
	return nil
}

// rawProfile unpacks EXIF in the form that ImageMagick writes to PNG: a compressed text of three lines, followed by
// hexadecimal digits.
func rawProfile(data []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	lines := bytes.SplitN(text, []byte("\n"), 4)
	if err != nil || len(lines) < 4 {
		return nil
	}
	digits := bytes.ReplaceAll(lines[3], []byte("\n"), nil)
	block := make([]byte, len(digits)/2)
	if _, err := hex.Decode(block, digits); err != nil {
		return nil
	}
	return bytes.TrimPrefix(block, []byte("Exif\x00\x00"))
}

// fromTIFF returns the value of the orientation tag in the first directory; 0 if the tag is missing.
func fromTIFF(data []byte) int {
	const tag, short, long, entry = 0x112, 3, 4, 12
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
		if order.Uint16(list) != tag {
			continue
		}
		switch order.Uint16(list[2:]) {
		case short:
			return int(order.Uint16(list[8:]))
		case long:
			return int(order.Uint32(list[8:]))
		}
	}
	return 0
}

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
	text := "they are read as they are stored, as PIL and torchvision do; compiling with --exif turn turns them upright, as OpenCV and PIL's exif_transpose do"
	if how == EXIFTurn {
		text = "they are turned upright (--exif turn)"
	}
	s.notes["turned"] = fmt.Sprintf("%d of %d pictures have an EXIF orientation other than 1 (%s has %d): %s", s.turns, len(s.names), s.names[s.first], s.turned[s.first], text)
}
