// This file adds and removes networks while a Server runs.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// change is the addition or removal of a network. Only the server's goroutine uses its fields, except for done, which
// receives one value.
type change struct {
	net    *Network
	name   string
	leaves bool
	users  int   // number of requests for the network that have not ended; the change begins when there are none
	begun  bool  // the loads or unloads of the change have begun
	todo   []int // devices on which a load or unload has not begun
	left   int   // loads or unloads in progress
	errs   []error
	done   chan error
}

// failed records why a device could not load or unload the network.
func (h *change) failed(device string, err error) {
	h.errs = append(h.errs, fmt.Errorf("%s: %w", device, err))
}

// AddNetwork loads a network on every device that has a table for it and has not been given up. It returns when the
// network can be served. After an error in loading, the network is on no device. If a device is being reset, it loads
// the network afterwards. "warm", if not nil, is the input of one sample, which runs once before AddNetwork returns.
// The end of ctx ends only the wait, not the change.
func (s *Server) AddNetwork(ctx context.Context, n Network, warm []device.Tensor) error {
	if err := s.c.cfg.checkNetwork(&n); err != nil {
		return err
	}
	if n.Family != "" {
		return fmt.Errorf("%w: network %q belongs to the family %q, whose members are fixed while a server runs", ErrConfig, n.Name, n.Family)
	}
	if err := s.change(ctx, &change{net: &n, name: n.Name}); err != nil {
		return fmt.Errorf("add network %q: %w", n.Name, err)
	}
	if warm == nil {
		return nil
	}
	t, err := s.Open(ctx, &Call{Task: sched.Task{Network: n.Name, Theta: neverSure}, Inputs: [][]device.Tensor{warm}})
	if err != nil {
		return fmt.Errorf("warm network %q up: %w", n.Name, err)
	}
	select {
	case <-t.Done():
	case <-ctx.Done():
		t.Cancel()
		return fmt.Errorf("warm network %q up: %w", n.Name, context.Cause(ctx))
	}
	if r := t.Outcomes()[0].Record; r.Ending != OnTime {
		return fmt.Errorf("warm network %q up: it ended %s: %s", n.Name, r.Ending, r.Why)
	}
	return nil
}

// neverSure is a threshold that no confidence reaches.
const neverSure = 2

// RemoveNetwork stops accepting tasks for a network, and returns when its remaining tasks have ended and it is
// unloaded. If a device is being reset, it unloads the network after the reset. A device that cannot unload the network
// still serves it, and RemoveNetwork can be called again. The end of ctx ends only the wait, not the change.
func (s *Server) RemoveNetwork(ctx context.Context, name string) error {
	if err := s.change(ctx, &change{name: name, leaves: true}); err != nil {
		return fmt.Errorf("remove network %q: %w", name, err)
	}
	return nil
}

// change posts a change and waits for its end. Neither ErrInside nor the end of ctx cancels the change.
func (s *Server) change(ctx context.Context, h *change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.ended: // the server has ended and reads no message any more
		return ErrClosed
	default:
	}
	h.done = make(chan error, 1)
	turn := s.turns.Load()
	s.post(&posted{kind: fromChange, change: h})
	timer := time.NewTimer(stuck)
	defer timer.Stop()
	for {
		select {
		case err := <-h.done:
			return err
		case <-s.ended:
			select {
			case err := <-h.done: // the change ended before the server did
				return err
			default:
				return ErrClosed
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if s.inside(turn) {
				return ErrInside
			}
		}
	}
}

// leaves reports whether a network is being removed, or is being added and is not yet ready.
func (c *core) leaves(network string) bool {
	return slices.ContainsFunc(c.changes, func(h *change) bool { return h.name == network })
}

// change starts a change that a caller requested.
func (c *core) change(h *change) {
	i := slices.IndexFunc(c.nets, func(n *Network) bool { return n.Name == h.name })
	if err := c.mayChange(h, i); err != nil {
		h.done <- err
		return
	}
	c.changes = append(c.changes, h)
	if h.leaves {
		h.net = c.nets[i]
		for _, r := range c.reqs.vals {
			if r != nil && r.Network == h.name {
				h.users++ // from now on, new tasks for the network are rejected
			}
		}
		return
	}
	c.nets = append(c.nets, h.net)
	segments := 0
	for _, t := range h.net.Tables {
		if t != nil {
			segments = max(segments, t.Segments())
		}
	}
	c.res.Samples = grown(c.res.Samples, segments)
	c.res.Stream.Exits = grown(c.res.Stream.Exits, segments)
	c.see(h.name, segments)
	c.seeAgain()
	c.carry(h)
}

// mayChange returns an error if a change of the i-th network (-1: unknown name) is impossible.
func (c *core) mayChange(h *change, i int) error {
	switch {
	case c.leaves(h.name):
		return fmt.Errorf("%w: it is coming or going already", ErrNetwork)
	case h.leaves && i < 0:
		return fmt.Errorf("%w: %q", ErrNetwork, h.name)
	case h.leaves && c.nets[i].Family != "":
		return fmt.Errorf("%w: it belongs to the family %q, whose members are fixed while a server runs", ErrConfig, c.nets[i].Family)
	case !h.leaves && (i >= 0 || c.families[h.name] != nil):
		return fmt.Errorf("%w: it is there already", ErrConfig)
	}
	return nil
}

