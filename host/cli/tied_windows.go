package cli

import (
	"os"
	"os/exec"
)

// group does nothing on Windows, because the scripts that start processes are for other systems.
func group(*exec.Cmd) {}

func endGroup() { os.Exit(Interrupted) }
