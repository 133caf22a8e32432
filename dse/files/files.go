// Package files writes files that are whole or not there: under another name first, then renamed. On
// Windows a reader that has the old file open makes the renaming fail, and a crash may leave the other
// name behind; elsewhere it is renameio. Quoted names a file to a shell.
package files

import (
	"io"
	"strings"
)

// Pending is a file on its way.
type Pending interface {
	io.Writer
	// CloseAtomicallyReplace gives it its name.
	CloseAtomicallyReplace() error
	// Cleanup removes it where it has not got its name.
	Cleanup() error
}

// mode of all files.
const mode = 0o644

// New begins a file that everybody may read.
func New(path string) (Pending, error) { return begin(path) }

// Write writes a whole file.
func Write(path string, data []byte) error {
	f, err := begin(path)
	if err != nil {
		return err
	}
	defer f.Cleanup() // nothing where it has its name
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Quoted is a path as a word of a shell's command, between quotes where a shell would read more than a name.
func Quoted(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@="
	if path != "" && strings.Trim(path, plain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
