// SEEB-GPU: Subramaniyan, Joshi, Wang, Brocanelli, "SEEB-GPU: Early-Exit Aware Scheduling and Batching for Edge GPU
// Inference", SEC 2025. Every 100 ms the waiting requests are grouped by application. Each group is assigned units in
// proportion to its number of images (algorithm 1). Algorithm 2 selects the batch size and threshold with the least
// cost among those that meet the group's earliest deadline.
//
// The listings do not define all details. The policy seeb-literal follows them literally: the cost does not depend on
// the number of batches in a group, so batches of one image have the least cost. The assigned units are one range,
// which starts at the first free unit. A group without units runs on all units. The policy seeb differs: the cost uses
// the latency of the whole group, a group may use any free units, and a group without units waits.

package sched

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// LatencyModel is the model of SEEB-GPU's algorithm 2, line 13. It gives the time of one batch in ns, and is fitted to profiles.
type LatencyModel struct {
	Alpha, Beta1, Beta2, Beta3 float64

	Least float64 // lower limit of the result of At, in ns
}

// At returns the latency of the model, in ns.
func (m LatencyModel) At(batch int, theta float64, units int) float64 {
	return max(m.Least, m.Alpha+mul(m.Beta1, float64(batch))+mul(m.Beta2, theta)+m.Beta3/float64(max(1, units)))
}

// Split is SEEB-GPU's algorithm 1, lines 1 to 11. It appends the number of units for each group of images to buf. Each group gets
// at least one unit while units are left.
func Split(images []int, units int, buf []int) []int {
	total, used := 0, 0
	for _, n := range images {
		total += n
	}
	for _, n := range images {
		t := 0
		if total > 0 {
			t = min(max(1, int(int64(n)*int64(units)/int64(total))), units-used)
		}
		used += t
		buf = append(buf, t)
	}
	return buf
}

// SEEB is the policy SEEB-GPU.
type SEEB struct {
	Literal bool
	Period  Time    // time between two groupings; 0: 100 ms
	Lambda1 float64 // weight of latency, per second; 0: 1
	Lambda2 float64 // weight of confidence; 0: 1
	Thetas  []float32
	Slack   Time // tau
	Models  map[string]LatencyModel

	// For the ablation (table 5). If not 0, FixedBatch is the batch size, and FixedTheta is the threshold.
	FixedBatch int
	FixedTheta float32
	NoUnits    bool // no choice of units: every group runs on all units

	done     Time // end of the last period with a grouping
	groups   []group
	last     int                      // number of the newest group
	of       map[device.RequestID]int // number of the group of each waiting or running request
	buckets  []bucket
	images   []int
	units    []int
	ids      []device.RequestID
	begun    []int // number of launches, by device
	spare    [][]device.RequestID
	constant map[float32][]float32 // by threshold: an array that has this threshold at every exit
}

// group is a set of images of one application with assigned units. It ends when all its images have ended.
type group struct {
	number  int
	device  int
	network string
	units   device.Units
	batch   int
	theta   float32
	ids     []device.RequestID
}

type bucket struct {
	network string
	ids     []device.RequestID
	tight   Time
}

func (s *SEEB) Name() string {
	if s.Literal {
		return "seeb-literal"
	}
	return "seeb"
}

func (s *SEEB) period() Time {
	if s.Period > 0 {
		return s.Period
	}
	return 100_000_000
}

