// The bus of a board over the Verilated RTL: registers, line and memory as a board has them, QEMU left out.

package uio

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

const cacheLine = 64

// rig is a board: the RTL's registers as Device memory, its interrupt line as UIO reports it, and a cache between CPU
// and DRAM that is coherent only after Sync.
type rig struct {
	t    *testing.T
	rtl  *npu.Cosim
	line *os.File

	mu     sync.Mutex // the simulator's
	dram   []byte
	cache  []byte // the memory as the CPU sees it
	before []byte // the cache when it last equalled the DRAM; lines that differ from it are dirty
	rng    *rand.Rand
	syncs  []string
	drop   int // number (from 1) of a Sync that is left out

	// quiet, if set, makes the build quiet (it refuses accesses silently), and may change a write on its way to the
	// RTL.
	quiet func(off, v uint32) uint32
}

func newRig(t *testing.T, path string, drop int) (*Bus, *rig) {
	t.Helper()
	rtl, err := npu.OpenCosim(t.Context(), npu.CosimOpts{Binary: path, DRAMBytes: 1 << 20, Base: 1 << 28})
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	dram, base := rtl.DRAM()
	r := &rig{
		t: t, rtl: rtl, line: os.NewFile(uintptr(fds[1]), "line"), dram: dram, cache: make([]byte, len(dram)), drop: drop,
		rng: rand.New(rand.NewPCG(1, 2)),
	}
	// Cache and DRAM begin with different random bytes, so that they are not equal by chance.
	for i := range r.cache {
		r.cache[i], dram[i] = byte(r.rng.Uint32()), byte(r.rng.Uint32())
	}
	// Every line is dirty, as an earlier process left it.
	r.before = slices.Clone(dram)
	b := &Bus{regs: r, irq: os.NewFile(uintptr(fds[0]), "uio"), mem: &memory{bytes: r.cache, addr: base, clean: r.clean}, running: true}
	if drop < 0 { // write-combined: nothing of it is in a cache
		r.cache, r.before = nil, nil
		b.mem = &memory{bytes: dram, addr: base}
	}
	go r.follow()
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, r
}

func (r *rig) load(off uint32) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off == abi.RegIRQStatus { // the NPU has written results or is writing them: lines that are evicted now overwrite them
		r.evict()
	}
	v, err := r.rtl.ReadReg(off)
	if err != nil { // on a board the process would be dead
		r.t.Errorf("register %#x: %v", off, err)
	}
	if off == abi.RegBuildAXI && r.quiet != nil {
		v |= abi.RegBuildAXIQuietMask
	}
	return v
}

func (r *rig) store(off, v uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off == abi.RegCtrl && v&abi.RegCtrlStartMask != 0 {
		r.evict()
	}
	if r.quiet != nil {
		v = r.quiet(off, v)
	}
	if err := r.rtl.WriteReg(off, v); err != nil && r.quiet == nil {
		r.t.Errorf("register %#x: %v", off, err)
	}
}

func (r *rig) close() error { return r.rtl.Close() }

// evict writes some dirty lines back, as a cache may at any time.
func (r *rig) evict() {
	for at := 0; at < len(r.cache); at += cacheLine {
		if r.rng.IntN(8) == 0 && r.dirty(at) {
			r.writeBack(at)
		}
	}
}

func (r *rig) dirty(at int) bool {
	return string(r.cache[at:at+cacheLine]) != string(r.before[at:at+cacheLine])
}

func (r *rig) writeBack(at int) {
	copy(r.dram[at:at+cacheLine], r.cache[at:])
	copy(r.before[at:at+cacheLine], r.cache[at:])
}

// clean is SLUICE_DMA_SYNC, by whole lines. A line that is invalidated in part is written back first, as ARM's
// caches do.
func (r *rig) clean(a *syncArgs) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs = append(r.syncs, fmt.Sprintf("%d bytes from %d, %d", a.size, a.offset, a.direction))
	if len(r.syncs) == r.drop {
		return nil
	}
	end := int(a.offset + a.size)
	for at := int(a.offset) / cacheLine * cacheLine; at < end; at += cacheLine {
		part := at < int(a.offset) || at+cacheLine > end
		if r.dirty(at) && (a.direction == uint32(npu.ToDevice) || part) {
			r.writeBack(at)
		}
		if a.direction == uint32(npu.FromDevice) {
			copy(r.cache[at:at+cacheLine], r.dram[at:])
			copy(r.before[at:at+cacheLine], r.dram[at:])
		}
	}
	return nil
}

// follow plays the kernel: after each unmasking it reports once that the line is high. The RTL's clock runs only while
// something waits.
func (r *rig) follow() {
	var b [4]byte
	for {
		if _, err := r.line.Read(b[:]); err != nil {
			return
		}
		r.mu.Lock()
		_, err := r.rtl.WaitIRQ(r.t.Context(), 1<<20)
		r.mu.Unlock()
		if err != nil {
			continue
		}
		if _, err := r.line.Write([]byte{1, 0, 0, 0}); err != nil {
			return
		}
	}
}

// tiny is the simulator of a small configuration, and a bundle for it.
func tiny(t *testing.T) (path string, b *bundle.Bundle) {
	t.Helper()
	path, err := npu.FindCosim("tiny")
	if err != nil {
		t.Fatal(err)
	}
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design); err != nil {
		t.Fatal(err)
	}
	return path, b
}

