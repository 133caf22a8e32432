package npu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/hw/abi"
)

// CosimOpts selects the simulation. Zero fields select the default.
type CosimOpts struct {
	Binary    string // path of a binary from sim/build.sh; see FindCosim
	DRAMBytes int64  // default 64 MiB
	Base      uint64 // address of the first byte of DRAM, from the NPU's view

	BytesPerCycle float64 // bandwidth of the memory in bytes per cycle; default 8
	Latency       int     // latency of the memory in cycles; default 100

	Trace string // FST file, for Cosim.Trace; needs a --trace build
}

// CosimKind is the kind of hardware that a process simulates.
type CosimKind string

// Kinds of processes.
const (
	CosimRTL   CosimKind = "rtl"   // the NPU's RTL
	CosimShell CosimKind = "shell" // RTL of the shell around the HLS kernel; MACs are not counted
	CosimHLS   CosimKind = "hls"   // C-simulation of the HLS kernel, without time and counters
)

// CosimInfo is the process's description of itself.
type CosimInfo struct {
	Kind                CosimKind
	ABIHash, DesignHash uint64
	Ports, AXIBytes     int
	CanTrace            bool
}

// Fits checks that a process simulates the registers of this program and the given design. The error contains the
// command to build a fitting process. build and configs have the same meaning as in FindCosim.
func (i *CosimInfo) Fits(build string, design uint64, configs ...string) error {
	what, got, want := "ABI hash", i.ABIHash, uint64(abi.Hash)
	if got == want {
		what, got, want = "design hash", i.DesignHash, design
	}
	if got == want {
		return nil
	}
	return fmt.Errorf("%w: the simulator's %s is %016x, expected %016x: build it anew with %s", ErrHardware, what, got, want, buildLine(build, here(), configs))
}

// FaultKind is the effect of a Fault.
type FaultKind uint8

// Kinds of faults.
const (
	FaultSLVERR FaultKind = 1 // response SLVERR: in a read from beat Beat on; a write is dropped
	FaultDECERR FaultKind = 2 // like FaultSLVERR, with DECERR
	FaultNever  FaultKind = 3 // a read stops before beat Beat; a write is never answered
	FaultDelay  FaultKind = 4 // Delay cycles are added
)

// FaultDir is the direction that a Fault affects.
type FaultDir uint8

const (
	FaultBoth  FaultDir = 0
	FaultRead  FaultDir = 1
	FaultWrite FaultDir = 2
)

// AnyPort makes a Fault match every port.
const AnyPort = 0xFF

// Fault is a fault of the simulated memory. Port, Dir, First, Count, Low and High select the affected bursts.
type Fault struct {
	Port      uint8 // number of the port, or AnyPort
	Dir       FaultDir
	Kind      FaultKind
	Beat      uint8
	First     uint32 // number of the first matching burst that is affected, from 1; 0 means 1
	Count     uint32 // number of affected bursts; 0: all further bursts
	Delay     uint32 // in cycles
	Low, High uint64 // matches bursts that overlap Low..High; both zero: all bursts
}

// PortStats counts the traffic of a memory port since the last hard reset.
type PortStats struct {
	ReadBursts, ReadBeats, WriteBursts, WriteBeats, WriteBytes uint64
}

// Cosim is the bus of a co-simulation process. It starts and ends this process.
type Cosim struct {
	info CosimInfo
	mem  []byte
	base uint64

	life  context.Context // ends when the process ends
	until context.Context // limits register accesses; nil: only life limits them
	conn  net.Conn
	cmd   *exec.Cmd
	errs  *tail

	link  chan struct{} // contains one token; the goroutine that takes the token may use conn
	tag   uint32
	slice uint64 // cycles to run with one RUN message

	waitOnce sync.Once // for the wait for the process
	ending   error

	closed atomic.Bool
	cycles atomic.Uint64 // cycle count in the last answer
}

const (
	// answerTime is how much processor time the process may use until it answers. Any slice of a run needs far less. Real
	// time is not limited: the machine may be busy or the process stopped.
	answerTime  = 2 * time.Minute
	pollTime    = time.Second // interval between checks of a process that does not answer
	quitTimeout = 5 * time.Second
	lastWords   = time.Second // maximum time from the end of a socket to the end of its process
	sliceTarget = 20 * time.Millisecond
	minSlice    = 1 << 12
	maxSlice    = 1 << 24
)

// ErrNoCosim means that a configuration's co-simulation has not been built.
var ErrNoCosim = errors.New("there is no simulator")

