package gpus

import (
	"context"

	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/sched"
)

// FitTo is solve.
var FitTo = solve

// Under runs a load with a policy that is made of a system's.
func (e *Edge) Under(system, name string, ns int64, seed uint64, wrap func(sched.Policy) sched.Policy) error {
	e.wrap = wrap
	defer func() { e.wrap = nil; clear(e.runs) }()
	_, err := e.Run(context.Background(), system, name, ns, seed, nil)
	return err
}

// Statement is what a bench says of one of its claims, for one seed.
func (e *Edge) Statement(id string, ns int64, seed uint64) (*verdict.Statement, error) {
	for _, k := range seebClaims() {
		if k.ID == id {
			l := newLab(context.Background(), e.file, ns, seed)
			l.edge = e
			return k.state([]*lab{l})
		}
	}
	return nil, ErrWorkload
}
