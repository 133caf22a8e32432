package npu

import "slices"

// regions allocates ranges of memory, at the lowest free address.
type regions struct {
	size int64
	used []region // sorted by start
}

type region struct{ start, size int64 }

const regionAlign = 4096

// take reserves size bytes. It returns false if no gap is large enough.
func (r *regions) take(size int64) (region, bool) {
	if size <= 0 || size > r.size {
		return region{}, false
	}
	size = (size + regionAlign - 1) / regionAlign * regionAlign
	at := int64(0)
	i := 0
	for ; i < len(r.used) && r.used[i].start-at < size; i++ {
		at = r.used[i].start + r.used[i].size
	}
	if size > r.size-at {
		return region{}, false
	}
	got := region{at, size}
	r.used = slices.Insert(r.used, i, got)
	return got, true
}

func (r *regions) clone() regions { return regions{r.size, slices.Clone(r.used)} }

func (r *regions) give(x region) {
	r.used = slices.DeleteFunc(r.used, func(u region) bool { return u == x })
}
