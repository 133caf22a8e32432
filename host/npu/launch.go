// A launch consists of one start and one interrupt per segment.

package npu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Run implements device.Blocking: it runs one segment after another, with the requests that have not left the batch.
func (d *Driver) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep, err := d.launch(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("%s: launch %d of %s, segments %d..%d: %w", d.opts.Name, l.ID, l.Network, l.First, l.Last, err)
	}
	return rep, nil
}

func (d *Driver) launch(ctx context.Context, l *device.Launch) (*device.Report, error) {
	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	if err := d.usable(); err != nil {
		return nil, err
	}
	n, slots, err := d.batch(l)
	if err != nil {
		return nil, err
	}
	if d.active != n {
		if err := d.activate(n); err != nil {
			d.failed = err
			return nil, err
		}
	}
	rep := &device.Report{Results: make([]device.Result, len(l.Requests))}
	active := make([]int, len(l.Requests)) // indices of requests still in the batch
	for i, id := range l.Requests {
		rep.Results[i] = device.Result{Request: id, Taken: -1}
		active[i] = i
	}
	if d.behind {
		if d.counters, err = d.readCounters(); err != nil {
			d.failed = err
			return nil, err
		}
		d.behind = false
	}
	before := d.counters
	left := d.opts.CycleLimit
	if l.Limit > 0 {
		left = min(left, d.cycles(l.Limit))
	}
	for seg := l.First; seg <= l.Last && len(active) > 0; seg++ {
		e := &n.b.Network.Exits[seg]
		if err := ctx.Err(); err != nil {
			d.behind = seg > l.First // the next launch reads the counters: after ctx has ended, registers may be unreachable
			return nil, err
		}
		table := make([]int, len(active))
		for i, p := range active {
			table[i] = slots[p]
		}
		spent, err := d.start(ctx, e, table, left)
		if err != nil {
			return nil, fmt.Errorf("segment %d (%s) with a batch of %d: %w", seg, e.Name, len(active), err)
		}
		left -= min(spent, left)
		if active, err = d.exit(n, l, seg, active, slots, rep); err != nil {
			d.failed = err
			return nil, err
		}
	}
	if d.counters, err = d.readCounters(); err != nil {
		d.failed = err
		return nil, err
	}
	delta := func(i int) uint64 { return d.counters[i] - before[i] }
	rep.Stats = device.Stats{
		Cycles: delta(abi.CntCyclesBusy), MACCycles: delta(abi.CntMACCycles), MACs: delta(abi.CntMACs),
		BytesRead: delta(abi.CntBytesRead), BytesWritten: delta(abi.CntBytesWritten), Starts: delta(abi.CntStarts),
	}
	rep.Cycles = rep.Stats.Cycles
	rep.Ns = d.ns(rep.Cycles)
	return rep, nil
}

// exit reads the results of a batch at the end of a segment. It returns the requests that stay in the batch.
func (d *Driver) exit(n *network, l *device.Launch, seg int, active, slots []int, rep *device.Report) ([]int, error) {
	e, final := &n.b.Network.Exits[seg], seg == len(n.b.Network.Exits)-1
	rest := active[:0]
	for _, p := range active {
		raw, err := d.logits(n, slots[p], seg)
		if err != nil {
			return nil, err
		}
		class, conf := bundle.ConfidenceAt(e, raw)
		r := &rep.Results[p]
		r.Exits = append(r.Exits, device.ExitResult{
			Exit: seg, Class: class, Confidence: conf, Logits: e.Logits(raw), Raw: raw,
		})
		if conf >= l.Theta[p] || final {
			r.Taken = seg
			continue
		}
		rest = append(rest, p)
	}
	return rest, nil
}

