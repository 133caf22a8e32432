package npu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// testConfigs are tried in this order; one must have been built (make cosim).
var testConfigs = []string{"tiny", "small", "run"}

// openTestCosim starts a co-simulation of any configuration that has been built.
func openTestCosim(t testing.TB, o CosimOpts) (*Cosim, configs.Design) {
	t.Helper()
	var errs []error
	for _, name := range testConfigs {
		path, err := FindCosim(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.Binary = path
		c, err := OpenCosim(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range configs.Names() {
			d, err := configs.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if d.Hash() == c.Info().DesignHash {
				return c, d
			}
		}
		t.Fatalf("%s: design hash %016x is none of hw/configs: build it again", path, c.Info().DesignHash)
	}
	t.Fatalf("no co-simulation is built: sim/build.sh %s (package verilator): %v", testConfigs[0], errors.Join(errs...))
	return nil, configs.Design{}
}

func cosimDriver(t *testing.T, o CosimOpts, opts Opts) (*Driver, *Cosim, *testNet) {
	t.Helper()
	o.Base = 1 << 32
	c, design := openTestCosim(t, o)
	opts.ClockHz = int64(design.ClockMHz * 1e6)
	d, err := New(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDriver(t, d) })
	n := newTestNet(t, design)
	if err := d.Load(t.Context(), n.b); err != nil {
		t.Fatal(err)
	}
	return d, c, n
}

// The hardware computes the test's results and always takes the same cycles: in a process, after a reset, and in another
// process.
func TestCosimRun(t *testing.T) {
	var cycles [2][]uint64
	for process := range cycles {
		d, c, n := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{})
		rng := rand.New(rand.NewPCG(5, 5))
		ids := []device.RequestID{1, 2, 3, 4, 5, 6, 7, 8}
		in := admit(t, d, rng, ids...)
		// A threshold in the middle of the inputs' confidences at the first exit splits the batch.
		var confs []float32
		for _, id := range ids {
			_, conf := bundle.Confidence(n.logits(in[id], 0), 6)
			confs = append(confs, conf)
		}
		slices.Sort(confs)
		middle := confs[len(confs)/2]
		split := false
		for round := range 2 {
			for batch := 1; batch <= len(ids); batch++ {
				for _, theta := range []float32{0, middle, never} {
					l := launch(0, 1, theta, ids[:batch]...)
					rep, err := d.Run(t.Context(), l)
					if err != nil {
						t.Fatal(err)
					}
					if !d.Build().Stub {
						check(t, n, l, rep, in)
					}
					early := 0
					for _, r := range rep.Results {
						if r.Taken == 0 {
							early++
						}
					}
					split = split || early > 0 && early < batch
					if rep.Cycles == 0 || rep.Stats.BytesRead == 0 || rep.Stats.BytesWritten == 0 || rep.Stats.MACs == 0 {
						t.Errorf("batch %d: counters %+v", batch, rep.Stats)
					}
					cycles[process] = append(cycles[process], rep.Cycles)
				}
			}
			if round == 0 {
				if err := d.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !split && !d.Build().Stub {
			t.Error("no threshold split a batch")
		}
		half := len(cycles[process]) / 2
		for i := range half {
			if cycles[process][i] != cycles[process][half+i] {
				t.Errorf("launch %d took %d cycles, after a reset %d", i, cycles[process][i], cycles[process][half+i])
			}
		}
		stats, err := c.Stats(0)
		if err != nil {
			t.Fatal(err)
		}
		got := d.Counters()
		if stats.WriteBytes != got[abi.CntBytesWritten] || stats.ReadBeats*uint64(c.Info().AXIBytes) != got[abi.CntBytesRead] {
			t.Errorf("memory moved %+v, the counters say %d read, %d written", stats, got[abi.CntBytesRead], got[abi.CntBytesWritten])
		}
	}
	for i := range cycles[0] {
		if cycles[0][i] != cycles[1][i] {
			t.Errorf("launch %d took %d cycles, in another process %d", i, cycles[0][i], cycles[1][i])
		}
	}
}

// Upsampling and layer norms have no operators in hardware (dse/onnx/upsample.go, norm.go): they are lowered to layers, which
// must equal the golden executor. Norms need a design with post: make test-verify uses one.
func TestCosimUpsample(t *testing.T) {
	c, design := openTestCosim(t, CosimOpts{DRAMBytes: 4 << 20, Base: 1 << 32})
	d, err := New(c, Opts{ClockHz: int64(design.ClockMHz * 1e6)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDriver(t, d) })
	if d.Build().Stub { // computes nothing
		return
	}
	names := []string{"resize_nearest", "resize_linear", "upsample", "transposed", "depth_to_space"}
	if design.Post {
		names = append(names, "post_norms", "post_norms_others")
	}
	for i, name := range names {
		r := recipe.Recipe{Network: filepath.Join("..", "..", "dse", "onnx", "testdata", "ops", name+".onnx"), Seed: 35}
		b, err := r.Make(design)
		if err != nil {
			t.Fatal(name, err)
		}
		p, err := golden.New(b)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := d.Load(t.Context(), b); err != nil {
			t.Fatal(name, err)
		}
		n, rng, id := &b.Network, rand.New(rand.NewPCG(35, uint64(i))), device.RequestID(i+1)
		in := make([]int16, n.InH*n.InW*n.InC)
		for k := range in {
			in[k] = int16(rng.Uint32())
		}
		want, err := p.Run(in)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := d.Admit(t.Context(), n.Name, id, device.InWords(in)); err != nil {
			t.Fatal(name, err)
		}
		rep, err := d.Run(t.Context(), &device.Launch{
			ID: device.LaunchID(id), Network: n.Name, Last: len(n.Exits) - 1, Requests: []device.RequestID{id}, Theta: []float32{2},
		})
		if err != nil {
			t.Fatal(name, err)
		}
		for x, e := range rep.Results[0].Exits {
			if len(want[x]) < 4 || !slices.Equal(e.Raw, want[x]) {
				t.Errorf("%s, exit %d: the hardware's %d numbers are not the %d of golden", name, x, len(e.Raw), len(want[x]))
			}
		}
	}
}

// Every memory fault causes its own error; after a reset the same launch succeeds.
func TestCosimFaults(t *testing.T) {
	const watchdog = 3000
	d, c, n := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{Watchdog: watchdog, CycleLimit: 1 << 20})
	in := admit(t, d, rand.New(rand.NewPCG(5, 5)), 1, 2, 3)
	l := launch(0, 1, never, 1, 2, 3)
	good := func(what string) {
		t.Helper()
		rep, err := d.Run(t.Context(), l)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !d.Build().Stub {
			check(t, n, l, rep, in)
		}
	}
	good("at first")
	for name, f := range map[string]struct {
		fault Fault
		code  abi.ErrCode
	}{
		"read SLVERR":         {Fault{Dir: FaultRead, Kind: FaultSLVERR, First: 3}, abi.ErrReadSLVERR},
		"read DECERR":         {Fault{Dir: FaultRead, Kind: FaultDECERR, First: 2}, abi.ErrReadDECERR},
		"write SLVERR":        {Fault{Dir: FaultWrite, Kind: FaultSLVERR}, abi.ErrWriteSLVERR},
		"write DECERR":        {Fault{Dir: FaultWrite, Kind: FaultDECERR}, abi.ErrWriteDECERR},
		"read never answered": {Fault{Dir: FaultRead, Kind: FaultNever, First: 4}, abi.ErrWatchdog},
		"a beat that is lost": {Fault{Dir: FaultRead, Kind: FaultNever, Beat: 1, First: 2}, abi.ErrWatchdog},
		"write unanswered":    {Fault{Dir: FaultWrite, Kind: FaultNever}, abi.ErrWatchdog},
	} {
		f.fault.Port, f.fault.Count = AnyPort, 1
		if err := c.AddFault(f.fault); err != nil {
			t.Fatal(err)
		}
		_, err := d.Run(t.Context(), l)
		if !errors.Is(err, &HWError{Code: f.code}) {
			t.Errorf("%s: %v, expected %v", name, err, f.code)
		}
		if device.IsHang(err) != (f.code == abi.ErrWatchdog) {
			t.Errorf("%s: counts as a hang: %v", name, device.IsHang(err))
		}
		if err := c.ClearFaults(); err != nil {
			t.Fatal(err)
		}
		if err := d.Reset(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		good("after " + name)
		// An access without an answer blocks an ID permanently; only a hard reset frees it.
		if err := c.HardReset(); err != nil {
			t.Fatal(err)
		}
		if err := d.hardReset(c); err != nil {
			t.Fatal(err)
		}
	}
	// A slow memory is not a fault.
	if err := c.AddFault(Fault{Port: AnyPort, Kind: FaultDelay, Delay: watchdog / 2}); err != nil {
		t.Fatal(err)
	}
	good("with delays")
	// Without the watchdog, a lost answer meets the limit of cycles, and Reset still recovers.
	if err := c.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	if err := c.AddFault(Fault{Port: AnyPort, Dir: FaultRead, Kind: FaultNever, First: 4, Count: 1}); err != nil {
		t.Fatal(err)
	}
	d.opts.Watchdog, d.opts.CycleLimit = 0, 50_000
	if err := d.program(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Run(t.Context(), l); !errors.Is(err, ErrHang) {
		t.Fatalf("a hang: %v", err)
	}
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	good("after a hang")
}

// A launch's limit is time on the device's own clock, of all its segments together.
func TestCosimLimit(t *testing.T) {
	d, _, _ := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{})
	admit(t, d, rand.New(rand.NewPCG(5, 5)), 1, 2)
	l := launch(0, 1, never, 1, 2)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenths int64
		hangs  bool
	}{{9, true}, {1, true}, {11, false}} {
		l.Limit = rep.Ns * c.tenths / 10
		if _, err := d.Run(t.Context(), l); device.IsHang(err) != c.hangs || err != nil != c.hangs {
			t.Errorf("a limit of %d ns for %d: %v", l.Limit, rep.Ns, err)
		}
		if err := d.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Registers: refused accesses, the time of an access, the values after a reset.
func TestCosimRegisters(t *testing.T) {
	c, _ := openTestCosim(t, CosimOpts{})
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if c.Cycles() != 0 {
		t.Errorf("%d cycles at first", c.Cycles())
	}
	if v, err := c.ReadReg(abi.RegID); v != abi.ID || err != nil || c.Cycles() != 3 {
		t.Errorf("ID %#x, %v, after %d cycles; expected 3", v, err, c.Cycles())
	}
	if err := c.WriteReg(abi.RegScratch0, 7); err != nil || c.Cycles() != 6 {
		t.Errorf("write: %v, after %d cycles; expected 6", err, c.Cycles())
	}
	for name, err := range map[string]error{
		"write to ID":         c.WriteReg(abi.RegID, 0),
		"write to nothing":    c.WriteReg(0xFF0, 0),
		"bits not there":      c.WriteReg(abi.RegNSlot, 1<<7),
		"two commands at one": c.WriteReg(abi.RegCtrl, abi.RegCtrlStartMask|abi.RegCtrlSoftResetMask),
	} {
		bus := (*BusError)(nil)
		if !errors.As(err, &bus) || bus.Resp != RespSLVERR || !bus.Write {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ReadReg(0xFF0); !errors.As(err, new(*BusError)) {
		t.Errorf("read of nothing: %v", err)
	}
	for _, off := range []uint32{2, 0x1000, 0xFFFFFFFC} {
		if _, err := c.ReadReg(off); !errors.As(err, new(*CosimError)) {
			t.Errorf("read at %#x: %v", off, err)
		}
	}
	before := c.Cycles()
	if n, err := c.WaitIRQ(t.Context(), 12345); n != 12345 || !errors.Is(err, ErrNoIRQ) || c.Cycles() != before+12345 {
		t.Errorf("waited %d cycles, %v; the clock moved by %d", n, err, c.Cycles()-before)
	}
	if err := c.Step(5); err != nil || c.Cycles() != before+12350 {
		t.Errorf("step: %v, %d", err, c.Cycles())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.WaitIRQ(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.HardReset(); err != nil || c.Cycles() != 0 {
		t.Errorf("reset: %v, %d cycles", err, c.Cycles())
	}
	if v, err := c.ReadReg(abi.RegScratch0); v != 0 || err != nil {
		t.Errorf("SCRATCH0 after a hard reset: %d, %v", v, err)
	}
	if err := c.Trace(true); c.Info().CanTrace != (err == nil) {
		t.Errorf("trace: %v", err)
	}
	for name, err := range map[string]error{
		"no bandwidth":   c.SetMemory(1e-9, 1),
		"latency":        c.SetMemory(1, -1),
		"no writes":      c.SetTiming(MemoryTiming{BytesPerCycle: 1, Reads: 1}),
		"many reads":     c.SetTiming(MemoryTiming{BytesPerCycle: 1, Reads: 257, Writes: 1}),
		"unknown fault":  c.AddFault(Fault{Kind: 9}),
		"no such port":   c.AddFault(Fault{Kind: FaultSLVERR, Port: 200}),
		"range is empty": c.AddFault(Fault{Kind: FaultSLVERR, Low: 2, High: 1}),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := c.Stats(99); err == nil {
		t.Error("statistics of port 99")
	}
}

// readTime reads the hardware's clock: cycles since its reset, also between starts. Reading the low word latches the
// high one, so there must be no other access in between.
func readTime(b Bus) (cycles uint64, err error) {
	lo, err := b.ReadReg(abi.RegTimeLo)
	if err != nil {
		return 0, fmt.Errorf("read TIME: %w", err)
	}
	hi, err := b.ReadReg(abi.RegTimeHi)
	if err != nil {
		return 0, fmt.Errorf("read TIME: %w", err)
	}
	return uint64(hi)<<32 | uint64(lo), nil
}

// TIME counts every cycle since the reset, for all commands, beyond 32 bits in a model and on the RTL.
func TestReadTime(t *testing.T) {
	c, _ := openTestCosim(t, CosimOpts{})
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	now := func() uint64 {
		t.Helper()
		at := c.Cycles()
		v, err := readTime(c)
		if err != nil {
			t.Fatal(err)
		}
		return v - at // without the cycles of the reset itself
	}
	zero := now()
	if _, err := c.WaitIRQ(t.Context(), 1000); !errors.Is(err, ErrNoIRQ) {
		t.Fatal(err)
	}
	for _, ctrl := range []uint32{abi.RegCtrlSoftResetMask, abi.RegCtrlClearCountersMask, abi.RegCtrlStartMask} {
		if err := c.WriteReg(abi.RegCtrl, ctrl); err != nil {
			t.Fatal(err)
		}
		if got := now(); got != zero {
			t.Errorf("behind CTRL = %d TIME is %d off the clock, at first %d", ctrl, got, zero)
		}
	}
	if err := c.HardReset(); err != nil {
		t.Fatal(err)
	}
	if got := now(); got != zero {
		t.Errorf("behind a reset TIME is %d off the clock, at first %d", got, zero)
	}

	f := newFakeBus(t, 1, 64)
	f.time = 1<<40 - accessCycles - 1
	if v, err := readTime(f); v != 1<<40-1 || err != nil {
		t.Errorf("%#x, %v", v, err)
	}
	f.broken = errors.New("unplugged")
	if _, err := readTime(f); !errors.Is(err, f.broken) {
		t.Errorf("broken bus: %v", err)
	}
}

// Invalid messages are answered with an error, and the process continues.
func TestCosimBadMessages(t *testing.T) {
	c, _ := openTestCosim(t, CosimOpts{})
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(9, 9))
	send := func(b []byte) answer {
		t.Helper()
		if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		var in [messageBytes]byte
		n, err := c.conn.Read(in[:])
		if err != nil {
			t.Fatal(err)
		}
		a, err := decodeAnswer(in[:n])
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, n := range []int{1, 63, 65, 4096} {
		if a := send(make([]byte, n)); a.status != 1 {
			t.Errorf("a message of %d bytes: status %d", n, a.status)
		}
	}
	for _, op := range []cosimOp{0, opEvent, 13, 1 << 31} {
		if a := send(request(op, 5)); a.status != 2 || a.tag != 5 || a.op != op {
			t.Errorf("operation %d: %+v", op, a)
		}
	}
	if a := send(request(opHello, 1, cosimMagic, cosimVersion+1)); a.status != 5 || a.u32(4) != cosimVersion {
		t.Errorf("other version: %+v", a)
	}
	if a := send(request(opReadReg, 2)); a.status != 4 {
		t.Errorf("after a failed hello: %+v", a)
	}
	if a := send(request(opHello, 3, cosimMagic, cosimVersion)); a.status != 0 {
		t.Errorf("hello: %+v", a)
	}
	for range 300 {
		b := make([]byte, messageBytes)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0], b[1], b[2], b[3] = byte(rng.IntN(11)), 0, 0, 0 // all but quit
		if cosimOp(b[0]) == opRun {
			b[10], b[11], b[12], b[13], b[14], b[15] = 0, 0, 0, 0, 0, 0 // 65,535 cycles at most
		}
		if cosimOp(b[0]) == opHello {
			continue
		}
		send(b)
	}
	if v, err := c.ReadReg(abi.RegID); v != abi.ID || err != nil {
		t.Errorf("after all that: %#x, %v", v, err)
	}
}

// The process ends when its socket closes, even during a long run.
func TestCosimEnds(t *testing.T) {
	c, _ := openTestCosim(t, CosimOpts{})
	if _, err := c.conn.Write(request(opRun, 1, 0, 1<<20)); err != nil { // 2^52 cycles
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.ReadReg(0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c, _ = openTestCosim(t, CosimOpts{})
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadReg(0); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("after its death: %v", err)
	}
	if err := c.Close(); err == nil {
		t.Error("its death was not reported")
	}
	for _, o := range []CosimOpts{
		{Binary: "/does/not/exist"}, {Binary: "/bin/false"}, {Binary: "/bin/false", DRAMBytes: 5}, {Binary: "/bin/false", DRAMBytes: -4096},
	} {
		if _, err := OpenCosim(t.Context(), o); err == nil {
			t.Errorf("%+v was opened", o)
		}
	}
}

// A call ends with its context while the process is silent, and leaves link and lock usable. The late answer is
// dropped.
func TestCosimSilent(t *testing.T) {
	d, c, n := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{})
	in := admit(t, d, rand.New(rand.NewPCG(5, 5)), 1, 2)
	l := launch(0, 1, never, 1, 2)
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	sent := func() (n int) { // what the process has not read, in bytes of the kernel's
		var err error
		if e := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); e != nil || err != nil {
			t.Error(e, err)
		}
		return n
	}
	soon := func() context.Context { // ends when the next request has been sent, however late that is
		ctx, cancel := context.WithCancel(t.Context())
		before := sent()
		go func() {
			defer cancel()
			for sent() <= before && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
		}()
		return ctx
	}
	signal := func(s os.Signal) {
		if err := c.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() {
		t.Helper()
		signal(unix.SIGSTOP)
		for stat := ""; !strings.Contains(stat, ") T "); time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			stat = string(text)
		}
	}
	stop()
	if n, err := c.WaitIRQ(soon(), 1000); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("waited %d cycles, %v", n, err)
	}
	held := c.Until(soon())
	if v, err := c.ReadReg(abi.RegWatchdog); !errors.Is(err, context.Canceled) {
		t.Errorf("read %d, %v", v, err)
	}
	held()
	if _, err := d.Run(soon(), l); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	cycles := c.Cycles() // of the last answer: the lock is free
	signal(unix.SIGCONT)
	for range 3 {
		if v, err := c.ReadReg(abi.RegID); v != abi.ID || err != nil {
			t.Fatalf("ID is %#x, %v: answers are mistaken for others", v, err)
		}
	}
	// The abandoned calls were executed: 1,000 cycles, a read, a write, three reads.
	if got := c.Cycles() - cycles; got != 1000+5*3 {
		t.Errorf("the clock moved by %d cycles, expected %d", got, 1000+5*3)
	}
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Build().Stub {
		check(t, n, l, rep, in)
	}

	// Close ends waiting calls, and kills a process that does not end by itself.
	stop()
	waits := make(chan error)
	go func() {
		_, err := c.WaitIRQ(context.Background(), 1<<40)
		waits <- err
	}()
	for len(c.link) > 0 { // until it has begun
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("close of a process that is halted: %v", err)
	}
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("what waited ended with %v", err)
	}
}

// The context of OpenCosim is the process's.
func TestCosimLife(t *testing.T) {
	path, err := FindCosim("tiny")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := OpenCosim(ctx, CosimOpts{Binary: path})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- c.Step(1 << 50) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("step: %v", err)
	}
	if _, err := c.ReadReg(abi.RegID); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Close unmaps the memory: it waits for running accesses, and later ones are rejected.
func TestAdmitBesideClose(t *testing.T) {
	for range 20 {
		d, _, n := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{})
		input := make([]int16, n.b.Network.InH*n.b.Network.InW*n.b.Network.InC)
		closed, began := make(chan error), make(chan bool)
		go func() {
			for id := device.RequestID(1); ; id++ {
				if err := d.Admit(t.Context(), n.b.Network.Name, id, device.InWords(input)); err != nil {
					closed <- err
					return
				}
				if id == 1 {
					close(began)
				}
				d.Release(id)
			}
		}()
		<-began
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := <-closed; !errors.Is(err, device.ErrGone) {
			t.Errorf("admit after Close: %v", err)
		}
		if d.Slot(1) != nil {
			t.Error("a slot after Close")
		}
		d.Release(1)
		if _, err := d.Run(t.Context(), launch(0, 1, never, 1)); !errors.Is(err, device.ErrGone) {
			t.Errorf("run after Close: %v", err)
		}
	}
}

// A simulator of other registers or another design is reported as such, with the command that builds the right one.
func TestCosimFits(t *testing.T) {
	for _, c := range []struct {
		info CosimInfo
		want string
	}{
		{CosimInfo{ABIHash: abi.Hash, DesignHash: 7}, ""},
		{CosimInfo{ABIHash: abi.Hash ^ 1, DesignHash: 7}, "ABI hash"},
		{CosimInfo{ABIHash: abi.Hash, DesignHash: 8}, "design hash is 0000000000000008, expected 0000000000000007"},
	} {
		err := c.info.Fits("v5-stub", 7)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrHardware) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "sim/build.sh v5 --stub")) {
			t.Errorf("%+v: %v", c.info, err)
		}
	}
}

