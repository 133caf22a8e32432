package jellyfish

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

var (
	seed = flag.Uint64("seed", 1, "of the random instances")
	n    = flag.Int("n", 1000, "random instances")
)

// The zoo contains the values in the publication's text.
func TestSynthetic(t *testing.T) {
	z := Synthetic(1)
	if len(z) != 16 || z[0].Side != 128 || z[15].Side != 608 || len(z[0].P99) != 12 {
		t.Fatalf("%d networks, %d to %d, batches up to %d", len(z), z[0].Side, z[len(z)-1].Side, len(z[0].P99))
	}
	for _, c := range []struct {
		net, batch int
		ms         float64
	}{{0, 1, 23}, {0, 4, 32}, {3, 3, 33}, {9, 1, 31}} {
		if got := float64(z[c.net].P99[c.batch-1]) / 1e6; math.Abs(got-c.ms) > 0.001 {
			t.Errorf("network %d at batch %d: %.4f ms, expected %g", c.net, c.batch, got, c.ms)
		}
	}
	for net, kb := range map[int]float64{0: 10, 7: 56, 15: 130} {
		if got := float64(z[net].Bytes) / 1e3; got != kb {
			t.Errorf("network %d: frames of %g kB, expected %g", net, got, kb)
		}
	}
	for j := 1; j < len(z); j++ {
		if z[j].Accuracy <= z[j-1].Accuracy || z[j].Bytes <= z[j-1].Bytes || z[j].P99[0] <= z[j-1].P99[0] {
			t.Errorf("network %d is no larger than %d", j, j-1)
		}
	}
	if z[9].P99[0] != Synthetic(2)[9].P99[0]/2 {
		t.Error("twice as slow is not twice as slow")
	}
}

