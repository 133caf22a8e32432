package abi_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// The register at an offset, by the register map.
func ExampleRegisterAt() {
	r, ok := abi.RegisterAt(abi.RegID)
	fmt.Println(r.Name, r.Readable, r.Writable, ok)
	_, ok = abi.RegisterAt(abi.RegID + 2)
	fmt.Println(ok)
	// Output:
	// ID true false true
	// false
}

// An entry of the Fluid Batching Control Block as the hardware reads it. A value that does not fit its field is
// rejected.
func ExampleFBCB_Encode() {
	entry := abi.FBCB{BR: 4, K: abi.KOne, TileB: 4, TileRows: 8}
	word, err := entry.Encode()
	fmt.Printf("%#08x %v\n", word, err)
	back, err := abi.DecodeFBCB(word)
	fmt.Println(back == entry, err)
	_, err = abi.FBCB{BR: 16}.Encode()
	fmt.Println(err)
	// Output:
	// 0x00084004 <nil>
	// true <nil>
	// abi: encode FBCB entry: BR is 16, beyond 4 bits
}
