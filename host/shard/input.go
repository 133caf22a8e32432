package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sluice-npu/sluice/dse/files"
)

// MaxInput is the size of the largest input in bytes.
const MaxInput = 4 << 30

const inputFolder = "input"

var reference = regexp.MustCompile(`input:([0-9a-f]{64})/([^/\\,=]+)`)

// Beside is the suffix of the file with an ONNX file's weights. The file is in the same folder.
const Beside = ".data"

// Input returns a reference to a file: the hash of its content and of the weights in the file beside it, and its name. If dir
// is not "", it keeps copies there for merge and for other machines.
func Input(dir, path string) (ref string, err error) {
	h := sha256.New()
	paths := []string{path}
	if _, err := os.Stat(path + Beside); err == nil {
		paths = append(paths, path+Beside)
	}
	for _, p := range paths {
		if err := copyTo(h, p); err != nil {
			return "", err
		}
	}
	ref = "input:" + hex.EncodeToString(h.Sum(nil)) + "/" + filepath.Base(path)
	if reference.FindString(ref) != ref {
		return "", fmt.Errorf("%s: expected a name without comma, backslash and equals sign", path)
	}
	if dir == "" {
		return ref, nil
	}
	to := filepath.Dir(At(dir, ref))
	if err := os.MkdirAll(to, 0o777); err != nil {
		return "", err
	}
	for _, p := range paths {
		if err := keep(p, filepath.Join(to, filepath.Base(p))); err != nil {
			return "", err
		}
	}
	return ref, nil
}

func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := io.Copy(w, io.LimitReader(f, MaxInput+1)); err != nil || n > MaxInput {
		return errors.Join(err, fmt.Errorf("%s: expected at most %d bytes", path, int64(MaxInput)))
	}
	return nil
}

// keep copies a file, unless the copy exists already.
func keep(path, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	out, err := files.New(to)
	if err != nil {
		return err
	}
	defer out.Cleanup() // does nothing after the rename
	if err := copyTo(out, path); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}

// At replaces references to inputs in an argument by the paths of their copies in a folder.
func At(dir, arg string) string {
	return reference.ReplaceAllStringFunc(arg, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		if m[2] == "." || m[2] == ".." {
			return ref
		}
		return filepath.Join(dir, inputFolder, m[1], m[2])
	})
}

// Inputs are the inputs of a question, as they are referred to.
func (q *Question) Inputs() []string { return reference.FindAllString(strings.Join(q.Args, ","), -1) } // no name has a comma
