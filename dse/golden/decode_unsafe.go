package golden

import (
	"encoding/binary"
	"unsafe"
)

// little reports that this machine stores 16-bit numbers in memory as a slot does.
var little = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// decode16 reads 16-bit numbers.
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
