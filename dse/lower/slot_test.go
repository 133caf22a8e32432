package lower

import (
	"testing"

	"pgregory.net/rapid"
)

// Blocks that live at the same time do not overlap, offsets are aligned, and the total is the end of the last block.
// If all live at once, only alignment wastes space.
func TestAllocate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) block {
			first := rapid.IntRange(-1, 12).Draw(t, "first")
			return block{
				size:  int64(rapid.IntRange(1, 1000).Draw(t, "size")),
				first: first, last: first + rapid.IntRange(0, 6).Draw(t, "life"),
			}
		}), 1, 30).Draw(t, "blocks")
		total := allocate(blocks)
		var end, sum int64
		for i, a := range blocks {
			if a.offset%TensorAlign != 0 || a.offset < 0 {
				t.Fatalf("block %d at %d is misaligned", i, a.offset)
			}
			end, sum = max(end, a.offset+a.size), sum+roundUp(a.size, TensorAlign)
			for j, b := range blocks[:i] {
				together := a.first <= b.last && b.first <= a.last
				if together && a.offset < b.offset+b.size && b.offset < a.offset+a.size {
					t.Fatalf("blocks %d %+v and %d %+v overlap", j, b, i, a)
				}
			}
		}
		if total != roundUp(end, TensorAlign) || total > sum {
			t.Fatalf("total %d, the blocks end at %d and have %d", total, end, sum)
		}
	})
}

// Memory is reused: a chain of equal tensors needs the memory of two.
func TestAllocateReuses(t *testing.T) {
	var blocks []block
	for i := range 10 {
		blocks = append(blocks, block{size: 640, first: i, last: i + 1})
	}
	if total, want := allocate(blocks), 2*roundUp(640, TensorAlign); total != want {
		t.Errorf("a chain of tensors of 640 bytes takes %d, want %d", total, want)
	}
}
