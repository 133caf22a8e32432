package vectors_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// A file that any simulator here or a board plays: it writes memory and a register, and compares both. A file that was
// cut off is rejected as a whole.
func Example() {
	var file bytes.Buffer
	w := vectors.NewWriter(&file)
	err := w.Write(
		vectors.MemWrite{Addr: 1 << 28, Data: []byte{1, 2, 3, 4}},
		vectors.RegWrite{Off: abi.RegScratch0, Val: 7},
		vectors.RegExpect{Off: abi.RegScratch0, Mask: 0xFFFFFFFF, Val: 7},
		vectors.MemExpect{Addr: 1 << 28, Data: []byte{1, 2, 3, 4}},
	)
	if err := errors.Join(err, w.Close()); err != nil {
		fmt.Println(err)
		return
	}
	text := file.Bytes()
	records, err := vectors.Read(bytes.NewReader(text))
	fmt.Println(len(records), "records,", err)
	_, err = vectors.Read(bytes.NewReader(text[:len(text)-1]))
	fmt.Println(errors.Is(err, vectors.ErrTruncated))
	// Output:
	// 4 records, <nil>
	// true
}
