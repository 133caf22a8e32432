// Package soft is a device without hardware. Its results come from the golden executor, its times from the bundle's
// latency table, and its counts from the cycle law. Exits, logits and results are bit-identical to the hardware's. A
// launch with a constant batch takes T[first][last][batch]. If samples leave the batch, consecutive segments with the
// same batch size are one span of the table, and the launch takes the sum of its spans. Reports are labelled estimated.
package soft

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors of this package; the errors that an engine handles are in package device.
var (
	ErrMismatch = device.ErrMismatch
	ErrRequest  = device.ErrRequest
	ErrTable    = errors.New("the latency table is not complete")
)

// Executor computes a bundle's segments. A slot is the memory of one sample. golden.Program implements Executor, which
// is safe for concurrent use.
type Executor interface {
	NewSlot() []byte
	SetInput(slot []byte, image []int16) error
	Segment(segment, batch int, slot []byte) error
	Logits(slot []byte, exit int) ([]int16, error)
}

func goldenExecutor(b *bundle.Bundle) (Executor, error) { return golden.New(b) }

// Options of a device. With the zero value, the device computes all results itself.
type Options struct {
	// Memo, if set, caches the logits of every input at every exit. The logits do not depend on thresholds, so a sweep
	// of thresholds runs the network once per image.
	Memo *Memo
	// Slots is the maximum number of samples on the device; 0: 4 B_max.
	Slots int
	// Executor creates a bundle's executor; nil: golden's executor.
	Executor func(*bundle.Bundle) (Executor, error)
}

// Dev is a soft device.
type Dev struct {
	design configs.Design
	opts   Options

	mu    sync.Mutex
	nets  map[string]*net
	slots map[device.RequestID]*sample
	found map[device.RequestID][]device.ExitResult // prepared results of requests that are not yet admitted
}

// span is a cell of the latency table.
type span struct{ first, last, batch int }

type net struct {
	b     *bundle.Bundle
	hash  uint64
	table map[span]int64 // times in ns
	exec  Executor
	stats [][]device.Stats // [segment][batch-1]
}

type sample struct {
	net *net
	in  []int16
	key key
	mem []byte // memory of the slot; nil if memo or found has the results
	// found has the prepared results at all exits.
	found []device.ExitResult
	done  int // number of segments that have been computed in mem
}

// New creates a soft device for a design.
func New(d configs.Design, o Options) *Dev {
	if o.Slots <= 0 {
		o.Slots = 4 * abi.BMax
	}
	if o.Executor == nil {
		o.Executor = goldenExecutor
	}
	return &Dev{design: d, opts: o, nets: map[string]*net{}, slots: map[device.RequestID]*sample{}, found: map[device.RequestID][]device.ExitResult{}}
}

// Info implements device.Blocking.
func (d *Dev) Info() device.Info {
	return device.Info{
		Name: "soft", Label: "estimated", MaxBatch: abi.BMax, Slots: d.opts.Slots, Places: 1,
		Preempt: device.PreemptExit, ClockHz: int64(d.design.ClockMHz * 1e6),
	}
}

// Load implements device.Blocking.
func (d *Dev) Load(_ context.Context, a device.Artefact) error {
	b, err := device.ArtefactOf[*bundle.Bundle](a, "soft")
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("load %s on soft: %w", a.NetworkName(), err) }
	if b.ABIHash != abi.Hash || b.Design.Hash() != d.design.Hash() {
		return fail(fmt.Errorf("%w: ABI %016x, design %016x; expected %016x, %016x",
			ErrMismatch, b.ABIHash, b.Design.Hash(), abi.Hash, d.design.Hash()))
	}
	if err := b.Validate(); err != nil {
		return fail(err)
	}
	n := &net{b: b}
	if n.hash, err = b.Hash(); err != nil {
		return fail(err)
	}
	n.table = map[span]int64{}
	for _, e := range b.Latency {
		if e.Network == b.Network.Name {
			n.table[span{e.First, e.Last, e.Batch}] = e.P50
		}
	}
	for first := range b.Network.Exits {
		for last := first; last < len(b.Network.Exits); last++ {
			for batch := 1; batch <= abi.BMax; batch++ {
				if n.table[span{first, last, batch}] <= 0 {
					return fail(fmt.Errorf("%w: no time for segments %d..%d at batch %d", ErrTable, first, last, batch))
				}
			}
		}
	}
	if n.exec, err = d.opts.Executor(b); err != nil {
		return fail(err)
	}
	for _, e := range b.Network.Exits {
		row := make([]device.Stats, abi.BMax)
		for i := range row {
			row[i] = law(b, e.First, e.Last, i+1)
		}
		n.stats = append(n.stats, row)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nets[a.NetworkName()] = n
	return nil
}