// grown extends a list to at least n elements.
func grown[T any](list []T, n int) []T {
	return append(list, make([]T, max(0, n-len(list)))...)
}

// seeAgain updates all pointers into the list of traffic, after the list was allocated again.
func (c *core) seeAgain() {
	for _, r := range c.reqs.vals {
		if r != nil {
			r.seen = c.traffic(r.seen.Network)
		}
	}
	for _, l := range slices.Concat(c.live, c.doom) {
		l.seen = c.traffic(l.seen.Network)
	}
}

// carry lists the devices on which a change must load or unload: all devices that can serve the network.
func (c *core) carry(h *change) {
	h.begun, h.todo = true, nil
	for i, t := range h.net.Tables {
		if t != nil {
			h.todo = append(h.todo, i)
		}
	}
}

// carryOn begins the loads and unloads that can begin now. All others wait for a reset, or for a load or unload of this
// network for the policy.
func (c *core) carryOn(h *change) {
	kind := sched.Unload
	if !h.leaves {
		kind = sched.LoadNetwork
		if len(h.errs) == 0 && !c.anyAlive(h.net) {
			h.errs = append(h.errs, fmt.Errorf("%w: every device with a table for it is given up, since no reset has helped", ErrDevice))
		}
		if len(h.errs) > 0 { // a load failed, so unload the network from all devices again
			h.todo = nil
		}
	}
	h.todo = slices.DeleteFunc(h.todo, func(i int) bool {
		v := &c.st.Devices[i]
		if c.devs[i].dead {
			if h.leaves {
				v.Hosted = slices.DeleteFunc(v.Hosted, func(x sched.Hosted) bool { return x.Network == h.name })
			}
			return true
		}
		if v.Down || slices.ContainsFunc(c.jobs, func(j *job) bool { return j.dev == i && j.net == h.net }) {
			return false
		}
		if v.Hosts(h.name) == h.leaves {
			if err := c.host(&sched.Action{Kind: kind, Device: i, Network: h.name}, h); err != nil {
				h.failed(c.devs[i].info.Name, err)
			}
		}
		return true
	})
}

// carried handles the end of a load or unload. If the device has failed meanwhile, the job is repeated after the reset.
func (c *core) carried(j *job, err error) {
	h := j.of
	h.left--
	switch {
	case err != nil && j.cut && !c.shut:
		h.todo = append(h.todo, j.dev)
	case err != nil:
		h.failed(c.devs[j.dev].info.Name, err)
	}
}

// anyAlive reports whether at least one device that can serve a network has not been given up.
func (c *core) anyAlive(n *Network) bool {
	for i, t := range n.Tables {
		if t != nil && !c.devs[i].dead {
			return true
		}
	}
	return false
}

// settle continues the changes. A removal continues when the network is not in use any more.
func (c *core) settle() error {
	for _, h := range slices.Clone(c.changes) {
		for again := true; again; {
			c.carryOn(h)
			again = false
			switch {
			case h.left > 0 || len(h.todo) > 0 || h.leaves && !h.begun && c.uses(h):
			case h.begun && (h.leaves || len(h.errs) == 0):
				if err := c.settled(h); err != nil {
					return err
				}
			default: // a load failed, so the other devices unload the network again
				h.leaves, again = true, true
				c.carry(h)
			}
		}
	}
	return nil
}

// settled ends a change, and tells the policy about a removed network.
func (c *core) settled(h *change) error {
	same := func(x *change) bool { return x == h }
	c.changes = slices.DeleteFunc(c.changes, same)
	gone := false
	// The network is removed only if every device has unloaded it.
	if h.leaves && !slices.ContainsFunc(c.st.Devices, func(v sched.DeviceView) bool { return v.Hosts(h.name) }) {
		c.nets = slices.DeleteFunc(c.nets, func(n *Network) bool { return n == h.net })
		c.st.Traffic = slices.DeleteFunc(slices.Clone(c.st.Traffic), func(t sched.Traffic) bool { return t.Network == h.name })
		c.seeAgain()
		gone = true
	}
	h.done <- errors.Join(h.errs...)
	if gone {
		return c.tell(sched.Event{Kind: sched.Loaded})
	}
	return nil
}

// uses reports whether a network that is being removed still has launches, or requests that have not ended.
func (c *core) uses(h *change) bool {
	return h.users > 0 || slices.ContainsFunc(slices.Concat(c.live, c.doom), func(l *launch) bool { return l.Network == h.name })
}

// dropRequest removes a request from the index. If its network is being removed, the removal no longer waits for it.
func (c *core) dropRequest(r *request) {
	if !c.reqs.drop(uint64(r.ID)) {
		return
	}
	for _, h := range c.changes {
		if h.leaves && h.name == r.Network {
			h.users--
		}
	}
}