// FindCosim returns the path of the simulator of a build: a configuration's name, optionally followed by -stub, -trace,
// -check or -hls. The path is SLUICE_COSIM, if set. Otherwise sim/build.sh has created it in the repository's folder
// build/cosim. The repository must contain the working directory or this program. If no simulator exists, the error
// contains the command to build it. configs are the configurations on the command line: names and files.
func FindCosim(build string, configs ...string) (string, error) {
	if path := os.Getenv("SLUICE_COSIM"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: SLUICE_COSIM: %w", ErrNoCosim, err)
		}
		return path, nil
	}
	var from []string
	if dir, err := os.Getwd(); err == nil {
		from = append(from, dir)
	}
	if path, err := os.Executable(); err == nil {
		from = append(from, filepath.Dir(path))
	}
	missing := errors.New("not inside the repository; set SLUICE_COSIM")
	for _, dir := range from {
		root, ok := repository(dir)
		if !ok {
			continue
		}
		path := filepath.Join(root, "build", "cosim", build, "npu_cosim")
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		needs := "verilator, g++, make"
		if strings.HasSuffix(build, "-hls") {
			needs = "g++"
		}
		missing = fmt.Errorf("%w; build it with %s (packages %s)", err, buildLine(build, root, configs), needs)
	}
	return "", fmt.Errorf("%w: %w", ErrNoCosim, missing)
}

// repository returns the nearest folder from dir upwards with a Go module.
func repository(dir string) (string, bool) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		if filepath.Dir(dir) == dir {
			return "", false
		}
	}
}

// buildLine returns the command for a build, relative to the repository's root. If the list "named" contains a
// configuration's file outside hw/configs, the command names this file. For a user's NAME-int8, it first copies the
// file of NAME with the element type int8.
func buildLine(build, root string, named []string) string {
	tool, flags := "sim/build.sh ", ""
	if config, ok := strings.CutSuffix(build, "-check"); ok {
		build, tool = config, "SLUICE_CHECK=1 "+tool
	} else if config, ok := strings.CutSuffix(build, "-hls"); ok {
		build, tool = config, "hls/build.sh "
	}
	for _, flag := range []string{"trace", "stub"} {
		if config, ok := strings.CutSuffix(build, "-"+flag); ok {
			build, flags = config, flags+" --"+flag
		}
	}
	file := configFile(build, root, named)
	for _, elem := range []string{"int8", "int16"} {
		base, ok := strings.CutSuffix(build, "-"+elem)
		if from := userFile(base, root, named); ok && from != "" && userFile(build, root, named) == "" {
			file = filepath.Join(filepath.Dir(from), build+".yaml")
			tool = fmt.Sprintf("(sed 's/^name:.*/name: %s/; /^type:/d' %s; echo 'type: %s') > %s && ", build, files.Quoted(from), elem, files.Quoted(file)) + tool
		}
	}
	return tool + files.Quoted(file) + flags
}

// here returns the root of the repository that contains the working directory, or "".
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	root, _ := repository(dir)
	return root
}

// userFile returns the path, valid in the folder "root", of a configuration's file in the list "named", or "".
func userFile(name, root string, named []string) string {
	for _, c := range named {
		if filepath.Base(c) != name+".yaml" {
			continue
		}
		// the command runs in the root, but the file's name is relative to the working directory
		if dir, err := os.Getwd(); err == nil && dir != root && !filepath.IsAbs(c) {
			return filepath.Join(dir, c)
		}
		return c
	}
	return ""
}

func configFile(name, root string, named []string) string {
	if c := userFile(name, root, named); c != "" {
		return c
	}
	if root == "" {
		return name
	}
	there := func(folder, name string) bool {
		_, err := os.Stat(filepath.Join(root, folder, name+".yaml"))
		return err == nil
	}
	if there("hw/configs", strings.TrimSuffix(name, "-int8")) {
		return name
	}
	for _, folder := range []string{"hw/configs/int8", "hls/configs"} {
		if there(folder, name) {
			return folder + "/" + name + ".yaml"
		}
	}
	return name + ".yaml"
}

// OpenCosim starts a process and exchanges versions with it. Both processes map the DRAM as anonymous memory. When the
// context ends, requests to the process end too, but Close is still required.
func OpenCosim(ctx context.Context, o CosimOpts) (*Cosim, error) {
	c, err := openCosim(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open co-simulation %s: %w", o.Binary, err)
	}
	return c, nil
}

