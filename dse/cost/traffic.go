package cost

// traffic is bytes on the DRAM and the bursts that bring them.
type traffic struct{ read, written, reads, writes int64 }

func (t *traffic) add(o traffic) {
	t.read += o.read
	t.written += o.written
	t.reads += o.reads
	t.writes += o.writes
}

func (t traffic) less(o traffic) traffic {
	return traffic{t.read - o.read, t.written - o.written, t.reads - o.reads, t.writes - o.writes}
}

// over is the n-th part.
func (t traffic) over(n int64) traffic {
	return traffic{t.read / n, t.written / n, t.reads / n, t.writes / n}
}

// run is what one of a tensor's runs costs on average: bytes of the wide beats that it touches, bursts, and
// ends that lie within a wide beat (of which packing results takes a cycle each). chunks are the pieces in which residuals
// are asked for.
type run struct{ bytes, bursts, ragged, chunks float64 }

// times is so many runs, or a part of one.
func (r run) times(n float64) run { return run{n * r.bytes, n * r.bursts, n * r.ragged, n * r.chunks} }

// read and written are the traffic of so many runs.
func (r run) read(n int64) traffic {
	return traffic{read: int64(float64(n) * r.bytes), reads: int64(float64(n) * r.bursts)}
}

func (r run) written(n int64) traffic {
	return traffic{written: int64(float64(n) * r.bytes), writes: int64(float64(n) * r.bursts)}
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
