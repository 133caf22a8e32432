package compose

import (
	"context"
	"math"

	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/jellyfish"
)

// level is an exit threshold of a network. leave is the share of frames that leave after half of the network, and loss
// the relative loss of accuracy. Both values are assumed.
type level struct {
	name        string
	leave, loss float64
}

// levels returns the levels in descending order of thresholds. The first level is the network without exits.
func levels() []level {
	return []level{{"", 0, 0}, {"@high", 0.3, 0.005}, {"@middle", 0.5, 0.015}, {"@low", 0.7, 0.04}}
}

// with returns each network at each level. In the first half of a network, the batch is whole. In the second half, the
// batch is smaller: its size is the 99th percentile of the number of frames that stay.
func with(zoo []jellyfish.Net, at []level) (out []jellyfish.Net) {
	for _, n := range zoo {
		for i := len(at) - 1; i >= 0; i-- { // lowest threshold first, so that accuracy rises
			l := at[i]
			m := n
			m.Name, m.Accuracy = n.Name+l.name, n.Accuracy*(1-l.loss)
			m.P99 = nil
			for b := 1; b <= len(n.P99); b++ {
				t := float64(n.P99[b-1]) / 2
				if left := survivors(b, 1-l.leave, 0.99); left > 0 {
					t += float64(n.P99[left-1]) / 2
				}
				m.P99 = append(m.P99, jellyfish.Time(t))
			}
			out = append(out, m)
		}
	}
	return out
}

// survivors returns the q-quantile of the number of samples that stay. Each of n samples stays with probability p.
func survivors(n int, p, q float64) int {
	sum := 0.0
	for k := 0; k <= n; k++ {
		c := 1.0
		for i := range k {
			c = c * float64(n-i) / float64(i+1)
		}
		if sum += c * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k)); sum >= q-1e-12 {
			return k
		}
	}
	return n
}

// middle is the index of the network with 352 pixels. This network is used if only thresholds are chosen.
const middle = 7

// thresholds compares three versions of Jellyfish on each kind of link. They choose networks, the thresholds of one
// network, or networks and thresholds.
func thresholds(ns int64) ([]composition, error) {
	plain := jellyfish.Synthetic(1)
	zoos := map[string]jellyfish.Zoo{"jellyfish, networks": plain}
	var err error
	if zoos["jellyfish, thresholds of one"], err = jellyfish.NewZoo(with(plain[middle:middle+1], levels())); err != nil {
		return nil, err
	}
	if zoos["jellyfish, networks and thresholds"], err = jellyfish.NewZoo(with(plain, levels())); err != nil {
		return nil, err
	}
	var out []composition
	for _, link := range []string{"wifi", "lte", "steps"} {
		c := composition{setting: "jellyfish+thresholds/" + link}
		for _, name := range []string{"jellyfish, networks", "jellyfish, thresholds of one", "jellyfish, networks and thresholds"} {
			zoo := zoos[name]
			c.parts = append(c.parts, part{name, func(ctx context.Context, seed uint64) (map[string]float64, error) {
				sys, err := edge.Named("jellyfish+")
				if err != nil {
					return nil, err
				}
				// a worker stores the weights of five networks, and thus all their levels, because levels share weights
				if len(zoo) > len(plain) {
					sys.Prefetch = 5 * len(levels())
				}
				// a run is ten times longer than on a GPU, because links change only once a second
				return overLinks(ctx, &edge.Setting{Zoo: zoo}, sys, link, 10*ns, seed)
			}})
		}
		out = append(out, c)
	}
	return out, nil
}
