// Package files writes files atomically: to a temporary name first, then renamed. On Windows the rename fails while a
// reader has the old file open, and a crash may leave the temporary file behind; elsewhere renameio does the work.
package files

import (
	"io"
	"strings"
)

// Pending is a file that still has a temporary name.
type Pending interface {
	io.Writer
	// CloseAtomicallyReplace renames the file to its final name.
	CloseAtomicallyReplace() error
	// Cleanup removes the file unless it was renamed.
	Cleanup() error
}

// mode is the mode of all files.
const mode = 0o644

// New creates a pending file that everybody may read.
func New(path string) (Pending, error) { return begin(path) }

// Write writes a whole file.
func Write(path string, data []byte) error {
	f, err := begin(path)
	if err != nil {
		return err
	}
	defer f.Cleanup() // does nothing after the rename
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Quoted returns a path as one word of a shell command, in quotes if needed.
func Quoted(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@="
	if path != "" && strings.Trim(path, plain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
