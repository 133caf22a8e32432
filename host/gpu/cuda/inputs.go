// Networks on the GPU have slots, into which requests' inputs are copied.

package cuda

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// sample is a request that has a slot.
type sample struct {
	net   *network
	slot  int
	input []byte // stored for another copy after a reset
	in    bool   // the input has been copied
}

// page is pinned memory for an input, with its copy's event. Both are allocated when the network is loaded, because
// allocating or freeing pinned memory blocks all streams.
type page struct {
	host  []byte
	event driver.Event
}

// staged is a copy in progress, from a page to a slot.
type staged struct {
	work   *device.Work
	sample *sample
	page
}

// load loads a network.
func (l *launcher) load(name string, n *network) error {
	if l.nets[name] != nil {
		return fmt.Errorf("load %s: %w: it is loaded", name, device.ErrRequest)
	}
	for i := l.cfg.Slots - 1; i >= 0; i-- {
		n.free = append(n.free, i)
	}
	if err := l.install(n); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	l.nets[name] = n
	return nil
}

// install copies a network's weights to the GPU and allocates its slots. Each slot gets a page.
func (l *launcher) install(n *network) (err error) {
	var weights, slots driver.Ptr
	var host []byte
	defer func() {
		rest := l.lost == nil && (host == nil || l.lib.Wait(l.copies) == nil)
		if host != nil && rest {
			_ = l.lib.FreeHost(host)
		}
		if err == nil || !rest { // memory in use by a copy is freed later, with the context
			return
		}
		_ = l.freePages(n)
		if weights != 0 {
			_ = l.lib.Free(weights)
		}
		if slots != 0 {
			_ = l.lib.Free(slots)
		}
	}()
	if weights, err = l.lib.Alloc(len(n.blob)); err != nil {
		return err
	}
	if slots, err = l.lib.Alloc(l.cfg.Slots * int(n.b.Slot.Stride)); err != nil {
		return err
	}
	if host, err = l.lib.AllocHost(len(n.blob)); err != nil {
		return err
	}
	copy(host, n.blob)
	if err = l.lib.CopyIn(weights, host, l.copies); err != nil {
		return err
	}
	if err = l.lib.Wait(l.copies); err != nil {
		return err
	}
	for len(n.pages) < l.cfg.Slots {
		p, err := l.newPage(n)
		if err != nil {
			return err
		}
		n.pages = append(n.pages, p)
	}
	n.place(weights, slots)
	return nil
}

func (l *launcher) newPage(n *network) (p page, err error) {
	if p.host, err = l.lib.AllocHost(n.imageBytes()); err != nil {
		return p, err
	}
	if p.event, err = l.lib.NewEvent(false); err != nil {
		_ = l.lib.FreeHost(p.host)
	}
	return p, err
}

// freePages frees a network's pages, which must be unused.
func (l *launcher) freePages(n *network) (first error) {
	for _, p := range n.pages {
		if l.lost != nil { // the pages are freed with the context
			break
		}
		if err := l.lib.FreeEvent(p.event); first == nil {
			first = err
		}
		if err := l.lib.FreeHost(p.host); first == nil {
			first = err
		}
	}
	n.pages = nil
	return first
}

func (l *launcher) unload(name string) error {
	n := l.nets[name]
	if n == nil {
		return refuse("unload %s: it is not loaded", name)
	}
	for id, s := range l.samples {
		if s.net == n {
			return refuse("unload %s: request %d has a slot", name, id)
		}
	}
	for i := range l.staged { // copies for released requests
		if l.staged[i].sample.net == n {
			return refuse("unload %s: an input is on its way", name)
		}
	}
	delete(l.nets, name)
	err := l.freePages(n)
	for _, at := range []driver.Ptr{n.weights, n.slots} {
		if e := l.lib.Free(at); err == nil {
			err = e
		}
	}
	return err
}

// admit gives a request a slot and starts the copy of its input.
func (l *launcher) admit(w *device.Work, input []int16) error {
	n := l.nets[w.Network]
	switch {
	case n == nil:
		return refuse("network %q is not loaded", w.Network)
	case l.samples[w.Request] != nil:
		return refuse("it has a slot already")
	case len(n.free) == 0:
		return refuse("all %d slots are taken", l.cfg.Slots)
	}
	image, err := n.image(input)
	if err != nil {
		return refuse("%w", err)
	}
	s := &sample{net: n, slot: n.free[len(n.free)-1], input: image}
	if err := l.stage(w, s); err != nil {
		return err
	}
	n.free = n.free[:len(n.free)-1]
	l.samples[w.Request] = s
	return nil
}

// stage starts the copy of a sample's input.
func (l *launcher) stage(w *device.Work, s *sample) (err error) {
	c := staged{work: w, sample: s}
	defer func() {
		if err != nil && c.event != 0 {
			l.giveUp(&c)
		}
	}()
	if free := s.net.pages; len(free) > 0 {
		c.page, s.net.pages = free[len(free)-1], free[:len(free)-1]
		// The slot's own page may still be in use by the copy of a released request.
	} else if c.page, err = l.newPage(s.net); err != nil {
		return err
	}
	copy(c.host, s.input)
	at := s.net.slots + driver.Ptr(int64(s.slot)*s.net.b.Slot.Stride+int64(s.net.b.Network.InOffset))
	if err = l.lib.CopyIn(at, c.host, l.copies); err != nil {
		return err
	}
	if err = l.lib.Record(c.event, l.copies); err != nil {
		return err
	}
	l.staged = append(l.staged, c)
	return nil
}

// unstage returns a finished copy's page to its network.
func (l *launcher) unstage(c *staged) {
	if l.lost == nil { // otherwise the page is freed with the context
		c.sample.net.pages = append(c.sample.net.pages, c.page)
	}
}

// giveUp waits for a copy in progress and returns its page. If this fails, the page is freed with the context.
func (l *launcher) giveUp(c *staged) {
	if l.lost == nil && l.lib.Wait(l.copies) == nil {
		l.unstage(c)
	}
}

// free frees a request's slot, if it has one.
func (l *launcher) free(id device.RequestID) {
	if s := l.samples[id]; s != nil {
		s.net.free = append(s.net.free, s.slot)
		delete(l.samples, id)
	}
}

// drop frees the slot of a request whose input failed.
func (l *launcher) drop(c *staged) {
	if c.work != nil && l.samples[c.work.Request] == c.sample {
		l.free(c.work.Request)
	}
}
