// Package qemu boots a board's image in QEMU with the co-simulated NPU as its UIO device. The ARM runtime, kernel,
// device tree and module are the same as on the board. Register accesses and interrupts use the guest's bus and
// interrupt controller to reach the Verilated RTL. The guest's RAM is a file that both QEMU and the NPU map.
//
// Limits: the RTL's clock and the guest's processor each run as fast as this machine simulates them, so the ratio of
// their speeds has no meaning. Only durations that the NPU counts itself are valid (simulated). In NPU time, a register
// access costs only the bus transaction, and uploads and cache maintenance cost nothing. QEMU has no caches, write
// buffers or weak memory order, so faults in their use do not appear. It allows accesses that Device memory forbids.
package qemu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/boards"
)

// Errors of Run. The error of a missing tool names the tool's package.
var (
	ErrTool = errors.New("missing")
	ErrEnd  = errors.New("the guest did not come to its end")
)

// Opts describes the guest to boot.
type Opts struct {
	Board  boards.Board
	Image  string // output folder of boards/image/build.sh
	Tree   string // file of the device tree in Image (default qemu.dtb)
	Cosim  string // path of npu_cosim; "" boots without an NPU
	Plugin string // path of npu_device.so, which Build compiles
	// Device lists additional arguments of the plugin (boards/qemu/device/npu_device.cpp), such as mute=1.
	Device []string
	// Run lists runs of `sluice board`, with arguments separated by commas. If empty, the image runs its default.
	Run []string
	// Call is called when the guest serves ("ready:" on its console). The map `at` contains, for each guest port in Ports,
	// the forwarded address on this machine. After Call has returned, the guest is switched off at once.
	Call  func(ctx context.Context, at map[int]string) error
	Ports []int
	// Append is appended to the kernel's command line.
	Append string
	// Overlay adds files to the guest, by path.
	Overlay map[string][]byte
	// Console, if set, receives the console output as it arrives.
	Console io.Writer
	Timeout time.Duration // wall time; default 20 minutes
}

// Build compiles the device if the compiled file is missing or older than its sources. It returns this file's path.
func Build(root string) (string, error) {
	source := filepath.Join(root, "boards", "qemu", "device", "npu_device.cpp")
	protocol := filepath.Join(root, "sim", "cosim", "protocol.hpp")
	out := filepath.Join(root, "build", "qemu", "npu_device.so")
	if made, err := os.Stat(out); err == nil {
		fresh := true
		for _, f := range []string{source, protocol} {
			s, err := os.Stat(f)
			if err != nil {
				return "", err
			}
			fresh = fresh && s.ModTime().Before(made.ModTime())
		}
		if fresh {
			return out, nil
		}
	}
	if _, err := exec.LookPath("g++"); err != nil {
		return "", fmt.Errorf("%w: install the package g++", ErrTool)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return "", err
	}
	tmp := fmt.Sprintf("%s.%d", out, os.Getpid())
	cmd := exec.Command("g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-I"+filepath.Join(root, "sim"), "-o", tmp, source)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", source, err, text)
	}
	return out, os.Rename(tmp, out)
}

// machine returns QEMU's program and machine for a board's family, and the options for its console and Ethernet port.
func machine(b boards.Board) (program, machine string, ports []string) {
	if b.Family == boards.UltraScalePlus {
		// the zcu104's Ethernet port is the last of the machine's four ports
		const unused = "user,restrict=on"
		return "qemu-system-aarch64", "xlnx-zcu102", []string{"-serial", "stdio", "-nic", unused, "-nic", unused, "-nic", unused}
	}
	return "qemu-system-arm", "xilinx-zynq-a9", []string{"-serial", "null", "-serial", "stdio"} // the zc706's console is its second UART
}