// A simulator of an unknown kind is rejected, since its counters are unknown.
func TestCosimKinds(t *testing.T) {
	for kind, known := range map[CosimKind]bool{CosimRTL: true, CosimShell: true, CosimHLS: true, "rtlrtlrt": false, "": false} {
		conn, theirs, err := socketpair()
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the socket
			var in [messageBytes]byte
			for {
				if n, err := theirs.Read(in[:]); err != nil || n == 0 {
					return
				}
				out := append(in[:8:8], make([]byte, messageBytes-8)...)
				if in[0] == byte(opHello) {
					copy(out[24:], in[8:16])
					copy(out[48:56], kind)
				}
				if _, err := theirs.Write(out); err != nil {
					return
				}
			}
		}()
		c := &Cosim{life: t.Context(), conn: conn, errs: &tail{}, link: make(chan struct{}, 1)}
		c.link <- struct{}{}
		err = c.greet(CosimOpts{BytesPerCycle: 8, Latency: 100})
		if (err == nil) != known || err != nil && (!errors.Is(err, ErrHardware) || !strings.Contains(err.Error(), "expected rtl, shell or hls")) {
			t.Errorf("%q: %v", kind, err)
		}
		if err := errors.Join(conn.Close(), theirs.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestFindCosim(t *testing.T) {
	t.Setenv("SLUICE_COSIM", "/does/not/exist")
	if _, err := FindCosim("run"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("SLUICE_COSIM of nothing: %v", err)
	}
	t.Setenv("SLUICE_COSIM", "/bin/sh")
	if p, err := FindCosim("run"); p != "/bin/sh" || err != nil {
		t.Errorf("SLUICE_COSIM: %q, %v", p, err)
	}
	t.Setenv("SLUICE_COSIM", "")
	for build, want := range map[string]string{
		"no-such-stub": "build it with sim/build.sh no-such.yaml --stub (", "no-such-trace": "sim/build.sh no-such.yaml --trace (",
		"v8-int8-trace": "build it with sim/build.sh v8-int8 --trace (", "v30-int8-trace": "sim/build.sh hw/configs/int8/v30-int8.yaml --trace (",
		"no-such-check": "build it with SLUICE_CHECK=1 sim/build.sh no-such.yaml (",
		"no-such-hls":   "hls/build.sh no-such.yaml (packages g++)", "zc706-hls-hls": "hls/build.sh hls/configs/zc706-hls.yaml (packages g++)",
	} {
		if _, err := FindCosim(build); !errors.Is(err, ErrNoCosim) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected the hint %q", build, err, want)
		}
	}
	// a file is passed on as the user has named it, from wherever that was
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for build, want := range map[string]string{
		"mine9": "sim/build.sh /tmp/my/mine9.yaml (", "mine9-check": "SLUICE_CHECK=1 sim/build.sh /tmp/my/mine9.yaml (", "mine9-hls": "hls/build.sh /tmp/my/mine9.yaml (",
		"spaced-stub":     "sim/build.sh '/tmp/my own/spaced.yaml' --stub (",
		"mine9-int8-stub": "(sed 's/^name:.*/name: mine9-int8/; /^type:/d' /tmp/my/mine9.yaml; echo 'type: int8') > /tmp/my/mine9-int8.yaml && sim/build.sh /tmp/my/mine9-int8.yaml --stub (",
		"other-stub":      "sim/build.sh " + filepath.Join(dir, "my/other.yaml") + " --stub (", "third": "sim/build.sh third.yaml (",
	} {
		if _, err := FindCosim(build, "tiny", "/tmp/my/mine9.yaml", "my/other.yaml", "/tmp/my own/spaced.yaml"); !errors.Is(err, ErrNoCosim) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected the hint %q", build, err, want)
		}
	}
	if err := (&CosimInfo{}).Fits("mine9", 7, "/tmp/my/mine9.yaml"); err == nil || !strings.HasSuffix(err.Error(), "sim/build.sh /tmp/my/mine9.yaml") {
		t.Error(err)
	}
	if _, err := FindCosim("no-such-configuration"); err == nil || !strings.Contains(err.Error(), "sim/build.sh no-such-configuration.yaml (packages verilator, g++, make)") {
		t.Errorf("not built: %v", err)
	}
}