func openCosim(ctx context.Context, o CosimOpts) (c *Cosim, err error) {
	o.DRAMBytes = cmp.Or(o.DRAMBytes, 64<<20)
	o.BytesPerCycle = cmp.Or(o.BytesPerCycle, 8)
	o.Latency = cmp.Or(o.Latency, 100)
	page := int64(os.Getpagesize())
	if o.DRAMBytes < 0 || o.DRAMBytes%page != 0 || o.DRAMBytes > math.MaxInt {
		return nil, fmt.Errorf("%w: %d bytes of DRAM, expected a multiple of %d", ErrRequest, o.DRAMBytes, page)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dram, mem, err := sharedMemory(o.DRAMBytes)
	if err != nil {
		return nil, err
	}
	defer dram.Close()
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, errors.Join(err, unmap(mem))
	}
	defer theirs.Close()

	c = &Cosim{life: ctx, mem: mem, base: o.Base, conn: conn, slice: minSlice, errs: &tail{}, link: make(chan struct{}, 1)}
	c.link <- struct{}{}
	// In the process, file descriptor 3 is the socket, and file descriptor 4 is the memory.
	args := []string{"--dram", "/proc/self/fd/4", "--fd", "3", "--base", fmt.Sprint(o.Base)}
	if o.Trace != "" {
		args = append(args, "--trace", o.Trace)
	}
	c.cmd = exec.Command(o.Binary, args...)
	c.cmd.ExtraFiles = []*os.File{theirs, dram}
	c.cmd.Stdout, c.cmd.Stderr = c.errs, c.errs
	c.cmd.SysProcAttr = apart()
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close(), unmap(mem))
	}
	theirs.Close() // otherwise the end of the process would not be detected
	if err := c.greet(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cosim) greet(o CosimOpts) error {
	a, err := c.call(c.life, opHello, cosimMagic, cosimVersion)
	if err != nil {
		return err
	}
	if m, v := a.u32(0), a.u32(4); m != cosimMagic || v != cosimVersion {
		return fmt.Errorf("hello: it speaks %#x version %d, expected %#x version %d", m, v, cosimMagic, cosimVersion)
	}
	c.info = CosimInfo{
		ABIHash: a.u64(8), DesignHash: a.u64(16), Kind: CosimKind(a.text(24, 8)),
		Ports: int(a.u16(32)), AXIBytes: int(a.u16(34)), CanTrace: a.u32(36) != 0,
	}
	switch c.info.Kind {
	case CosimRTL, CosimShell, CosimHLS:
	default: // counters of other kinds of hardware are unknown
		return fmt.Errorf("%w: the simulator calls itself %q, expected %s, %s or %s", ErrHardware, c.info.Kind, CosimRTL, CosimShell, CosimHLS)
	}
	return c.SetMemory(o.BytesPerCycle, o.Latency)
}

// Info returns the process's description of itself.
func (c *Cosim) Info() CosimInfo { return c.info }

// Cycles returns the number of cycles from the last hard reset to the last call.
func (c *Cosim) Cycles() uint64 { return c.cycles.Load() }

// Until sets the context for register accesses and other calls that have no context parameter, so that they end when
// ctx ends. A call of done undoes this. Until must not run concurrently with such calls.
func (c *Cosim) Until(ctx context.Context) (done func()) {
	before := c.until
	c.until = ctx
	return func() { c.until = before }
}

// short returns the context for calls without a context argument.
func (c *Cosim) short() context.Context {
	if c.until != nil {
		return c.until
	}
	return c.life
}

// call sends a request and reads its answer; an error answer becomes a *CosimError. The call ends when the context
// ends. After that the link remains usable, because a late answer is dropped.
func (c *Cosim) call(ctx context.Context, op cosimOp, payload ...uint32) (answer, error) {
	select {
	case <-c.link:
		defer func() { c.link <- struct{}{} }()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-c.life.Done():
		return answer{}, c.life.Err()
	}
	if c.closed.Load() {
		return answer{}, ErrClosed
	}
	if err := c.conn.SetDeadline(time.Now().Add(pollTime)); err != nil {
		return answer{}, fmt.Errorf("co-simulation: %w", err)
	}
	for _, x := range []context.Context{ctx, c.life} {
		defer context.AfterFunc(x, func() { c.conn.SetDeadline(time.Now()) })()
	}
	w := waiting{c: c, ctx: ctx}
	c.tag++
	m := request(op, c.tag, payload...)
	for { // a packet is sent as a whole or not at all
		_, err := c.conn.Write(m)
		if err == nil {
			break
		}
		if err := w.on(err); err != nil {
			return answer{}, err
		}
	}
	for {
		var b [messageBytes + 1]byte
		n, err := c.conn.Read(b[:])
		if err != nil {
			if err := w.on(err); err != nil {
				return answer{}, err
			}
			continue
		}
		if n == 0 {
			return answer{}, c.gone(nil)
		}
		a, err := decodeAnswer(b[:n])
		if err != nil {
			return answer{}, fmt.Errorf("co-simulation: %w", err)
		}
		c.cycles.Store(a.cycles)
		if a.op == opEvent || int32(a.tag-c.tag) < 0 { // an event, or the answer to an abandoned request
			continue
		}
		if a.op != op || a.tag != c.tag {
			return answer{}, fmt.Errorf("co-simulation: answer %d/%d to request %d/%d", a.op, a.tag, op, c.tag)
		}
		if a.status != 0 && op != opHello {
			return answer{}, &CosimError{a.status, a.text(0, len(a.payload))}
		}
		return a, nil
	}
}

