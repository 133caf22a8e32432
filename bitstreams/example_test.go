package bitstreams_test

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/bitstreams"
)

// A file that is not a bitstream is rejected before anything is written to a device.
func ExampleParseBit() {
	_, err := bitstreams.ParseBit([]byte("not a bitstream"))
	fmt.Println(errors.Is(err, bitstreams.ErrBit))
	// Output: true
}
