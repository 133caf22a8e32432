package machine

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
)

// state is a state of a unit's state machine. The names are those of the RTL.
type state uint8

const (
	idle state = iota
	// states of layer_fetch
	request
	receive
	checking
	offer
	// states of other units
	test
	pad
	barrier
	half
	row
	running
	next
	advance
	room
	bias
	tiles
	weights
	nextTile
	pass
	load
	full
	padding
	depthwise
	pooling
	waiting
	last
	head
	body
	tail
)

// Units that accept layers.
const (
	unitActs = iota
	unitFetch
	unitFeed
	unitArray
	unitPool
	unitDrain
	unitRuns
	unitResidual
	units
)

// fetch is layer_fetch.
type fetch struct {
	state state
	at    int   // index of the layer
	until int64 // last cycle of the checks, or of the start sequence
	taken [units]bool
	n     int // number of units that have accepted the layer (taken)
}

// take returns the offered layer to a unit that is ready, or nil if there is none or the unit has already accepted it.
func (f *fetch) take(m *machine, unit int) *layer {
	if f.state != offer || f.taken[unit] {
		return nil
	}
	f.taken[unit] = true
	f.n++
	return &m.layers[f.at]
}

func (f *fetch) step(m *machine) {
	switch f.state {
	case idle:
		if f.at < len(m.layers) && m.now == rtl.StartStates-1 {
			f.state = request
		}
	case request:
		if m.read.request(clientDesc, 0, abi.DescBytes/m.wide) {
			f.state = receive
		}
	case receive:
		if m.read.answered(clientDesc) && m.read.last {
			f.state, f.until = checking, m.now+1+int64(m.layers[f.at].checking)
		}
	case checking:
		if m.now == f.until {
			f.state = offer
		}
	case offer:
		if f.n < units {
			return
		}
		f.taken, f.n = [units]bool{}, 0
		f.at++
		if f.state = request; f.at == len(m.layers) {
			f.state = idle
		}
	}
}