// waiting is a call without an answer so far.
type waiting struct {
	c     *Cosim
	ctx   context.Context
	asked bool
	began time.Duration // processor time of the process at the first check, the start of answerTime
}

// on handles an error of the connection. It sets a new deadline and returns nil if the call should continue to wait.
func (w *waiting) on(err error) error {
	c := w.c
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case c.life.Err() != nil:
		return c.life.Err()
	case c.closed.Load():
		return ErrClosed
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return c.gone(err)
	}
	used, err := processTime(c.cmd.Process.Pid)
	if err != nil {
		return c.gone(err)
	}
	if !w.asked {
		w.asked, w.began = true, used
	}
	if used-w.began > answerTime {
		return fmt.Errorf("%w: the co-simulation has computed for %v without an answer", ErrHang, used-w.began)
	}
	if err := c.conn.SetDeadline(time.Now().Add(pollTime)); err != nil {
		return fmt.Errorf("co-simulation: %w", err)
	}
	return errors.Join(w.ctx.Err(), c.life.Err()) // the deadline may have been set earlier because a context has ended
}

// wait waits for the process to end, and returns its error. After that, all its output is available.
func (c *Cosim) wait() error {
	c.waitOnce.Do(func() { c.ending = c.cmd.Wait() })
	return c.ending
}

// gone returns an error with the reason why the process does not answer, and with the process's last output, if any.
func (c *Cosim) gone(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		err = errors.New("it has ended")
	}
	// the socket is closed before the process's last output has been read
	ended := make(chan struct{})
	go func() { c.wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(lastWords):
	}
	if s := c.errs.String(); s != "" {
		return fmt.Errorf("co-simulation: %w: %s", err, s)
	}
	return fmt.Errorf("co-simulation: %w", err)
}

// ReadReg implements Bus.
func (c *Cosim) ReadReg(off uint32) (uint32, error) {
	a, err := c.call(c.short(), opReadReg, off)
	if err != nil {
		return 0, fmt.Errorf("read register %#03x: %w", off, err)
	}
	if r := Resp(a.u32(4)); r >= RespSLVERR {
		return 0, &BusError{Off: off, Resp: r}
	}
	return a.u32(0), nil
}

// WriteReg implements Bus.
func (c *Cosim) WriteReg(off, v uint32) error {
	a, err := c.call(c.short(), opWriteReg, off, v)
	if err != nil {
		return fmt.Errorf("write register %#03x: %w", off, err)
	}
	if r := Resp(a.u32(4)); r >= RespSLVERR {
		return &BusError{Write: true, Off: off, Val: v, Resp: r}
	}
	return nil
}

// DRAM implements Bus. The memory is unmapped by Close.
func (c *Cosim) DRAM() ([]byte, uint64) { return c.mem, c.base }

// WaitIRQ implements Bus. It runs the clock in slices, so that it can react to the end of a context. Slices have no
// influence on cycles.
func (c *Cosim) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	done := uint64(0)
	for {
		n, irq, err := c.run(ctx, limit-done, false)
		done += n
		switch {
		case err != nil:
			return done, fmt.Errorf("wait for the interrupt: %w", err)
		case irq:
			return done, nil
		case done >= limit:
			return done, ErrNoIRQ
		}
	}
}

// Step advances the clock by exactly n cycles, even if the interrupt line is high.
func (c *Cosim) Step(n uint64) error {
	for n > 0 {
		done, _, err := c.run(c.short(), n, true)
		if err != nil {
			return fmt.Errorf("step: %w", err)
		}
		n -= done
	}
	return nil
}