// law computes the counts of one start of the NPU by the cycle law: MACs, cycles and bytes of layers first..last.
func law(b *bundle.Bundle, first, last, batch int) device.Stats {
	s := device.Stats{Starts: 1}
	for l := first; l <= last; l++ {
		x := cost.Layer(b.Design, cost.GeomOf(&b.Layers[l]), batch, b.FBCB[l][batch-1])
		s.MACCycles += uint64(x.Compute)
		s.MACs += uint64(x.MACs)
		s.BytesRead += uint64(x.BytesRead)
		s.BytesWritten += uint64(x.BytesWritten)
	}
	return s
}

// Admit implements device.Blocking.
func (d *Dev) Admit(_ context.Context, network string, id device.RequestID, in []device.Tensor) error {
	input, err := device.WordInput(in)
	if err != nil {
		return fmt.Errorf("admit request %d: %w", id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[network]
	switch {
	case n == nil:
		return fmt.Errorf("admit request %d: %w: network %q is not loaded", id, ErrRequest, network)
	case d.slots[id] != nil:
		return fmt.Errorf("admit request %d: %w: it has a slot already", id, ErrRequest)
	case len(d.slots) >= d.opts.Slots:
		return fmt.Errorf("admit request %d: %w: all %d slots are taken", id, ErrRequest, d.opts.Slots)
	}
	if want := n.b.Network.InH * n.b.Network.InW * n.b.Network.InC; len(input) != want {
		return fmt.Errorf("admit request %d: %w: the input has %d elements, expected %d", id, ErrRequest, len(input), want)
	}
	if err := n.b.Network.Holds(input); err != nil {
		return fmt.Errorf("admit request %d: %w: %w", id, ErrRequest, err)
	}
	s := &sample{net: n, found: d.found[id]}
	delete(d.found, id)
	if s.found != nil {
		d.slots[id] = s
		return nil
	}
	s.in = slices.Clone(input)
	if d.opts.Memo != nil {
		s.key = keyOf(n.hash, input)
	} else {
		s.mem = n.exec.NewSlot()
		if err := n.exec.SetInput(s.mem, input); err != nil {
			return fmt.Errorf("admit request %d: %w", id, err)
		}
	}
	d.slots[id] = s
	return nil
}

// Prepare implements device.Estimator. It computes every exit.
func (d *Dev) Prepare(_ context.Context, network string, id device.RequestID, in []device.Tensor) error {
	input, err := device.WordInput(in)
	if err != nil {
		return err
	}
	d.mu.Lock()
	n := d.nets[network]
	d.mu.Unlock()
	if n == nil {
		return fmt.Errorf("%w: network %q is not loaded", ErrRequest, network)
	}
	if want := n.b.Network.InH * n.b.Network.InW * n.b.Network.InC; len(input) != want {
		return fmt.Errorf("%w: the input has %d elements, expected %d", ErrRequest, len(input), want)
	}
	if err := n.b.Network.Holds(input); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	compute := func() ([]device.ExitResult, error) { return all(n.b, n.exec, input) }
	var exits []device.ExitResult
	if d.opts.Memo != nil {
		exits, err = d.opts.Memo.get(keyOf(n.hash, input), compute)
	} else {
		exits, err = compute()
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found[id] = exits
	return nil
}

// Run implements device.Blocking.
func (d *Dev) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rep, err := d.run(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("soft: launch %d, segments %d..%d: %w", l.ID, l.First, l.Last, err)
	}
	return rep, nil
}

func (d *Dev) run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	n, err := d.check(l)
	if err != nil {
		return nil, err
	}
	rep := &device.Report{Results: make([]device.Result, len(l.Requests))}
	active := make([]int, len(l.Requests))
	for i, id := range l.Requests {
		rep.Results[i] = device.Result{Request: id, Taken: -1}
		active[i] = i
	}
	since, batch := l.First, len(active) // first segment with the current batch size
	for seg := l.First; seg <= l.Last && len(active) > 0; seg++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(active) != batch {
			rep.Ns += n.table[span{since, seg - 1, batch}]
			since, batch = seg, len(active)
		}
		rep.Stats = add(rep.Stats, n.stats[seg][batch-1])
		if active, err = d.pass(l, rep, seg, active); err != nil {
			return nil, err
		}
		if seg == l.Last || len(active) == 0 {
			rep.Ns += n.table[span{since, seg, batch}]
		}
	}
	rep.Cycles = uint64(float64(rep.Ns) * d.design.ClockMHz / 1e3)
	rep.Stats.Cycles = rep.Cycles
	return rep, nil
}

// check returns the network of a launch, or an error if the launch is impossible.
func (d *Dev) check(l *device.Launch) (*net, error) {
	n := d.nets[l.Network]
	switch {
	case n == nil:
		return nil, fmt.Errorf("%w: network %q is not loaded", ErrRequest, l.Network)
	case l.First < 0 || l.Last < l.First || l.Last >= len(n.b.Network.Exits):
		return nil, fmt.Errorf("%w: there are %d segments", ErrRequest, len(n.b.Network.Exits))
	case len(l.Requests) < 1 || len(l.Requests) > abi.BMax || len(l.Theta) != len(l.Requests):
		return nil, fmt.Errorf("%w: a batch of %d with %d thresholds", ErrRequest, len(l.Requests), len(l.Theta))
	}
	for _, id := range l.Requests {
		if s := d.slots[id]; s == nil || s.net != n {
			return nil, fmt.Errorf("%w: request %d has no slot", ErrRequest, id)
		}
	}
	return n, nil
}