// Run boots the guest, waits until the guest terminates, and returns the console text. The text contains the results of
// the guest's runs. The error reports a failure of the machine or a tool.
func Run(ctx context.Context, o Opts) (text string, err error) {
	program, machine, ports := machine(o.Board)
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w: %s: install the package qemu-system-arm", ErrTool, program)
	}
	if _, err := os.Stat(filepath.Join(o.Image, "kernel")); err != nil {
		return "", fmt.Errorf("no image: %w: make image BOARD=%s builds one", err, o.Board.Name)
	}
	dir, err := os.MkdirTemp("", "sluice-qemu-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	o.Timeout, o.Tree = cmp.Or(o.Timeout, 20*time.Minute), cmp.Or(o.Tree, "qemu.dtb")
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()

	ram := filepath.Join(dir, "ram")
	if err := sparse(ram, int64(o.Board.DDR.Bytes)); err != nil {
		return "", err
	}
	initrd, err := initramfs(dir, o)
	if err != nil {
		return "", err
	}
	nic, at, err := network(o.Ports)
	if err != nil {
		return "", err
	}
	args := append(append(o.arguments(machine, ram, initrd), ports...), "-nic", nic)

	if o.Cosim != "" {
		socket := filepath.Join(dir, "npu")
		end, err := o.startNPU(ctx, ram, socket)
		if err != nil {
			return "", err
		}
		defer end()
		plugin := []string{
			o.Plugin, "socket=" + socket, fmt.Sprintf("base=%#x", o.Board.Registers.Base),
			fmt.Sprintf("size=%#x", o.Board.Registers.Bytes), fmt.Sprintf("spi=%d", o.Board.Interrupt.SPI),
		}
		args = append(args, "-plugin", strings.Join(append(plugin, o.Device...), ","))
	}

	var out console
	out.also = o.Console
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(running, path, args...)
	cmd.Env = append(os.Environ(), "QEMU_AUDIO_DRV=none") // audio errors of the zcu102 would fill the console
	cmd.Stdout, cmd.Stderr = &out, &out
	called := make(chan error, 1)
	if o.Call != nil {
		seen := make(chan struct{})
		out.mark, out.seen = "ready: ", seen
		go func() {
			called <- o.call(ctx, running, seen, at)
			stop()
		}()
	}
	err = cmd.Run()
	if o.Call != nil {
		stop()
		return strings.ReplaceAll(out.String(), "\r\n", "\n"), <-called
	}
	text = strings.ReplaceAll(out.String(), "\r\n", "\n")
	switch {
	case ctx.Err() != nil:
		return text, fmt.Errorf("%w within %v: %w", ErrEnd, o.Timeout, ctx.Err())
	case err != nil:
		return text, fmt.Errorf("%s: %w", program, err)
	case !strings.Contains(text, "SLUICE-DONE"):
		return text, fmt.Errorf("%w: no SLUICE-DONE on the console", ErrEnd)
	}
	return text, nil
}

// arguments returns QEMU's arguments, except for serial ports, network and the NPU.
func (o *Opts) arguments(machine, ram, initrd string) []string {
	return []string{
		"-M", machine + ",memory-backend=ram", "-m", fmt.Sprint(o.Board.DDR.Bytes >> 20),
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%d,mem-path=%s,share=on", o.Board.DDR.Bytes, ram),
		"-display", "none", "-monitor", "none", "-no-reboot",
		"-kernel", filepath.Join(o.Image, "kernel"), "-initrd", initrd,
		"-dtb", filepath.Join(o.Image, o.Tree), "-append", o.kernelLine(),
	}
}

// kernelLine returns the kernel's command line.
func (o *Opts) kernelLine() string {
	line := []string{"console=ttyPS0,115200", "uio_pdrv_genirq.of_id=generic-uio", "clk_ignore_unused", "panic=-1", "sluice.reset", "sluice.board=" + o.Board.Name}
	if len(o.Run) > 0 {
		line = append(line, "sluice.label=simulated", fmt.Sprintf("sluice.clock_mhz=%g", o.Board.ClockMHz))
	}
	for _, r := range o.Run {
		line = append(line, "sluice.run="+r)
	}
	if o.Call != nil {
		line = append(line, "ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off")
	}
	return strings.Join(append(line, o.Append), " ")
}

