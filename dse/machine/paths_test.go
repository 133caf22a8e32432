package machine_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The law counts paths through several units with numbers of its own (dse/rtl). Of these starts of random networks it says the
// machine's cycles, and with any of the numbers one larger or smaller it does not of some.
func TestPaths(t *testing.T) {
	text, err := os.ReadFile("testdata/paths.json")
	if err != nil {
		t.Fatal(err)
	}
	var starts []struct {
		Config     string
		Batch      int
		Geometries []cost.Geom
		Entries    []abi.FBCB
	}
	if err := json.Unmarshal(text, &starts); err != nil {
		t.Fatal(err)
	}
	if len(starts) < 5 {
		t.Errorf("%d starts", len(starts))
	}
	for i, s := range starts {
		d, err := configs.Load(s.Config)
		if err != nil {
			t.Fatal(err)
		}
		layers := make([]machine.Layer, len(s.Geometries))
		for l, g := range s.Geometries {
			layers[l] = machine.Layer{Geom: g, Entry: s.Entries[l]}
		}
		r, err := machine.Run(t.Context(), d, layers, s.Batch)
		if err != nil {
			t.Fatal(err)
		}
		times := cost.Walked(d, s.Geometries, s.Batch, s.Entries)
		if law := cost.Sum(d, times); law != r.Cycles {
			t.Errorf("start %d, on %s: law %d, machine %d", i, s.Config, law, r.Cycles)
		}
		for l := range times {
			t.Logf("start %d, layer %d: law %d, machine %d", i, l, times[l].Total, r.Layers[l].Cycles)
		}
	}
}
