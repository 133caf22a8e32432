package shard

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/files"
)

// MaxInput is the maximum size of an input in bytes.
const MaxInput = 4 << 30

const inputFolder = "input"

var reference = regexp.MustCompile(`input:([0-9a-f]{64})/([^/\\,=]+)`)

// List is the name of the file that lists an input's parts: the file on the command line, and files with the weights of
// an ONNX file. The list has the format of sha256sum.
const List = ".sha256"

// Part is a file of an input.
type Part struct {
	Hash string // SHA-256 of its content
	Name string // path in the input's folder
}

var line = regexp.MustCompile(`^([0-9a-f]{64})  (.+)$`)

// Parts reads the list of an input. It accepts any text, and returns an error for wrong lists.
func Parts(ref string, list []byte) (parts []Part, err error) {
	m := reference.FindStringSubmatch(ref)
	if m == nil || m[0] != ref || sum(list) != m[1] {
		return nil, fmt.Errorf("%w: the list of %.200q has the hash %s", ErrResult, ref, sum(list))
	}
	for text := range strings.Lines(string(list)) {
		p := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if p == nil || !filepath.IsLocal(p[2]) || strings.Contains(p[2], `\`) || len(parts) == 0 && p[2] != m[2] {
			return nil, fmt.Errorf("%w: the list of %s has the line %.200q", ErrResult, ref, text)
		}
		parts = append(parts, Part{p[1], p[2]})
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: the list of %s is empty", ErrResult, ref)
	}
	return parts, nil
}

// Input returns a file's reference: the hash of its list of parts, and its name. If dir is set, Input copies the parts
// to dir for merge and other machines. weights lists an ONNX file's weight files, relative to its folder; nil: none.
func Input(dir, path string, weights func(file string) ([]string, error)) (ref string, err error) {
	paths := map[string]string{filepath.Base(path): path}
	names := []string{filepath.Base(path)}
	if weights != nil && strings.HasSuffix(path, ".onnx") {
		more, err := weights(path)
		if err != nil {
			return "", err
		}
		for _, name := range more {
			paths[name] = filepath.Join(filepath.Dir(path), name)
		}
		names = append(names, more...)
	}
	var list strings.Builder
	for _, name := range names {
		h := sha256.New()
		if err := copyTo(h, paths[name]); err != nil {
			return "", err
		}
		fmt.Fprintf(&list, "%x  %s\n", h.Sum(nil), name)
	}
	ref = "input:" + sum([]byte(list.String())) + "/" + names[0]
	if reference.FindString(ref) != ref || slices.Contains(names, List) {
		return "", fmt.Errorf("%s: expected names without comma, backslash and equals sign, other than %s", path, List)
	}
	if _, err := Parts(ref, []byte(list.String())); err != nil || dir == "" {
		return ref, err
	}
	to := filepath.Dir(At(dir, ref))
	for _, name := range names {
		if err := keep(paths[name], filepath.Join(to, name)); err != nil {
			return "", err
		}
	}
	return ref, files.Write(filepath.Join(to, List), []byte(list.String()))
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

// keep copies a file, unless the copy already exists.
func keep(path, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	out, err := files.New(to)
	if err != nil {
		return err
	}
	defer out.Cleanup() // has no effect after the rename
	if err := copyTo(out, path); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}

// At replaces references to inputs in an argument with the paths of the copies in a folder.
func At(dir, arg string) string {
	return reference.ReplaceAllStringFunc(arg, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		if m[2] == "." || m[2] == ".." {
			return ref
		}
		return filepath.Join(dir, inputFolder, m[1], m[2])
	})
}

// Inputs returns the references to a question's inputs.
func (q *Question) Inputs() []string { return reference.FindAllString(strings.Join(q.Args, ","), -1) } // names contain no comma
