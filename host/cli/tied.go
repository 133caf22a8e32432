package cli

import (
	"io"
	"os"
	"os/exec"
)

// tiedEnv marks a process that was started by Tied.
const tiedEnv = "SLUICE_TIED"

// Tied runs a command, whose main function must call Program.Main. The command ends when its context or this process
// ends, even if this process is killed. Processes that the command has started, such as yosys, end too.
func Tied(cmd *exec.Cmd) error {
	in, out, err := os.Pipe() // only this process can write, so its end causes an end of file in the command
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

// tie ends this process and its children when the process that called Tied has ended.
func tie() {
	if os.Getenv(tiedEnv) == "" {
		return
	}
	_ = os.Unsetenv(tiedEnv) // the children of this process are not tied to it
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns at the end of file, because no process writes
		endGroup()
	}()
}
