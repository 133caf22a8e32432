// This file packs a command's output into one file, which is easy to copy.

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archived is the suffix of the name of an archive.
const archived = ".tgz"

const maxArchived = 1 << 28 // maximum size of a file in an archive, in bytes

// pack writes the files of a folder, without subfolders, as an archive.
func pack(w io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		err = t.WriteHeader(&tar.Header{Name: e.Name(), Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = t.Write(text)
		}
		if err != nil {
			return fmt.Errorf("archive %s: %w", e.Name(), err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// unpacked returns the content of one file in an archive.
func unpacked(path, name string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: no %s in it", path, name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case filepath.Base(h.Name) != name:
			continue
		case h.Size > maxArchived:
			return nil, fmt.Errorf("%s: %s has %d bytes, at most %d are expected", path, name, h.Size, maxArchived)
		}
		return io.ReadAll(t)
	}
}