// Recorded register traffic of the hardware is a file of test vectors, which the simulator accepts.
func TestCosimPlay(t *testing.T) {
	d, c, n := cosimDriver(t, CosimOpts{DRAMBytes: 1 << 20}, Opts{})
	in := admit(t, d, rand.New(rand.NewPCG(5, 5)), 1, 2)
	l := launch(0, 1, never, 1, 2)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Build().Stub {
		check(t, n, l, rep, in)
	}
	records := []vectors.Record{
		vectors.Meta{JSON: []byte(`{"name":"registers"}`)},
		vectors.RegExpect{Off: abi.RegID, Mask: 0xFFFFFFFF, Val: abi.ID},
		vectors.RegRefused{Off: abi.RegID, Val: 1},
		vectors.MemWrite{Addr: 1<<32 + 0x8000, Data: []byte("abc")},
		vectors.MemExpect{Addr: 1<<32 + 0x8001, Data: []byte("bc")},
		vectors.RegWrite{Off: abi.RegWatchdog, Val: 5000},
		vectors.Run{MaxCycles: 100, ExpectIRQ: false},
		vectors.RegWrite{Off: abi.RegBatch, Val: 0},
		vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlStartMask},
		vectors.Run{MaxCycles: 10000, ExpectIRQ: true},
		vectors.RegExpect{Off: abi.RegError, Mask: abi.RegErrorCodeMask, Val: uint32(abi.ErrBatchRange)},
		vectors.RegWrite{Off: abi.RegIRQStatus, Val: 3},
		vectors.Run{MaxCycles: 10, ExpectIRQ: false},
	}
	tally, err := Play(t.Context(), c, records)
	if err != nil || tally.Records != len(records) || tally.Runs != 3 || tally.Bytes != 5 {
		t.Errorf("%+v, %v", tally, err)
	}
	for i, bad := range []vectors.Record{
		vectors.RegExpect{Off: abi.RegID, Mask: 1, Val: abi.ID ^ 1},
		vectors.RegExpect{Off: 0xFF0},
		vectors.RegWrite{Off: abi.RegID},
		vectors.RegRefused{Off: abi.RegScratch0},
		vectors.MemExpect{Addr: 1<<32 + 0x8000, Data: []byte("abx")},
		vectors.MemExpect{Addr: 1<<32 + 1<<20 - 1, Data: []byte("ab")},
		vectors.MemWrite{Addr: 1<<32 - 1, Data: []byte("ab")},
		vectors.MemWrite{Addr: 1<<64 - 1, Data: []byte("ab")},
		vectors.Run{MaxCycles: 10, ExpectIRQ: true},
	} {
		if _, err := Play(t.Context(), c, []vectors.Record{bad}); !errors.As(err, new(*Mismatch)) {
			t.Errorf("mismatch %d: %v", i, err)
		}
	}
}

