// The kinds of faults.

package verify

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// plan is a planned fault and its allowed endings.
type plan struct {
	what  string        // description
	codes []abi.ErrCode // possible codes; nil: any
	layer int           // layer in ERROR; -1: any
	port  int
	addr  span // range of ERROR_ADDR after a bus error or a tensor that leaves its slot
	moved bool // outputs can be at other places in their slots

	before func(*regs) (violation string, err error) // changes registers and memory before the start
	at     uint64                                    // cycle of the start in which during() runs
	during func() (violation string, err error)
	after  func() error // restores state that is neither in memory nor written by a start
}

// span is a range of values, inclusive.
type span [2]uint32

// kind is a kind of fault.
type kind struct {
	name string
	wild bool // all endings and all writes to the batch's slots are allowed
	plan func(*Campaign) *plan
}

var kinds = []kind{
	{"read SLVERR", false, busFault(npu.FaultRead, npu.FaultSLVERR, abi.ErrReadSLVERR)},
	{"read DECERR", false, busFault(npu.FaultRead, npu.FaultDECERR, abi.ErrReadDECERR)},
	{"write SLVERR", false, busFault(npu.FaultWrite, npu.FaultSLVERR, abi.ErrWriteSLVERR)},
	{"write DECERR", false, busFault(npu.FaultWrite, npu.FaultDECERR, abi.ErrWriteDECERR)},
	{"read never answered", false, busFault(npu.FaultRead, npu.FaultNever, abi.ErrWatchdog)},
	{"write never answered", false, busFault(npu.FaultWrite, npu.FaultNever, abi.ErrWatchdog)},
	{"read answered too late", false, busFault(npu.FaultRead, npu.FaultDelay, abi.ErrWatchdog)},
	{"write answered too late", false, busFault(npu.FaultWrite, npu.FaultDelay, abi.ErrWatchdog)},
	{"slow answers", false, slow},

	{"descriptor magic", false, descriptor(abi.ErrDescMagic, func(c *Campaign, raw []byte, _ *abi.Desc) string {
		raw[3] ^= byte(1 + c.rng.IntN(255))
		return "MAGIC"
	})},
	{"descriptor reserved bits", false, descriptor(abi.ErrDescMagic, reservedBit)},
	{"descriptor operator", false, descriptor(abi.ErrDescOp, badOperator)},
	{"descriptor sizes", false, descriptor(abi.ErrDescShape, badSize)},
	{"descriptor sizes too large", false, descriptor(abi.ErrDescShape, tooLarge)},
	{"descriptor products", false, descriptor(abi.ErrDescShape, badProduct)},
	{"descriptor shifts", false, descriptor(abi.ErrDescShift, badShift)},
	{"descriptor alignment", false, descriptor(abi.ErrDescAddress, badAlignment)},
	{"tensor leaves its slot", false, moved(descriptor(abi.ErrDescAddress, leaves))},
	{"residual leaves its slot", false, residualLeaves},
	{"weights too short", false, weights(-1)},
	{"weights too long", false, weights(1)},

	{"FBCB entry", false, badEntry},
	{"FBCB tile", false, badTile},
	{"layer range", false, func(c *Campaign) *plan {
		first := 1 + c.rng.IntN(abi.LMax-1)
		last := c.rng.IntN(first)
		if c.rng.IntN(2) == 0 { // last is just one below first
			last = first - 1
		}
		return start(fmt.Sprintf("layers %d..%d", first, last), abi.ErrLayerRange, func(g *regs) {
			g.layers = uint32(first)<<abi.RegLayersFirstLSB | uint32(last)<<abi.RegLayersLastLSB
		})
	}},
	{"layers beyond the network", false, func(c *Campaign) *plan {
		n := len(c.rig.net.Bundle.Layers)
		last := n + c.rng.IntN(abi.LMax-n)
		p := start(fmt.Sprintf("layers %d..%d", n, last), abi.ErrDescMagic, func(g *regs) {
			g.layers = uint32(n)<<abi.RegLayersFirstLSB | uint32(last)<<abi.RegLayersLastLSB
		})
		p.layer = n
		return p
	}},
	{"batch range", false, func(c *Campaign) *plan {
		b := c.rng.IntN(16 - abi.BMax)
		if b > 0 {
			b += abi.BMax
		}
		return start(fmt.Sprintf("a batch of %d", b), abi.ErrBatchRange, func(g *regs) { g.batch = uint32(b) })
	}},
	{"slot out of range", false, func(c *Campaign) *plan {
		i, s := c.rng.IntN(len(c.rig.trial.table)), uint32(testvec.Slots+c.rng.IntN(abi.RegSlotTableMask+1-testvec.Slots))
		return start(fmt.Sprintf("slot %d at %d", s, i), abi.ErrSlotRange, func(g *regs) { g.table[i] = s })
	}},
	{"slot twice", false, func(c *Campaign) *plan {
		n := len(c.rig.trial.table)
		if n < 2 {
			return nil
		}
		i := c.rng.IntN(n)
		j := (i + 1 + c.rng.IntN(n-1)) % n
		return start(fmt.Sprintf("the slot of %d at %d too", i, j), abi.ErrSlotRange, func(g *regs) { g.table[j] = g.table[i] })
	}},
	{"registers while busy", false, whileBusy},
	{"start while busy", false, startWhileBusy},
	{"register bits", false, registerBits},
	{"soft reset", false, softReset},
	{"soft reset while idle", false, softResetIdle},

	{"random descriptor bits", true, randomDescriptor},
	{"random FBCB bits", true, randomEntry},
	{"two bus faults", true, twoFaults},
}

// layer picks a layer of the trial.
func (c *Campaign) layer() int {
	t := &c.rig.trial
	return t.first + c.rng.IntN(t.last-t.first+1)
}

// entry returns the FBCB entry of a layer in the trial.
func (c *Campaign) entry(l int) abi.FBCB {
	return c.rig.net.Bundle.FBCB[l][len(c.rig.trial.table)-1]
}

// raw returns a layer's descriptor in memory.
func (c *Campaign) raw(l int) []byte { return c.rig.mem[l*abi.DescBytes:][:abi.DescBytes] }