// TestRTLRefused: over a board's bus, the driver notices what a quiet build refuses: a base with an extra bit ends the
// load, and the driver does not wait for a refused START.
func TestRTLRefused(t *testing.T) {
	path, b := tiny(t)
	bus, r := newRig(t, path, -1)
	defer r.line.Close()
	spoilt := uint32(0) // the register
	r.quiet = func(off, v uint32) uint32 {
		switch {
		case off != spoilt:
		case off == abi.RegDescBaseHi:
			return v | 1<<8
		case off == abi.RegCtrl && v == abi.RegCtrlStartMask:
			return v | abi.RegCtrlSoftResetMask
		}
		return v
	}
	d, err := npu.New(bus, npu.Opts{ClockHz: 150e6})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	is := func(err error, off uint32) {
		t.Helper()
		if refused := (*npu.BusError)(nil); !errors.Is(err, npu.ErrRefused) || !errors.As(err, &refused) || refused.Off != off {
			t.Fatalf("expected a refused write to %#03x: %v", off, err)
		}
	}
	spoilt = abi.RegDescBaseHi
	is(d.Load(t.Context(), b), spoilt)
	spoilt = 0
	if err := d.Load(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := d.Admit(t.Context(), b.Network.Name, 1, device.InWords(make([]int16, b.Network.InH*b.Network.InW*b.Network.InC))); err != nil {
		t.Fatal(err)
	}
	l := &device.Launch{ID: 1, Network: b.Network.Name, Requests: []device.RequestID{1}, Theta: []float32{2}}
	spoilt = abi.RegCtrl
	_, err = d.Run(t.Context(), l)
	is(err, spoilt)
	spoilt = 0
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// serve runs two requests together, and one more, through a driver on the rig, and reports whether all results are
// golden's.
func serve(t *testing.T, path string, b *bundle.Bundle, in [][]int16, want [][]device.ExitResult, drop int) (syncs []string, right bool) {
	t.Helper()
	bus, r := newRig(t, path, drop)
	defer r.line.Close()
	d, err := npu.New(bus, npu.Opts{ClockHz: 150e6})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Load(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	last := len(b.Network.Exits) - 1
	for n, ids := range [][]device.RequestID{{1, 2}, {3}} {
		l := &device.Launch{ID: device.LaunchID(n + 1), Network: b.Network.Name, Last: last}
		for _, id := range ids {
			if err := d.Admit(t.Context(), b.Network.Name, id, device.InWords(in[id-1])); err != nil {
				t.Fatal(err)
			}
			l.Requests, l.Theta = append(l.Requests, id), append(l.Theta, 2) // nobody leaves early
		}
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			return r.syncs, false
		}
		for i, res := range rep.Results {
			for _, x := range res.Exits {
				if !slices.Equal(x.Raw, want[ids[i]-1][x.Exit].Raw) {
					return r.syncs, false
				}
			}
		}
		for _, id := range ids {
			d.Release(id)
		}
	}
	if all, stale := bus.Interrupts(); all-stale != d.Counters()[abi.CntStarts] || all == 0 {
		t.Errorf("%d interrupts, %d without a cause, of %d starts", all, stale, d.Counters()[abi.CntStarts])
	}
	return r.syncs, true
}

// TestRTLBehindCaches: with caches between CPU and DRAM (the module's cached memory), the RTL's results are golden's,
// and every Sync of the driver is needed. Write-combined memory needs no Sync.
func TestRTLBehindCaches(t *testing.T) {
	path, b := tiny(t)
	rng := rand.New(rand.NewPCG(3, 4))
	in := make([][]int16, 3)
	for i := range in {
		in[i] = make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)
		for j := range in[i] {
			in[i][j] = int16(rng.IntN(1 << b.Network.InFrac))
		}
	}
	want, err := (&soft.Memo{}).Fill(t.Context(), b, in, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if syncs, right := serve(t, path, b, in, want, -1); !right || len(syncs) != 0 {
		t.Errorf("write-combined: right: %v, %q", right, syncs)
	}
	syncs, right := serve(t, path, b, in, want, 0)
	if !right || len(syncs) < 6 {
		t.Fatalf("cached: right: %v, with %d of %q", right, len(syncs), syncs)
	}
	for i := range syncs {
		if _, right := serve(t, path, b, in, want, i+1); right {
			t.Errorf("right without %d of %d, %s", i+1, len(syncs), syncs[i])
		}
	}
	t.Logf("%s", strings.Join(syncs, "; "))
}

// TestUDMABuf: if our module is missing, u-dma-buf's memory with our name is used and mapped write-combined.
func TestUDMABuf(t *testing.T) {
	defer func(was bool) { outer = was }(outer)
	outer = false
	o := tree(t)
	if err := os.RemoveAll(o.Sys + "/class/misc"); err != nil {
		t.Fatal(err)
	}
	put(t, o.Sys, "class/u-dma-buf/npu-memory/phys_addr", "0x0000000030000000\n")
	put(t, o.Sys, "class/u-dma-buf/npu-memory/size", "65536\n")
	put(t, o.Sys, "class/u-dma-buf/npu-memory/sync_mode", "1\n")
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if mem, base := b.DRAM(); len(mem) != 65536 || base != 0x30000000 {
		t.Errorf("%d bytes at %#x", len(mem), base)
	}
	mode, err := line(o.Sys + "/class/u-dma-buf/npu-memory/sync_mode")
	if err != nil || mode != "2" {
		t.Errorf("sync_mode %q, %v: expected 2, write-combined", mode, err)
	}
	flags, err := unix.FcntlInt(b.mem.file.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_SYNC != unix.O_SYNC {
		t.Errorf("flags %#x, %v: without O_SYNC sync_mode means nothing", flags, err)
	}
	if err := b.Sync(0, 65536, npu.ToDevice); err != nil {
		t.Error(err)
	}
}
