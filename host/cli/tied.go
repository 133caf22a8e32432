package cli

import (
	"io"
	"os"
	"os/exec"
)

// tiedEnv tells a process that it is tied to the process that started it (Tied).
const tiedEnv = "SLUICE_TIED"

// Tied runs a command whose program uses Program. The command ends when its context ends, or when this process ends,
// even if this process is killed. The processes that the command has started, such as a script's yosys, end too.
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

// tie ends this process and its children when the process that started it with Tied has ended.
func tie() {
	if os.Getenv(tiedEnv) == "" {
		return
	}
	_ = os.Unsetenv(tiedEnv) // the children of this process are not tied to it
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nobody writes
		endGroup()
	}()
}
