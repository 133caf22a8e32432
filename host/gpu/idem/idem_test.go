package idem_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"pgregory.net/rapid"
)

// letters are one-byte locations A, B, ...
func letters(s string) []kernel.Span {
	var out []kernel.Span
	for _, c := range s {
		out = append(out, kernel.Span{From: int64(c - 'A'), To: int64(c-'A') + 1})
	}
	return out
}

func program(accesses ...[2]string) *kernel.Program {
	p := &kernel.Program{Name: "test", Memory: 26, Exits: []int{len(accesses) - 1}}
	for _, a := range accesses {
		p.Kernels = append(p.Kernels, kernel.Kernel{
			Blocks: 1, Threads: 1, Issue: 1, BlockNs: 1, Reads: letters(a[0]), Writes: letters(a[1]),
		})
	}
	return p
}

// Figure 9 of REEF: K3 reads C and E and writes E; its smallest group is K1, K2, K3.
func TestFigure9(t *testing.T) {
	p := program([2]string{"AB", "CD"}, [2]string{"CD", "E"}, [2]string{"E", "F"}, [2]string{"CE", "E"})
	if got, want := idem.Entries(p), []int{0, 1, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("entries %v, expected %v", got, want)
	}
}

func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name string
		acc  [][2]string
		want []int
	}{
		{"in place on the program's own input", [][2]string{{"A", "A"}, {"A", "B"}}, []int{idem.Never, 1}},
		{"in place twice", [][2]string{{"A", "B"}, {"B", "B"}, {"B", "B"}}, []int{0, 0, 0}},
		{"a buffer that is written again", [][2]string{{"A", "B"}, {"B", "C"}, {"C", "B"}}, []int{0, 1, 2}},
		{"half in place", [][2]string{{"A", "BC"}, {"B", "B"}, {"C", "C"}}, []int{0, 0, 0}},
		{"a write that nobody reads", [][2]string{{"", "A"}, {"", "A"}}, []int{0, 1}},
	} {
		if got := idem.Entries(program(c.acc...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: entries %v, expected %v", c.name, got, c.want)
		}
	}
}

// This tests the definition byte by byte: run the program on numbers, stop inside kernel i with part of its writes
// done, and run again from the entry. The memory must be that of an undisturbed run. And no shorter group satisfies the
// published condition. (That condition is slightly stricter than necessary: it forbids bytes that the group spoils and
// then overwrites without reading them.)
func TestAgainstMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bytes = 8
		span := rapid.Custom(func(t *rapid.T) kernel.Span {
			from := rapid.Int64Range(0, bytes-1).Draw(t, "from")
			return kernel.Span{From: from, To: rapid.Int64Range(from+1, bytes).Draw(t, "to")}
		})
		ks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kernel.Kernel {
			return kernel.Kernel{
				Reads:  rapid.SliceOfN(span, 0, 2).Draw(t, "reads"),
				Writes: rapid.SliceOfN(span, 1, 2).Draw(t, "writes"),
			}
		}), 1, 6).Draw(t, "kernels")
		p := &kernel.Program{Memory: bytes, Kernels: ks}
		start := make([]uint64, bytes)
		for i := range start {
			start[i] = uint64(i + 1)
		}
		entries := idem.Entries(p)
		for i, e := range entries {
			if e != idem.Never && !restores(ks, start, i, e) {
				t.Fatalf("kernel %d, taken up from %d, does not give what an undisturbed run gives", i, e)
			}
			for short := e + 1; short <= i; short++ {
				if inputsKept(ks[short:i+1], bytes) {
					t.Fatalf("kernel %d could be taken up from %d, entry is %d", i, short, e)
				}
			}
		}
	})
}

// inputsKept is the condition of section 4.4: each byte is only read, or first written.
func inputsKept(group []kernel.Kernel, bytes int64) bool {
	for b := range bytes {
		has := func(spans []kernel.Span) bool {
			return slices.ContainsFunc(spans, func(s kernel.Span) bool { return s.From <= b && b < s.To })
		}
		read, wrote, fine := false, false, true
		for _, k := range group {
			if has(k.Reads) && !wrote {
				read = true
			}
			if has(k.Writes) {
				wrote = true
				fine = fine && !read
			}
		}
		if !fine {
			return false
		}
	}
	return true
}

// restores reports whether the memory after kernel i is right if kernel i was stopped after some of its writes and the
// program resumed at kernel e.
func restores(ks []kernel.Kernel, start []uint64, i, e int) bool {
	want := slices.Clone(start)
	for k := 0; k <= i; k++ {
		apply(ks, k, want, -1)
	}
	rng := rand.New(rand.NewPCG(uint64(i), uint64(e)))
	for range 8 {
		mem := slices.Clone(start)
		for k := range i {
			apply(ks, k, mem, -1)
		}
		apply(ks, i, mem, int(rng.Uint32()&0xff|0x100))
		for k := e; k <= i; k++ {
			apply(ks, k, mem, -1)
		}
		if !slices.Equal(mem, want) {
			return false
		}
	}
	return true
}

// apply runs kernel k. If parts is not negative, the kernel was killed, and parts has a bit for every byte that it
// wrote before; such a byte may have a wrong value.
func apply(ks []kernel.Kernel, k int, mem []uint64, parts int) {
	h := uint64(k)*0x9e3779b97f4a7c15 + 1
	for _, s := range ks[k].Reads {
		for b := s.From; b < s.To; b++ {
			h = (h ^ mem[b]) * 0x100000001b3
		}
	}
	for _, s := range ks[k].Writes {
		for b := s.From; b < s.To; b++ {
			switch {
			case parts < 0:
				mem[b] = h + uint64(b)
			case parts>>b&1 != 0:
				mem[b] = h ^ uint64(parts)<<32 ^ uint64(b)
			}
		}
	}
}
