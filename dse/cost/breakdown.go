package cost

import (
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bound names the resource that limits a layer's steady state.
type Bound string

// Limiting resources.
const (
	BoundCompute     Bound = "compute"     // rows through the array
	BoundDepth       Bound = "depth"       // passes shorter than the chain
	BoundLoad        Bound = "load"        // loading weights into the PEs
	BoundDrain       Bound = "drain"       // draining the accumulators
	BoundWeights     Bound = "weights"     // DRAM; weights are the largest part
	BoundActivations Bound = "activations" // DRAM; activations (or residuals) are the largest part
	BoundWrite       Bound = "write"       // DRAM; results are the largest part
	BoundPool        Bound = "pool"        // the pool unit
	BoundDepthwise   Bound = "depthwise"   // the depthwise unit
)

// Breakdown is the time of one layer and its parts, in cycles and bytes.
type Breakdown struct {
	Total int64 `json:"cycles"`

	Wait   int64 `json:"wait"`   // for the descriptor and for weights that the DRAM should have brought earlier
	Fill   int64 `json:"fill"`   // barrier to the first input row on chip
	Array  int64 `json:"array"`  // array or pool unit, if nothing else limits it
	DRAM   int64 `json:"dram"`   // DRAM in the steady state
	Ports  int64 `json:"ports"`  // the busier direction of the AXI ports in the steady state
	Tail   int64 `json:"tail"`   // last drain
	Answer int64 `json:"answer"` // last write to its response

	Compute     int64 `json:"compute"`     // passes at one row per cycle
	Drain       int64 `json:"drain"`       // all drains
	Weights     int64 `json:"weights"`     // DRAM cycles of weights and biases
	Activations int64 `json:"activations"` // DRAM cycles of activations and residuals
	Write       int64 `json:"write"`       // DRAM cycles of results

	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	MACs         int64 `json:"macs"`
	Bound        Bound `json:"bound"`
}

// parts fills in the parts of the total after a walk. The argument there is the number of bytes that came before the layer.
func (b *Breakdown) parts(m *Prepared, there int64) {
	b.Array, b.Drain = m.array, m.drain
	b.Compute = int64(m.e.BR) * int64(m.g.OutH) * m.g.PoolTaps(m.d)
	if m.g.GEMM() {
		b.Compute = int64(m.e.BR) * int64(m.g.OutH) * int64(m.g.OutW) * m.passes * int64(ceil(m.g.OutC, m.tc))
	}
	b.BytesRead = m.acts + m.weights + abi.DescBytes
	b.BytesWritten = m.moved.written
	b.Weights = cycles(m.weights, m.bpc)
	b.Activations = cycles(m.acts, m.bpc)
	b.Write = cycles(b.BytesWritten, m.bpc)
	b.DRAM = cycles(b.BytesRead+b.BytesWritten-there, m.bpc)
	b.Ports = max(cycles(b.BytesRead-there, m.port), cycles(b.BytesWritten, m.port))
	b.Bound = b.bound(m)
}

func (b *Breakdown) bound(m *Prepared) Bound {
	rows := int64(m.e.TileB) * int64(m.e.TileRows) * int64(m.g.OutW)
	switch dram := max(b.DRAM, b.Ports) > b.Array; {
	case dram && b.Weights >= max(b.Activations, b.Write):
		return BoundWeights
	case dram && b.Activations >= b.Write:
		return BoundActivations
	case dram:
		return BoundWrite
	case m.g.Op == abi.OpDepthwise:
		return BoundDepthwise
	case !m.g.GEMM():
		return BoundPool
	case b.Drain > max(b.Compute, b.Array/2):
		return BoundDrain
	case m.full.load > max(rows, m.depth):
		return BoundLoad
	case m.depth > rows:
		return BoundDepth
	}
	return BoundCompute
}

// Utilisation returns the share of the design's MACs in use: 0..1.
func (b Breakdown) Utilisation(d configs.Design) float64 {
	return float64(b.MACs) / (float64(max(1, b.Total)) * float64(d.TP) * float64(d.TC))
}
