package gpus_test

import (
	"context"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

func TestDISB(t *testing.T) {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	bed := gpus.NewBed(f, "tvm")
	for _, w := range gpus.DISB()[:3] {
		for _, s := range gpus.Systems() {
			o, err := bed.Run(context.Background(), s, w, 400e6, 1)
			if err != nil {
				t.Fatalf("%s under %s: %v", w.Name, s, err)
			}
			t.Logf("%s %-10s %+v", w.Name, s, *o)
		}
	}
}
