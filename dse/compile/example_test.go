package compile_test

import (
	"bytes"
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// From a float network to the file that a host serves. The scales come from two images, which are noise here.
func ExampleCompile() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := quant.Quantise(g, recipe.Noise(recipe.Shape(g), 2, 1, 1), quant.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := compile.Compile(q, design, compile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, e := range b.Network.Exits {
		fmt.Printf("segment %d: layers %d to %d, %d logits\n", i, e.First, e.Last, e.Classes)
	}
	var file bytes.Buffer
	if err := bundle.Write(&file, b); err != nil {
		fmt.Println(err)
		return
	}
	back, err := bundle.Read(&file)
	fmt.Println(len(back.Layers), "layers for", back.Design.Name, err)
	// Output:
	// segment 0: layers 0 to 5, 10 logits
	// segment 1: layers 6 to 10, 10 logits
	// 11 layers for tiny <nil>
}