// pass runs a segment for a launch's active requests. It returns the requests that continue.
func (d *Dev) pass(l *device.Launch, rep *device.Report, seg int, active []int) ([]int, error) {
	batch, rest := len(active), active[:0]
	for _, i := range active {
		s := d.slots[l.Requests[i]]
		e, err := d.segment(s, seg, batch)
		if err != nil {
			return nil, fmt.Errorf("request %d: %w", l.Requests[i], err)
		}
		r := &rep.Results[i]
		r.Exits = append(r.Exits, e)
		if e.Confidence >= l.Theta[i] || seg == len(s.net.b.Network.Exits)-1 {
			r.Taken = seg
			continue
		}
		rest = append(rest, i)
	}
	return rest, nil
}

// segment returns a sample's result at the exit of seg.
func (d *Dev) segment(s *sample, seg, batch int) (device.ExitResult, error) {
	if s.found != nil {
		return s.found[seg], nil
	}
	if d.opts.Memo != nil {
		exits, err := d.opts.Memo.get(s.key, func() ([]device.ExitResult, error) { return all(s.net.b, s.net.exec, s.in) })
		if err != nil {
			return device.ExitResult{}, err
		}
		return exits[seg], nil
	}
	// A launch that starts again after a reset begins with segment 0.
	if seg == 0 {
		s.done = 0
	}
	if seg != s.done {
		return device.ExitResult{}, fmt.Errorf("%w: segment %d where segment %d is next", ErrRequest, seg, s.done)
	}
	if err := s.net.exec.Segment(seg, batch, s.mem); err != nil {
		return device.ExitResult{}, err
	}
	s.done = seg + 1
	return show(s.net.b, s.net.exec, s.mem, seg)
}

// Release implements device.Blocking.
func (d *Dev) Release(id device.RequestID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.slots, id)
	delete(d.found, id)
}

// Unload implements device.Unloader.
func (d *Dev) Unload(_ context.Context, network string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[network]
	if n == nil {
		return fmt.Errorf("unload %s from soft: %w: it is not loaded", network, ErrRequest)
	}
	for id, s := range d.slots {
		if s.net == n {
			return fmt.Errorf("unload %s from soft: %w: request %d has a slot", network, ErrRequest, id)
		}
	}
	delete(d.nets, network)
	return nil
}

// Slot returns the memory of a request's slot, for comparisons. It is nil without a slot, or if a memo is used.
func (d *Dev) Slot(id device.RequestID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.slots[id]; s != nil {
		return s.mem
	}
	return nil
}

// Reset implements device.Blocking. A soft device needs no reset.
func (*Dev) Reset(context.Context) error { return nil }

// Close implements device.Blocking.
func (*Dev) Close() error { return nil }

// show reads the logits of an exit from a slot.
func show(b *bundle.Bundle, x Executor, slot []byte, exit int) (device.ExitResult, error) {
	e := &b.Network.Exits[exit]
	raw, err := x.Logits(slot, exit)
	if err != nil {
		return device.ExitResult{}, err
	}
	class, conf := bundle.ConfidenceAt(e, raw)
	return device.ExitResult{Exit: exit, Class: class, Confidence: conf, Logits: e.Logits(raw), Raw: raw}, nil
}

// Answers returns a function that computes the results of all exits for an input of a bundle, with golden's numerics.
// The function is safe for concurrent use.
func Answers(b *bundle.Bundle) (func(in []int16) ([]device.ExitResult, error), error) {
	x, err := goldenExecutor(b)
	return func(in []int16) ([]device.ExitResult, error) { return all(b, x, in) }, err
}

// all computes the results of all exits for an input, in a new slot.
func all(b *bundle.Bundle, x Executor, in []int16) ([]device.ExitResult, error) {
	mem := x.NewSlot()
	if err := x.SetInput(mem, in); err != nil {
		return nil, err
	}
	out := make([]device.ExitResult, len(b.Network.Exits))
	for i := range out {
		if err := x.Segment(i, 0, mem); err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
		var err error
		if out[i], err = show(b, x, mem, i); err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return out, nil
}

func add(a, b device.Stats) device.Stats {
	return device.Stats{
		Cycles: a.Cycles + b.Cycles, MACCycles: a.MACCycles + b.MACCycles, MACs: a.MACs + b.MACs,
		BytesRead: a.BytesRead + b.BytesRead, BytesWritten: a.BytesWritten + b.BytesWritten, Starts: a.Starts + b.Starts,
	}
}

type key struct {
	bundle uint64
	input  [sha256.Size]byte
}

func keyOf(bundle uint64, in []int16) key {
	b := make([]byte, 0, 2*len(in))
	for _, v := range in {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	return key{bundle, sha256.Sum256(b)}
}