// Choose is SEEB-GPU's algorithm 2 for one group. It returns the batch size and threshold with the least cost among those that
// meet the deadline. ok reports whether any meet it.
func (s *SEEB) Choose(network string, images, units int, left Time) (batch int, theta float32, ok bool) {
	m := s.Models[network]
	l1, l2 := s.Lambda1, s.Lambda2
	if l1 == 0 && l2 == 0 {
		l1, l2 = 1, 1
	}
	least := math.Inf(1)
	for k := bits.Len(uint(images)) - 1; k >= 0; k-- {
		b := 1 << k
		if s.FixedBatch > 0 {
			if k > 0 {
				continue
			}
			b = s.FixedBatch
		}
		for _, th := range s.Thetas {
			if s.FixedTheta > 0 && th != s.FixedTheta {
				continue
			}
			l := m.At(b, float64(th), units)
			if !s.Literal {
				l *= math.Ceil(float64(images) / float64(b))
			}
			if l > float64(left-s.Slack) {
				continue
			}
			if c := l1*l/1e9 - l2*float64(th); c < least {
				least, batch, theta, ok = c, b, th, true
			}
		}
	}
	if !ok {
		batch, theta = s.soonest(images)
	}
	return batch, theta, ok
}

// soonest returns the batch size and threshold for a group that cannot meet its deadline. The listing does not define
// them. With the largest batch the group ends soonest.
func (s *SEEB) soonest(images int) (batch int, theta float32) {
	theta = s.FixedTheta
	if theta == 0 && len(s.Thetas) > 0 {
		theta = slices.Min(s.Thetas)
	}
	batch = s.FixedBatch
	if batch == 0 {
		batch = 1 << (bits.Len(uint(max(1, images))) - 1)
	}
	return batch, theta
}

// Decide groups the requests that have arrived by the end of a period. It also launches the next batch of every group
// whose last batch has ended.
func (s *SEEB) Decide(now Time, st *State, _ *Event, buf []Action) []Action {
	if s.of == nil {
		s.of, s.constant = map[device.RequestID]int{}, map[float32][]float32{}
	}
	if end := now / s.period() * s.period(); end > s.done {
		s.done = end
		for i := range st.Devices {
			s.group(now, st, i)
		}
	}
	s.begun = s.begun[:0]
	for i := range st.Devices {
		s.begun = append(s.begun, len(st.Devices[i].Launches))
	}
	keep := s.groups[:0]
	for i := range s.groups {
		g := &s.groups[i]
		on := true
		if d := &st.Devices[g.device]; s.begun[g.device] < d.Places && !d.Down && !s.running(d, g) {
			buf, on = s.advance(st, g, buf)
		}
		if on {
			keep = append(keep, *g)
			continue
		}
		for _, id := range g.ids {
			delete(s.of, id)
		}
		s.spare = append(s.spare, g.ids[:0])
	}
	s.groups = keep
	if st.Queue.Len() > 0 {
		buf = append(buf, Action{Kind: Wait, Until: now/s.period()*s.period() + s.period()})
	}
	return buf
}

// running reports whether a batch of the group is still on the device.
func (s *SEEB) running(d *DeviceView, g *group) bool {
	for _, l := range d.Launches {
		if len(l.Requests) > 0 && s.of[l.Requests[0].ID] == g.number {
			return true
		}
	}
	return false
}

// group forms groups of the waiting requests that have none, and assigns units to the groups (algorithm 1).
func (s *SEEB) group(now Time, st *State, dev int) {
	d := &st.Devices[dev]
	n := s.collect(st, d)
	free := s.free(dev, d)
	if s.Literal && free.Empty() {
		return // the requests wait until a unit is free
	}
	s.images = s.images[:0]
	for i := range n {
		s.images = append(s.images, len(s.buckets[i].ids))
	}
	s.units = Split(s.images, free.Count(), s.units[:0])
	for i := range n {
		b := &s.buckets[i]
		s.last++
		g := group{number: s.last, device: dev, network: b.network}
		on := s.units[i]
		switch {
		case on > 0 && !s.NoUnits:
			if g.units = lowest(free, on); d.Neighbours {
				g.units = free.Neighbours(on)
				on = g.units.Count()
			}
			free = free.Without(g.units)
		case s.NoUnits || s.Literal:
			on = d.Units
		default:
			continue // the group waits for free units
		}
		g.batch, g.theta, _ = s.Choose(b.network, len(b.ids), on, b.tight-now)
		g.batch = min(g.batch, d.MaxBatch)
		s.begin(&g, b.ids)
	}
}

