package disb_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/abi"
)

var (
	update = flag.Bool("disb.update", false, "write what the simulated GPU foretells")
	whole  = flag.Bool("disb.whole", false, "foretell all of it again")
)

func h200(t *testing.T) *params.File {
	t.Helper()
	f, err := params.Of("h200")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// On the fake, each system serves a complete workload: every priority request has a latency, other launches are put
// aside or used for padding as the system requires, all resources are freed, and no rule of the driver is violated.
func TestRun(t *testing.T) {
	path, h := fake.Rig(t, fake.Build)
	nvml, err := fake.BuildNVML(fake.Dir())
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64, systems []string) map[string]bench.Row {
		all, err := disb.Run(t.Context(), disb.Config{Library: path, NVML: nvml, Params: h200(t), Shrink: 32, Alones: 20, Seed: seed, Workloads: []string{"A"}, Systems: systems, Looks: 1})
		if err != nil {
			t.Fatal(err)
		}
		if n := h.Open(); n != 0 || len(h.Faults()) != 0 {
			t.Errorf("%d things stay open, faults %v", n, h.Faults())
		}
		rows := map[string]bench.Row{}
		for _, r := range (&bench.Raw{Series: all}).Rows() {
			rows[r.Key] = r
		}
		return rows
	}
	rows := run(1, nil)
	// Whether a priority request meets another launch within 1/32 s depends on the host's threads, so a system that
	// must put one aside gets several runs.
	away := func(rows map[string]bench.Row, system string) bool { return rows["A "+system+" away"].N > 0 }
	holds := func(system string) bool {
		return !slices.Contains([]string{"rt-only", "seq", "streams", "priority"}, system)
	}
	var never []string
	for _, system := range reef.RealSystems() {
		if got := away(rows, system); got && !holds(system) {
			t.Errorf("%s: %d preemptions", system, rows["A "+system+" away"].N)
		} else if !got && holds(system) {
			never = append(never, system)
		}
	}
	for seed := uint64(2); len(never) > 0 && seed < 8; seed++ {
		again := run(seed, never)
		never = slices.DeleteFunc(never, func(system string) bool { return away(again, system) })
	}
	if len(never) > 0 {
		t.Errorf("no preemption under %v", never)
	}
	for _, system := range reef.RealSystems() {
		key := "A " + system
		if l, rt := rows[key+" latency"], rows[key+" rt"]; l.N == 0 || l.Least <= 0 || rt.Median <= 0 {
			t.Errorf("%s: %+v, %+v", key, l, rt)
		}
		if p := rows[key+" throughput"]; p.Median <= 0 {
			t.Errorf("%s: %+v", key, p)
		}
		if p := rows[key+" padded"]; (p.N > 0) != strings.HasPrefix(system, "reef") {
			t.Errorf("%s: padded %v", key, p.Median)
		}
	}
	lines, err := csv.NewReader(bytes.NewReader(disb.File)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	beside := 0
	for _, f := range lines { // its prediction has the same quantity and unit, or there is none
		if f[0] != bench.DISB || f[5] != "32" || !strings.HasPrefix(f[1], "A ") && !strings.HasSuffix(f[1], " alone") {
			continue
		}
		r, ok := rows[f[1]]
		if ok && (strings.HasSuffix(f[1], " preempted") || r.Unit != f[2]) {
			t.Errorf("beside %s, foretold in %s, stands %+v", f[1], f[2], r)
		}
		if ok {
			beside++
		}
	}
	if beside < 30 {
		t.Errorf("%d values stand beside what was foretold", beside)
	}
	// The clock is read before and after each network alone, and before and after each system with the priority
	// network.
	for network, want := range map[string]int{"vgg19": 1 + len(reef.RealSystems()), "resnet152": 1} {
		key := "disb " + network
		before, after, clock := rows[key+" before"], rows[key+" after"], rows[key+" sm clock"]
		if _, moved := rows[key+" moved by"]; before.N != want || after.N != want || clock.N != 2*want || before.Least < 1 || before.Part != bench.Clocks || !moved {
			t.Errorf("looks at the GPU's pace by %s: %+v, %+v, %+v; expected %d", network, before, after, clock, want)
		}
	}
	if r := rows["A rt-only rt"]; math.Abs(r.Median-1) > 1e-9 {
		t.Errorf("of its own, rt-only's latency is %v", r.Median)
	}
}

// Stand-ins have the catalogue's kernels one by one, and multiply as often as the network does.
func TestStandIn(t *testing.T) {
	for _, name := range catalogue.Names() {
		b, err := disb.StandIn(name, 1)
		if err != nil {
			t.Error(err)
			continue
		}
		p, err := catalogue.Program(catalogue.Spec{Network: name}, h200(t).Machine())
		if err != nil {
			t.Fatal(err)
		}
		macs := 0.0
		for i := range b.Layers {
			if l := &b.Layers[i]; b.Names[i] != p.Kernels[i].Name {
				t.Fatalf("%s: kernel %d is %s, the catalogue has %s", name, i, b.Names[i], p.Kernels[i].Name)
			} else if dw := strings.HasPrefix(b.Names[i], "dwconv"); dw || l.Op == abi.OpGEMM {
				each := float64(l.KH) * float64(l.KW)
				if !dw {
					each *= float64(l.InC)
				}
				macs += float64(l.OutH) * float64(l.OutW) * float64(l.OutC) * each
			}
		}
		want, err := catalogue.MACs(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Layers) != len(p.Kernels) || macs < 0.99*want || macs > 1.01*want {
			t.Errorf("%s: %d kernels of %d, %.3g multiplications of %.3g", name, len(b.Layers), len(p.Kernels), macs, want)
		}
	}
	for _, bad := range []int{0, 65} {
		if _, err := disb.StandIn("vgg19", bad); err == nil || !strings.Contains(err.Error(), "1..64") {
			t.Errorf("shrink %d: %v", bad, err)
		}
	}
}

// slow removes from a file of predictions those that the test does not compute again: a network's latencies and
// preemptions, and at full size the workloads and the networks alone.
func slow(was, now []byte) (kept []byte) {
	again := regexp.MustCompile(`^(preemption,.*|latency,` + disb.Networks[1] + ` .*|disb,([B-E] .*|.* alone),[^,]*,[^,]*,[^,]*,1,.*)\n`)
	for line := range bytes.Lines(was) {
		if !again.Match(line) || bytes.Contains(now, line) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// The stored predictions equal those of today's simulated GPU.
func TestForetold(t *testing.T) {
	nets, full := disb.Networks[:1], disb.Quick // the rest takes long
	if *update || *whole {
		nets, full = disb.Networks, nil
	}
	now, err := disb.Prophecy(t.Context(), nets, full)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("foretold.csv", now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile("foretold.csv")
	if full != nil {
		was = slow(was, now)
	}
	if err != nil || string(was) != string(now) {
		t.Errorf("foretold.csv is not what the simulated GPU says (go test ./host/experiments/disb -run Foretold -args -disb.update, where that is meant): %v\n%s", err, first(string(was), string(now)))
	}
	all, err := disb.Foretold("NVIDIA H200", 1)
	if err != nil || all == nil || len(all.Values) == 0 || all.GPU != "H200" || all.Ns != 10e6 || all.Seed != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if other, err := disb.Foretold("NVIDIA A100-SXM4-40GB", 1); other != nil || err != nil {
		t.Errorf("of another GPU: %+v, %v", other, err)
	}
	if none, err := disb.Foretold("NVIDIA H200", 7); err != nil || none.Ns != 0 || none.Values["costs launch"] == 0 || none.Values["disb A reef rt"] != 0 {
		t.Errorf("of a size that nobody asked for: %+v, %v", none, err)
	}
	for key, v := range all.Values {
		if v < 0 || v == 0 && !strings.HasSuffix(key, " best-effort") {
			t.Errorf("%s: %v", key, v)
		}
	}
}

// first is the first line that differs.
func first(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return "one is longer"
}

func TestRefused(t *testing.T) {
	for _, cfg := range []disb.Config{
		{Workloads: []string{"F"}, Shrink: 1, Ns: 1}, {Systems: []string{"orion"}, Shrink: 1, Ns: 1}, {Shrink: 1},
	} {
		cfg.Params = h200(t)
		if _, err := disb.Run(t.Context(), cfg); !errors.Is(err, device.ErrRequest) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
