//go:build unix

package driver

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The error of a library that cannot be opened has its own path, even if other calls fail at the same time.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			path := filepath.Join(dir, fmt.Sprintf("none-%d.so", g))
			for range 2000 {
				_, err := open(path)
				if err == nil || strings.Count(err.Error(), "none-") != 1 || !strings.Contains(err.Error(), path+": ") || strings.HasSuffix(err.Error(), ": ") {
					t.Errorf("%s: %v", path, err)
					return
				}
			}
		})
	}
	all.Wait()
}
