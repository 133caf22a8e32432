package shard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/files"
)

// MaxResult is the maximum size of a result in bytes.
const MaxResult = 256 << 20

// Key identifies a unit.
type Key struct {
	Stage string `json:"stage"`
	Unit  int    `json:"unit"`
}

func (k Key) String() string { return k.Stage + "/" + strconv.Itoa(k.Unit) }

// Unit is the result of one unit.
type Unit struct {
	Key
	Result json.RawMessage `json:"result"`
}

// Result contains the results of one shard. It is written as one JSON document with one line per unit.
type Result struct {
	Question Question          `json:"question"`
	Shard    int               `json:"shard"`
	Made     map[string]string `json:"made"` // hash of each simulator that was used
	Units    []Unit            `json:"units"`
}

var named = regexp.MustCompile(`^(\d{5,6})-of-(\d{5,6})\.([0-9a-f]{64})$`)

// shardOf reads shard I and the number of shards N from the name of a result.
func shardOf(name string) (i, n int, err error) {
	m := named.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, fmt.Errorf("%w: the name %.100q, expected IIIII-of-NNNNN.SHA256", ErrResult, name)
	}
	i, _ = strconv.Atoi(m[1]) // m[1] consists of digits
	n, _ = strconv.Atoi(m[2])
	if i < 1 || i > n || n > Most {
		return 0, 0, fmt.Errorf("%w: the name %q: shard %d of %d", ErrResult, name, i, n)
	}
	return i, n, nil
}

// Encode returns a result's name and content.
func (r *Result) Encode() (name string, text []byte, err error) {
	var b bytes.Buffer
	head, err := json.Marshal(struct {
		Question Question          `json:"question"`
		Shard    int               `json:"shard"`
		Made     map[string]string `json:"made"`
	}{r.Question, r.Shard, r.Made})
	if err != nil {
		return "", nil, err
	}
	b.Write(head[:len(head)-1])
	b.WriteString(`,"units":[`)
	for i := range r.Units {
		line, err := json.Marshal(&r.Units[i])
		if err != nil {
			return "", nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	if b.Len() > MaxResult {
		return "", nil, fmt.Errorf("%w: shard %d of %d has %d bytes, at most %d", ErrResult, r.Shard, r.Question.Shards, b.Len(), MaxResult)
	}
	return fmt.Sprintf("%05d-of-%05d.%s", r.Shard, r.Question.Shards, sum(b.Bytes())), b.Bytes(), nil
}

// Write writes a result to a folder. After an error, no incomplete file exists.
func (r *Result) Write(dir string) (name string, err error) {
	name, text, err := r.Encode()
	if err != nil {
		return "", err
	}
	return name, files.Write(filepath.Join(dir, name), text)
}

// Decode reads a result and compares it with its name and the question. The argument text may be any bytes. Decode
// returns an error for invalid bytes.
func Decode(name string, text []byte, q *Question) (*Result, error) {
	i, n, err := shardOf(name)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxResult {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d", name, ErrResult, len(text), MaxResult)
	}
	if h := sum(text); !strings.HasSuffix(name, h) {
		return nil, fmt.Errorf("%s: %w: truncated or altered: its content has the hash %s", name, ErrResult, h)
	}
	var r Result
	if err := strict(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrResult, err)
	}
	if err := q.Other(&r.Question); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Shard != i || r.Question.Shards != n {
		return nil, fmt.Errorf("%s: %w: it says shard %d of %d", name, ErrResult, r.Shard, r.Question.Shards)
	}
	seen := map[Key]bool{}
	for _, u := range r.Units {
		if u.Stage == "" || u.Unit < 0 || seen[u.Key] {
			return nil, fmt.Errorf("%s: %w: unit %v twice, or none", name, ErrResult, u.Key)
		}
		seen[u.Key] = true
	}
	return &r, nil
}

// Read reads and checks a result in a folder.
func Read(dir, name string, q *Question) (*Result, error) {
	text, err := readAll(filepath.Join(dir, name), MaxResult)
	if err != nil {
		return nil, err
	}
	return Decode(name, text, q)
}

// readAll reads a regular file. The argument most is the maximum size in bytes.
func readAll(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s: %w: expected a file of at most %d bytes", path, ErrResult, most)
	}
	return os.ReadFile(path)
}

// strict decodes one JSON document. Unknown keys are an error.
func strict(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after the document")
	}
	return nil
}

// list returns the names of the files in a folder that may be results: all files except question and inputs.
func list(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range all {
		if n := e.Name(); n != questionFile && n != inputFolder && !strings.HasPrefix(n, ".") {
			names = append(names, n)
		}
	}
	return names, nil
}
