//go:build !windows

package files

import "github.com/google/renameio/v2"

func begin(path string) (Pending, error) {
	return renameio.NewPendingFile(path, renameio.WithPermissions(mode))
}
