package cli

import (
	"io"
	"os"
	"os/exec"
)

// tiedEnv tells a process of Program that it is tied to the one that started it.
const tiedEnv = "SLUICE_TIED"

// Tied runs a command whose program is a Program. With this process, even if it is killed, or with the end of the command's
// context the command ends, and so does what it has started: a script's yosys.
func Tied(cmd *exec.Cmd) error {
	in, out, err := os.Pipe() // this process alone has the end for writing, so the command reads the end of file when it ends
	if err != nil {
		return err
	}
	defer in.Close()
	defer out.Close()
	cmd.Stdin = in
	cmd.Env = append(cmd.Environ(), tiedEnv+"=1")
	group(cmd)
	return cmd.Run()
}

// tie ends this process and what it has started when the process that started it with Tied has ended.
func tie() {
	if os.Getenv(tiedEnv) == "" {
		return
	}
	_ = os.Unsetenv(tiedEnv) // those that this one starts are not tied
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nobody writes
		endGroup()
	}()
}
