package machine

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
)

// state is where a unit's state machine stands; names are the RTL's.
type state uint8

const (
	idle state = iota
	// layer_fetch
	request
	receive
	checking
	offer
	// the others
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

// Units that take layers.
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
	at    int   // layer
	until int64 // checking, or the start
	taken [units]bool
	n     int // of them
}

// take is the layer that is offered to a unit which is ready for one, or nil.
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
