package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/hw/abi"
)

// network is a bundle on the GPU, with unpacked weights. Slots, descriptors and number formats are the same as on the
// NPU.
type network struct {
	b      *bundle.Bundle
	layers []kernels.Layer // one per kernel, without the fields that are set at each launch
	// by layer: the layer at which a segment resumes if it was stopped in this layer; idem.Never: it must not be stopped
	// in this layer
	entries []int
	blob    []byte // weights and biases, as on the GPU
	at      []int  // offsets in blob, two per layer: weights, bias
	weights driver.Ptr
	slots   driver.Ptr
	free    []int  // free slots; the last one is used first
	pages   []page // for inputs being copied

	profiles map[int][]sched.Version // by batch: the profiles of the kernels, for padding
}

// alignment is the alignment of data in blob, in bytes.
const alignment = 256

// prepare unpacks a bundle.
func prepare(b *bundle.Bundle) (*network, error) {
	if b.Design.Int8() {
		return nil, errors.New("the bundle is of int8, the kernels compute in int16; the soft device runs either")
	}
	return prepareOf(b, func(i int) ([]int16, []int32, error) {
		w, err := b.LayerWeights(i, -1)
		if err != nil {
			return nil, nil, err
		}
		bias, err := b.LayerBias(i)
		return w, bias, err
	})
}

// prepareOf is like prepare, but it gets the weights and biases from the function weights.
func prepareOf(b *bundle.Bundle, weights func(layer int) ([]int16, []int32, error)) (*network, error) {
	n := &network{b: b, layers: make([]kernels.Layer, len(b.Layers))}
	for i := range b.Layers {
		w, bias, err := weights(i)
		if err != nil {
			return nil, err
		}
		l, err := layerOf(&b.Layers[i])
		if err != nil {
			return nil, fmt.Errorf("layer %d (%s): %w", i, b.Names[i], err)
		}
		l.Index = uint32(i)
		n.layers[i] = l
		n.at = append(n.at, len(n.blob))
		for _, v := range w {
			n.blob = binary.LittleEndian.AppendUint16(n.blob, uint16(v))
		}
		n.pad()
		n.at = append(n.at, len(n.blob))
		for _, v := range bias {
			n.blob = binary.LittleEndian.AppendUint32(n.blob, uint32(v))
		}
		n.pad()
	}
	if len(n.blob) == 0 {
		n.blob = make([]byte, alignment)
	}
	for _, e := range b.Network.Exits {
		p := &kernel.Program{Name: b.Network.Name, Memory: b.Slot.Stride}
		for i := e.First; i <= e.Last; i++ {
			p.Kernels = append(p.Kernels, n.layers[i].Kernel(b.Names[i]))
		}
		for _, at := range idem.Entries(p) {
			if at != idem.Never {
				at += e.First
			}
			n.entries = append(n.entries, at)
		}
	}
	return n, nil
}

func (n *network) pad() {
	for len(n.blob)%alignment != 0 {
		n.blob = append(n.blob, 0)
	}
}

// place sets the addresses of weights and slots.
func (n *network) place(weights, slots driver.Ptr) {
	n.weights, n.slots = weights, slots
	for i := range n.layers {
		l := &n.layers[i]
		l.Slots, l.Stride = uint64(slots), n.b.Slot.Stride
		l.Weights, l.Bias = uint64(weights)+uint64(n.at[2*i]), uint64(weights)+uint64(n.at[2*i+1])
	}
}

// profile returns the profiles of a network's kernels for a batch size. Padding uses them.
func (n *network) profile(batch int, params *sim.Params) ([]sched.Version, error) {
	if v := n.profiles[batch]; v != nil {
		return v, nil
	}
	known.Lock()
	key := profiled{b: n.b, batch: batch, params: *params}
	v := known.of[key]
	known.Unlock()
	if v == nil {
		p, err := Program(n.b, batch, params)
		if err != nil {
			return nil, err
		}
		for i := range p.Kernels {
			v = append(v, gpu.Profile(&p.Kernels[i], params))
		}
		keep(key, v)
	}
	if n.profiles == nil {
		n.profiles = map[int][]sched.Version{}
	}
	n.profiles[batch] = v
	return v, nil
}

// profiled is the key of stored kernel profiles. They are kept because a bundle may be loaded again.
type profiled struct {
	b      *bundle.Bundle
	batch  int
	params sim.Params
	learnt bool // measured by Learn; a process has only one kind of GPU
}

var known = struct {
	sync.Mutex
	of map[profiled][]sched.Version
}{of: map[profiled][]sched.Version{}}

func keep(key profiled, v []sched.Version) {
	known.Lock()
	defer known.Unlock()
	if len(known.of) >= 64 {
		clear(known.of)
	}
	known.of[key] = v
}

