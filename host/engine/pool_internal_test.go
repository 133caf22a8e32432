package engine

import (
	"testing"

	"pgregory.net/rapid"
)

// The index against a map.
func TestIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index[int]
		want := map[uint64]*int{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			// A narrow range makes chains that wrap round and close up.
			key := rapid.Uint64Range(1, 60).Draw(t, "key")
			if rapid.Bool().Draw(t, "wide") {
				key *= 0x100000001
			}
			switch {
			case want[key] == nil:
				v := new(int)
				want[key] = v
				x.put(key, v)
			case rapid.Bool().Draw(t, "drop"):
				delete(want, key)
				x.drop(key)
			}
			x.drop(1 << 60) // nobody has this one
			if x.n != len(want) {
				t.Fatalf("%d values, want %d", x.n, len(want))
			}
			for k, v := range want {
				if x.get(k) != v {
					t.Fatalf("%d is not what was put there", k)
				}
			}
			if x.get(key) != want[key] {
				t.Fatalf("%d: %v, want %v", key, x.get(key), want[key])
			}
		}
	})
}