// run advances the clock for about sliceTarget of real time, but by at most limit cycles.
func (c *Cosim) run(ctx context.Context, limit uint64, ignoreIRQ bool) (done uint64, irq bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	flag := uint32(0)
	if ignoreIRQ {
		flag = 1
	}
	n := min(c.slice, limit)
	began := time.Now()
	a, err := c.call(ctx, opRun, uint32(n), uint32(n>>32), flag)
	if err != nil {
		return 0, false, err
	}
	switch took := time.Since(began); {
	case took < sliceTarget/2:
		c.slice = min(2*c.slice, maxSlice)
	case took > 2*sliceTarget:
		c.slice = max(c.slice/2, minSlice)
	}
	return a.u64(0), a.irq, nil
}

// HardReset implements HardResetter.
func (c *Cosim) HardReset() error {
	if _, err := c.call(c.short(), opReset); err != nil {
		return fmt.Errorf("hard reset: %w", err)
	}
	return nil
}

// AddFault adds a fault to the simulated memory.
func (c *Cosim) AddFault(f Fault) error {
	if f.Low == 0 && f.High == 0 {
		f.High = math.MaxUint64
	}
	head := uint32(f.Port) | uint32(f.Dir)<<8 | uint32(f.Kind)<<16 | uint32(f.Beat)<<24
	_, err := c.call(c.short(), opAddFault, head, max(f.First, 1), f.Count, f.Delay,
		uint32(f.Low), uint32(f.Low>>32), uint32(f.High), uint32(f.High>>32))
	if err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	return nil
}

// ClearFaults removes all faults. Lost bursts stay lost until a hard reset.
func (c *Cosim) ClearFaults() error {
	if _, err := c.call(c.short(), opClearFaults); err != nil {
		return fmt.Errorf("clear faults: %w", err)
	}
	return nil
}

// MemoryTiming defines the speed of the simulated memory.
type MemoryTiming struct {
	BytesPerCycle             float64
	ReadLatency, WriteLatency int // cycles
	Reads, Writes             int // outstanding bursts per port, 1..256
}

// SetMemory sets the memory's bandwidth, and the latency for reads and writes.
func (c *Cosim) SetMemory(bytesPerCycle float64, latency int) error {
	return c.SetTiming(MemoryTiming{BytesPerCycle: bytesPerCycle, ReadLatency: latency, WriteLatency: latency, Reads: 16, Writes: 16})
}

// SetTiming sets the memory's timing.
func (c *Cosim) SetTiming(t MemoryTiming) error {
	q16 := math.Round(t.BytesPerCycle * 65536)
	if !(q16 >= 1 && q16 <= math.MaxUint32) || min(t.ReadLatency, t.WriteLatency) < 0 || max(t.ReadLatency, t.WriteLatency) > math.MaxInt32 ||
		min(t.Reads, t.Writes) < 1 || max(t.Reads, t.Writes) > 256 {
		return fmt.Errorf("%w: memory of %v bytes per cycle, %d and %d cycles of latency, %d and %d bursts a port",
			ErrRequest, t.BytesPerCycle, t.ReadLatency, t.WriteLatency, t.Reads, t.Writes)
	}
	if _, err := c.call(c.short(), opSetMemory, uint32(q16), uint32(t.ReadLatency), uint32(t.WriteLatency), uint32(t.Reads), uint32(t.Writes)); err != nil {
		return fmt.Errorf("set memory: %w", err)
	}
	return nil
}

// Output returns the end of the process's output. It is complete after Close.
func (c *Cosim) Output() string { return c.errs.String() }

// Stats returns the counts of a memory port.
func (c *Cosim) Stats(port int) (PortStats, error) {
	a, err := c.call(c.short(), opStats, uint32(port))
	if err != nil {
		return PortStats{}, fmt.Errorf("statistics of port %d: %w", port, err)
	}
	return PortStats{a.u64(0), a.u64(8), a.u64(16), a.u64(24), a.u64(32)}, nil
}

// Trace turns the trace on or off.
func (c *Cosim) Trace(on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	if _, err := c.call(c.short(), opTrace, v); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// Close ends the process and unmaps the memory; pending calls end with ErrClosed.
func (c *Cosim) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.conn.SetDeadline(time.Now()) // ends pending calls, which then release the link
	<-c.link                       // the token is not returned, because calls check closed first
	defer func() { c.link <- struct{}{} }()
	errClose := c.conn.Close() // the process ends when its socket closes
	timer := time.AfterFunc(quitTimeout, func() { c.cmd.Process.Kill() })
	errWait := c.wait()
	timer.Stop()
	if errWait != nil {
		errWait = fmt.Errorf("co-simulation: %w: %s", errWait, c.errs.String())
	}
	mem := c.mem
	c.mem = nil
	return errors.Join(errClose, errWait, unmap(mem))
}

// tail stores the end of a process's output.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 4096 {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-4096:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
