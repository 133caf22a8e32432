// Own runs a user's workload and kernels on a simulated GPU.

package reef

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
)

// Own is a GPU with the clients of a workload file.
type Own struct {
	bed *Bed
	ns  int64
	w   Workload
}

// NewOwn reads clients from a DISB workload. catalogue.Meant selects their networks. A client is best effort if its
// priority number is above zero. A closed-loop client is also best effort if its ID does not end in _rt (as in DISB's
// files).
func NewOwn(f *params.File, style string, kernels []*kernel.Program, trace *load.Trace, slo func(alone int64) int64) (*Own, error) {
	if _, err := catalogue.StyleOf(style); err != nil {
		return nil, err
	}
	o := &Own{bed: NewBed(f, style), ns: trace.Duration, w: Workload{Name: trace.Format}}
	o.bed.keep, o.bed.slo, o.bed.own = engine.Records, slo, map[string]*kernel.Program{}
	for _, p := range kernels {
		o.bed.own[p.Name] = p
	}
	for i := range trace.Streams {
		s := &trace.Streams[i]
		if s.Batch > 1 {
			return nil, fmt.Errorf("%w: client %s sends batches of %d, and a kernel list is for one sample", ErrWorkload, s.Name, s.Batch)
		}
		if slices.ContainsFunc(o.w.Clients, func(c Client) bool { return c.Name == s.Name }) {
			return nil, fmt.Errorf("%w: two clients are called %q", ErrWorkload, s.Name)
		}
		name, err := catalogue.Meant(s.Network, slices.Sorted(maps.Keys(o.bed.own)))
		if err != nil {
			return nil, fmt.Errorf("%w: client %s: %w", ErrWorkload, s.Name, err)
		}
		c := Client{Name: s.Name, Network: name, BestEffort: s.Priority > 0, Deadline: s.Deadline}
		if c.Urgent = s.Closed && strings.HasSuffix(s.Name, "_rt"); !s.Closed {
			if c.Times = s.Times; c.Times == nil {
				c.Times = []int64{} // empty, not nil: the client sends nothing, but is not a closed loop
			}
		}
		o.w.Clients = append(o.w.Clients, c)
	}
	return o, nil
}

// Alone returns the time of a network alone on the GPU, in ns.
func (o *Own) Alone(network string) (int64, error) { return o.bed.Alone(network) }

// Run serves the workload with a system.
func (o *Own) Run(ctx context.Context, system string) (*Outcome, *engine.Result, error) {
	if !slices.Contains(Systems(), system) {
		return nil, nil, fmt.Errorf("%w: no policy %q for a GPU; there are %s", ErrWorkload, system, strings.Join(Systems(), ", "))
	}
	return o.bed.serve(ctx, system, o.w, o.ns, 0)
}
