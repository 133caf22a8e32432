// Package jellyfish is the scheduler of Nigade et al., "Jellyfish: Timely Inference Serving for Dynamic Edge Networks"
// (RTSS 2022). It selects the networks of the workers and the worker of each client, so that the requests of every
// client meet their deadlines. Zoo and Problem are its inputs. Map is from section IV-B, Annealing from section IV-C,
// Match and Neighbours from section IV-D. Search is not from the publication. Policy connects the parts to the engine.
//
// The package is deterministic and reads no clock. Random choices depend on a seed.
package jellyfish

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Time is in ns.
type Time = int64

// ErrZoo is the error for a zoo that cannot be used.
var ErrZoo = errors.New("zoo")

// ErrClients is the error for clients that cannot be scheduled.
var ErrClients = errors.New("clients")

// Net is a member of the zoo.
type Net struct {
	Name     string
	Side     int     // side of its square input, in pixels
	Accuracy float64 // 0..1, on frames of the network's size
	Bytes    int64   // number of bytes of a compressed frame of the network's size
	P99      []Time  // by batch - 1: 99th percentile of a batch's time
}

// Zoo is a list of networks for one task, smallest first. Accuracy, frame size and latency increase along the list.
type Zoo []Net

// NewZoo sorts nets by size and drops dominated nets. A net is dominated if a smaller net is at least as accurate, or
// if a larger net is more accurate and not slower at any batch. A client with a slow link can still send the small
// frames of a dropped net, because frames may be smaller than the network's input. Then NewZoo raises latencies, so
// that a larger net or batch is never faster. Measured p99 is not always monotone (section VI-A), but the algorithms
// require this.
func NewZoo(nets []Net) (Zoo, error) {
	sorted := slices.Clone(nets)
	slices.SortStableFunc(sorted, func(a, b Net) int { return a.Side - b.Side })
	var z Zoo
	names := map[string]bool{}
	for _, n := range sorted {
		switch {
		case n.Name == "" || names[n.Name]:
			return nil, fmt.Errorf("%w: a network of side %d is called %q: names are expected, each once", ErrZoo, n.Side, n.Name)
		case n.Side < 1 || n.Bytes < 1 || !(n.Accuracy > 0 && n.Accuracy <= 1):
			return nil, fmt.Errorf("%w: %s has a side of %d, frames of %d bytes and an accuracy of %g", ErrZoo, n.Name, n.Side, n.Bytes, n.Accuracy)
		case len(n.P99) == 0 || len(n.P99) != len(sorted[0].P99) || len(n.P99) > 255:
			return nil, fmt.Errorf("%w: %s has latencies of %d batches, expected those of %s: 1..255", ErrZoo, n.Name, len(n.P99), sorted[0].Name)
		case len(z) > 0 && n.Accuracy <= z[len(z)-1].Accuracy:
			names[n.Name] = true
			continue
		}
		names[n.Name] = true
		n.P99 = slices.Clone(n.P99)
		for b := range n.P99 {
			if n.P99[b] <= 0 {
				return nil, fmt.Errorf("%w: %s takes %d ns at batch %d", ErrZoo, n.Name, n.P99[b], b+1)
			}
			if b > 0 {
				n.P99[b] = max(n.P99[b], n.P99[b-1])
			}
		}
		for len(z) > 0 && quick(n.P99, z[len(z)-1].P99) {
			z = z[:len(z)-1]
		}
		for b := range n.P99 {
			if len(z) > 0 {
				n.P99[b] = max(n.P99[b], z[len(z)-1].P99[b])
			}
		}
		if len(z) > 0 {
			n.Bytes = max(n.Bytes, z[len(z)-1].Bytes)
		}
		z = append(z, n)
	}
	if len(z) == 0 || len(z) > 255 {
		return nil, fmt.Errorf("%w: %d networks, expected 1..255", ErrZoo, len(z))
	}
	return z, nil
}

// quick reports whether the times of all batches in a are at most the times in b.
func quick(a, b []Time) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// These constants of Synthetic's latency, in ms, reproduce the four p99 values in the publication's text: network 0 has
// 23 ms at batch 1 and 32 ms at batch 4, network 3 has 33 ms at batch 3 (90 frames a second), network 9 has 31 ms at
// batch 1 (32 frames a second).
const (
	fixedMs   = 20.0
	perFrame  = 2.572373503171968
	perPixels = 0.42762649682803194
	exponent  = 2.529171235547456
)

// SyntheticBatch is B, the largest batch of Synthetic's networks.
const SyntheticBatch = 12

// Synthetic returns a zoo of 16 networks with inputs of 128 to 608 pixels, in steps of 32. Formulas give the profiles,
// because the publication only shows curves, which cannot be read exactly:
//
//	p99(s, b) = 20 ms + b (2.572 ms + 0.4276 ms (s/128)^2.529)     fits the four values in the text
//	frame(s)  = 10 kB + 205.36 B (s-128) + 0.17438 B (s-128)(s-352)  10, 56, 130 kB at 128, 352, 608
//	accuracy  = 0.45 (1 - exp(-s/168))                              41.2 and 43.8 % at 416 and 608
//
// slower is a factor for the latencies: 1 for the publication's two GPUs.
func Synthetic(slower float64) Zoo {
	var nets []Net
	for i := range 16 {
		s := float64(128 + 32*i)
		n := Net{
			Name: fmt.Sprintf("net%d", 128+32*i), Side: 128 + 32*i,
			Bytes:    int64(math.Round(10e3 + 46e3/224*(s-128) + (74e3/256-46e3/224)/480*(s-128)*(s-352))),
			Accuracy: math.Round(0.45*(1-math.Exp(-s/168))*1e6) / 1e6,
		}
		for b := 1; b <= SyntheticBatch; b++ {
			ms := slower * (fixedMs + float64(b)*(perFrame+perPixels*math.Pow(s/128, exponent)))
			n.P99 = append(n.P99, Time(math.Round(ms*1e3))*1000) // rounded to us, so it is the same on every machine
		}
		nets = append(nets, n)
	}
	z, err := NewZoo(nets)
	if err != nil {
		panic(err) // cannot happen: NewZoo accepts the values of the formulas
	}
	return z
}

// Largest returns the largest network with frames of at most that number of bytes. Without such a network it returns 0.
func (z Zoo) Largest(bytes int64) int {
	for j := len(z) - 1; j > 0; j-- {
		if z[j].Bytes <= bytes {
			return j
		}
	}
	return 0
}
