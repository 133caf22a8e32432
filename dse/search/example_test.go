package search_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The best design for a network in a small part of a board's space: only T_C is searched.
func ExampleSweep() {
	board, err := boards.Load("zc706")
	if err != nil {
		fmt.Println(err)
		return
	}
	template, err := configs.Load("zc706")
	if err != nil {
		fmt.Println(err)
		return
	}
	grid, err := search.NewGrid(board, template)
	if err != nil {
		fmt.Println(err)
		return
	}
	grid.TR, grid.TP, grid.TC = search.Range{Lo: 256, Hi: 256}, search.Range{Lo: 4, Hi: 4}, search.Range{Lo: 16, Hi: 64}
	net, err := zoo.Load("tiny", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	work, err := search.NewWorkload(net)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := search.Sweep(context.Background(), work, grid, search.Options{Objective: search.GOPS, Workers: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d designs, the best: <%d, %d, %d>\n", r.Designs, r.Best.TR, r.Best.TP, r.Best.TC)
	// Output: 13 designs, the best: <256, 4, 32>
}
