package estimate_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hls/estimate"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// What bounds a layer of the HLS kernel, and whether the kernel's memories and array fit a board. No tool has run.
func ExampleModel_Layer() {
	design, err := configs.Load("v5")
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := estimate.New(design)
	if err != nil {
		fmt.Println(err)
		return
	}
	conv := &abi.Desc{
		Op: abi.OpGEMM, InH: 16, InW: 16, InC: 32, InPix: 32, InRow: 512, OutH: 16, OutW: 16, OutC: 32, OutPix: 32,
		KH: 1, KW: 1, SH: 1, SW: 1, KWC: 32, BiasCount: 32, OutRowBytes: 1024, WBytes1: 2048,
	}
	l := m.Layer(conv, abi.FBCB{BR: 1, TileB: 1, TileRows: 2}, 1)
	fmt.Println("bound:", l.Bound)
	board, err := boards.Load("zc706")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("fits:", estimate.Needs(design, board.Family).Fits(board))
	// Output:
	// bound: pack_out
	// fits: true
}
