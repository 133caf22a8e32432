package sched_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// README: begin

// Halves serves a batch when B_max requests wait, or when the oldest has spent half of its time. A request without a
// deadline is served at once.
type Halves struct{}

func (Halves) Name() string { return "halves" }

func (Halves) Decide(now sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	taken := 0 // requests from the queue's head used by this answer
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Down || len(d.Launches) > 0 || taken == s.Queue.Len() {
			continue
		}
		oldest := s.Queue.At(taken)
		t := d.Table(oldest.Network)
		if t == nil {
			continue
		}
		bMax := min(d.MaxBatch, t.MaxBatch())
		n := sched.Head(&s.Queue, oldest.Network, taken, bMax)
		half := oldest.Arrived + (oldest.Deadline-oldest.Arrived)/2
		if n < bMax && oldest.HasDeadline() && now < half {
			return append(buf, sched.Action{Kind: sched.Wait, Until: half})
		}
		buf = append(buf, sched.Action{Kind: sched.Launch, Device: i, Network: oldest.Network, Last: t.Segments() - 1, Count: n})
		taken += n
	}
	return buf
}

// README: end

func Example() {
	table, err := sched.NewTable(entries(2, 4, 10, 5), "n") // 10 + 5 B ns per segment
	if err != nil {
		panic(err)
	}
	dev, err := drawn.New(table, []float64{0.25, 0.75}, 2, 0) // a quarter of the requests leave at the first exit
	if err != nil {
		panic(err)
	}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices:  []device.Device{dev},
		Networks: []engine.Network{{Name: "n", Tables: []*sched.Table{table}}},
		Policy:   Halves{},
		Source: &load.Open{Times: []int64{0, 10, 20, 30, 200}, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: "n", Deadline: at + 100}
		}},
		Inputs: engine.NoInputs, // drawn exits need no inputs
	})
	if err != nil {
		panic(err)
	}
	for _, r := range res.Records {
		fmt.Printf("request %d waited %d ns, left at exit %d after %d ns: %s\n", r.ID, r.Started-r.Arrived, r.Exit, r.Latency(), r.Ending)
	}
	// Output:
	// request 1 waited 30 ns, left at exit 1 after 85 ns: on_time
	// request 2 waited 20 ns, left at exit 0 after 50 ns: on_time
	// request 3 waited 10 ns, left at exit 1 after 65 ns: on_time
	// request 4 waited 0 ns, left at exit 1 after 55 ns: on_time
	// request 5 waited 50 ns, left at exit 0 after 65 ns: on_time
}

// The example also works with two networks in one queue, the device's own B_max, and with or without deadlines.
func TestTheExampleServesAnything(t *testing.T) {
	table, err := sched.NewTable(entries(2, 4, 10, 5), "n")
	if err != nil {
		t.Fatal(err)
	}
	for _, deadline := range []int64{0, 50_000, math.MaxInt64/2 + 5, math.MaxInt64 - 1} {
		dev, err := drawn.New(table, []float64{0.25, 0.75}, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		cfg := engine.Config{
			Devices: []device.Device{dev}, Policy: Halves{}, Inputs: engine.NoInputs,
			Networks: []engine.Network{{Name: "n", Tables: []*sched.Table{table}}, {Name: "m", Tables: []*sched.Table{table}}},
			Source: &load.Open{Times: []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Task: func(i int, _ int64) sched.Task {
				return sched.Task{Network: []string{"n", "n", "m"}[i%3], Deadline: deadline}
			}},
		}
		res, err := engine.Run(context.Background(), cfg)
		if err != nil || res.Check() != nil || res.Summary().Errors > 0 || len(res.Records) != 12 {
			t.Fatalf("deadline %d: %v, %v", deadline, err, res.Check())
		}
		if end := res.Records[11].Ended; deadline != math.MaxInt64/2+5 && deadline != math.MaxInt64-1 && end > 26_000 {
			t.Errorf("deadline %d: the last one ends at %d ns", deadline, end)
		}
	}
}

// The README's example is the code that is compiled and run here.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "// README: begin\n")
	code, _, ok := strings.Cut(rest, "// README: end\n")
	if !ok || !strings.Contains(string(readme), "```go\n"+strings.TrimSpace(code)+"\n```") {
		t.Errorf("README.md does not show this, as it stands in example_test.go:\n%s", strings.TrimSpace(code))
	}
	if n := strings.Count(strings.TrimSpace(code), "\n") + 1; n > 34 {
		t.Errorf("a new policy takes %d lines", n)
	}
	for _, name := range sched.Names() {
		if !strings.Contains(string(readme), "`"+name+"`") && !strings.Contains(name, "adaptb") {
			t.Errorf("README.md does not name the policy %s", name)
		}
	}
}
