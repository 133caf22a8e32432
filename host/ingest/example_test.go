package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-npu/sluice/host/ingest"
	"github.com/sluice-npu/sluice/host/sched"
)

// A client sends a frame, and the server makes a task of it. Here every task is answered at once.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// task of client 0 for the network "zoo": frame of side 224
	// 1 frame, 1 on time
}

func example() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ingest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "gate"))
	if err != nil {
		return err
	}
	begun := time.Now()
	var gate *ingest.Gate
	gate = ingest.NewGate(ingest.Config{
		SLO: []ingest.Time{100e6}, Network: "zoo", Bytes: 1 << 20,
		Now: func() ingest.Time { return time.Since(begun).Nanoseconds() },
		Submit: func(_ context.Context, t *sched.Task, side int) error {
			fmt.Printf("task of client %d for the network %q: frame of side %d\n", t.Client, t.Network, side)
			gate.Answer(t.ID, ingest.Answer{Ending: sched.OnTime, Class: 7})
			return nil
		},
	})
	served := make(chan error, 1)
	go func() { served <- gate.Serve(ctx, l, nil) }()

	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		return err
	}
	camera := ingest.Camera{Rate: 1, Sizes: []ingest.Size{{Side: 224, Bytes: 5000}}, Headroom: 1}
	sent, err := camera.Run(ctx, c, time.Millisecond) // the time of one frame
	if err != nil {
		return err
	}
	fmt.Println(sent.Frames, "frame,", sent.Endings[sched.OnTime], "on time")
	return errors.Join(l.Close(), <-served)
}
