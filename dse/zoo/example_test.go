package zoo_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/zoo"
)

// The networks that come with Sluice, as layers in segments that end at exits.
func ExampleLoad() {
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(zoo.Names())
	fmt.Println(len(g.Nodes), "layers,", len(g.Exits), "exits, MACs by segment", g.SegmentMACs())
	// Output:
	// [fashion inceptionv3 mobile mobilenetv2 resnet50 tiny]
	// 11 layers, 2 exits, MACs by segment [70640 57504]
}
