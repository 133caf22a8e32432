package board

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/host/cli"
)

type startCmd struct {
	Modules string `default:"/lib/modules/*.ko" help:"Modules to load."`
}

func (*startCmd) Help() string {
	return `Options stand on the kernel's command line:
  sluice.label=measured     what figures are called (default: only doctor runs)
  sluice.clock_mhz=150      the NPU's clock
  sluice.board=zc706        the board: what surrounds the PL is held to its file
  sluice.run=ARGS           one run of this program, arguments by commas, any number of times in order
                            (default: doctor, and serve where doctor found nothing wrong); ARGS that begin
                            with sluice are one of sluice
  sluice.reset              reset the machine after the last (qemu -no-reboot ends then)

Example:
  sluice board start`
}

// Texts on the console. A monitoring program reads the state from these texts.
const (
	markEnd  = "SLUICE-END"
	markDone = "SLUICE-DONE"
)

func (c *startCmd) Run(e *env) error {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	o, err := parse(string(text))
	if o.reset {
		defer reset()
	}
	if err != nil {
		fmt.Fprintln(e.out, "sluice board: the kernel's command line:", err)
		fmt.Fprintf(e.out, "%s 0 of 0 runs failed\n", markDone)
		return cli.Coded(cli.Usage, err)
	}
	modules, err := filepath.Glob(c.Modules)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := insert(m); err != nil {
			fmt.Fprintf(e.out, "sluice board: load %s: %v\n", m, err)
		}
	}
	return o.all(e.out, func(args []string) int { return child(e, args) })
}

// started contains the options in the kernel's command line.
type started struct {
	label, clock, board string
	runs                [][]string // empty: the image's default
	reset               bool
}

func parse(line string) (o started, err error) {
	for _, f := range strings.Fields(line) {
		key, v, _ := strings.Cut(f, "=")
		switch key {
		case "sluice.label":
			if o.label = v; v != "simulated" && v != "measured" {
				err = errors.Join(err, fmt.Errorf("%s: expected simulated or measured", f))
			}
		case "sluice.clock_mhz":
			o.clock = v
			if mhz, bad := strconv.ParseFloat(v, 64); bad != nil || !(mhz > 0 && mhz < 10_000) {
				err = errors.Join(err, fmt.Errorf("%s: expected the NPU's clock in MHz", f))
			}
		case "sluice.board":
			o.board = v
		case "sluice.reset":
			switch v {
			case "", "1":
				o.reset = true
			case "0":
				o.reset = false
			default:
				err = errors.Join(err, fmt.Errorf("%s: expected nothing, 1 or 0", f))
			}
		case "sluice.run":
			o.runs = append(o.runs, strings.Split(v, ","))
		}
	}
	return o, err
}

// all runs the commands in order. By default the image serves only if doctor found no fault, because the first access
// to an empty PL would hang the processor.
func (o *started) all(out io.Writer, run func(args []string) int) error {
	runs := o.runs
	if runs == nil {
		runs = [][]string{{"doctor"}}
		if o.label != "" && o.clock != "" {
			runs = append(runs, []string{"serve"})
		}
	}
	failed := 0
	for i, args := range runs {
		switch args[0] {
		case "serve":
			args = append(args, "--label", o.label, "--clock-mhz", o.clock)
		case "doctor":
			for _, f := range [][2]string{{"--label", o.label}, {"--clock-mhz", o.clock}, {"--board", o.board}} {
				if f[1] != "" {
					args = append(args, f[0], f[1])
				}
			}
		}
		code := run(args)
		fmt.Fprintf(out, "%s %s %d\n", markEnd, args[0], code)
		if code == cli.OK {
			continue
		}
		failed++
		if o.runs == nil && i+1 < len(runs) {
			fmt.Fprintf(out, "sluice board: not serving: doctor found something wrong; put it right, then sluice board serve --label %s --clock-mhz %s\n", o.label, o.clock)
			break
		}
	}
	fmt.Fprintf(out, "%s %d of %d runs failed\n", markDone, failed, len(runs))
	if failed > 0 {
		return cli.Errorf(cli.Check, "%d of %d runs failed", failed, len(runs))
	}
	return nil
}

// child runs this program again. After a signal, the exit code is 128 plus the signal's number, as in a shell.
func child(e *env, args []string) int {
	if args[0] == "sluice" {
		args = args[1:]
	} else {
		args = append([]string{"board"}, args...)
	}
	cmd := exec.CommandContext(e.ctx, "/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = e.out, e.out
	err := cmd.Run()
	x := (*exec.ExitError)(nil)
	if err == nil {
		return cli.OK
	}
	if !errors.As(err, &x) {
		fmt.Fprintln(e.out, "sluice board:", err)
		return cli.Device
	}
	if s, ok := x.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		fmt.Fprintf(e.out, "sluice board: %v\n", x)
		return 128 + int(s.Signal())
	}
	return x.ExitCode()
}

func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// reset restarts the machine after all output to the console has been sent.
func reset() {
	unix.IoctlSetInt(int(os.Stdout.Fd()), unix.TCSBRK, 1) // tcdrain
	time.Sleep(time.Second / 2)                           // wait until the UART's FIFO is empty
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}
