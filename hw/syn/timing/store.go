//go:build unix

package timing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Store merges rows into the file. Concurrent calls are safe: Store locks the folder, so that no lock file remains.
func Store(path string, rows ...Row) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("timing figures: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("timing figures: %w", err)
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("timing figures: %s: lock: %w", dir, err)
	}
	s, err := LoadFile(path)
	if err != nil {
		return err
	}
	for _, r := range rows {
		s.Put(r)
	}
	return s.Write(path)
}
