//go:build !windows

package cli

import (
	"os/exec"
	"syscall"
)

// group configures a command to run in its own process group. The end of the command's context ends the whole group.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func endGroup() { _ = syscall.Kill(0, syscall.SIGKILL) }
