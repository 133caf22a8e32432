package reef_test

import (
	"context"
	"flag"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/experiments/frame/frametest"
	"github.com/sluice-npu/sluice/host/experiments/reef"
)

var update = flag.Bool("update", false, "write the stored rows")

// Every number of every row is what is stored: nothing that others need of the engine, the policies or the
// simulated GPUs changes it unseen. Where it is to change, -update writes it.
func TestStored(t *testing.T) {
	b, err := reef.Run(context.Background(), reef.Config{Config: frame.Config{Seeds: []uint64{1}, Ns: 5e6}})
	if err != nil {
		t.Fatal(err)
	}
	frametest.Stored(t, "reef.json", b.Rows, *update)
}
