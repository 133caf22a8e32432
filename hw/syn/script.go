package syn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Script runs one of this folder's scripts at the repository's root and returns the folder in its last line.
func Script(ctx context.Context, root, script string, env []string, stderr io.Writer, args ...string) (dir string, err error) {
	cmd := exec.CommandContext(ctx, script, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprint(stderr, said.String())
		return "", fmt.Errorf("%s %s: %w", script, strings.Join(args, " "), err)
	}
	dir = strings.TrimSpace(string(out))
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	return dir, nil
}

// Tools returns an error if a tool of the scripts is missing.
func Tools() error {
	for _, tool := range []string{"yosys", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is missing: install the package %[1]s", tool)
		}
	}
	return nil
}
