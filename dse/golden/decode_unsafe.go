package golden

import (
	"encoding/binary"
	"unsafe"
)

// little reports whether this machine has the same byte order as a slot.
var little = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// decode16 decodes 16-bit numbers from src to dst.
func decode16(dst []int16, src []byte) {
	src = src[:2*len(dst)]
	if little {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(src)), src)
		return
	}
	for i := range dst {
		dst[i] = int16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
