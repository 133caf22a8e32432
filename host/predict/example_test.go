package predict_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/predict"
)

// A model learns how much slower a batch runs beside others.
func ExampleModel_Update() {
	m := predict.NewModel()
	others, own := predict.Use{predict.DRAM: 0.6}, predict.Use{predict.DRAM: 0.5}
	for range 2000 {
		m.Update(others, own, 0, 1.4)
	}
	fmt.Printf("%.2f times as long\n", m.Interference(others, own, 0))
	// Output: 1.40 times as long
}

// Two transfers that ask for a link at the same time: the second waits.
func ExampleLink() {
	var l predict.Link
	fmt.Println(l.Send(0, 1000), l.Delay(0), l.Send(0, 500))
	// Output: 1000 1000 1500
}
