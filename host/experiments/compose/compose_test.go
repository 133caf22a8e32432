package compose

import (
	"context"
	"testing"

	"github.com/sluice-npu/sluice/host/jellyfish"
)

// Quantiles of a binomial by hand: of two, each staying with 0.3, none stay in 49 %, one or none in 91 %.
func TestSurvivors(t *testing.T) {
	for _, c := range []struct {
		n    int
		p, q float64
		want int
	}{{2, 0.3, 0.49, 0}, {2, 0.3, 0.5, 1}, {2, 0.3, 0.91, 1}, {2, 0.3, 0.92, 2}, {8, 1, 0.99, 8}, {8, 0, 0.99, 0}, {12, 0.5, 0.99, 10}} {
		if got := survivors(c.n, c.p, c.q); got != c.want {
			t.Errorf("of %d with %g, %g: %d, expected %d", c.n, c.p, c.q, got, c.want)
		}
	}
}

// The zoo has exactly the networks that no larger network dominates. A threshold makes no network slower or more
// accurate.
func TestLevels(t *testing.T) {
	plain := jellyfish.Synthetic(1)
	all := with(plain, levels())
	if len(all) != len(plain)*len(levels()) {
		t.Fatalf("%d members", len(all))
	}
	for i := range all {
		n := &plain[i/len(levels())]
		for b := range n.P99 {
			if all[i].P99[b] > n.P99[b] {
				t.Errorf("%s at batch %d takes %d, without a threshold %d", all[i].Name, b+1, all[i].P99[b], n.P99[b])
			}
		}
		if all[i].Accuracy > n.Accuracy {
			t.Errorf("%s is more accurate than %s", all[i].Name, n.Name)
		}
	}
	kept, err := jellyfish.NewZoo(all)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) <= len(plain) || len(kept) == len(all) {
		t.Errorf("%d members of %d are kept", len(kept), len(all))
	}
	for i := range kept {
		for j := i + 1; j < len(kept); j++ {
			beats := kept[j].Accuracy > kept[i].Accuracy
			for b := range kept[i].P99 {
				beats = beats && kept[j].P99[b] <= kept[i].P99[b]
			}
			if beats {
				t.Errorf("%s is kept, though %s is faster and more accurate", kept[i].Name, kept[j].Name)
			}
		}
	}
}

// Exits on boards let Jellyfish miss less, and fluid batching inside less than whole batches.
func TestBoards(t *testing.T) {
	all, err := boards(1e9)
	if err != nil {
		t.Fatal(err)
	}
	miss := map[string]float64{}
	for _, p := range all[2].parts { // steps
		m, err := p.run(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		miss[p.name] = m["miss_rate"]
		t.Logf("%s: %.2f %%, %.2f %% accurate", p.name, m["miss_rate"], m["accuracy"])
	}
	if a, b, c := miss["jellyfish, no exits"], miss["jellyfish, exits"], miss["jellyfish, fluid inside"]; !(c < b && b < a) {
		t.Errorf("missed: without exits %.2f, with them %.2f, with fluid batching inside %.2f %%", a, b, c)
	}
}

// The best network is the one with the highest accuracy in time, and the result names it.
func TestBestOf(t *testing.T) {
	asked := 0
	got, err := bestOf(4, func(net int) (map[string]float64, error) {
		asked++
		return map[string]float64{"on_time_times_accuracy": []float64{20, 31, 30, 0}[net], "miss_rate": float64(10 * net)}, nil
	})
	if err != nil || asked != 4 || got["network"] != 1 || got["miss_rate"] != 10 {
		t.Errorf("%v after %d, %v", got, asked, err)
	}
}