// Measured latencies are made monotone; networks that are larger but not better are removed.
func TestNewZoo(t *testing.T) {
	z, err := NewZoo([]Net{
		{Name: "c", Side: 3, Bytes: 30, Accuracy: 0.2, P99: []Time{40, 50}},
		{Name: "a", Side: 1, Bytes: 10, Accuracy: 0.1, P99: []Time{20, 30}},
		{Name: "b", Side: 2, Bytes: 20, Accuracy: 0.15, P99: []Time{25, 24}},
		{Name: "d", Side: 4, Bytes: 40, Accuracy: 0.2, P99: []Time{45, 55}},
	})
	if err != nil || len(z) != 3 || z[1].P99[1] != 30 || z[2].Name != "c" {
		t.Errorf("%v, %v", z, err)
	}
	// A faster and more accurate network replaces those before it; its latency is not raised to that of a worse one.
	z, err = NewZoo([]Net{
		{Name: "a", Side: 1, Bytes: 10, Accuracy: 0.1, P99: []Time{20, 30}},
		{Name: "b", Side: 2, Bytes: 20, Accuracy: 0.2, P99: []Time{50, 60}},
		{Name: "c", Side: 3, Bytes: 30, Accuracy: 0.3, P99: []Time{45, 55}},
		{Name: "d", Side: 4, Bytes: 40, Accuracy: 0.4, P99: []Time{30, 40}},
		{Name: "e", Side: 5, Bytes: 50, Accuracy: 0.5, P99: []Time{25, 50}}, // faster only at batch 1
	})
	if err != nil || len(z) != 3 || z[1].Name != "d" || z[1].P99[0] != 30 || z[2].P99[0] != 30 || z[2].P99[1] != 50 {
		t.Errorf("%v, %v", z, err)
	}
	for _, bad := range [][]Net{
		nil,
		{{Name: "", Side: 1, Bytes: 1, Accuracy: 0.5, P99: []Time{1}}},
		{{Name: "a", Side: 1, Bytes: 1, Accuracy: 0.5, P99: []Time{1}}, {Name: "a", Side: 2, Bytes: 1, Accuracy: 0.6, P99: []Time{2}}},
		{{Name: "a", Side: 1, Bytes: 1, Accuracy: math.NaN(), P99: []Time{1}}},
		{{Name: "a", Side: 1, Bytes: 1, Accuracy: 0.5, P99: []Time{0}}},
		{{Name: "a", Side: 1, Bytes: 1, Accuracy: 0.5, P99: []Time{1}}, {Name: "b", Side: 2, Bytes: 1, Accuracy: 0.6, P99: []Time{1, 2}}},
	} {
		if _, err := NewZoo(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// Figure 5: at batch 3 the network serves 80 requests a second, and three clients, which send 40, in time. At batch 2
// it serves 60, and all five clients in time; {c1, c2, c4, c5} send exactly 60.
func TestFiveClients(t *testing.T) {
	zoo := Zoo{{Name: "m", Side: 1, Bytes: 1, Accuracy: 1, P99: []Time{25e6, 33_333_333, 37_500_000}}}
	clients := []Client{{20, 80e6, 1e9}, {15, 79e6, 1e9}, {5, 78e6, 1e9}, {15, 70e6, 1e9}, {10, 69e6, 1e9}}
	p, err := NewProblem(zoo, clients, 1, Share(1))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint8{3, 3, 3, 2, 2} {
		if p.most[0][i] != want {
			t.Errorf("c%d: batch %d, expected %d", i+1, p.most[0][i], want)
		}
	}
	if p.h != 5 || p.room[0][2] != 65/5 && p.room[0][2] != 80/5 || p.room[0][1] != 60/5 {
		t.Errorf("steps of %d: %v", p.h, p.room[0])
	}
	for _, tie := range []Tie{Ample, Tight} {
		var m Mapping
		NewMapper(p).Map([]Kind{{0, 1}}, tie, &m)
		sum := 0
		for i, w := range m.Worker {
			if w == 0 {
				sum += clients[i].Rate
			}
		}
		if sum != 60 || m.Batch[0] != 2 || m.Worker[2] != -1 || m.Mapped != 4 {
			t.Errorf("tie %d: a total of %d at batch %d, %v", tie, sum, m.Batch[0], m.Worker)
		}
	}
}

// draw is a random instance.
func draw(rng *rand.Rand, zoo Zoo, workers, clients int, rates []int, t testing.TB) *Problem {
	var c []Client
	for range clients {
		c = append(c, Client{rates[rng.IntN(len(rates))], []Time{75e6, 100e6, 150e6}[rng.IntN(3)], 7.5e6 + rng.Float64()*42.5e6})
	}
	p, err := NewProblem(zoo, c, workers, Aligned)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// For one network, the result is the largest sum of rates over all client sets and batches, in any unit of rates; and
// it can be served.
func TestMapIsOptimal(t *testing.T) {
	t.Logf("--seed %d --n %d", *seed, *n)
	zoo := Synthetic(1)
	for k := range *n {
		rng := rand.New(rand.NewPCG(*seed, uint64(k)))
		rates := []int{10, 15, 25}
		if k%2 == 1 { // steps of one, and sums larger than a machine word
			rates = []int{1 + rng.IntN(9), 7, 11 + rng.IntN(60), 64}
		}
		p := draw(rng, zoo, 1, 1+rng.IntN(10), rates, t)
		net := rng.IntN(len(zoo))
		best := 0
		for set := range 1 << len(p.Clients) {
			sum, budget := 0, Time(math.MaxInt64)
			for i := range p.Clients {
				if set>>i&1 == 1 {
					sum += p.Clients[i].Rate
					budget = min(budget, Aligned(&p.Clients[i], zoo, net))
				}
			}
			for b, l := range zoo[net].P99 {
				if 2*l <= budget && Time(sum)*l <= Time(b+1)*1e9 {
					best = max(best, sum)
				}
			}
		}
		for _, tie := range []Tie{Ample, Tight} {
			var m Mapping
			NewMapper(p).Map([]Kind{{net, 1}}, tie, &m)
			sum := 0
			for i, w := range m.Worker {
				if w < 0 {
					continue
				}
				sum += p.Clients[i].Rate
				if l := zoo[net].P99[m.Batch[0]-1]; 2*l > Aligned(&p.Clients[i], zoo, net) {
					t.Fatalf("instance %d: client %d cannot be served in a batch of %d", k, i, m.Batch[0])
				}
			}
			if sum > 0 && Time(sum)*zoo[net].P99[m.Batch[0]-1] > Time(m.Batch[0])*1e9 {
				t.Fatalf("instance %d: %d/s at batch %d", k, sum, m.Batch[0])
			}
			if sum != best {
				t.Fatalf("instance %d, tie %d, network %d: %d/s, the best is %d/s", k, tie, net, sum, best)
			}
		}
	}
}

// A selection gives equal results for equal arguments, maps all clients if the smallest networks could, and its
// accuracy is that of its mapping.
func TestSelect(t *testing.T) {
	zoo := Synthetic(1)
	for k := range 40 {
		rng := rand.New(rand.NewPCG(*seed, 1000+uint64(k)))
		workers := []int{1, 2, 4, 6}[k%4]
		p := draw(rng, zoo, workers, workers*5, []int{10, 15, 25}, t)
		var small Mapping
		m := NewMapper(p)
		m.Map(make([]Kind, workers), Ample, &small)
		for _, s := range []Selector{Annealing{}, Search{}} {
			previous := []int{15, 3}
			c, again := s.Select(p, previous, 7), s.Select(p, previous, 7)
			if c.Mapping.Accuracy != again.Mapping.Accuracy || c.Tried != again.Tried {
				t.Errorf("%s, instance %d: %v, then %v", s.Name(), k, c, again)
			}
			sum := 0.0
			for i, w := range c.Mapping.Worker {
				if w >= 0 {
					sum += zoo[c.Nets[w]].Accuracy * float64(p.Clients[i].Rate)
				}
			}
			if math.Abs(sum/float64(p.sum)-c.Mapping.Accuracy) > 1e-9 {
				t.Errorf("%s, instance %d: accuracy %g, by its mapping %g", s.Name(), k, c.Mapping.Accuracy, sum/float64(p.sum))
			}
			if s.Name() == "search" && c.Mapping.Mapped < small.Mapped {
				t.Errorf("%s, instance %d: %d mapped, the smallest networks map %d", s.Name(), k, c.Mapping.Mapped, small.Mapped)
			}
			for i := range c.Nets {
				if i > 0 && c.Nets[i] > c.Nets[i-1] {
					t.Errorf("%s: %v is in no order", s.Name(), c.Nets)
				}
			}
		}
	}
}

// The annealing with its constants: from 0.0125 to 0.0005 by factors of 0.99 are 321 temperatures, ln(25) / -ln(0.99)
// and one; as many sets are tried per mode, including the first. A set that is worse by d is accepted with exp(-d/T):
// at T 0.0125 and d 0.0125 in 0.368 of all draws, at T 0.0005 practically never.
func TestAnnealingByHand(t *testing.T) {
	a := Annealing{}.constants()
	if a != (Annealing{0.0125, 0.0005, 0.99}) {
		t.Errorf("constants %+v", a)
	}
	// Two networks and clients without time: neither DEGRADE nor UPGRADE ends early, because the last worker never
	// keeps the larger network long enough (the listing ends its mode when it does).
	zoo := Zoo{{Name: "s", Side: 1, Bytes: 1, Accuracy: 0.5, P99: []Time{25e6}}, {Name: "l", Side: 2, Bytes: 2, Accuracy: 0.6, P99: []Time{26e6}}}
	p, err := NewProblem(zoo, []Client{{Rate: 10, SLO: 1e6, Bandwidth: 1e9}}, 1, Aligned)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for at := 0.0125; at > 0.0005; at *= 0.99 {
		steps++
	}
	if want := int(math.Ceil(math.Log(25) / -math.Log(0.99))); steps != want || steps != 321 {
		t.Errorf("%d temperatures, by hand %d", steps, want)
	}
	c := Annealing{}.Select(p, nil, 1)
	if c.Tried <= 1+steps || c.Tried > 1+2*steps {
		t.Errorf("%d sets tried; DEGRADE alone tries %d", c.Tried, steps)
	}
	for _, c := range []struct{ diff, temperature, share float64 }{
		{0.001, 0.0005, 1}, {0, 0.0005, 1}, {-0.0125, 0.0125, math.Exp(-1)}, {-0.00625, 0.0125, math.Exp(-0.5)}, {-0.0125, 0.0005, 0},
	} {
		rng, taken := rand.New(rand.NewPCG(*seed, 3)), 0
		const draws = 20_000
		for range draws {
			if accept(c.diff, c.temperature, rng) {
				taken++
			}
		}
		if got := float64(taken) / draws; math.Abs(got-c.share) > 0.015 {
			t.Errorf("a difference of %g at %g is taken in %.3f, by hand %.3f", c.diff, c.temperature, got, c.share)
		}
	}
}

func TestMatch(t *testing.T) {
	at := Match([]int{3, 9, 5}, []int{10, 6, 2})
	for i, want := range []int{1, 2, 0} {
		if at[i] != want {
			t.Fatalf("workers %v, expected 1, 2, 0", at)
		}
	}
	for _, c := range []struct{ net, n, a, b int }{{7, 3, 6, 8}, {0, 3, 1, 2}, {15, 5, 14, 11}} {
		out := Neighbours(16, c.net, c.n)
		if len(out) != c.n || out[0] != c.net || out[1] != c.a || out[c.n-1] != c.b {
			t.Errorf("neighbours of %d: %v", c.net, out)
		}
	}
	if len(Neighbours(2, 1, 5)) != 2 {
		t.Error("more neighbours than networks")
	}
}

// A decision with 16 workers and 160 clients.
func BenchmarkSelect(b *testing.B) {
	zoo := Synthetic(1)
	p := draw(rand.New(rand.NewPCG(1, 1)), zoo, 16, 160, []int{10, 15, 25}, b)
	for _, s := range []Selector{Annealing{}, Search{}} {
		b.Run(s.Name(), func(b *testing.B) {
			for i := range b.N {
				q, _ := NewProblem(zoo, p.Clients, 16, Aligned)
				s.Select(q, []int{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, uint64(i))
			}
		})
	}
}
