// A store keeps the results of an interrupted suite, because each run appends one line when it ends.

package fluid

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/sluice-npu/sluice/host/experiments"
)

// maxStoreLine bounds one result, in bytes.
const maxStoreLine = 64 << 10

// storeLine is a result in the file. Sum is a checksum of the other fields. It detects truncated lines.
type storeLine struct {
	Key     string  `json:"key"`
	Metrics Metrics `json:"metrics"`
	Sum     string  `json:"sum"`
}

// Store stores the results of runs in a file. It is safe for concurrent use. A result is valid only for the program,
// case and model that produced it.
type Store struct {
	program string
	mu      sync.Mutex
	have    map[string]*Metrics
	file    *os.File
	loaded  int
}

// OpenStore opens or creates the file. program is the hash of the program that runs the cases. Incomplete lines are
// ignored.
func OpenStore(path, program string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	s := &Store{program: program, have: map[string]*Metrics{}, file: f}
	r := bufio.NewReaderSize(f, maxStoreLine)
	var end int64 // end of the last complete line
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) {
			break // the line was truncated by an interruption
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("read results from %s: %w", path, err)
		}
		end += int64(len(line))
		var l storeLine
		if json.Unmarshal(line, &l) == nil && l.Sum == l.sum() {
			s.have[l.Key] = &l.Metrics
		}
	}
	s.loaded = len(s.have)
	// A new result must not be appended to a truncated line.
	if err := f.Truncate(end); err != nil {
		f.Close()
		return nil, fmt.Errorf("cut %s: %w", path, err)
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("open results: %w", err)
	}
	return s, nil
}

// Loaded returns the number of results in the file when it was opened.
func (s *Store) Loaded() int { return s.loaded }

// Close closes the file.
func (s *Store) Close() error { return s.file.Close() }

func (l *storeLine) sum() string {
	text, err := json.Marshal(l.Metrics)
	if err != nil {
		return "" // JSON cannot represent the number, so the result is not stored
	}
	h := sha256.Sum256(append([]byte(l.Key), text...))
	return hex.EncodeToString(h[:8])
}

// key returns the key of a result.
func (s *Store) key(c *Case, m *Model) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%#v\n", s.program, m.digest(), *c)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (s *Store) get(c *Case, m *Model) *Metrics {
	k := s.key(c, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have[k]
}

func (s *Store) put(c *Case, m *Model, r *Metrics) error {
	l := storeLine{Key: s.key(c, m), Metrics: *r}
	l.Sum = l.sum()
	if l.Sum == "" {
		return fmt.Errorf("%w: %s of %s gives a number that cannot be written", experiments.ErrSetup, c.Policy, c.Setting)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
