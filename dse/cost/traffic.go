package cost

// traffic represents bytes read and written in DRAM, and the bursts of these reads and writes.
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

// over returns t divided by n.
func (t traffic) over(n int64) traffic {
	return traffic{t.read / n, t.written / n, t.reads / n, t.writes / n}
}
