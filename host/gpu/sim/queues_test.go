package sim

import (
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// A memset uses no link and no SM. Alone it has the DRAM's speed. Beside a kernel that needs all of it, both have half
// the speed.
func TestMemset(t *testing.T) {
	clear := one(kernel.Kernel{Kind: kernel.Memset, Bytes: 100_000})
	up := one(kernel.Kernel{Kind: kernel.Upload, Bytes: 10_000})
	moving := one(kernel.Kernel{Blocks: 8, BlockNs: 1000, Bytes: 100_000}) // 100 bytes/ns: all there is
	run := func(programs ...*Program) (out []Time) {
		g, _ := New(params())
		var items []*Item
		for _, p := range programs {
			it := item(p, 0, p.Memory(1))
			items = append(items, it)
			g.Launch(g.Stream(0), it)
		}
		at := ended(g.until(1e6))
		for _, it := range items {
			out = append(out, at[it])
		}
		return out
	}
	if at := run(clear); at[0] != 60+1000 {
		t.Errorf("alone it ends at %d, expected 1060", at[0])
	}
	if at := run(clear, up); at[0] != 60+1000 || at[1] != 60+1100 {
		t.Errorf("beside an upload they end at %d and %d, expected 1060 and 1160", at[0], at[1])
	}
	if at := run(clear, moving); at[0] != 60+2000 || at[1] != 60+2000 {
		t.Errorf("beside a kernel that moves as much they end at %d and %d, expected 2060", at[0], at[1])
	}
	// Written when it ends, as a kernel's.
	g, _ := New(params())
	p, err := Load(&kernel.Program{Name: "p", Memory: 8, Exits: []int{0}, Kernels: []kernel.Kernel{
		{Name: "clear", Kind: kernel.Memset, Bytes: 800, Writes: []kernel.Span{{From: 0, To: 8}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := p.Memory(7)
	before := m.Sum()
	g.Launch(g.Stream(0), item(p, 0, m))
	if g.until(1e6); m.Sum() == before {
		t.Error("nothing was written")
	}
}

// With a fence a copy or a memset enters the device queue only after the kernels before it have ended, so an eviction
// finds it in the host queue. Nothing else is held. The fence costs the transfer time, which is no longer hidden.
func TestFence(t *testing.T) {
	for _, kind := range []kernel.Kind{kernel.Memset, kernel.Upload, kernel.Fetch, kernel.Compute} {
		run := func(fence bool) (host int, end Time) {
			p := params()
			p.Fence = fence
			g, _ := New(p)
			long, last := one(kernel.Kernel{Blocks: 1, BlockNs: 5000}), one(kernel.Kernel{Kind: kind, Blocks: 1, BlockNs: 10, Bytes: 1000})
			s := g.Stream(0)
			it := item(last, 0, last.Memory(1))
			g.Launch(s, item(long, 0, long.Memory(1)))
			g.Launch(s, it)
			events := g.until(2000)
			host, _ = g.Queued(s)
			return host, ended(append(events, g.until(1e6)...))[it]
		}
		free, at := run(false)
		held, then := run(true)
		want, later := 1, params().TransferNs
		if kind == kernel.Compute {
			want, later = 0, 0
		}
		if free != 0 || held != want || then != at+later {
			t.Errorf("kind %d: %d in the host queue, ends at %d; behind a fence %d, %d; expected 0, and %d, %d", kind, free, at, held, then, want, at+later)
		}
	}
}

// Streams that share a hardware queue wait for each other in the order of their kernels, even with free SMs; streams on
// other queues do not.
func TestHardwareQueues(t *testing.T) {
	run := func(queues, streams int) (out []Time) {
		p := params()
		p.Hardware = queues
		g, _ := New(p)
		small := one(kernel.Kernel{Blocks: 1, BlockNs: 1000})
		var items []*Item
		for range streams {
			s := g.Stream(0)
			it := item(small, 0, small.Memory(1))
			items = append(items, it)
			g.Launch(s, it)
		}
		at := ended(g.until(1e6))
		for _, it := range items {
			out = append(out, at[it])
		}
		return out
	}
	for i, at := range run(0, 5) {
		if at != 1060 {
			t.Errorf("a queue each: %d ends at %d", i, at)
		}
	}
	for i, at := range run(4, 5) { // the fifth is behind the first
		if want := []Time{1060, 1060, 1060, 1060, 1060 + 30 + 1000}[i]; at != want {
			t.Errorf("four queues: %d ends at %d, expected %d", i, at, want)
		}
	}
	for i, at := range run(1, 3) {
		if want := 1060 + Time(i)*1030; at != want {
			t.Errorf("one queue: %d ends at %d, expected %d", i, at, want)
		}
	}
}

// In steady state launching, transferring, placing and ending a kernel or a memset allocates nothing.
func TestAllocates(t *testing.T) {
	p := params()
	p.Hardware = 2
	g, _ := New(p)
	prog, err := Load(&kernel.Program{Name: "p", Memory: 8, Exits: []int{2}, Kernels: []kernel.Kernel{
		{Blocks: 60, Threads: 256, Issue: 0.5, BlockNs: 700, Bytes: 40_000, Writes: []kernel.Span{{From: 0, To: 8}}},
		{Kind: kernel.Memset, Bytes: 5_000, Writes: []kernel.Span{{From: 0, To: 4}}},
		{Blocks: 3, Threads: 1024, Issue: 1, BlockNs: 400, Reads: []kernel.Span{{From: 0, To: 4}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s := g.Stream(0)
		g.Launch(s, item(prog, 0, prog.Memory(1)))
	}
	var events []Event
	turn := func() {
		events = g.Advance(Never-1, events[:0])
		for _, e := range events {
			e.Item.Parts[0].Kernel = (e.Item.Parts[0].Kernel + 1) % 3
			g.Launch(e.Stream, e.Item)
		}
	}
	for range 1000 {
		turn()
	}
	if n := testing.AllocsPerRun(100, func() { // whole numbers come back: one in thirty shows
		for range 30 {
			turn()
		}
	}); n != 0 {
		t.Errorf("%v allocations in thirty kernels", n)
	}
}