// begin adds a group of requests.
func (s *SEEB) begin(g *group, ids []device.RequestID) {
	if k := len(s.spare); k > 0 {
		g.ids, s.spare = s.spare[k-1], s.spare[:k-1]
	}
	g.ids = append(g.ids, ids...)
	for _, id := range ids {
		s.of[id] = g.number
	}
	s.groups = append(s.groups, *g)
}

// collect puts waiting requests that are not in a group into buckets by network. It returns the number of buckets.
func (s *SEEB) collect(st *State, d *DeviceView) (n int) {
	for i := range s.buckets {
		s.buckets[i].ids = s.buckets[i].ids[:0]
	}
	for i := range st.Queue.Len() {
		r := st.Queue.At(i)
		if r.Arrived > s.done || s.of[r.ID] != 0 || d.Table(r.Network) == nil {
			continue
		}
		j := 0
		for j < n && s.buckets[j].network != r.Network {
			j++
		}
		if j == n {
			if n++; n > len(s.buckets) {
				s.buckets = append(s.buckets, bucket{})
			}
			s.buckets[j].network, s.buckets[j].tight = r.Network, math.MaxInt64
		}
		b := &s.buckets[j]
		b.ids = append(b.ids, r.ID)
		if r.Deadline > 0 {
			b.tight = min(b.tight, r.Deadline)
		}
	}
	return n
}

// free returns the units of a device that no group uses; for seeb-literal, only the first run of these units.
func (s *SEEB) free(dev int, d *DeviceView) device.Units {
	free := device.UnitRange(0, d.Units)
	for i := range s.groups {
		if s.groups[i].device == dev && !s.NoUnits {
			free = free.Without(s.groups[i].units)
		}
	}
	if s.Literal {
		return run(free, d.Units)
	}
	return free
}

// run returns the first run of consecutive units in a set, on a device with n units.
func run(u device.Units, n int) device.Units {
	first := 0
	for first < n && !u.Has(first) {
		first++
	}
	end := first
	for end < n && u.Has(end) {
		end++
	}
	if first == end {
		return device.Units{}
	}
	return device.UnitRange(first, end-first)
}

// lowest returns the first n units of a set.
func lowest(u device.Units, n int) (out device.Units) {
	for i := 0; i < device.MaxUnits && n > 0; i++ {
		if u.Has(i) {
			out[i/64] |= 1 << (i % 64)
			n--
		}
	}
	return out
}

// advance launches the next batch of a group. It returns false if no request of the group waits.
func (s *SEEB) advance(st *State, g *group, buf []Action) ([]Action, bool) {
	from, n := len(s.ids), 0
	if len(buf) == 0 {
		from, s.ids = 0, s.ids[:0]
	}
	for i := 0; i < st.Queue.Len() && n < g.batch; i++ {
		if id := st.Queue.At(i).ID; s.of[id] == g.number {
			s.ids = append(s.ids, id)
			n++
		}
	}
	if n == 0 {
		return buf, false
	}
	s.begun[g.device]++
	t := st.Devices[g.device].Table(g.network)
	return append(buf,
		Action{Kind: SetTheta, Network: g.network, Thetas: constant(s.constant, g.theta)},
		Action{
			Kind: Launch, Device: g.device, Network: g.network, Last: t.Segments() - 1, Requests: s.ids[from : from+n : from+n],
			Units: g.units, Exclusive: !s.Literal && !g.units.Empty(),
		}), true
}

// constant returns an array that has the threshold theta at every exit.
func constant(all map[float32][]float32, theta float32) []float32 {
	t := all[theta]
	if t == nil {
		t = make([]float32, MaxSegments)
		for i := range t {
			t[i] = theta
		}
		all[theta] = t
	}
	return t
}
