package device_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// pipe is a device with one segment of 10 us for a batch of up to two. Launches overlap, and n launches are n times
// slower. A device needs no more than the code from here to End.
type pipe struct {
	now   device.Time
	works []*device.Work
	left  []float64 // ns by piece of work, if it ran alone
}

func (*pipe) Info() device.Info {
	return device.Info{Name: "pipe", Label: "simulated", MaxBatch: 2, Slots: 16, Places: 3}
}

func (p *pipe) Start(now device.Time, w *device.Work) {
	p.advance(now)
	p.works, p.left = append(p.works, w), append(p.left, 10_000)
}

func (p *pipe) advance(now device.Time) {
	for i := range p.left {
		p.left[i] -= float64(now-p.now) / float64(len(p.left))
	}
	p.now = now
}

func (p *pipe) Next() (device.Time, bool) { // the oldest is always the next to end
	if len(p.works) == 0 {
		return 0, false
	}
	return p.now + device.Time(p.left[0]*float64(len(p.left))+0.5), true
}

func (p *pipe) End(now device.Time) *device.Event {
	p.advance(now)
	w := p.works[0]
	p.works, p.left = p.works[1:], p.left[1:]
	return w.Passed(true, func(device.RequestID) device.ExitResult { return device.ExitResult{Confidence: 1} })
}

// eager starts one request wherever a place is free.
type eager struct{}

func (eager) Name() string { return "eager" }

func (eager) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	free := s.Devices[0].Places - len(s.Devices[0].Launches)
	for range min(free, s.Queue.Len()) {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: "net", Count: 1})
	}
	return buf
}

// A new device in 35 lines: work begins, the device says when an event is due, and it changes that time when more work
// begins.
func Example() {
	table, err := sched.Uniform("net", 1, 2, 10_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices:  []device.Device{device.Simulate(&pipe{})},
		Networks: []engine.Network{{Name: "net", Tables: []*sched.Table{table}}},
		Policy:   eager{},
		Source: &load.Open{Times: []int64{0, 5_000, 30_000}, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: "net", Deadline: at + 16_000}
		}},
		Inputs: engine.NoInputs,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range res.Records {
		fmt.Printf("request %d: %d..%d ns, %s\n", r.ID, r.Started, r.Ended, r.Ending)
	}
	// Output:
	// request 1: 0..15000 ns, on_time
	// request 2: 5000..20000 ns, on_time
	// request 3: 30000..40000 ns, on_time
}
