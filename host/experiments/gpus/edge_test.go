package gpus_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

func TestTry(t *testing.T) {
	f, _ := params.Of("rtx3090")
	at := time.Now()
	e, err := gpus.NewEdge(f, gpus.DefaultOpen())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(at))
	for n, f := range e.Fits {
		t.Logf("%s %+v", n, *f)
	}
	for _, l := range []string{"pai", "poisson:15"}[:1] {
		for _, s := range []string{"seeb", "seeb:4", "seeb-literal"} {
			at = time.Now()
			o, err := e.Run(context.Background(), s, l, 10e9, 1, nil)
			if err != nil {
				t.Error(s, err)
				continue
			}
			t.Logf("%s %s %.3f: %+v", l, s, time.Since(at).Seconds(), *o)
		}
	}
}