// Program returns a bundle's kernels for a batch on a simulated GPU, with times estimated from their instructions.
func Program(b *bundle.Bundle, batch int, p *sim.Params) (*kernel.Program, error) {
	out := &kernel.Program{Name: b.Network.Name, Memory: b.Slot.Stride}
	for i := range b.Layers {
		l, err := layerOf(&b.Layers[i])
		if err != nil {
			return nil, fmt.Errorf("layer %d (%s): %w", i, b.Names[i], err)
		}
		out.Kernels = append(out.Kernels, kernelOf(&l, b.Names[i], batch))
	}
	for _, e := range b.Network.Exits {
		out.Exits = append(out.Exits, e.Last)
	}
	return out, p.Check()
}

// kernelOf returns a layer's kernel for a batch. The kernel has one block per tile.
func kernelOf(l *kernels.Layer, name string, batch int) kernel.Kernel {
	l.Grid(batch)
	k := l.Kernel(name)
	k.Blocks, k.Regs, k.Shared = int(l.Blocks), registers, kernels.SharedBytes
	k.BlockNs = float64(l.Steps()) / clockGHz
	k.Bytes = int64(k.Blocks) * l.TileBytes()
	return k
}

// These assumed values are used without a GPU. ptxas reported the number of registers for sm_90.
const (
	registers = 80
	clockGHz  = 1.5
)

// Simulated converts a bundle to a network of the simulated GPU. Its kernels come from Program, its results from exit.
func Simulated(b *bundle.Bundle, p *sim.Params, exit func(id device.RequestID, segment int) device.ExitResult) *gpu.Network {
	w := &b.Network
	return &gpu.Network{
		Name: w.Name, Input: int64(2 * w.InH * w.InW * w.InPix), Exit: exit,
		Program: func(batch int) (*kernel.Program, error) { return Program(b, batch, p) },
	}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// layerOf converts a descriptor to the kernels' format.
func layerOf(d *abi.Desc) (kernels.Layer, error) {
	if depth := int(d.KH) * int(d.KW) * int(d.InC); d.Op == abi.OpGEMM && depth > kernels.MaxDepth {
		return kernels.Layer{}, fmt.Errorf("%d products an output, at most %d keep the kernels' sums exact", depth, kernels.MaxDepth)
	}
	if d.Op == abi.OpDepthwise || d.Curve || d.Product || d.Residual && d.ResPix == 0 {
		return kernels.Layer{}, errors.New("depthwise layers, curves, products and one pixel for all positions have no kernel: compile the network for a design without depthwise and post")
	}
	l := kernels.Layer{
		InOffset: d.InOffset, OutOffset: d.OutOffset, ResOffset: d.ResOffset,
		InRow: d.InRowBytes, OutRow: d.OutRowBytes, ResRow: d.ResRowBytes,
		InH: int32(d.InH), InW: int32(d.InW), InC: int32(d.InC), InPix: int32(d.InPix),
		OutH: int32(d.OutH), OutW: int32(d.OutW), OutC: int32(d.OutC), OutPix: int32(d.OutPix), ResPix: int32(d.ResPix),
		KH: int32(d.KH), KW: int32(d.KW), SH: int32(d.SH), SW: int32(d.SW), PadT: int32(d.PadT), PadL: int32(d.PadL),
		Residual: flag(d.Residual), ResShift: int32(d.ResShift), Shift: int32(d.Shift),
		AvgTable: flag(d.AvgTable), AvgMul: int32(d.AvgMul), AvgShift: int32(d.AvgShift), Lo: int32(d.ClampLo), Hi: int32(d.ClampHi),
	}
	switch d.Op {
	case abi.OpGEMM:
		l.Op = kernels.GEMM
	case abi.OpMaxPool:
		l.Op, l.OutC = kernels.MaxPool, l.InC
	case abi.OpAvgPool:
		l.Op, l.OutC = kernels.AvgPool, l.InC
	default:
		return l, fmt.Errorf("operator %v has no kernel", d.Op)
	}
	return l, nil
}

// image returns an input in the layout of a slot: rows of pixels. Each pixel is padded with zeros to InPix elements.
func (n *network) image(in []int16) ([]byte, error) {
	w := &n.b.Network
	if want := w.InH * w.InW * w.InC; len(in) != want {
		return nil, fmt.Errorf("the input has %d elements, expected %d", len(in), want)
	}
	out := make([]byte, n.imageBytes())
	for p := range w.InH * w.InW {
		for c, v := range in[p*w.InC:][:w.InC] {
			binary.LittleEndian.PutUint16(out[2*(p*w.InPix+c):], uint16(v))
		}
	}
	return out, nil
}

// imageBytes returns the length of an input in a slot.
func (n *network) imageBytes() int {
	w := &n.b.Network
	return 2 * w.InH * w.InW * w.InPix
}

const controlBytes = int(unsafe.Sizeof(kernels.Control{}))

// Layout of a lane's pinned memory: a Control, an epoch, and logits. Launches with more logits allocate more memory.
const (
	epochAt   = controlBytes
	logitsAt  = epochAt + 8
	laneBytes = logitsAt + 2*kernels.MaxBatch*1024
)
