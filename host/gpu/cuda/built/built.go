// Package built builds files from sources once, also under concurrent calls: tests of several packages run at the
// same time and need the same libraries.
package built

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Of returns the absolute path of the file that a command builds from sources: dir/name-HASH and ext. The hash is
// over the command's words and the sources' content; an existing file is reused. The output path is appended to the
// command.
func Of(dir, name, ext string, sources []string, command ...string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, word := range command {
		fmt.Fprintf(sum, "%q ", filepath.Base(word)) // independent of where the repository is
	}
	for _, source := range sources {
		data, err := os.ReadFile(source)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d ", filepath.Base(source), len(data))
		sum.Write(data)
	}
	out := filepath.Join(dir, name+"-"+hex.EncodeToString(sum.Sum(nil))[:16]+ext)
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: lock: %w", lock.Name(), err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) { // another process built it meanwhile
		return out, err
	}
	tmp, err := os.CreateTemp(dir, "making-*"+ext)
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp.Name(), 0o755); err != nil {
		return "", err
	}
	if text, err := exec.Command(command[0], append(command[1:], tmp.Name())...).CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("%s is missing: install the package %[1]s", command[0])
		}
		return "", fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	return out, os.Rename(tmp.Name(), out)
}
