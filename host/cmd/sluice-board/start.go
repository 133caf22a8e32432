package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type startCmd struct {
	Modules string `default:"/lib/modules/*.ko" help:"Modules to load."`
}

func (*startCmd) Help() string {
	return `Options stand on the kernel's command line:
  sluice.label=measured     what figures are called (default: only doctor runs)
  sluice.clock_mhz=150      the NPU's clock
  sluice.run=ARGS           one run of this program, arguments by commas, any number of times in order
                            (default: serve)
  sluice.reset              reset the machine after the last (qemu -no-reboot ends then)

Example:
  sluice-board start`
}

// Marks that what watches the console can wait for.
const (
	markEnd  = "SLUICE-END"
	markDone = "SLUICE-DONE"
)

// Run implements the command.
func (c *startCmd) Run(e *env) error {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	label, clock, end := "", "", false
	var runs [][]string
	for _, f := range strings.Fields(string(text)) {
		key, v, _ := strings.Cut(f, "=")
		switch key {
		case "sluice.label":
			label = v
		case "sluice.clock_mhz":
			clock = v
		case "sluice.reset":
			end = true
		case "sluice.run":
			runs = append(runs, strings.Split(v, ","))
		}
	}
	if end {
		defer reset(e)
	}
	modules, err := filepath.Glob(c.Modules)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := insert(m); err != nil {
			fmt.Fprintf(e.out, "sluice-board: load %s: %v\n", m, err)
		}
	}
	if runs == nil {
		runs = [][]string{{"doctor"}}
		if label != "" && clock != "" {
			runs = append(runs, []string{"serve"})
		}
	}
	failed := 0
	for _, args := range runs {
		switch args[0] {
		case "serve", "kill":
			args = append(args, "--label", label, "--clock-mhz", clock)
		case "doctor":
			if label != "" {
				args = append(args, "--label", label)
			}
		}
		code := c.child(e, args)
		fmt.Fprintf(e.out, "%s %s %d\n", markEnd, args[0], code)
		if code != codeOK {
			failed++
		}
	}
	fmt.Fprintf(e.out, "%s %d of %d runs failed\n", markDone, failed, len(runs))
	if failed > 0 {
		return &coded{codeCheck, fmt.Errorf("%d of %d runs failed", failed, len(runs))}
	}
	return nil
}

// child runs this program; "kill" is a serve that is killed in the middle, without a chance to clean
// up, as the kernel's OOM killer would.
func (c *startCmd) child(e *env, args []string) int {
	kill := args[0] == "kill"
	if kill {
		args = append([]string{"serve"}, args[1:]...)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = e.out, e.out
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(e.out, "sluice-board:", err)
		return codeDevice
	}
	if kill {
		time.AfterFunc(killAfter, func() { cmd.Process.Kill() })
	}
	err := cmd.Wait()
	if x := (*exec.ExitError)(nil); errors.As(err, &x) {
		if kill && x.ExitCode() < 0 {
			return codeOK // killed, as it was to be
		}
		if x.ExitCode() < 0 {
			fmt.Fprintf(e.out, "sluice-board: %v\n", x)
		}
		return x.ExitCode()
	}
	if err != nil || kill {
		fmt.Fprintln(e.out, "sluice-board: ended by itself:", err)
		return codeCheck
	}
	return codeOK
}

const killAfter = 700 * time.Millisecond

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

// reset ends the machine's run, after the console has been written.
func reset(e *env) {
	if f, ok := e.out.(*os.File); ok {
		unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1) // tcdrain
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}
