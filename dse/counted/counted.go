// Package counted compares the law of cycles with measurements: the NPU's counters for layers that ran alone. held.json
// is a sample that was not used to tune the law. The error of the law on this sample is the error band of its
// estimates. bands.json stores the bands, so only tests read the layers.
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

// The law's target is that a layer's error is at most WorstShare of its cycles or WorstCycles, and that the mean error
// is at most MeanShare. If the law misses the target, the bands (Kinds) contain its actual error.
const (
	WorstShare  = 0.03
	WorstCycles = 100
	MeanShare   = 0.01
)

// ErrFile is wrapped by errors about a file without counted layers.
var ErrFile = errors.New("no counted layers")

// Layer is a counted layer with the result of the law.
type Layer struct {
	Config    string         `json:"config"`
	Bandwidth float64        `json:"bytes_per_cycle"`
	Latency   int            `json:"latency_cycles,omitzero"` // latency of the DRAM; 0: as in the configuration
	Network   string         `json:"network"`                 // "random SEED" for a random layer
	Layer     string         `json:"layer"`
	Batch     int            `json:"batch"`
	Entry     string         `json:"entry"`
	Law       int64          `json:"law_cycles"`
	Cycles    int64          `json:"cycles"`
	Stalls    machine.Stalls `json:"stalls"`
	Chain     []Step         `json:"chain"`

	Stepped *machine.Spent `json:"machine,omitempty"` // result of the machine, if requested

	Design configs.Design `json:"-"` // the design with this bandwidth and latency
}

// Step is a layer of the measured start. The start has one layer, or several layers that keep tensors on chip.
type Step struct {
	Geom     cost.Geom `json:"geometry"`
	Entry    abi.FBCB  `json:"entry"`
	RowBytes int       `json:"row_bytes,omitzero"` // distance between input rows, if a view skips some; unused by the law
}

// StepOf returns the step of a layer from its descriptor and entry.
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

// Law returns the law's cycles for a start that runs the layers of chain.
func Law(d configs.Design, chain []Step, batch int) int64 {
	layers, entries := make([]cost.Geom, len(chain)), make([]abi.FBCB, len(chain))
	for i, s := range chain {
		layers[i], entries[i] = s.Geom, s.Entry
	}
	cost.InStart(layers)
	return cost.Sum(d, cost.Walked(d, layers, batch, entries))
}

// Share returns the error of the law as a share of the counted cycles.
func (l *Layer) Share() float64 { return float64(l.Law-l.Cycles) / float64(l.Cycles) }

// off reports whether the error of the law exceeds the given share and also WorstCycles.
func (l *Layer) off(share float64) bool {
	n := math.Abs(float64(l.Law - l.Cycles))
	return n > WorstCycles && n > share*float64(l.Cycles)
}

// Beyond reports whether the error of the law exceeds the target.
func (l *Layer) Beyond() bool { return l.off(WorstShare) }

// Int8 reports whether the layer ran on an int8 NPU.
func (l *Layer) Int8() bool { return l.Chain[0].Geom.Int8 }

// Random reports whether the layer is a random layer, not a layer of a network.
func (l *Layer) Random() bool { return strings.HasPrefix(l.Network, "random ") }

// Summary contains the error of the law over several layers.
type Summary struct {
	Mean   float64 `json:"mean"`  // mean of |law - counter| / counter
	Worst  float64 `json:"worst"` // largest relative error among layers with an error of more than 100 cycles
	N      int     `json:"n"`
	Beyond int     `json:"beyond"` // number of errors above 3 % and 100 cycles
}

// Summarise returns the summary of layers.
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

// Worst returns the layer with the largest relative error and an error above WorstCycles, or nil if no layer has one.
func Worst(all []Layer) (worst *Layer) {
	for i := range all {
		if l := &all[i]; l.off(0) && (worst == nil || math.Abs(l.Share()) > math.Abs(worst.Share())) {
			worst = l
		}
	}
	return worst
}

// By returns summaries by configuration and bandwidth ("zc706/15.3").
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

// Sort sorts the layers: layers that miss the target come first, then layers with larger errors.
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

// File is the part of the output of `dse validate --out` that Read uses.
type File struct {
	RTL    string  `json:"rtl"` // Sources of the NPU that was measured, int16 or int8
	Seed   uint64  `json:"seed"`
	Layers []Layer `json:"layers"`
}

// Read reads a File and sets the field Law of each layer to the current result of the law. Designs in `own` are used
// instead of designs with the same names in hw/configs.
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

// judge sets the fields Law and Design of a layer, and removes the result of package machine.
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

// Bands contains the error bands of one element type: for layers of networks, for random layers, and for starts.
type Bands struct {
	Layers [2]Band     `json:"layers"`
	Starts []StartBand `json:"starts"`
}

// stored is the content of bands.json: the bands of int16 and of int8.
type stored struct {
	Bands
	Int8 Bands `json:"int8"`
}

// of returns the bands of an element type.
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

// Band is the maximum error of the law relative to the counters.
type Band struct {
	Mean  float64 `json:"mean"`  // mean of |law - counter| / counter over the layers of a design
	Worst float64 `json:"worst"` // largest relative error of layers with an error above WorstCycles
}

func (b Band) String() string { return fmt.Sprintf("%.1f/%.1f %%", 100*b.Mean, 100*b.Worst) }

// Kind is a set of layers with its own band.
type Kind struct {
	What   string
	Random bool
	Int8   bool
	Band   Band
	Layers []Layer
}

// Kinds divides layers into four kinds: from networks or random, and int16 or int8. It also sets the band of each kind.
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

// Inside reports whether the errors of the law are within the band.
func (k *Kind) Inside() bool {
	s := Summarise(k.Layers)
	return s.Mean <= k.Band.Mean && s.Worst <= k.Band.Worst
}

// Exact returns the number of layers for which package machine computes the cycles and stalls of the counters.
func (k *Kind) Exact() (n int) {
	for i := range k.Layers {
		l := &k.Layers[i]
		if l.Stepped != nil && l.Stepped.Cycles == l.Cycles && l.Waits(l.Stepped.Stalls) {
			n++
		}
	}
	return n
}

// Sources returns a hash of the files that determine cycles, in the repository at root: the RTL of npu_top, without
// comments and white space, and the model of the DRAM. For int8 it includes the files that replace or patch the RTL.
func Sources(root string, eight bool) (string, error) {
	rtl, err := syn.SourcesIn(root, "npu_top")
	if err != nil {
		return "", err
	}
	files := []string{filepath.Join(root, "sim", "dram.hpp")}
	if eight {
		for _, name := range []string{"*.sv", "npu.patch"} { // hw/rtl/int8/files.sh combines them
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

// Machine returns the layers of the start as input for the machine.
func (l *Layer) Machine() (out []machine.Layer) {
	for _, s := range l.Chain {
		out = append(out, machine.Layer{Geom: s.Geom, Entry: s.Entry, RowBytes: s.RowBytes})
	}
	return out
}

// Step simulates the start with package machine.
func (l *Layer) Step(ctx context.Context) (machine.Result, error) {
	return machine.Run(ctx, l.Design, l.Machine(), l.Batch)
}

// Waits reports whether the stalls of the machine equal the counted stalls. It compares only stalls that were stored:
// files without a latency contain at most the stalls of the array.
func (l *Layer) Waits(s machine.Stalls) bool {
	if l.Latency == 0 {
		s.Read, s.Write = 0, 0
	}
	return s == l.Stalls || l.Latency == 0 && l.Stalls == machine.Stalls{}
}
