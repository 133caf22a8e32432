package verify

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/npu"
)

// Each seed of a network draws its own memory; all drawn memories are legal, and all kinds occur.
func TestDrawMemory(t *testing.T) {
	designs, err := loadDesigns("v13")
	if err != nil {
		t.Fatal(err)
	}
	d := designs[0]
	first, again := drawMemory(7, d), drawMemory(7, d)
	if first.String() != again.String() {
		t.Errorf("seed 7 draws %v and %v", &first, &again)
	}
	var total Memories
	ports, dirs, deep := map[uint8]bool{}, map[npu.FaultDir]bool{}, 0
	for seed := range uint64(400) {
		m := drawMemory(seed, d)
		total.add(&m)
		if m.Reads < 1 || m.Reads > 16 || m.Writes < 1 || m.Writes > 16 {
			t.Fatalf("seed %d: %v", seed, &m)
		}
		if m.Reads == 16 && m.Writes == 16 {
			deep++
		}
		for _, f := range m.stalls {
			ports[f.Port], dirs[f.Dir] = true, true
			if f.Kind != npu.FaultDelay || f.First < 1 || f.Count < 1 || f.Delay < 1 || f.Delay > 3000 {
				t.Fatalf("seed %d: %+v", seed, f)
			}
		}
	}
	full := float64(d.NAXI * d.AXIBytes)
	if total.BytesPerCycle[0] < full/16 || total.BytesPerCycle[1] > full || total.BytesPerCycle[1] < 10*total.BytesPerCycle[0] {
		t.Errorf("bandwidths %v, want most of %v to %v", total.BytesPerCycle, full/16, full)
	}
	if total.Latency[0] != 1 || total.Latency[1] < 250 || total.Latency[1] > 300 || total.Stalls < 400 {
		t.Errorf("%+v", total)
	}
	if len(ports) != d.NAXI+1 || len(dirs) != 3 || deep < 150 || deep > 300 {
		t.Errorf("ports %v, directions %v, %d of 400 with 16 bursts", ports, dirs, deep)
	}
}

// The final output of a build with checkers fills bins; an unknown bin is an error.
func TestCheckerCounts(t *testing.T) {
	designs, err := loadDesigns("tiny", "v13")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCoverage(designs)
	if err := c.AddCheckerCounts(designs[1], "cover: port_stall ar.0 1"); err == nil {
		t.Error("a bin that is none is counted")
	}
	c.Checked(designs[1])
	said := "something else\ncover: port_stall ar.3 5\ncover: arbitration weights>residual 7\ncover: arbitration weights>residual 2\ncover: drain queue_full 3\n"
	if err := c.AddCheckerCounts(designs[1], said); err != nil {
		t.Fatal(err)
	}
	if c.hits[covPorts]["v13.ar.3"] != 5 || c.hits[covClients]["weights>residual"] != 9 || c.hits[covDrain]["v13.queue_full"] != 3 {
		t.Errorf("%v", c.hits)
	}
	missing := strings.Join(c.Missing(), " ")
	if !strings.Contains(missing, "port_stall/v13.w.3") || strings.Contains(missing, "port_stall/tiny") || strings.Contains(missing, "v13.ar.3") {
		t.Errorf("missing %s", missing)
	}
	for _, bad := range []string{"cover: port_stall ar.9 1", "cover: arbitration weights>weights 1", "cover: port_stall ar.0", "cover: port_stall ar.0 many", "cover: nothing x 1"} {
		if err := c.AddCheckerCounts(designs[1], bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
