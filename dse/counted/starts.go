package counted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Starts is the output of `dse validate --starts --out`. It contains the counted cycles of whole segments of networks
// on the RTL. Each segment is one start. Equal geometries are stored once.
type Starts struct {
	RTL        string      `json:"rtl"` // Sources of the NPU that was measured
	Geometries []cost.Geom `json:"geometries"`
	Starts     []Start     `json:"starts"`
}

// Start is one start with its counted cycles.
type Start struct {
	Network   string         `json:"network"` // with the side of the input, if it differs from that of the file
	Config    string         `json:"config"`
	Bandwidth float64        `json:"bytes_per_cycle"`
	Latency   int            `json:"latency_cycles,omitzero"` // latency of the DRAM; 0: as in the configuration
	Batch     int            `json:"batch"`
	First     int            `json:"first"` // index of the first layer in the network
	Cycles    int64          `json:"cycles"`
	Stalls    machine.Stalls `json:"stalls,omitzero"`     // absent in older files
	Layers    []int          `json:"layers"`              // by layer: index into Geometries
	Entries   []uint32       `json:"entries"`             // by layer: word of the FBCB
	RowBytes  []int          `json:"row_bytes,omitempty"` // by layer: 0 if rows are contiguous; absent in older files
}

// Add appends the start x with the layers in chain.
func (s *Starts) Add(x Start, chain []Step) error {
	for _, step := range chain {
		i := slices.Index(s.Geometries, step.Geom)
		if i < 0 {
			i = len(s.Geometries)
			s.Geometries = append(s.Geometries, step.Geom)
		}
		e, err := step.Entry.Encode()
		if err != nil {
			return err
		}
		x.Layers, x.Entries, x.RowBytes = append(x.Layers, i), append(x.Entries, e), append(x.RowBytes, step.RowBytes)
	}
	s.Starts = append(s.Starts, x)
	return nil
}

// ReadStarts reads a file of Starts. It returns each start as a Layer, with the field Law set to the current result of
// the law. The parameter own is the same as in Read.
func ReadStarts(r io.Reader, own ...configs.Design) (rtl string, all []Layer, err error) {
	var s Starts
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	for i, x := range s.Starts {
		l := Layer{Config: x.Config, Bandwidth: x.Bandwidth, Latency: x.Latency, Stalls: x.Stalls, Network: x.Network, Batch: x.Batch, Cycles: x.Cycles, Layer: fmt.Sprintf("%d layers from %d", len(x.Layers), x.First)}
		if len(x.Entries) != len(x.Layers) {
			return "", nil, fmt.Errorf("%w: start %d has %d layers and %d entries", ErrFile, i, len(x.Layers), len(x.Entries))
		}
		for j, g := range x.Layers {
			e, err := abi.DecodeFBCB(x.Entries[j])
			if err != nil || g < 0 || g >= len(s.Geometries) {
				return "", nil, fmt.Errorf("%w: start %d, layer %d: %w", ErrFile, i, j, cmp.Or(err, fmt.Errorf("geometry %d of %d", g, len(s.Geometries))))
			}
			step := Step{Geom: s.Geometries[g], Entry: e}
			if len(x.RowBytes) == len(x.Layers) {
				step.RowBytes = x.RowBytes[j]
			}
			l.Chain = append(l.Chain, step)
		}
		if err := l.judge(own); err != nil {
			return "", nil, fmt.Errorf("%w: start %d: %w", ErrFile, i, err)
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return "", nil, fmt.Errorf("%w: not a file of dse validate --starts", ErrFile)
	}
	return s.RTL, all, nil
}

// StartBand is the law's error band for a network's counted starts on a configuration and memory. Network is "" for all
// networks, and Config is "" for all configurations.
type StartBand struct {
	Config    string  `json:"config"`
	Bandwidth float64 `json:"bytes_per_cycle"`
	Network   string  `json:"network"`
	N         int     `json:"n"`
	Band
}

// BandsOf returns the bands of starts, sorted by configuration, memory and network.
func BandsOf(all []Layer) (out []StartBand) {
	type key struct {
		config    string
		bandwidth float64
		network   string
	}
	groups := map[key][]Layer{}
	for _, l := range all {
		for _, k := range []key{{}, {"", 0, l.Network}, {l.Config, l.Bandwidth, ""}, {l.Config, l.Bandwidth, l.Network}} {
			groups[k] = append(groups[k], l)
		}
	}
	for k, some := range groups {
		s := Summarise(some)
		out = append(out, StartBand{k.config, k.bandwidth, k.network, s.N, Band{s.Mean, s.Worst}})
	}
	slices.SortFunc(out, func(a, b StartBand) int {
		return cmp.Or(cmp.Compare(a.Config, b.Config), cmp.Compare(a.Bandwidth, b.Bandwidth), cmp.Compare(a.Network, b.Network))
	})
	return out
}

// Stated is the error band for the cycles of a network on a design, and the bands of network layers and random layers.
// The band is measured on the first existing group of counted starts: the network's starts on this configuration and
// memory, all starts on this configuration and memory, the network's starts on all configurations, all starts. Counted
// is true for the first two groups. A user's network gets the larger of two bands: of random layers, and of all starts.
type Stated struct {
	StartBand
	Counted  bool `json:"counted"`
	Own      bool `json:"own"`
	Networks Band `json:"layers_of_networks"`
	Random   Band `json:"random_layers"`
}

func (s Stated) String() string {
	switch {
	case s.Own:
		return fmt.Sprintf("nothing of it was counted; random layers and other networks are off, on average/at worst, by at most %v", s.Band)
	case !s.Counted:
		its := ""
		if s.Network != "" {
			its = "its "
		}
		return fmt.Sprintf("not counted on this design at this memory; %s%d starts elsewhere are off, on average/at worst, by %v", its, s.N, s.Band)
	case s.Network != "":
		return fmt.Sprintf("its %d starts counted on this design at this memory are off, on average/at worst, by %v", s.N, s.Band)
	}
	return fmt.Sprintf("%d starts of other networks counted on this design at this memory are off, on average/at worst, by %v", s.N, s.Band)
}

// latency is the latency of the DRAM in cycles with which starts and layers were counted.
const latency = 100

// Of returns the band of a network on a design. The parameter `own` reports that the network is not from the zoo.
func Of(d configs.Design, network string, own bool) (s Stated, err error) {
	all, err := read()
	b := all.of(d.Int8())
	s.Networks, s.Random, s.Own = b.Layers[0], b.Layers[1], own
	if own {
		s.Band = s.Random
	}
	for _, x := range b.Starts { // from general to specific; here: on this design and memory
		if own {
			if x.Config == "" && x.Network == "" { // the band is at least that of the zoo's starts
				s.Band = Band{max(s.Random.Mean, x.Mean), max(s.Random.Worst, x.Worst)}
			}
			continue
		}
		here := x.Config == d.Name && d.OwnName() == nil && x.Bandwidth == d.DRAM.BytesPerCycle && d.DRAM.LatencyCycles == latency
		if (x.Config == "" || here) && (x.Network == "" || x.Network == network) {
			s.StartBand, s.Counted = x, here
		}
	}
	return s, err
}
