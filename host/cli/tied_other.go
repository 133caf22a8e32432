//go:build !windows

package cli

import (
	"os/exec"
	"syscall"
)

// group gives a command a group of processes, which the end of its context ends.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func endGroup() { _ = syscall.Kill(0, syscall.SIGKILL) }
