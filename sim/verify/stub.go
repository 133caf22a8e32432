// The build without MACs (ARRAY_STUB) must have the same counters as the full build.

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/hw/abi"
)

// CompareStub runs random starts on both builds of a design until n layers are done. It returns the number of layers,
// and a description of a difference or "".
func CompareStub(ctx context.Context, full, stub *Rig, n int, seed uint64, progress func(int)) (layers int, wrong string, err error) {
	axi, err := stub.bus.ReadReg(abi.RegBuildAXI)
	if err != nil {
		return 0, "", err
	}
	if axi&abi.RegBuildAXIStubMask == 0 {
		return 0, "", fmt.Errorf("the stub of %s says that it has MACs", full.design.Name)
	}
	return compareCounters(ctx, full, stub, n, seed, progress)
}

func compareCounters(ctx context.Context, full, stub *Rig, n int, seed uint64, progress func(int)) (layers int, wrong string, err error) {
	rng := rand.New(rand.NewPCG(seed, 0x736c756963650005))
	for layers < n {
		if err := ctx.Err(); err != nil {
			return layers, "", err
		}
		if err := full.draw(ctx, rng); err != nil {
			return layers, "", err
		}
		got, err := stub.follow(ctx, full)
		if err != nil {
			return layers, "", err
		}
		if got != full.trial.counters {
			return layers, fmt.Sprintf("stub: %s: %s", full.where(), diffCounters(got, full.trial.counters)), nil
		}
		layers += full.trial.last - full.trial.first + 1
		if progress != nil {
			progress(min(layers, n))
		}
	}
	return layers, "", nil
}

// follow repeats another rig's trial from a cold start and returns its counters.
func (r *Rig) follow(ctx context.Context, other *Rig) (c [abi.CntCount]uint64, err error) {
	r.net, r.records, r.slots, r.used, r.image, r.trial = other.net, other.records, other.slots, other.used, other.image, other.trial
	r.restore()
	if err := r.load(ctx); err != nil {
		return c, err
	}
	end, err := r.run(ctx, r.good(), r.trial.cycles+2*rigWatchdog)
	if err != nil {
		return c, err
	}
	if end.hangs || end.code != abi.ErrNone {
		return c, fmt.Errorf("%s: the stub ends with %v", r.where(), end)
	}
	return end.npu, nil
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
