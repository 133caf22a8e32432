// Package kernels contains the program for the GPU: the PTX, and the arguments of its kernels.
package kernels

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// PTX is the code that ptx.py generated from the sources in this folder.
//
//go:embed kernels.ptx
var PTX string

//go:embed src/cuda.hpp
var cuda string

//go:embed src/kernels.hpp
var bodies string

//go:embed src/amd.hpp
var amd string

//go:embed src/entries.hip
var amdEntries string

// SourcesAMD returns the hash of the sources. An object for AMD GPUs must be built from these sources.
func SourcesAMD() string {
	sum := sha256.Sum256([]byte(amd + bodies + amdEntries))
	return hex.EncodeToString(sum[:])
}

// Object reads an object file for AMD GPUs. It checks that amd.sh built the file from these sources, with all kernels.
func Object(path string) ([]byte, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	if err := checkObject(image); err != nil {
		return nil, fmt.Errorf("kernels: %s: %w", path, err)
	}
	return image, nil
}

func checkObject(image []byte) error {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("%w; an object made by host/gpu/cuda/kernels/amd.sh is expected", err)
	}
	if f.Machine != elf.EM_AMDGPU {
		return fmt.Errorf("it is for %v, expected %v", f.Machine, elf.EM_AMDGPU)
	}
	all, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	found := map[string]elf.Symbol{}
	for _, s := range all {
		found[s.Name] = s
	}
	for _, name := range Entries {
		if _, ok := found[name+".kd"]; !ok {
			return fmt.Errorf("it has no kernel %s", name)
		}
	}
	const hash = 64
	at, ok := found["sluice_sources"]
	if !ok || int(at.Section) >= len(f.Sections) {
		return fmt.Errorf("it does not say of what it was made")
	}
	sum := make([]byte, hash)
	section := f.Sections[at.Section]
	if _, err := section.ReadAt(sum, int64(at.Value-section.Addr)); err != nil {
		return fmt.Errorf("of what it was made: %w", err)
	}
	if want := SourcesAMD(); string(sum) != want {
		return fmt.Errorf("it was made of %q, the sources are %s: run host/gpu/cuda/kernels/amd.sh", sum, want)
	}
	return nil
}

func Version() string {
	_, rest, _ := strings.Cut(PTX, "\n.version ")
	v, _, _ := strings.Cut(rest, "\n")
	return v
}

// CUDA returns the first CUDA version that accepts the PTX: PTX 8.n exists since CUDA 12.n.
func CUDA() string {
	var major, minor int
	if n, err := fmt.Sscanf(Version(), "%d.%d", &major, &minor); n != 2 || err != nil {
		return "(unknown)"
	}
	return fmt.Sprintf("%d.%d", major+4, minor)
}

// The kernels have these entry points.
const (
	EntryLayer  = "sluice_layer"
	EntryPadded = "sluice_padded"
	EntryWhere  = "sluice_where"
	EntryClock  = "sluice_clock"
	EntryStream = "sluice_stream"
)

// Entries lists the names of all entry points.
var Entries = []string{EntryLayer, EntryPadded, EntryWhere, EntryClock, EntryStream}

// Sizes in kernels.hpp.
const (
	Threads  = 128
	Pixels   = 16
	Channels = 32
	Depth    = 64
	Poll     = 4  // number of steps of a product's inner loop between two polls of the epoch
	Window   = 16 // number of elements of a pool's window that a thread reads between two polls
	MaxBatch = 32
	MaxRoles = 8         // maximum number of layers in one launch
	MaxDepth = 125 << 10 // maximum number of products per output, so that the sum is exact

	SharedBytes = 2*Depth*(Pixels+Channels) + 4*Threads*wide // bytes of shared memory of a block
)

const (
	GEMM = iota
	MaxPool
	AvgPool
)

// NotStopped is the value of Control.Stopped if no block has left early.
const NotStopped = ^uint32(0)

// Control is the control block of a stream, in device memory.
type Control struct {
	Epoch, Stopped uint32
	Began          uint64 // GPU clock in ns; NotBegan: no timed kernel has begun
	Gone           uint64 // GPU clock in ns at the end of the last block that was running when the epoch changed
}

// NotBegan is the value of Control.Began if no timed kernel has begun.
const NotBegan = ^uint64(0)

// Roles contains the layers of one launch. Unused elements have no blocks.
type Roles [MaxRoles]Layer

// Layer is the argument of a kernel, with the same layout as in kernels.hpp.
type Layer struct {
	Slots, Weights, Bias, Control uint64
	Stride                        int64

	InOffset, OutOffset, ResOffset, InRow, OutRow, ResRow uint32

	InH, InW, InC, InPix, OutH, OutW, OutC, OutPix, ResPix int32

	KH, KW, SH, SW, PadT, PadL int32

	Op, Residual, ResShift, Shift, AvgTable, AvgMul, AvgShift, Lo, Hi int32

	Epoch, Index               uint32
	TilesP, TilesC, Blocks     uint32
	Timed, From, To            uint32
	Depth, StepY, StepX, StepC int32
	Sample                     [MaxBatch]uint32
}

// Grid sets the fields of a layer for a batch: the range of all tiles, and one block per tile.
func (l *Layer) Grid(batch int) {
	l.TilesP = (uint32(l.OutH)*uint32(l.OutW) + Pixels - 1) / Pixels
	l.TilesC = (uint32(l.OutC) + Channels - 1) / Channels
	l.From, l.To = 0, l.TilesP*l.TilesC*uint32(batch)
	l.Blocks = l.To
	row := l.KW * l.InC
	l.Depth, l.StepY, l.StepX, l.StepC = l.KH*row, Depth/row, Depth%row/l.InC, Depth%row%l.InC
}

// Looks returns how often a block polls its epoch during a tile.
func (l *Layer) Looks() int64 {
	if l.Op != GEMM {
		return (l.taps() + Window - 1) / Window
	}
	return (steps(l) + Poll - 1) / Poll
}
