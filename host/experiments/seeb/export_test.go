package seeb

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/sched"
)

// FitTo is solve.
var FitTo = solve

// Under runs a load with a policy that is made from a system's policy.
func (e *Edge) Under(system, name string, ns int64, seed uint64, wrap func(sched.Policy) sched.Policy) error {
	e.wrap = wrap
	defer func() { e.wrap = nil; clear(e.runs) }()
	_, err := e.Run(context.Background(), system, name, ns, seed, nil)
	return err
}

// Statement returns a bench's statement about one of its claims, for one seed.
func (e *Edge) Statement(id string, ns int64, seed uint64) (*frame.Statement, error) {
	claims, err := frame.Book(book)
	if err != nil {
		return nil, err
	}
	s := frame.Study[*lab]{Book: book, Measures: measures()}
	of, err := s.Samplers()
	if err != nil {
		return nil, err
	}
	for i := range claims {
		if claims[i].ID == id {
			v, err := frame.Sample([]*lab{{ctx: context.Background(), file: e.file, edge: e, ns: ns, seed: seed}}, of[id])
			return claims[i].Judge(v), err
		}
	}
	return nil, fmt.Errorf("no claim %q", id)
}