// The cost of a register access and of a run's simulated cycles.
func BenchmarkCosimReadReg(b *testing.B) {
	c, _ := openTestCosim(b, CosimOpts{})
	defer c.Close()
	for b.Loop() {
		if _, err := c.ReadReg(abi.RegID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCosimIdle(b *testing.B) {
	c, _ := openTestCosim(b, CosimOpts{})
	defer c.Close()
	if _, err := c.WaitIRQ(context.Background(), uint64(b.N)); !errors.Is(err, ErrNoIRQ) {
		b.Fatal(err)
	}
}

// TestRefusedIsTheHardwares: abi.Refused, which protects a board's bus from accesses that would abort the process, agrees
// with the RTL for every address and for random values.
func TestRefusedIsTheHardwares(t *testing.T) {
	c, _ := openTestCosim(t, CosimOpts{})
	defer c.Close()
	rng := rand.New(rand.NewPCG(7, 8))
	answered := func(err error) bool {
		bus := (*BusError)(nil)
		if err != nil && !errors.As(err, &bus) {
			t.Fatal(err)
		}
		return err != nil
	}
	for off := uint32(0); off < 0x1000; off += 4 {
		_, err := c.ReadReg(off)
		if got, want := answered(err), abi.Refused(off, false, 0, false); got != want {
			t.Errorf("read %#03x: refused is %v, by the map %v", off, got, want)
		}
		for range 20 {
			v := rng.Uint32() & rng.Uint32() & rng.Uint32()
			if off == abi.RegCtrl {
				v &^= abi.RegCtrlStartMask
			}
			if got, want := answered(c.WriteReg(off, v)), abi.Refused(off, true, v, false); got != want {
				t.Errorf("write %#08x to %#03x: refused is %v, by the map %v", v, off, got, want)
			}
		}
	}
}

// The process' last output is in the error, even if its socket closes first.
func TestCosimLastWords(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "npu_cosim")
	script := "#!/bin/sh\nexec 3>&-\nsleep 0.2\necho 'all stages wait' >&2\nexit 6\n"
	if err := os.WriteFile(binary, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := OpenCosim(t.Context(), CosimOpts{Binary: binary})
	if err == nil || !strings.Contains(err.Error(), "it has ended: all stages wait") {
		t.Errorf("%v, want its last words", err)
	}
}
