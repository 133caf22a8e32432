// Clients are cameras that send frames at a fixed rate, each over its own link.

package jellyfish

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/host/bandwidth"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/sched"
)

// family is the name of the network in tasks. Any network of the zoo can answer.
const family = "zoo"

// Sizing describes how a client chooses the size of a frame.
type Sizing struct {
	// Advised means that a frame has at most the size of the recommended network; otherwise, of network Most.
	Advised bool
	Most    int
	// Fixed means that every frame has this maximum size. Otherwise it is smaller if this size would cause a queue at
	// the link.
	Fixed bool
	// Network, if positive, is the largest transfer time of a frame, as a share of the SLO.
	Network float64
}

// cameras is the source of the load: the clients with their links.
type cameras struct {
	zoo    jellyfish.Zoo
	sizing Sizing
	jitter float64
	room   float64 // share of a link that its client plans to use
	end    int64
	all    []camera
	id     uint64
	now    int64 // arrival of the last frame that Next returned
	frames []sentFrame
}

// sentFrame is the frame of a task.
type sentFrame struct {
	size   int32 // index of the network with the frame's size
	client int32
}

type camera struct {
	jellyfish.Registered
	trace  *links.Trace
	offset int64 // start of the camera's link in the trace
	rng    *rand.Rand
	told   int   // recommended network
	free   int64 // time at which the link becomes free; unknown to the client
	onWay  []transfer
	est    bandwidth.Estimator

	created int64 // creation time of the next frame
	noise   float64
	size    int // size of the next frame, after freeze has fixed it
	frozen  bool
}

// transfer is a sent frame. The client measures the rate when the transfer ends.
type transfer struct {
	begins, ends int64
	bytes        int64
}

// update adds to the client's estimate all transfers that have ended. The argument "at" is the current time.
func (m *camera) update(at int64) {
	k := 0
	for ; k < len(m.onWay) && m.onWay[k].ends <= at; k++ {
		t := &m.onWay[k]
		m.est.Add(t.ends, t.rate())
	}
	m.onWay = slices.Delete(m.onWay, 0, k)
}

// backlog returns the time in ns until all frames in transfer have arrived, at the client's estimated rate.
func (m *camera) backlog(at int64, rate float64) float64 {
	ns := 0.0
	for i := range m.onWay {
		t := &m.onWay[i]
		ns += max(0, float64(t.bytes)*8e9/rate-float64(max(0, at-t.begins)))
	}
	return ns
}

func (t *transfer) rate() float64 { return float64(t.bytes) * 8e9 / float64(max(1, t.ends-t.begins)) }

func newCameras(zoo jellyfish.Zoo, s Sizing, jitter, headroom float64, clients []Camera, trace *links.Trace, end int64, seed uint64) *cameras {
	c := &cameras{zoo: zoo, sizing: s, jitter: jitter, room: headroom, end: end}
	rng := rand.New(rand.NewPCG(seed, 0x63616d657261))
	for i, cl := range clients {
		m := camera{Registered: cl.Registered, trace: trace, rng: rand.New(rand.NewPCG(seed, 1000+uint64(i)))}
		if cl.Trace != nil {
			m.trace = cl.Trace
		} else {
			m.offset = rng.Int64N(int64(len(trace.Bits))) * 1_000_000_000
		}
		m.created = cl.Start + rng.Int64N(1_000_000_000/int64(m.Rate))
		m.noise = c.draw(&m)
		// The client obtains a first estimate of the rate when it opens the connection.
		m.est.Add(m.created, float64(m.trace.Rate(m.offset+m.created)))
		c.all = append(c.all, m)
	}
	return c
}

func (c *cameras) draw(m *camera) float64 {
	return math.Exp(c.jitter*m.rng.NormFloat64() - c.jitter*c.jitter/2)
}

// choose returns the size of a frame. The argument "at" is the frame's creation time.
func (c *cameras) choose(m *camera, at int64) int {
	s := &c.sizing
	most := s.Most
	if s.Advised {
		most = m.told
	}
	if s.Fixed {
		return most
	}
	// The transfer should end before the next frame is created, even if the previous frame delays it.
	m.update(at)
	rate := m.est.Rate(at)
	gap := c.room * (1e9/float64(m.Rate) - m.backlog(at, rate))
	bytes := rate / 8 * max(0, gap) / 1e9
	if s.Network > 0 {
		bytes = min(bytes, s.Network*float64(m.SLO)/1e9*rate/8)
	}
	return min(most, c.zoo.Largest(int64(bytes)))
}

// freeze fixes the sizes of all frames created up to `now`.
func (c *cameras) freeze(now int64) {
	for i := range c.all {
		if m := &c.all[i]; !m.frozen && m.created <= now {
			m.size, m.frozen = c.choose(m, m.created), true
		}
	}
}

// Next implements sched.Source. It returns the frame that arrives next. Next is called when the previous frame arrives.
// Later recommendations do not change the returned frame. They can make another frame so small that it would arrive
// before the returned frame. Then Next delays the small frame until the returned frame arrives.
func (c *cameras) Next() (sched.Item, bool) {
	c.freeze(c.now)
	best, arrives, begins, bytes := -1, int64(0), int64(0), int64(0)
	for i := range c.all {
		m := &c.all[i]
		if m.created >= c.end || best >= 0 && max(m.created, m.free) > arrives {
			continue
		}
		size := m.size
		if !m.frozen {
			size = c.choose(m, m.created)
		}
		from, n := max(m.created, m.free), max(1, int64(float64(c.zoo[size].Bytes)*m.noise))
		if at := m.trace.Arrive(m.offset+from, n) - m.offset; best < 0 || at < arrives {
			best, arrives, begins, bytes = i, at, from, n
			m.size = size
		}
	}
	if best < 0 {
		return sched.Item{}, false
	}
	m := &c.all[best]
	c.id++
	c.now = max(c.now, arrives)
	c.frames = append(c.frames, sentFrame{int32(m.size), int32(best)})
	sent := transfer{begins, arrives, bytes}
	t := &sched.Task{
		ID: c.id, Client: best, Network: family, Created: m.created, Arrived: c.now, Samples: 1, Link: sent.rate(),
		// A late frame is also returned, because it shows that the client is active and its link slow.
		Deadline: max(m.created+m.SLO, c.now+1),
	}
	m.onWay = append(m.onWay, sent)
	m.free, m.frozen = arrives, false
	m.created += 1_000_000_000 / int64(m.Rate)
	m.noise = c.draw(m)
	return sched.Item{At: c.now, Task: t}, true
}

// Ended implements sched.Source.
func (*cameras) Ended(int64, *sched.Task, sched.Ending) []sched.Item { return nil }

// Advised implements sched.Advisee. The client follows the advice from the next frame on.
func (c *cameras) Advised(now int64, a *sched.Advice) {
	c.freeze(now)
	for j := range c.zoo {
		if c.zoo[j].Name == a.Network && a.Client >= 0 && a.Client < len(c.all) {
			c.all[a.Client].told = j
		}
	}
}
