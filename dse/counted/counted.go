// Package counted is what the law of cycles is held to: layers, alone on the NPU, and what its counters
// said. held.json is a sample that the law was not tuned on; how far the law is from it are the bands of
// its estimates, which bands.json keeps, so that nobody but the tests reads the layers.
package counted

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// The law is meant to be off by no more than this share or so many cycles, whichever is more, and on
// average by less. Where it is not, the bands (Kinds) say what it does reach.
const (
	WorstShare  = 0.03
	WorstCycles = 100
	MeanShare   = 0.01
)

// ErrFile is wrapped by errors about a file that does not hold counted layers.
var ErrFile = errors.New("no counted layers")

// Layer is one, law against counter.
type Layer struct {
	Config    string         `json:"config"`
	Bandwidth float64        `json:"bytes_per_cycle"`
	Latency   int            `json:"latency_cycles,omitzero"` // of the DRAM; 0: the configuration's
	Network   string         `json:"network"`                 // "random SEED" for a random layer
	Layer     string         `json:"layer"`
	Batch     int            `json:"batch"`
	Entry     string         `json:"entry"`
	Law       int64          `json:"law_cycles"`
	Cycles    int64          `json:"cycles"`
	Stalls    machine.Stalls `json:"stalls"`
	Chain     []Step         `json:"chain"`

	Stepped *machine.Spent `json:"machine,omitempty"` // what the machine says, where that was asked

	Design configs.Design `json:"-"` // with that bandwidth
}

// Step is a layer of the start that was timed: one, or several that keep tensors on chip.
type Step struct {
	Geom     cost.Geom `json:"geometry"`
	Entry    abi.FBCB  `json:"entry"`
	RowBytes int       `json:"row_bytes,omitzero"` // from an input row to the next, where a view leaves something out; the law does not read it
}

// StepOf is a layer of a bundle under an entry.
func StepOf(l *abi.Desc, e abi.FBCB) Step {
	s := Step{Geom: cost.GeomOf(l), Entry: e}
	row := int(l.InW) * int(l.InPix) * 2
	if l.In8 {
		row /= 2
	}
	if int(l.InRowBytes) != row {
		s.RowBytes = int(l.InRowBytes)
	}
	return s
}

// Law is the cycles of a start of these layers.
func Law(d configs.Design, chain []Step, batch int) int64 {
	layers, entries := make([]cost.Geom, len(chain)), make([]abi.FBCB, len(chain))
	for i, s := range chain {
		layers[i], entries[i] = s.Geom, s.Entry
	}
	cost.InStart(layers)
	return cost.Sum(d, cost.Walked(d, layers, batch, entries))
}

// Share is by how much the law is off, of what was counted.
func (l *Layer) Share() float64 { return float64(l.Law-l.Cycles) / float64(l.Cycles) }

// off tells whether the law is off by a share and by WorstCycles.
func (l *Layer) off(share float64) bool {
	n := math.Abs(float64(l.Law - l.Cycles))
	return n > WorstCycles && n > share*float64(l.Cycles)
}

// Beyond tells whether the law is off by more than is meant.
func (l *Layer) Beyond() bool { return l.off(WorstShare) }

// Int8 tells whether it was counted on an NPU of int8.
func (l *Layer) Int8() bool { return l.Chain[0].Geom.Int8 }

// Random tells whether the layer is of no network.
func (l *Layer) Random() bool { return strings.HasPrefix(l.Network, "random ") }

// Summary of layers.
type Summary struct {
	Mean   float64 `json:"mean"`  // of |law - counter| / counter
	Worst  float64 `json:"worst"` // largest share among those off by more than 100 cycles
	N      int     `json:"n"`
	Beyond int     `json:"beyond"` // off by more than 3 % and 100 cycles
}

// Summarise sums layers up.
func Summarise(all []Layer) Summary {
	s := Summary{N: len(all)}
	for i := range all {
		l := &all[i]
		s.Mean += math.Abs(l.Share()) / float64(len(all))
		if l.Beyond() {
			s.Beyond++
		}
	}
	if l := Worst(all); l != nil {
		s.Worst = math.Abs(l.Share())
	}
	return s
}

// Worst is the layer with the largest share of those off by more than WorstCycles, nil where there is none.
func Worst(all []Layer) (worst *Layer) {
	for i := range all {
		if l := &all[i]; l.off(0) && (worst == nil || math.Abs(l.Share()) > math.Abs(worst.Share())) {
			worst = l
		}
	}
	return worst
}

// By sums layers up by configuration and bandwidth ("zc706/15.3").
func By(all []Layer) map[string]Summary {
	groups := map[string][]Layer{}
	for _, l := range all {
		key := fmt.Sprintf("%s/%g", l.Config, l.Bandwidth)
		groups[key] = append(groups[key], l)
	}
	by := make(map[string]Summary, len(groups))
	for key, some := range groups {
		by[key] = Summarise(some)
	}
	return by
}

// Sort puts layers beyond what is meant first, then those with the largest shares.
func Sort(all []Layer) {
	slices.SortStableFunc(all, func(a, b Layer) int {
		if a.Beyond() != b.Beyond() {
			if a.Beyond() {
				return -1
			}
			return 1
		}
		return cmp.Compare(math.Abs(b.Share()), math.Abs(a.Share()))
	})
}

// File is what `dse validate --out` writes, as far as it is read again.
type File struct {
	RTL    string  `json:"rtl"` // Sources of what counted, of int8 where that counted
	Seed   uint64  `json:"seed"`
	Layers []Layer `json:"layers"`
}

