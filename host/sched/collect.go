// This file has the policies with which SEEB-GPU is compared. They collect requests during a window, as SEEB does, and
// serve an application's requests in batches. Except for BranchyNet they do not use exits.
//
//	Batch      batches of one size on all units, one at a time for every application (Triton's batcher)
//	Triton     as Batch without a window: all waiting requests up to the largest batch, when the last batch has ended
//	DeepRT     all collected requests in one batch, one batch at a time, the earliest deadline first
//	BranchyNet as Batch, with exits at one threshold
//	GSLICE     a partition for every application, in proportion to its share of the recent images, and a
//	           batch size that grows while batches end in time
//
// Partitions follow the load slowly and exist even while their application has no work. Shares are rounded up, so
// their sum may exceed the device. In this case the partitions overlap, as with the percentages of MPS.

package sched

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Collect is one of the policies Triton, DeepRT, BranchyNet, GSLICE and Batch, selected by its fields.
type Collect struct {
	Label  string
	Window Time    // requests are served when a window ends; 0: served at once
	Batch  int     // the largest batch; 0: the limit of device and table
	One    bool    // only one batch on the device at a time, the earliest deadline first
	Theta  float32 // threshold of every exit; 0: the thresholds of the requests
	Share  bool    // use partitions, and batches that grow and shrink
	Resize Time    // Share: the minimum time between two changes of the partitions

	slices   []slice
	resized  Time
	ids      []device.RequestID
	constant map[float32][]float32
}

// slice is an application's part of the device if Share is set.
type slice struct {
	network string
	rate    float64 // images per window, smoothed
	arrived int64   // number of images so far
	units   device.Units
	batch   int
	began   Time // when the batch on the device was launched
	bound   Time // shortest time from arrival to deadline in this batch; 0: no batch
}

func (p *Collect) Name() string { return p.Label }

// Decide launches collected requests on the first device.
func (p *Collect) Decide(now Time, st *State, _ *Event, buf []Action) []Action {
	if p.constant == nil {
		p.constant = map[float32][]float32{}
	}
	d := &st.Devices[0]
	by := now
	if p.Window > 0 {
		by = now / p.Window * p.Window
	}
	if p.Share {
		p.share(now, by, st)
	}
	p.ids = p.ids[:0]
	places := d.Places - len(d.Launches)
	if d.Down {
		places = 0
	}
	if p.One {
		places = min(places, 1-len(d.Launches))
	}
	for places > 0 {
		network := p.next(by, st, buf)
		if network == "" {
			break
		}
		buf = p.launch(now, by, st, network, buf)
		places--
	}
	if p.Window > 0 && st.Queue.Len() > 0 {
		buf = append(buf, Action{Kind: Wait, Until: by + p.Window})
	}
	return buf
}

// next returns the application to serve next. This application has requests, and no batch on the device.
func (p *Collect) next(by Time, st *State, buf []Action) (network string) {
	d := &st.Devices[0]
	tight := Time(math.MaxInt64)
	for i := range st.Queue.Len() {
		r := st.Queue.At(i)
		if r.Arrived > by {
			break
		}
		if r.Network == network && r.Deadline >= tight || d.Table(r.Network) == nil ||
			slices.ContainsFunc(d.Launches, func(l *LaunchView) bool { return l.Network == r.Network }) ||
			slices.ContainsFunc(buf, func(a Action) bool { return a.Kind == Launch && a.Network == r.Network }) {
			continue
		}
		if !p.One {
			return r.Network
		}
		if network == "" || r.Deadline < tight {
			network, tight = r.Network, r.Deadline
		}
	}
	return network
}

// launch starts a batch of the oldest requests of an application.
func (p *Collect) launch(now, by Time, st *State, network string, buf []Action) []Action {
	d := &st.Devices[0]
	t := d.Table(network)
	most := min(d.MaxBatch, t.MaxBatch())
	if p.Batch > 0 {
		most = min(most, p.Batch)
	}
	a := Action{Kind: Launch, Network: network, Last: t.Segments() - 1}
	part := p.slice(network)
	if part != nil {
		most, a.Units = min(most, part.batch), part.units
	}
	from := len(p.ids)
	bound := Time(math.MaxInt64)
	for i := 0; i < st.Queue.Len() && len(p.ids)-from < most; i++ {
		if r := st.Queue.At(i); r.Network == network && r.Arrived <= by {
			p.ids = append(p.ids, r.ID)
			bound = min(bound, r.Deadline-r.Arrived)
		}
	}
	if part != nil {
		part.began, part.bound = now, bound
	}
	if p.Theta > 0 {
		buf = append(buf, Action{Kind: SetTheta, Network: network, Thetas: constant(p.constant, p.Theta)})
	}
	a.Requests = p.ids[from:len(p.ids):len(p.ids)]
	return append(buf, a)
}

func (p *Collect) slice(network string) *slice {
	for i := range p.slices {
		if p.slices[i].network == network {
			return &p.slices[i]
		}
	}
	return nil
}

// share sets the sizes of the partitions, and adapts batch sizes to the duration of the last batches.
func (p *Collect) share(now, by Time, st *State) {
	d := &st.Devices[0]
	if p.slices == nil {
		for i := range d.Hosted {
			p.slices = append(p.slices, slice{network: d.Hosted[i].Network, batch: 1})
		}
		p.resize(d.Units)
	}
	if by >= p.resized+p.Resize {
		const keep = 0.5 // weight of the previous estimate of the rate
		for i := range st.Traffic {
			t := &st.Traffic[i]
			if s := p.slice(t.Network); s != nil {
				s.rate, s.arrived = mul(keep, s.rate)+mul(1-keep, float64(t.Arrived-s.arrived)), t.Arrived
			}
		}
		p.resized = by
		p.resize(d.Units)
	}
	for i := range p.slices {
		s := &p.slices[i]
		if s.bound == 0 || slices.ContainsFunc(d.Launches, func(l *LaunchView) bool { return l.Network == s.network }) {
			continue
		}
		switch took := now - s.began; {
		case took > s.bound:
			s.batch = max(1, s.batch/2)
		case took < s.bound/2:
			s.batch = min(2*s.batch, d.MaxBatch)
		}
		s.bound = 0
	}
}

// resize assigns each application its share of n units, at least a tenth of them. Partitions are consecutive.
func (p *Collect) resize(n int) {
	sum := 0.0
	for i := range p.slices {
		sum += p.slices[i].rate
	}
	at := 0
	for i := range p.slices {
		s := &p.slices[i]
		share := 1 / float64(len(p.slices))
		if sum > 0 {
			share = max(0.1, s.rate/sum)
		}
		k := min(n, max(1, int(math.Ceil(share*float64(n)))))
		s.units = device.Units{}
		for j := range k {
			u := (at + j) % n
			s.units[u/64] |= 1 << (u % 64)
		}
		at += k
	}
}
