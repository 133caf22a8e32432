// This file checks the counters of a start: bytes against the memory's own count, and MACs against the layers' sizes.

package verify

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// work contains the numbers of MACs of the array and of the depthwise unit. MAC_CYCLES counts only the array.
type work struct{ array, unit uint64 }

// add adds a layer for n samples. Counter MACS excludes MACs in the padding, except in a depthwise layer.
func (w *work) add(d *abi.Desc, n int) {
	switch d.Op {
	case abi.OpDepthwise:
		w.unit += uint64(n) * uint64(d.OutH) * uint64(d.OutW) * uint64(d.OutC) * uint64(d.KH) * uint64(d.KW)
	case abi.OpGEMM:
		w.array += uint64(n) * macs(d)
	}
}

// macs returns the MACs of a GEMM for one sample, without the padding.
func macs(d *abi.Desc) uint64 {
	along := func(out, stride uint16, pad, kernel uint8, in uint16) (n uint64) {
		for at := range int(out) {
			n += uint64(golden.Taps(at, int(stride), int(pad), int(kernel), int(in)))
		}
		return n
	}
	rows := along(d.OutH, uint16(d.SH), d.PadT, d.KH, d.InH)
	cols := along(d.OutW, uint16(d.SW), d.PadL, d.KW, d.InW)
	return rows * cols * uint64(d.InC) * uint64(d.OutC)
}

// counts contains the counters of an NPU and of the memory's ports, as absolute values or as differences.
type counts struct {
	npu   [abi.CntCount]uint64
	ports []npu.PortStats
}

// counting reads counters: an NPU's registers and the statistics of the memory's ports.
type counting interface {
	ReadReg(offset uint32) (uint32, error)
	Stats(port int) (npu.PortStats, error)
}

// count reads all counters.
func count(bus counting, ports int) (c counts, err error) {
	for p := range ports {
		s, err := bus.Stats(p)
		if err != nil {
			return c, err
		}
		c.ports = append(c.ports, s)
	}
	c.npu, err = readCounters(bus)
	return c, err
}

// since returns c - b.
func (c counts) since(b counts) counts {
	d := counts{ports: make([]npu.PortStats, len(c.ports))}
	for i := range c.npu {
		d.npu[i] = c.npu[i] - b.npu[i]
	}
	for p, s := range c.ports {
		was := b.ports[p]
		d.ports[p] = npu.PortStats{
			ReadBursts: s.ReadBursts - was.ReadBursts, ReadBeats: s.ReadBeats - was.ReadBeats,
			WriteBursts: s.WriteBursts - was.WriteBursts, WriteBeats: s.WriteBeats - was.WriteBeats, WriteBytes: s.WriteBytes - was.WriteBytes,
		}
	}
	return d
}

// wrong describes a wrong counter after the work w on a kind of simulator, or returns "". If late is set, the ports'
// counts can include reads for an earlier start.
func (c *counts) wrong(of npu.CosimKind, beat int, w work, late bool) string {
	switch of {
	case npu.CosimHLS:
		return ""
	case npu.CosimShell:
		w = work{}
	}
	moving := []int{abi.CntCyclesBusy}
	if w.array > 0 {
		moving = append(moving, abi.CntMACCycles)
	}
	for _, counter := range moving {
		if c.npu[counter] == 0 {
			return abi.CounterNames[counter] + " stands still"
		}
	}
	var read, written uint64
	for _, p := range c.ports {
		read += p.ReadBeats * uint64(beat)
		written += p.WriteBytes
	}
	if got := c.npu[abi.CntBytesRead]; late && got < read {
		read = got
	}
	for _, x := range []struct {
		counter int
		want    uint64
	}{{abi.CntMACs, w.array + w.unit}, {abi.CntBytesRead, read}, {abi.CntBytesWritten, written}} {
		if got := c.npu[x.counter]; got != x.want {
			return fmt.Sprintf("%s counts %d, expected %d", abi.CounterNames[x.counter], got, x.want)
		}
	}
	return ""
}