// Read reads such a file; Law of each layer is what the law says now. own are designs that go before those of hw/configs.
func Read(r io.Reader, own ...configs.Design) (File, error) {
	var f File
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if len(f.Layers) == 0 {
		return File{}, fmt.Errorf("%w: not a file of dse validate --out", ErrFile)
	}
	for i := range f.Layers {
		if err := f.Layers[i].judge(own); err != nil {
			return File{}, fmt.Errorf("%w: layer %d: %w", ErrFile, i, err)
		}
	}
	return f, nil
}

// judge fills in Law and Design, and forgets what the machine said.
func (l *Layer) judge(own []configs.Design) (err error) {
	if len(l.Chain) == 0 || l.Cycles < 1 {
		return errors.New("no geometry, or no counters")
	}
	var d configs.Design
	if i := slices.IndexFunc(own, func(d configs.Design) bool { return d.Name == l.Config }); i >= 0 {
		d = own[i]
	} else if d, err = configs.Load(l.Config); err != nil {
		return fmt.Errorf("%w; the file of one of your own goes to --config", err)
	}
	d.DRAM.BytesPerCycle = l.Bandwidth
	if l.Latency != 0 {
		d.DRAM.LatencyCycles = l.Latency
	}
	if err := machine.Check(d, l.Machine(), l.Batch); err != nil {
		return err
	}
	l.Law, l.Design, l.Stepped = Law(d, l.Chain, l.Batch), d, nil
	return nil
}

//go:embed bands.json
var bands []byte

// Bands are those of a type: of layers of networks and of random ones, and those of starts.
type Bands struct {
	Layers [2]Band     `json:"layers"`
	Starts []StartBand `json:"starts"`
}

// stored is what bands.json holds: of int16 and of int8.
type stored struct {
	Bands
	Int8 Bands `json:"int8"`
}

// of are those of a type.
func (s *stored) of(eight bool) *Bands {
	if eight {
		return &s.Int8
	}
	return &s.Bands
}

var read = sync.OnceValues(func() (s stored, err error) {
	if err := json.Unmarshal(bands, &s); err != nil {
		return s, fmt.Errorf("bands.json: %w", err)
	}
	return s, nil
})

// Band is how far the law may be from the counters.
type Band struct {
	Mean  float64 `json:"mean"`  // of the layers of a design, of |law - counter| / counter
	Worst float64 `json:"worst"` // of a layer that is off by more than WorstCycles
}

func (b Band) String() string { return fmt.Sprintf("%.1f/%.1f %%", 100*b.Mean, 100*b.Worst) }

// Kind is layers that have a band of their own.
type Kind struct {
	What   string
	Random bool
	Int8   bool
	Band   Band
	Layers []Layer
}

// Kinds splits layers into those of networks and random ones, of int16 and of int8, with the bands of each.
func Kinds(all []Layer) ([4]Kind, error) {
	b, err := read()
	k := [4]Kind{
		{What: "layers of networks", Band: b.Layers[0]},
		{What: "random layers", Random: true, Band: b.Layers[1]},
		{What: "layers of networks in int8", Band: b.Int8.Layers[0], Int8: true},
		{What: "random layers in int8", Random: true, Band: b.Int8.Layers[1], Int8: true},
	}
	for _, l := range all {
		i := 0
		if l.Random() {
			i++
		}
		if l.Int8() {
			i += 2
		}
		k[i].Layers = append(k[i].Layers, l)
	}
	return k, err
}

// Inside tells whether the law is within the band, of whatever layers there are.
func (k *Kind) Inside() bool {
	s := Summarise(k.Layers)
	return s.Mean <= k.Band.Mean && s.Worst <= k.Band.Worst
}

// Exact counts the layers whose cycles and stalls the machine says as the counters do.
func (k *Kind) Exact() (n int) {
	for i := range k.Layers {
		l := &k.Layers[i]
		if l.Stepped != nil && l.Stepped.Cycles == l.Cycles && l.Waits(l.Stepped.Stalls) {
			n++
		}
	}
	return n
}

// Sources is a hash of what decides about cycles: the RTL that npu_top is made of, comments and spacing aside,
// and the model of the DRAM, of the repository at root; of int8 also what its RTL has in other places or changes.
func Sources(root string, eight bool) (string, error) {
	rtl, err := syn.SourcesIn(root, "npu_top")
	if err != nil {
		return "", err
	}
	files := []string{filepath.Join(root, "sim", "dram.hpp")}
	if eight {
		for _, name := range []string{"*.sv", "npu.patch"} { // hw/rtl/int8/files.sh puts them together
			more, err := filepath.Glob(filepath.Join(root, "hw", "rtl", "int8", name))
			if err != nil {
				return "", err
			}
			files = append(files, more...)
		}
	}
	h := sha256.New()
	fmt.Fprintln(h, rtl)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Machine is the chain as the machine takes it.
func (l *Layer) Machine() (out []machine.Layer) {
	for _, s := range l.Chain {
		out = append(out, machine.Layer{Geom: s.Geom, Entry: s.Entry, RowBytes: s.RowBytes})
	}
	return out
}

// Step is what the machine says of it.
func (l *Layer) Step(ctx context.Context) (machine.Result, error) {
	return machine.Run(ctx, l.Design, l.Machine(), l.Batch)
}

// Waits tells whether the machine's stalls are those counted, as far as they were stored: files without a latency hold those
// of the array at most.
func (l *Layer) Waits(s machine.Stalls) bool {
	if l.Latency == 0 {
		s.Read, s.Write = 0, 0
	}
	return s == l.Stalls || l.Latency == 0 && l.Stalls == machine.Stalls{}
}
