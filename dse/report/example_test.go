package report_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/report"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A small search as one page that works offline, and as pictures for slides.
func ExampleHTML() {
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
	grid.TR, grid.TP, grid.TC = search.Range{Lo: 256, Hi: 256}, search.Range{Lo: 4, Hi: 4}, search.Range{Lo: 16, Hi: 32}
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
	d := &report.Data{Title: "tiny on zc706", Label: "estimated", Network: "tiny", Board: "zc706", Design: r.Best.Design}
	d.Resources = resource.Of(board, r.Best.Design)
	d.Points, d.Best = report.Dots(r)
	if d.Layers, err = report.Layers(work, r.Best.Design, grid.Mapping); err != nil {
		fmt.Println(err)
		return
	}
	var page bytes.Buffer
	if err := report.HTML(&page, d); err != nil {
		fmt.Println(err)
		return
	}
	pictures, err := report.SVGs(d)
	fmt.Println(bytes.Contains(page.Bytes(), []byte("<title>tiny on zc706")), pictures["pareto.svg"] != nil, err)
	// Output: true true <nil>
}
