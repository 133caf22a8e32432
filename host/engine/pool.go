// This file reuses memory. So a long run allocates only the memory for its peak load.

package engine

// index maps numbers other than 0 to values, by open addressing with linear probing. Requests and tasks are numbered in
// sequence, so nearly every look-up needs only one step.
type index[T any] struct {
	keys []uint64 // 0: free; the length is a power of two
	vals []*T
	n    int
}

func (x *index[T]) slot(key uint64) int {
	// Fibonacci hashing maps keys to different places if they are spaced evenly, at any distance.
	return int((key * 0x9e3779b97f4a7c15) >> 32 & uint64(len(x.keys)-1))
}

func (x *index[T]) get(key uint64) *T {
	if x.n == 0 {
		return nil
	}
	for i := x.slot(key); x.keys[i] != 0; i = (i + 1) & (len(x.keys) - 1) {
		if x.keys[i] == key {
			return x.vals[i]
		}
	}
	return nil
}

// put stores a value under a new number.
func (x *index[T]) put(key uint64, v *T) {
	if 2*x.n >= len(x.keys) {
		old := *x
		*x = index[T]{keys: make([]uint64, max(64, 2*len(old.keys))), vals: make([]*T, max(64, 2*len(old.keys)))}
		for i, k := range old.keys {
			if k != 0 {
				x.put(k, old.vals[i])
			}
		}
	}
	i := x.slot(key)
	for x.keys[i] != 0 {
		i = (i + 1) & (len(x.keys) - 1)
	}
	x.keys[i], x.vals[i] = key, v
	x.n++
}

func (x *index[T]) drop(key uint64) bool {
	if x.n == 0 {
		return false
	}
	mask := len(x.keys) - 1
	i := x.slot(key)
	for x.keys[i] != key {
		if x.keys[i] == 0 {
			return false
		}
		i = (i + 1) & mask
	}
	x.n--
	// Close the gap: later entries move forward, unless they are already at the place of their hash.
	for j := (i + 1) & mask; x.keys[j] != 0; j = (j + 1) & mask {
		if home := x.slot(x.keys[j]); (j-home)&mask >= (j-i)&mask {
			x.keys[i], x.vals[i] = x.keys[j], x.vals[j]
			i = j
		}
	}
	x.keys[i], x.vals[i] = 0, nil
	return true
}

// pool hands out values that were put back into it, or new values.
type pool[T any] struct{ free []*T }

func (p *pool[T]) take() *T {
	if n := len(p.free); n > 0 {
		v := p.free[n-1]
		p.free = p.free[:n-1]
		return v
	}
	return new(T)
}

func (p *pool[T]) give(v *T) { p.free = append(p.free, v) }

// without removes the i-th pointer from a list in place. It does not clear the slot after the new end, since the object
// of that pointer is reused anyway.
func without[T any](list []*T, i int) []*T {
	last := len(list) - 1
	if i < last { // usually the pointer is the last one, so that nothing moves
		copy(list[i:], list[i+1:])
	}
	return list[:last]
}
