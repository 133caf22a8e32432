// Networks that come and go while a Server runs.

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

// change is a network that comes or goes. Its fields are the books', but for done, which is sent to once.
type change struct {
	net    *Network
	name   string
	leaves bool
	users  int   // while it waits to begin: requests for the network that have not ended
	begun  bool  // loads or unloads have been begun
	todo   []int // devices on which they have not
	left   int   // under way
	errs   []error
	done   chan error
}

// failed records why a device has not loaded or unloaded the network.
func (h *change) failed(device string, err error) {
	h.errs = append(h.errs, fmt.Errorf("%s: %w", device, err))
}

// AddNetwork loads a network on every device for which it has a table and that is not given up, and returns when it is
// served, or is refused: then it is on no device. A device that is being reset loads it afterwards. With warm, an input
// of one sample, it is run once before. ctx bounds how long is waited; the change itself goes on.
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

// RemoveNetwork takes no more tasks for a network, unloads it when those that are there have ended, and returns then. A
// device that is being reset unloads it afterwards. Where a device cannot unload it, it stays, is served there, and can
// be removed again. ctx bounds how long is waited; the change itself goes on.
func (s *Server) RemoveNetwork(ctx context.Context, name string) error {
	if err := s.change(ctx, &change{name: name, leaves: true}); err != nil {
		return fmt.Errorf("remove network %q: %w", name, err)
	}
	return nil
}

// change hands a change to the books and waits for its end. ErrInside and the end of ctx do not take it
// back.
func (s *Server) change(ctx context.Context, h *change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.ended: // nobody would take it out of the mail
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
			case err := <-h.done: // it was there before the end
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

// leaves tells whether a network is going, or coming and not there yet.
func (c *core) leaves(network string) bool {
	return slices.ContainsFunc(c.changes, func(h *change) bool { return h.name == network })
}

// change records that a network is to come or to go.
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
				h.users++ // there will be no more: its tasks are refused
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

// mayChange refuses an impossible change of the i-th network (-1: there is none of that name).
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

// grown is a list of at least n.
func grown[T any](list []T, n int) []T {
	return append(list, make([]T, max(0, n-len(list)))...)
}

// seeAgain finds the traffic of everything anew: its list is another one, and the old one is as it was.
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

// carry lists the devices on which a change still has to load or unload: all that can serve the network.
func (c *core) carry(h *change) {
	h.begun, h.todo = true, nil
	for i, t := range h.net.Tables {
		if t != nil {
			h.todo = append(h.todo, i)
		}
	}
}

// carryOn begins those that wait no more: for a reset, or for what the policy loads and unloads.
func (c *core) carryOn(h *change) {
	kind := sched.Unload
	if !h.leaves {
		kind = sched.LoadNetwork
		if len(h.errs) == 0 && !c.anyAlive(h.net) {
			h.errs = append(h.errs, fmt.Errorf("%w: every device with a table for it is given up, since no reset has helped", ErrDevice))
		}
		if len(h.errs) > 0 { // it is to go again
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

// carried handles the end of a load or an unload. What a reset came in between of begins again when that is over.
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

// anyAlive tells whether a device that can serve a network is not given up.
func (c *core) anyAlive(n *Network) bool {
	for i, t := range n.Tables {
		if t != nil && !c.devs[i].dead {
			return true
		}
	}
	return false
}

// settle goes on with the changes: a network goes when nobody uses it any more.
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
			default: // what has been loaded goes again where a load has failed
				h.leaves, again = true, true
				c.carry(h)
			}
		}
	}
	return nil
}

// settled ends a change; of a network that has gone the policy is told.
func (c *core) settled(h *change) error {
	same := func(x *change) bool { return x == h }
	c.changes = slices.DeleteFunc(c.changes, same)
	gone := false
	// it stays on a device that could not unload it
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

// uses tells whether a network that is to go has requests that have not ended, or still runs.
func (c *core) uses(h *change) bool {
	return h.users > 0 || slices.ContainsFunc(slices.Concat(c.live, c.doom), func(l *launch) bool { return l.Network == h.name })
}

// dropRequest forgets a request.
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
