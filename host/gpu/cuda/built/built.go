// Package built builds a file from sources only once. Concurrent calls are safe, because tests of several packages run
// at the same time and need the same libraries.
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
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Of returns the absolute path of a file that a command builds from sources. The path is dir/name-HASH plus ext. The
// hash covers the words and the version of the command, the content of the sources, and the processor architecture. An
// existing file is reused. Of appends the output path to the command. A copy is stored in .ci/cache's folder for other
// clones.
func Of(dir, name, ext string, sources []string, command ...string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s ", runtime.GOARCH, version(command[0]))
	for _, word := range command {
		fmt.Fprintf(sum, "%q ", filepath.Base(word)) // the hash must not depend on the location of the repository
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
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) { // another process has built the file in the meantime
		return out, err
	}
	kept := ""
	if at := store(); at != "" {
		kept = filepath.Join(at, filepath.Base(out))
		if copied(kept, out) == nil {
			now := time.Now()
			_ = os.Chtimes(kept, now, now) // marks the file as used, because unused files are removed after 30 days
			return out, nil
		}
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
	if kept != "" && os.MkdirAll(filepath.Dir(kept), 0o755) == nil {
		_ = copied(tmp.Name(), kept) // if this fails, the next clone builds the file again
	}
	return out, os.Rename(tmp.Name(), out)
}

// version returns a text that identifies a tool's version. It does not run the tool, but uses the name and size of the
// file to which the tool's link leads (such as g++-12).
func version(tool string) string {
	path, err := exec.LookPath(tool)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(filepath.Base(path), info.Size())
}

// store returns .ci/cache's folder. "": no copies are stored.
func store() string {
	if at, set := os.LookupEnv("SLUICE_CACHE"); set {
		return at
	}
	at, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(at, "sluice")
}

// copied makes an executable copy. The copy is atomic.
func copied(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), to)
}
