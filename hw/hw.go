// Package hw embeds the RTL, so that a program can check whether stored results come from the RTL of its own build.
package hw

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Sources of hw/syn/synth.sh, as paths from the repository's root: the list of files, and the vendor's cells.
const (
	list  = "hw/rtl/files.f"
	cells = "hw/xilinx/*.sv"
)

//go:embed rtl/*.sv rtl/files.f xilinx/*.sv
var folder embed.FS

// RTL contains the files that hw/syn synthesises, by path from the repository's root.
var RTL fs.FS = rooted{}

type rooted struct{}

// Open implements fs.FS.
func (rooted) Open(name string) (fs.File, error) {
	inside, ok := strings.CutPrefix(name, "hw/")
	if name == "hw" {
		inside, ok = ".", true
	}
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := folder.Open(inside)
	var at *fs.PathError
	if errors.As(err, &at) {
		at.Path = name
	}
	return f, err
}

// Files returns the source files for synthesis: the listed files, packages first, and then the vendor's cells. The tree
// is RTL or the root of a repository. A missing file is an error.
func Files(tree fs.FS) ([]string, error) {
	text, err := fs.ReadFile(tree, list)
	if err != nil {
		return nil, err
	}
	var files []string
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case slices.Contains(files, line):
			return nil, fmt.Errorf("%s:%d: duplicate %s", list, i+1, line)
		case line == "" || strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "hw/") && strings.HasSuffix(line, ".sv"):
			if _, err := fs.Stat(tree, line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", list, i+1, err)
			}
			files = append(files, line)
		default:
			return nil, fmt.Errorf("%s:%d: %q: expected a comment or hw/rtl/NAME.sv", list, i+1, line)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: it names no file", list)
	}
	vendor, err := fs.Glob(tree, cells)
	return append(files, vendor...), err
}
