// This file has sets of units: the TPCs or CUs to which a launch is confined.

package device

import (
	"fmt"
	"math/bits"
	"strings"
)

// MaxUnits is the maximum number of units of a device. It covers the 304 CUs of an MI300X.
const MaxUnits = 320

// Units is a comparable set of units. The zero value is the empty set. For a launch it means all units of the device.
type Units [MaxUnits / 64]uint64

// UnitRange returns the set of the units first..first+n-1.
func UnitRange(first, n int) Units {
	var u Units
	for i := max(first, 0); i < min(first+n, MaxUnits); i++ {
		u[i/64] |= 1 << (i % 64)
	}
	return u
}

// Has reports whether a unit is in the set.
func (u Units) Has(i int) bool { return i >= 0 && i < MaxUnits && u[i/64]>>(i%64)&1 != 0 }

// Empty reports whether the set is empty.
func (u Units) Empty() bool { return u[0]|u[1]|u[2]|u[3]|u[4] == 0 }

// Count returns the number of units in the set.
func (u Units) Count() int {
	n := 0
	for _, w := range u {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union returns the units that are in one of the sets or in both.
func (u Units) Union(o Units) Units {
	for i := range u {
		u[i] |= o[i]
	}
	return u
}

// Without returns the units of u that are not in o.
func (u Units) Without(o Units) Units {
	for i := range u {
		u[i] &^= o[i]
	}
	return u
}

// Meets reports whether the sets have a unit in common. The empty set represents the whole device.
func (u Units) Meets(o Units) bool {
	if u.Empty() || o.Empty() {
		return true
	}
	for i := range u {
		if u[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// Neighbours returns the first n adjacent units of the set. If there are no n adjacent units, it returns the longest range.
func (u Units) Neighbours(n int) (out Units) {
	most := 0
	for i := 0; i < MaxUnits; i++ {
		first := i
		for u.Has(i) && i-first < n {
			i++
		}
		if k := i - first; k > most {
			out, most = UnitRange(first, k), k
		}
		if most >= n {
			break
		}
	}
	return out
}

// Legal reports whether a launch may use a set of units. The set must consist of whole groups of UnitAlign units of the
// device. If Neighbours is true, the units must be adjacent. The empty set is legal.
func (i *Info) Legal(u Units) bool {
	if u.Empty() {
		return true
	}
	if i.Neighbours && u.Neighbours(u.Count()) != u {
		return false
	}
	align := max(1, i.UnitAlign)
	for first := 0; first < MaxUnits; first += align {
		in := 0
		for k := first; k < min(first+align, MaxUnits); k++ {
			if u.Has(k) {
				if k >= i.Units {
					return false
				}
				in++
			}
		}
		if in != 0 && in != min(align, i.Units-first) {
			return false
		}
	}
	return true
}

// String lists the ranges of a set: 0-13,42.
func (u Units) String() string {
	var parts []string
	for i := 0; i < MaxUnits; i++ {
		if !u.Has(i) {
			continue
		}
		first := i
		for u.Has(i + 1) {
			i++
		}
		if i == first {
			parts = append(parts, fmt.Sprint(i))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, i))
		}
	}
	return strings.Join(parts, ",")
}
