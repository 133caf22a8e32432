package cuda

import (
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Proxy is under which limit a launch of so many blocks on so many SMs runs, where an SM holds resident blocks of
// the kernel of one layer, and of the others as many as are given, by registers.
func Proxy(resident, blocks, sms int, held [][2]int) int {
	l := &launcher{resident: resident}
	for _, h := range held {
		l.proxies = append(l.proxies, proxy{registers: h[0], resident: h[1]})
	}
	return l.proxy(blocks, sms).registers
}

// Spans is what becomes of a preemption that was seen, by two anchors.
func Spans(arrived, flagged, away, over time.Duration, gone, began uint64, host, gpu int64) Preemption {
	start := time.Now()
	l := &launcher{Device: &Device{}, start: start, anchor: anchor{time.Duration(host), uint64(gpu)}}
	l.met = []*meeting{{arrived: start.Add(arrived), flagged: start.Add(flagged), away: start.Add(away), over: start.Add(over), gone: gone, began: began, timed: true}}
	if err := l.spans(); err != nil {
		panic(err)
	}
	return l.counts.Preemptions[0]
}

// LoadAny begins the loading of a bundle that no compiler made, and that nobody checks.
func (d *Device) LoadAny(w device.Work) {
	n, err := prepare(w.Artefact.Bundle)
	d.give(order{work: &w, net: n, err: err})
}

// InTheWay tells whether g is in the way of f, where both are on the GPU.
func InTheWay(first, priority, of bool, units, its device.Units) bool {
	tickets := [2]uint64{1, 2}
	if !first {
		tickets = [2]uint64{2, 1}
	}
	flying := func(ticket uint64, priority bool, u device.Units) *flow {
		f := &flow{rt: priority, next: 1, lane: &lane{key: laneKey{units: u}}}
		f.in = f.lane
		f.in.fly = []fly{{ticket: ticket, flows: [kernels.MaxRoles]*flow{f}}}
		return f
	}
	return (&launcher{}).inTheWay(flying(tickets[0], priority, its), flying(tickets[1], of, units))
}
