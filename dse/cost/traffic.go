package cost

// traffic is the number of bytes read and written on the DRAM, and of their bursts.
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

// over returns the n-th part.
func (t traffic) over(n int64) traffic {
	return traffic{t.read / n, t.written / n, t.reads / n, t.writes / n}
}

// run is the average cost of one of a tensor's runs: bytes of the wide beats that it touches, bursts, ends within a
// wide beat (each costs one cycle when results are packed), and chunks, the requests for residuals.
type run struct{ bytes, bursts, ragged, chunks float64 }

// times returns the cost of n runs, or of a part of one.
func (r run) times(n float64) run { return run{n * r.bytes, n * r.bursts, n * r.ragged, n * r.chunks} }

// read and written return the traffic of n runs.
func (r run) read(n int64) traffic {
	return traffic{read: int64(float64(n) * r.bytes), reads: int64(float64(n) * r.bursts)}
}

func (r run) written(n int64) traffic {
	return traffic{written: int64(float64(n) * r.bytes), writes: int64(float64(n) * r.bursts)}
}

// touched returns the average number of aligned blocks of unit bytes (a power of two) that a run of n bytes touches.
// The first run begins at offset, the others at distances of pitch bytes.
func touched(unit, n, pitch, offset int64) float64 {
	step := gcd(pitch, unit) // distance between possible run starts in a block
	whole, rest := (n-1)/unit, (n-1)%unit
	places := unit / step
	within := (unit - rest - offset%step + step - 1) / step // number of starts for which a run ends in its last whole block
	return float64(whole+1) + float64(max(0, places-within))/float64(places)
}

// ragged returns the share of addresses at distances of pitch bytes, the first at offset, that are within a block of
// unit bytes and not at its start.
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
