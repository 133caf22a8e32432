package cost

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
	moved   traffic
	drain   int64
	starves bool // as fast as the DRAM, with long runs of residuals, which come before rows do
}

// lateOf is an item's, of whose residuals so many bytes lie ready.
func lateOf(i *item, ready int64) late {
	l := late{moved: i.out, drain: i.drain}
	if i.res.read > ready {
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

// run is what one of a tensor's runs costs on average: bytes of the wide beats that it touches, bursts, and
// ends that lie within a wide beat (of which packing results takes a cycle each). long says that it has
// several bursts. chunks are the pieces in which residuals are asked for.
type run struct {
	bytes, bursts, ragged, chunks float64
	long                          bool
}

// pixel is the cost of a pixel's results or residuals, of which a C tile touches size channels: a run a
// pixel, or where that is all of them a run a row.
func (m *model) pixel(size, pix int, offset int64) run {
	pitch, w := int64(pix*m.d.ElemBytes()), int64(m.g.OutW)
	if size == m.g.OutC && pix == size {
		r := m.runOf(w*pitch, w*pitch, offset)
		return run{r.bytes / float64(w), r.bursts / float64(w), r.ragged / float64(w), r.chunks / float64(w), r.long}
	}
	return m.runOf(int64(size*m.d.ElemBytes()), pitch, offset)
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

// ragged is the share of places pitch bytes apart, the first at offset, that lie within a block of unit bytes.
func ragged(unit, pitch, offset int64) float64 {
	step := gcd(pitch, unit)
	if offset%step != 0 {
		return 1
	}
	return 1 - float64(step)/float64(unit)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