// batch checks a launch and returns the launch's network and slots.
func (d *Driver) batch(l *device.Launch) (*network, []int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[l.Network]
	switch {
	case n == nil:
		return nil, nil, fmt.Errorf("%w: the network is not loaded", ErrRequest)
	case l.First < 0 || l.Last < l.First || l.Last >= len(n.b.Network.Exits):
		return nil, nil, fmt.Errorf("%w: there are %d segments", ErrRequest, len(n.b.Network.Exits))
	case len(l.Requests) < 1 || len(l.Requests) > abi.BMax || len(l.Theta) != len(l.Requests):
		return nil, nil, fmt.Errorf("%w: a batch of %d with %d thresholds, expected 1..%d", ErrRequest,
			len(l.Requests), len(l.Theta), abi.BMax)
	}
	slots := make([]int, len(l.Requests))
	for i, id := range l.Requests {
		s := d.live[id]
		if s == nil || s.net != n {
			return nil, nil, fmt.Errorf("%w: request %d has no slot of this network", ErrRequest, id)
		}
		if slices.Contains(l.Requests[:i], id) {
			return nil, nil, fmt.Errorf("%w: duplicate request %d in the batch", ErrRequest, id)
		}
		slots[i] = s.slot
	}
	return n, slots, nil
}

// start runs one segment until its interrupt, for at most limit cycles. If the hardware's state is unknown after an
// error, start stores the error in d.failed.
func (d *Driver) start(ctx context.Context, e *bundle.Exit, slots []int, limit uint64) (cycles uint64, err error) {
	w := [][2]uint32{
		{abi.RegLayers, uint32(e.First)<<abi.RegLayersFirstLSB | uint32(e.Last)<<abi.RegLayersLastLSB},
		{abi.RegBatch, uint32(len(slots)) << abi.RegBatchBActLSB},
	}
	// Also write the entries beyond the batch, so that a start does not depend on the previous start.
	for i := range abi.RegSlotTableCount {
		s := 0
		if i < len(slots) {
			s = slots[i]
		}
		w = append(w, [2]uint32{abi.RegSlotTable + 4*uint32(i), uint32(s)})
	}
	if err := d.group("layers, batch and slot table", w...); err != nil {
		d.failed = err
		return 0, err
	}
	if err := d.bus.WriteReg(abi.RegCtrl, abi.RegCtrlStartMask); err != nil {
		d.failed = err
		return 0, err
	}
	if cycles, err = d.wait(ctx, limit); err != nil {
		if errors.Is(err, ErrNoIRQ) {
			err = fmt.Errorf("%w: no interrupt within %d cycles: %w", ErrHang, limit, err)
		}
		d.failed = err
		return cycles, err
	}
	status, err := d.finish()
	if err != nil {
		d.failed = err
		return cycles, err
	}
	switch {
	case status&abi.RegStatusErrorMask != 0:
		hw, err := d.hwError()
		if err != nil {
			d.failed = err
			return cycles, err
		}
		d.counters, err = d.readCounters() // these counts are part of no launch
		if err != nil {
			d.failed = err
		}
		return cycles, hw
	case status&abi.RegStatusDoneMask == 0 || status&abi.RegStatusBusyMask != 0:
		d.failed = fmt.Errorf("%w: STATUS is %#x at the interrupt", ErrHang, status)
		return cycles, d.failed
	}
	return cycles, nil
}

// finish reads the status after an interrupt and clears the line.
func (d *Driver) finish() (uint32, error) {
	status, err := d.bus.ReadReg(abi.RegStatus)
	if err != nil {
		return 0, err
	}
	return status, d.bus.WriteReg(abi.RegIRQStatus, abi.RegIRQStatusDoneMask|abi.RegIRQStatusErrorMask)
}

func (d *Driver) hwError() (*HWError, error) {
	v, err := d.bus.ReadReg(abi.RegError)
	if err != nil {
		return nil, err
	}
	addr, err := d.bus.ReadReg(abi.RegErrorAddr)
	if err != nil {
		return nil, err
	}
	return &HWError{
		Code:  abi.ErrCode(v & abi.RegErrorCodeMask >> abi.RegErrorCodeLSB),
		Layer: int(v & abi.RegErrorLayerMask >> abi.RegErrorLayerLSB),
		Port:  int(v & abi.RegErrorPortMask >> abi.RegErrorPortLSB),
		Addr:  addr,
	}, nil
}
