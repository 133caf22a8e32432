package sched_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/sched"
)

func TestPad(t *testing.T) {
	rt := sched.Version{KernelNs: 100, BlockNs: 50, FullNs: 50, Blocks: 40, Occupancy: 2} // 40 of 60 units
	fits := sched.Version{KernelNs: 60, BlockNs: 60, FullNs: 60, Blocks: 20, Occupancy: 4}
	slow, coarse, wide, busy, alone := fits, fits, fits, fits, fits
	slow.BlockNs, slow.FullNs, slow.KernelNs = 100, 100, 100
	coarse.Occupancy = 1
	wide.Blocks = 41
	quick := fits
	quick.KernelNs, quick.Blocks = 40, 22
	busy.FullNs = 240 // two on a unit take 120: it needs a unit for each
	alone.FullNs, alone.Blocks = 240, 21
	rest, later := wide, fits
	rest.Blocks = 100
	later.Done = 15
	pad := func(queue, version, units, from, blocks int) sched.Padding {
		return sched.Padding{Queue: queue, Version: version, Units: units, From: from, Blocks: blocks}
	}
	for _, c := range []struct {
		name  string
		heads [][]sched.Version
		want  []sched.Padding
	}{
		{"nothing queued", [][]sched.Version{nil, nil}, nil},
		{"one that fits is spread over what is free", [][]sched.Version{{fits}}, []sched.Padding{pad(0, 0, 20, 0, 20)}},
		{"rule 1", [][]sched.Version{{slow}}, nil},
		{
			"rule 1 where it is packed, not where a unit is full",
			[][]sched.Version{{busy}, {fits}},
			[]sched.Padding{pad(0, 0, 20, 0, 20)},
		},
		{
			"rule 1 where it is packed: as many blocks as have a unit of their own",
			[][]sched.Version{{alone}, {fits}},
			[]sched.Padding{pad(0, 0, 20, 0, 20)},
		},
		{"rule 2 asks for what the real-time kernel has on a unit", [][]sched.Version{{coarse}}, []sched.Padding{pad(0, 0, 20, 0, 20)}},
		{"as many blocks as there is room for", [][]sched.Version{{rest}}, []sched.Padding{pad(0, 0, 20, 0, 40)}},
		{"the blocks behind those", [][]sched.Version{{later}}, []sched.Padding{pad(0, 0, 5, 15, 5)}},
		{"until the room is taken", [][]sched.Version{{fits}, nil, {fits}, {fits}}, []sched.Padding{pad(0, 0, 10, 0, 20), pad(2, 0, 10, 0, 20)}},
		{"the quickest version that may, and what it leaves", [][]sched.Version{{slow, fits, quick, coarse}}, []sched.Padding{pad(0, 2, 20, 0, 22)}},
	} {
		if got := sched.Pad(&rt, 60, c.heads, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
	full := rt
	full.Blocks = 120
	if got := sched.Pad(&full, 60, [][]sched.Version{{fits}}, nil); got != nil {
		t.Errorf("beside a kernel that fills the device: %v", got)
	}
}

// For any arguments both rules hold where blocks are placed, and no unit is given twice.
func TestPadRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	padded, parts := 0, 0
	for range 3000 {
		rt := versions(rng, 1)[0]
		rt.Blocks = 1 + rng.IntN(200)
		var heads [][]sched.Version
		for range rng.IntN(6) {
			heads = append(heads, versions(rng, rng.IntN(11)))
			for i := range heads[len(heads)-1] {
				v := &heads[len(heads)-1][i]
				v.Done = rng.IntN(v.Blocks)
			}
		}
		waves := (rt.Blocks + 59) / 60
		if reserve := rt.Reserve(60); reserve < 60 && (reserve*waves < rt.Blocks || waves > rt.Occupancy) {
			t.Fatalf("%+v keeps %d units, which do not end it in %d waves", rt, reserve, waves)
		}
		left := 60 - rt.Reserve(60)
		for _, p := range sched.Pad(&rt, 60, heads, nil) {
			v := &heads[p.Queue][p.Version]
			per := (p.Blocks + p.Units - 1) / p.Units
			together := min(per, v.Occupancy, rt.Occupancy)
			if left -= p.Units; left < 0 || p.Units > p.Blocks || p.From != v.Done || p.Blocks < 1 || p.From+p.Blocks > v.Blocks {
				t.Fatalf("%+v beside %+v: %+v, %d units left", v, rt, p, left)
			}
			if v.Occupancy < waves || v.BlockNs >= rt.KernelNs || together < 1 {
				t.Fatalf("%+v beside %+v in %d waves: %+v", v, rt, waves, p)
			}
			padded++
			if p.Blocks < v.Blocks {
				parts++
			}
		}
	}
	if padded < 1000 || parts < 500 {
		t.Errorf("%d kernels were padded, of %d of them parts", padded, parts)
	}
}

func versions(rng *rand.Rand, n int) (out []sched.Version) {
	for range n {
		block := 5_000 + rng.Int64N(100_000)
		out = append(out, sched.Version{
			KernelNs: block * (1 + rng.Int64N(3)), BlockNs: block, FullNs: block * (1 + rng.Int64N(3)), Blocks: 1 + rng.IntN(200),
			Threads: 32 << rng.IntN(5), Regs: 16 + rng.IntN(200), Shared: rng.IntN(4) << 13, Occupancy: 1 + rng.IntN(10),
		})
	}
	return out
}

// Each removed version is dominated by a remaining one, and no remaining one is dominated.
func TestPrune(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	atMost := func(a, b sched.Version) bool {
		return a.KernelNs <= b.KernelNs && a.BlockNs <= b.BlockNs && a.FullNs <= b.FullNs && a.Regs <= b.Regs &&
			a.Shared <= b.Shared && a.Threads <= b.Threads && a.Blocks <= b.Blocks
	}
	for range 200 {
		all := versions(rng, 1+rng.IntN(40))
		all = append(all, all[0]) // equal versions do not dominate each other
		kept := sched.Prune(all)
		for _, v := range all {
			if !slices.ContainsFunc(kept, func(k sched.Version) bool { return atMost(k, v) }) {
				t.Fatalf("%+v is gone and nothing kept is as good", v)
			}
		}
		for i, v := range kept {
			for j, k := range kept {
				if i != j && atMost(k, v) && !atMost(v, k) {
					t.Fatalf("%+v is kept beside %+v", v, k)
				}
			}
		}
	}
}

// Section 6.5: 1.2 us for five clients with ten versions each. Beside any kernel, and beside long kernels that leave
// units free, so that every queue is examined and most give blocks.
func BenchmarkPad(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	any, room := versions(rng, 64), versions(rng, 64)
	for i := range room {
		room[i].Blocks, room[i].Occupancy, room[i].BlockNs, room[i].FullNs, room[i].KernelNs = 1+i%16, 1, 1e6, 1e6, 1e6
	}
	var heads [][]sched.Version
	for range 5 {
		heads = append(heads, versions(rng, 10))
	}
	for name, rts := range map[string][]sched.Version{"any": any, "room": room} {
		b.Run(name, func(b *testing.B) {
			buf := make([]sched.Padding, 0, 8)
			b.ReportAllocs()
			padded, n := 0, 0
			for i := 0; b.Loop(); i++ {
				buf = sched.Pad(&rts[i%64], 60, heads, buf[:0])
				padded, n = padded+len(buf), n+1
			}
			b.ReportMetric(float64(padded)/float64(n), "padded/op")
		})
	}
}

// No allocation for a kernel.
func TestPadAllocates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rt := versions(rng, 1)[0]
	rt.Blocks, rt.Occupancy = 10, 1
	var heads [][]sched.Version
	for range 5 {
		heads = append(heads, versions(rng, 10))
	}
	buf := make([]sched.Padding, 0, 8)
	if n := testing.AllocsPerRun(100, func() { buf = sched.Pad(&rt, 60, heads, buf[:0]) }); n != 0 || len(buf) == 0 {
		t.Errorf("%v allocations, %d kernels padded", n, len(buf))
	}
}
