package cost

import "github.com/sluice-npu/sluice/hw/configs"

// traffic is bytes on the DRAM and the bursts that bring them.
type traffic struct{ read, written, reads, writes int64 }

func (t *traffic) add(o traffic) {
	t.read += o.read
	t.written += o.written
	t.reads += o.reads
	t.writes += o.writes
}

func (t *traffic) sub(o traffic) {
	t.add(traffic{-o.read, -o.written, -o.reads, -o.writes})
}

// late is what an item's drain moves and how long it takes: results, and residuals but for those that come
// before rows do.
type late struct {
	moved traffic
	drain int64
}

func (m *model) lateOf(i item) late {
	l := late{i.out, i.drain}
	if ready := int64(resBeats*m.d.WideBytes()) / 2; i.res.read > ready {
		l.moved.read = i.res.read - ready
		l.moved.reads = i.res.reads * l.moved.read / i.res.read
	}
	return l
}

// after is what is left so many cycles after the drain began.
func (l late) after(n int64) traffic {
	if n >= l.drain || l.drain == 0 {
		return traffic{}
	}
	left := float64(l.drain-max(0, n)) / float64(l.drain)
	part := func(n int64) int64 { return int64(float64(n) * left) }
	return traffic{part(l.moved.read), part(l.moved.written), part(l.moved.reads), part(l.moved.writes)}
}

// time is how long the DRAM takes for it: what it moves in a cycle, what the ports do in either
// direction, and the bursts that may be under way at a time, each for a latency.
func (m *model) time(t traffic) int64 {
	most := max(float64(t.read+t.written)*m.perByte, float64(max(t.read, t.written))*m.perPort)
	return max(int64(most+almostOne), m.waiting(t.reads, t.read), m.waiting(t.writes, t.written))
}

// almostOne rounds cycles up that are not whole but for rounding.
const almostOne = 1 - 1e-6

// beside is how much longer t takes where other moves as well.
func (m *model) beside(t, other traffic) int64 {
	alone := m.time(t)
	t.add(other)
	return m.time(t) - alone
}

// waiting is how long n bursts of so many bytes take where each waits for its latency and its own beats
// and no more than maxBursts a port are under way.
func (m *model) waiting(n, bytes int64) int64 {
	if n == 0 {
		return 0
	}
	beats := bytes/int64(m.d.AXIBytes) + n
	return (n*(int64(m.d.DRAM.LatencyCycles)+burstCycles) + beats) / int64(maxBursts*m.d.NAXI)
}

// sparing is the cycles by which writes with nothing behind them have left earlier than time says: the last
// round of bursts under way does not wait for its answers.
func (m *model) sparing(t traffic, atLeast int64) int64 {
	if t.writes == 0 {
		return 0
	}
	rest := t
	rest.reads, rest.writes = 0, 0
	under := int64(maxBursts * m.d.NAXI)
	beats := t.written/int64(m.d.AXIBytes)/t.writes + 1
	left := (t.writes-1)/under*(int64(m.d.DRAM.LatencyCycles)+burstCycles+beats) + ((t.writes-1)%under+1)*beats/int64(m.d.NAXI)
	return max(0, m.time(t)-max(atLeast, m.time(rest), left))
}

// stripe is the bytes of the longest burst.
func (m *model) stripe() int64 { return int64(min(stripeBeats, m.d.MaxBurst) * m.d.AXIBytes) }

// run is what one of a tensor's runs costs on average: bytes of the wide beats that it touches, bursts, and
// ends that lie within a wide beat (of which packing results takes a cycle each).
type run struct{ bytes, bursts, ragged float64 }

// runOf is the cost of runs of n bytes, the first at offset, the others pitch bytes behind each other. Several
// ports get stripes; one has bursts as long as they may be that stay in a page.
func (m *model) runOf(n, pitch, offset int64) run {
	stripe := m.stripe()
	r := run{bytes: covered(m.d, n, pitch, offset), ragged: ragged(m.d, pitch, offset) + ragged(m.d, pitch, offset+n)}
	if m.d.NAXI > 1 {
		r.bursts = touched(stripe, n, pitch, offset)
	} else {
		r.bursts = float64((n+stripe-1)/stripe) + touched(pageBytes, n, pitch, offset) - 1
	}
	return r
}

// pixel is the cost of a pixel's results or residuals, of which a C tile touches size channels: a run a
// pixel, or where that is all of them a run a row.
func (m *model) pixel(size, pix int, offset int64) run {
	pitch, w := int64(pix)*wordBytes, int64(m.g.OutW)
	if size == m.g.OutC && pix == size {
		r := m.runOf(w*pitch, w*pitch, offset)
		return run{r.bytes / float64(w), r.bursts / float64(w), r.ragged / float64(w)}
	}
	return m.runOf(int64(size)*wordBytes, pitch, offset)
}

func (r run) times(n int64) (bytes, bursts int64) {
	return int64(float64(n) * r.bytes), int64(float64(n) * r.bursts)
}

// touched is how many aligned blocks of unit bytes (a power of two) a run of n bytes touches on average,
// where the first run begins at offset and each of the others pitch bytes behind the one before.
func touched(unit, n, pitch, offset int64) float64 {
	step := gcd(pitch, unit) // between the places in a block where runs begin
	whole, rest := (n-1)/unit, (n-1)%unit
	places := unit / step
	within := (unit - rest - offset%step + step - 1) / step // of them, a run ends in its last whole block
	return float64(whole+1) + float64(max(0, places-within))/float64(places)
}

// covered is the bytes of the wide beats that runs of n bytes touch on average: what they cost.
func covered(d configs.Design, n, pitch, offset int64) float64 {
	wide := int64(d.WideBytes())
	return float64(wide) * touched(wide, n, pitch, offset)
}

// ragged is the share of places pitch bytes apart, the first at offset, that lie within a wide beat.
func ragged(d configs.Design, pitch, offset int64) float64 {
	wide := int64(d.WideBytes())
	step := gcd(pitch, wide)
	if offset%step != 0 {
		return 1
	}
	return 1 - float64(step)/float64(wide)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
