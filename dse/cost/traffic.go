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
