package strait

import (
	"context"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// A user's kernels are served in batches, and the uploads before them are the inputs. The workload determines
// priorities and deadlines. A closed-loop client has one request at a time.
func TestOwn(t *testing.T) {
	f, err := params.Of("l4")
	if err != nil {
		t.Fatal(err)
	}
	one := func(name string, blocks int, input int64) *kernel.Program {
		return &kernel.Program{Name: name, Exits: []int{1}, Memory: 1 << 20, Kernels: []kernel.Kernel{
			{Name: "in", Kind: kernel.Upload, Bytes: input},
			{Name: "conv", Kind: kernel.Compute, Blocks: blocks, Threads: 256, Regs: 64, Issue: 1, BlockNs: 50_000, Bytes: 1 << 20},
		}}
	}
	trace := &load.Trace{Format: "disb", Duration: 100e6, Streams: []load.Stream{
		{Name: "a", Network: "wide", Deadline: 4e6, Times: []int64{0, 1000, 2000, 50e6, 99e6}},
		{Name: "b", Network: "wide", Priority: 1, Times: []int64{5e6}},
		{Name: "c", Network: "wide", Closed: true},
		{Name: "d_rt", Network: "wide", Closed: true},
	}}
	o, err := NewOwn(f, "tensorrt", []*kernel.Program{one("wide", 58, 1<<20), one("wide@2", 116, 1<<21)}, trace, func(alone int64) int64 { return 7 * alone })
	if err != nil {
		t.Fatal(err)
	}
	p := f.Params()
	for i, high := range []int{1, 0, 0, 1} {
		m := &o.models[i]
		tab, err := o.bed.Table(m)
		if err != nil {
			t.Fatal(err)
		}
		if tab.MaxBatch() != 2 || m.Input != 1<<20 || tab.CopyBytes != 1<<20 {
			t.Fatalf("batches up to %d, %d bytes a sample", tab.MaxBatch(), m.Input)
		}
		if wire := int64(float64(1<<20) / p.Up); tab.Copies[0] < wire || tab.Copies[0] > wire+20_000 {
			t.Errorf("an input takes %d ns, %d on the link alone", tab.Copies[0], wire)
		}
		alone, err := o.alone(m)
		if err != nil || alone < tab.Copies[0]+50_000 {
			t.Errorf("alone: %d ns, %v", alone, err)
		}
		want := 7 * alone
		if i == 0 {
			want = 4e6
		}
		if m.Priority != high || m.DeadlineNs != want {
			t.Errorf("%s: priority %d, deadline %d, expected %d and %d", m.Name, m.Priority, m.DeadlineNs, high, want)
		}
	}
	o.ns = 60e6
	for _, system := range []string{"strait", "static", "temporal"} {
		out, err := o.Run(context.Background(), system, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := []int{}
		for i := range out.Clients {
			n = append(n, out.Clients[i].Requests)
		}
		if n[0] != 4 || n[1] != 1 || n[2] < 50 || n[3] < 50 || out.Class[1].Requests != n[0]+n[3] || out.Class[0].Requests != n[1]+n[2] {
			t.Errorf("%s: %v requests; %+v", system, n, out.Class)
		}
		if out.Clients[0].OnTime != 4 || out.Clients[0].Late+out.Clients[0].Dropped != 0 || (out.Model == nil) != (system != "strait") {
			t.Errorf("%s: %+v", system, out.Clients[0].Class)
		}
		if system == "strait" && (len(out.Errors) == 0 || !slices.IsSorted(out.Errors)) {
			t.Errorf("errors %v", out.Errors)
		}
	}
}

// The baselines are those of section 5.1: one, three and four batches on a GPU whose streams have priorities. They wait
// for batches to fill, and drop late requests.
func TestBaselines(t *testing.T) {
	for system, limit := range map[string]int{"temporal": 1, "static": 3, "reactive": 4} {
		policy, mode, err := (&Run{System: system}).system()
		if err != nil {
			t.Fatal(err)
		}
		p, is := policy.(*sched.Sharing)
		if !is || mode != "priority" || p.Limit != limit || p.BMax != MaxBatch || p.Form <= 0 || p.Keep || p.Reactive != (system == "reactive") || p.Lows+p.Instances != 0 {
			t.Errorf("%s: mode %s, %+v", system, mode, policy)
		}
	}
}
