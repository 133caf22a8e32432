// Package files writes files atomically: it writes a temporary file and then renames it. On Windows, where renameio is
// not available, the rename fails while the old file is open, and a crash may leave the temporary file.
package files

import (
	"io"
	"strings"
)

// Pending is a file with a temporary name.
type Pending interface {
	io.Writer
	// CloseAtomicallyReplace renames the file to its final name.
	CloseAtomicallyReplace() error
	// Cleanup removes the file if it has not been renamed.
	Cleanup() error
}

// mode is the mode of all files that this package writes.
const mode = 0o644

// New creates a pending file that all users can read.
func New(path string) (Pending, error) { return begin(path) }

// Write writes a whole file.
func Write(path string, data []byte) error {
	f, err := begin(path)
	if err != nil {
		return err
	}
	defer f.Cleanup() // has no effect after the rename
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Quoted returns a path as one word of a shell command. It adds quotes if they are needed.
func Quoted(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@="
	if path != "" && strings.Trim(path, plain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
