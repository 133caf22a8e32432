// The build without MACs (ARRAY_STUB) must count what the full one counts.

package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// stub opens both builds of a design and compares what they count.
func (c *verifyCmd) stub(e *env, d configs.Design, doc *verifyDoc) error {
	full, err := openRig(e.ctx, d, d.Name)
	if err != nil {
		return err
	}
	defer full.close()
	stub, err := openRig(e.ctx, d, d.Name+"-stub")
	if err != nil {
		return err
	}
	defer stub.close()
	axi, err := stub.bus.ReadReg(abi.RegBuildAXI)
	if err != nil {
		return coded(codeDevice, err)
	}
	if axi&abi.RegBuildAXIStubMask == 0 {
		return coded(codeDevice, fmt.Errorf("%s-stub says that it has MACs", d.Name))
	}
	return c.compare(e, full, stub, doc)
}

// compare runs random starts on both rigs until c.Stub layers are done.
func (c *verifyCmd) compare(e *env, full, stub *rig, doc *verifyDoc) error {
	set, done := e.progress("stub of "+full.design.Name, c.Stub)
	defer done()
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650005))
	for n := 0; n < c.Stub; {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if err := full.draw(e.ctx, rng); err != nil {
			return coded(codeDevice, err)
		}
		got, err := stub.follow(e.ctx, full)
		if err != nil {
			return coded(codeDevice, err)
		}
		if got != full.trial.counters {
			doc.Mismatches++
			doc.Problems = append(doc.Problems, fmt.Sprintf("stub: %s: %s", full.where(), diffCounters(got, full.trial.counters)))
			return nil
		}
		layers := full.trial.last - full.trial.first + 1
		n += layers
		doc.Coverage.Stub += layers
		set(min(n, c.Stub))
	}
	return nil
}

// follow repeats another rig's trial, cold, and answers what it counts.
func (r *rig) follow(ctx context.Context, other *rig) (c [abi.CntCount]uint64, err error) {
	r.net, r.records, r.slots, r.used, r.image, r.trial = other.net, other.records, other.slots, other.used, other.image, other.trial
	r.restore()
	if err := r.load(ctx); err != nil {
		return c, err
	}
	before, err := r.readCounters()
	if err != nil {
		return c, err
	}
	end, err := r.run(ctx, r.good(), r.trial.cycles+2*rigWatchdog)
	if err != nil {
		return c, err
	}
	if end.hangs || end.code != abi.ErrNone {
		return c, fmt.Errorf("%s: the stub ends with %v", r.where(), end)
	}
	if c, err = r.readCounters(); err != nil {
		return c, err
	}
	for i := range c {
		c[i] -= before[i]
	}
	return c, nil
}

func diffCounters(got, want [abi.CntCount]uint64) string {
	s := "counters differ:"
	for i := range want {
		if got[i] != want[i] {
			s += fmt.Sprintf(" %s %d, expected %d;", abi.CounterNames[i], got[i], want[i])
		}
	}
	return s
}