// call runs Call as soon as the guest serves. It returns an error if the guest terminates earlier.
func (o *Opts) call(ctx, running context.Context, seen <-chan struct{}, at map[int]string) error {
	select {
	case <-seen:
		return o.Call(ctx, at)
	case <-running.Done():
		return fmt.Errorf("%w: it does not serve", ErrEnd)
	}
}

// startNPU starts the simulated NPU on the board's memory and waits until it listens on socket. `end` stops the NPU.
func (o *Opts) startNPU(ctx context.Context, ram, socket string) (end func(), err error) {
	npu := exec.CommandContext(ctx, o.Cosim, "--dram", ram, "--offset", "0",
		"--base", fmt.Sprint(o.Board.DDR.Base), "--size", fmt.Sprint(o.Board.DDR.Bytes),
		"--socket", socket, "--free-run")
	var says bytes.Buffer
	npu.Stderr = &says
	if err := npu.Start(); err != nil {
		return nil, fmt.Errorf("start the co-simulation: %w", err)
	}
	end = func() {
		npu.Process.Kill() // the NPU terminates with its connection; without a connection, it must be killed
		npu.Wait()
	}
	if err := await(ctx, socket); err != nil {
		end() // the NPU's messages are complete only after its end
		return nil, fmt.Errorf("co-simulation %s: %w: %s", o.Cosim, err, says.String())
	}
	return end, nil
}

// network returns the value of QEMU's -nic, which forwards addresses of this machine to the guest's ports. The guest
// itself cannot reach any network.
func network(ports []int) (nic string, at map[int]string, err error) {
	nic, at = "user,restrict=on", map[int]string{}
	for _, p := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0") // QEMU would not report which port it chose
		if err != nil {
			return "", nil, err
		}
		at[p] = l.Addr().String()
		if err := l.Close(); err != nil {
			return "", nil, err
		}
		nic += fmt.Sprintf(",hostfwd=tcp:%s-:%d", at[p], p)
	}
	return nic, at, nil
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// await waits for a socket that a process creates.
func await(ctx context.Context, path string) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(began) > time.Minute {
			return errors.New("no socket within a minute")
		}
	}
}

// initramfs returns the path of a file with the image's archive and an archive of the overlay. The kernel unpacks both.
func initramfs(dir string, o Opts) (string, error) {
	image := filepath.Join(o.Image, "initramfs.cpio.gz")
	if len(o.Overlay) == 0 {
		return image, nil
	}
	tree := filepath.Join(dir, "overlay")
	var names bytes.Buffer
	for name, data := range o.Overlay {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return "", err
		}
		for at := filepath.Dir(name); at != "." && at != "/"; at = filepath.Dir(at) {
			names.WriteString(strings.TrimPrefix(at, "/") + "\n")
		}
		names.WriteString(strings.TrimPrefix(name, "/") + "\n")
	}
	cpio := exec.Command("cpio", "--quiet", "-o", "-H", "newc")
	cpio.Dir, cpio.Stdin = tree, &names
	archive, err := cpio.Output()
	if err != nil {
		return "", fmt.Errorf("cpio: %w (package cpio)", err)
	}
	base, err := os.ReadFile(image)
	if err != nil {
		return "", err
	}
	for len(base)%4 != 0 {
		base = append(base, 0)
	}
	path := filepath.Join(dir, "initrd")
	return path, os.WriteFile(path, append(base, archive...), 0o644)
}

// console records and forwards the output.
type console struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	also io.Writer
	mark string
	seen chan struct{} // closed when mark has been written; nil: nobody waits
}

// Write implements io.Writer.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf.Write(b)
	if c.seen != nil && bytes.Contains(c.buf.Bytes(), []byte(c.mark)) {
		close(c.seen)
		c.seen = nil
	}
	if c.also != nil {
		return c.also.Write(b)
	}
	return len(b), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}
