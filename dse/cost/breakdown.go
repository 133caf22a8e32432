package cost

import (
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bound names the resource that limits a layer's steady state.
type Bound string

// Limiting resources.
const (
	BoundCompute     Bound = "compute"     // the array processes one row per cycle
	BoundDepth       Bound = "depth"       // a pass has fewer rows than its minimum length D_k
	BoundLoad        Bound = "load"        // weights are loaded into the PEs
	BoundDrain       Bound = "drain"       // the accumulators are drained
	BoundWeights     Bound = "weights"     // DRAM; weights are the largest part
	BoundActivations Bound = "activations" // DRAM; activations (or residuals) are the largest part
	BoundWrite       Bound = "write"       // DRAM; results are the largest part
	BoundPool        Bound = "pool"        // the pool unit
	BoundDepthwise   Bound = "depthwise"   // the depthwise unit
)

// Breakdown divides the time of one layer into parts, in cycles.
type Breakdown struct {
	Total int64 `json:"cycles"`

	Wait   int64 `json:"wait"`   // cycles of waiting for the descriptor and for late weights
	Fill   int64 `json:"fill"`   // cycles from the barrier until the first input row is on chip
	Array  int64 `json:"array"`  // cycles of the array or pool unit, if nothing else limits the layer
	DRAM   int64 `json:"dram"`   // cycles of the DRAM in the steady state
	Ports  int64 `json:"ports"`  // cycles of the AXI ports in the steady state, in the busier direction
	Tail   int64 `json:"tail"`   // cycles of the last drain
	Answer int64 `json:"answer"` // cycles from the last write to its response

	Compute     int64 `json:"compute"`     // cycles of all passes, at one row per cycle
	Drain       int64 `json:"drain"`       // cycles of all drains
	Weights     int64 `json:"weights"`     // DRAM cycles of weights and biases
	Activations int64 `json:"activations"` // DRAM cycles of activations and residuals
	Write       int64 `json:"write"`       // DRAM cycles of results

	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	MACs         int64 `json:"macs"`
	Bound        Bound `json:"bound"`
}

// parts sets the parts of the total after a walk. The parameter `there` is the number of bytes read before the layer.
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

// Utilisation returns the share of the design's MACs that the layer uses: 0..1.
func (b Breakdown) Utilisation(d configs.Design) float64 {
	return float64(b.MACs) / (float64(max(1, b.Total)) * float64(d.TP) * float64(d.TC))
}
