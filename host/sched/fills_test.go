package sched_test

import (
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// A batch that fills up another one goes on alone if all requests of the other have been cancelled, whatever else is
// below it: a batch of another network, at another exit, or one that leaves no room.
func TestFillsNobody(t *testing.T) {
	table := linear(t, 3, 8, 10, 2)
	for _, name := range []string{"fluid", "fluid+", "lazy"} {
		for what, below := range map[string]sched.LaunchView{
			"another network": {Network: "m", Reached: 0, Last: 2, Phase: sched.Halted, Requests: requests(1, 1, 10_000)},
			"another exit":    {Network: "n", Reached: 1, Last: 2, Phase: sched.Halted, Requests: requests(1, 1, 10_000)},
			"a full batch":    {Network: "n", Reached: 0, Last: 2, Phase: sched.Halted, Requests: requests(1, 8, 10_000)},
		} {
			below.ID = 1
			top := sched.LaunchView{ID: 2, Network: "n", Reached: 0, Last: 0, Phase: sched.AtExit, Requests: requests(20, 20, 5000)}
			s := state(table, []*sched.LaunchView{&below, &top})
			s.Devices[0].Hosted = append(s.Devices[0].Hosted, sched.Hosted{Network: "m", Table: table})
			p, err := sched.New(name, sched.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var resumed device.LaunchID
			for _, a := range p.Decide(20, s, &sched.Event{Kind: sched.SegmentDone, Launch: 2}, nil) {
				if a.Kind == sched.Merge {
					t.Errorf("%s, %s below: merges %+v", name, what, a)
				}
				if a.Kind == sched.Resume {
					resumed = a.Launch
				}
			}
			if resumed != 2 {
				t.Errorf("%s, %s below: resumes launch %d, expected 2", name, what, resumed)
			}
		}
	}
}
