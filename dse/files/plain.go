// This file replaces files atomically on Windows, because renameio does not support Windows.

package files

import (
	"os"
	"path/filepath"
)

// plain implements Pending with package os only.
type plain struct {
	*os.File
	path string
	over bool
}

func create(path string) (*plain, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, err
	}
	return &plain{File: f, path: path}, nil
}

// CloseAtomicallyReplace implements Pending.
func (p *plain) CloseAtomicallyReplace() error {
	if err := p.Sync(); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.Name(), p.path); err != nil {
		return err
	}
	p.over = true
	return nil
}

// Cleanup implements Pending.
func (p *plain) Cleanup() error {
	if p.over {
		return nil
	}
	p.over = true
	_ = p.Close()
	return os.Remove(p.Name())
}
