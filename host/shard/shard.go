// Package shard divides a command's work into units that several processes compute, and merges the units' results. The
// README describes the contract.
package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/files"
)

// Most is the maximum number of shards.
const Most = 100_000

// Errors.
var (
	ErrRange    = errors.New("expected I/N or I-J/N with 1 <= I <= J <= N <= 100000, or 0/N for the question alone")
	ErrQuestion = errors.New("results of another question")
	ErrResult   = errors.New("no valid result")
	ErrMissing  = errors.New("missing results")
)

// Range contains the shards First to Last of N, counted from 1. If First and Last are 0, the range is empty, and the
// command only writes its question to the folder.
type Range struct{ First, Last, N int }

// ParseRange reads I/N or I-J/N.
func ParseRange(text string) (Range, error) {
	some, of, _ := strings.Cut(text, "/")
	first, last, more := strings.Cut(some, "-")
	if !more {
		last = first
	}
	number := func(text string) int {
		n, err := strconv.ParseUint(text, 10, 31) // ParseUint accepts no sign
		if err != nil {
			return -1
		}
		return int(n)
	}
	r := Range{number(first), number(last), number(of)}
	if r.First < 0 || r.First < min(r.Last, 1) || r.Last < r.First || r.N < max(r.Last, 1) || r.N > Most {
		return Range{}, fmt.Errorf("%w, not %q", ErrRange, text)
	}
	return r, nil
}

// Question is a command with its inputs. All shards together compute its answer.
type Question struct {
	Schema   string   `json:"schema"`
	Program  string   `json:"program"`
	Version  string   `json:"version"`
	Revision string   `json:"revision"` // revision of the sources; if the sources were modified, the hash of the program
	RTL      string   `json:"rtl"`
	Arch     string   `json:"arch"` // architecture, if the results depend on its arithmetic; otherwise ""
	Args     []string `json:"args"` // --NAME=VALUE, sorted by name; a file is input:SHA256/NAME
	Shards   int      `json:"shards"`
}

const questionSchema = "sluice-question/2"

// ID returns the hash of a question.
func (q *Question) ID() string {
	text, _ := json.Marshal(q) // Marshal cannot fail for strings and a number
	return sum(text)
}

func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

// Command returns the command line that answers the question with the inputs in a folder.
func (q *Question) Command(dir string) []string {
	words := make([]string, len(q.Args))
	for i, a := range q.Args {
		words[i] = At(dir, a)
	}
	return words
}

// Other returns an error that lists the differences to another question, or nil if the questions are equal.
func (q *Question) Other(o *Question) error {
	var out []string
	for _, x := range [][3]string{
		{"schema", o.Schema, q.Schema},
		{"program", o.Program, q.Program},
		{"version", o.Version, q.Version},
		{"revision", o.Revision, q.Revision},
		{"RTL", o.RTL, q.RTL},
		{"architecture", o.Arch, q.Arch},
		{"number of shards", strconv.Itoa(o.Shards), strconv.Itoa(q.Shards)},
	} {
		if x[1] != x[2] {
			out = append(out, fmt.Sprintf("%s %q, expected %q", x[0], x[1], x[2]))
		}
	}
	for _, a := range o.Args {
		if !slices.Contains(q.Args, a) {
			out = append(out, "it has "+a)
		}
	}
	for _, a := range q.Args {
		if !slices.Contains(o.Args, a) {
			out = append(out, "it lacks "+a)
		}
	}
	if out == nil && !slices.Equal(q.Args, o.Args) {
		out = []string{"another order of arguments"}
	}
	if out == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrQuestion, strings.Join(out, "; "))
}

// Run is the part of a command that one process computes. A nil Run means that the process computes the whole command.
type Run struct {
	Question Question

	dir   string
	mine  map[int]*Result // results to be written, by shard
	given *merged         // for merge: results of all units
	next  int             // number of the next unit, counted over all stages
}

// merged contains the results of all units in a folder.
type merged struct {
	units map[Key]json.RawMessage
	from  []string // names of the files, by shard
}

// Begin returns a Run that computes the shards of a range and writes the results to a folder. Without a folder, the
// range must contain all shards. Shards with an existing result are omitted; done reports whether all results exist.
func Begin(dir string, q Question, r Range) (run *Run, done bool, err error) {
	run = &Run{Question: q, dir: dir, mine: map[int]*Result{}}
	for i := max(r.First, 1); i <= r.Last; i++ {
		run.mine[i] = &Result{Question: q, Shard: i, Made: map[string]string{}}
	}
	if dir == "" {
		if len(run.mine) != r.N {
			return nil, false, fmt.Errorf("%w: %d of %d shards without a folder for their results", ErrRange, len(run.mine), r.N)
		}
		return run, false, nil
	}
	if err := Settle(dir, q); err != nil {
		return nil, false, err
	}
	names, err := list(dir)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		i, n, err := shardOf(name)
		if err != nil || n != r.N || run.mine[i] == nil {
			continue
		}
		_, err = Read(dir, name, &q)
		if errors.Is(err, ErrResult) { // the result is incomplete, so the shard runs again
			err = cmp.Or(os.Remove(filepath.Join(dir, name)), os.ErrNotExist)
		}
		switch {
		case err == nil:
			delete(run.mine, i)
		case !errors.Is(err, os.ErrNotExist): // a file that cannot be read may be complete; a missing file was removed by another process
			return nil, false, err
		}
	}
	return run, len(run.mine) == 0, nil
}

// questionFile is the name of the file with a folder's question.
const questionFile = "question.json"

// Settle writes a question to a folder. It fails if the folder already has another question.
func Settle(dir string, q Question) error {
	have, err := Asked(dir)
	if err == nil {
		if err := q.Other(have); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text, err := json.MarshalIndent(q, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return files.Write(filepath.Join(dir, questionFile), append(text, '\n'))
}

// Asked reads the question of a folder.
func Asked(dir string) (*Question, error) {
	path := filepath.Join(dir, questionFile)
	text, err := readAll(path, 1<<20)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: expected a folder that --resume has been given with --shard: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	var q Question
	if err := strict(text, &q); err != nil {
		return nil, fmt.Errorf("%s: %w; a %s of another version may have written it", path, err, filepath.Base(os.Args[0]))
	}
	return &q, q.check(path)
}

// check rejects a question that this package cannot have written.
func (q *Question) check(where string) error {
	if q.Schema != questionSchema || q.Shards < 1 || q.Shards > Most || len(q.Args) == 0 {
		return fmt.Errorf("%s: %w: a question of schema %q, %d shards and %d arguments; expected %s, 1..%d shards and a command",
			where, ErrResult, q.Schema, q.Shards, len(q.Args), questionSchema, Most)
	}
	return nil
}

// Merge reads all results of a folder. q is the question of this process, which the results must answer.
func Merge(dir string, q Question) (*Run, error) {
	names, err := list(dir)
	if err != nil {
		return nil, err
	}
	m := &merged{units: map[Key]json.RawMessage{}, from: make([]string, q.Shards)}
	made, by := map[string]string{}, map[string]string{}
	var errs []error
	for _, name := range names {
		r, err := Read(dir, name, &q)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w; delete the file", err))
			continue
		}
		if other := m.from[r.Shard-1]; other != "" {
			errs = append(errs, fmt.Errorf("%s and %s: %w: two of one shard", other, name, ErrResult))
			continue
		}
		m.from[r.Shard-1] = name
		for what, hash := range r.Made {
			if have, ok := made[what]; ok && have != hash {
				errs = append(errs, fmt.Errorf("%s: %w: its %s is %s, that of %s is %s", name, ErrQuestion, what, hash, by[what], have))
			}
			made[what], by[what] = hash, name
		}
		for _, u := range r.Units {
			if _, dup := m.units[u.Key]; dup {
				errs = append(errs, fmt.Errorf("%s: %w: unit %v is in another shard too", name, ErrResult, u.Key))
			}
			m.units[u.Key] = u.Result
		}
	}
	var missing []string
	for i, name := range m.from {
		if name == "" {
			missing = append(missing, strconv.Itoa(i+1))
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("%s: %w: of %d shards %s", dir, ErrMissing, q.Shards, strings.Join(missing, ", ")))
	}
	return &Run{Question: q, dir: dir, given: m}, errors.Join(errs...)
}

// Of returns the number of shards.
func (r *Run) Of() int {
	if r == nil {
		return 1
	}
	return r.Question.Shards
}

// Made records another dependency of the results besides the question, such as a simulator. id returns its hash.
func (r *Run) Made(what string, id func() string) {
	if r == nil || r.given != nil {
		return
	}
	hash := id()
	for _, m := range r.mine {
		m.Made[what] = hash
	}
}

// Left returns the shards that this process computes.
func (r *Run) Left() []int { return slices.Sorted(maps.Keys(r.mine)) }

// Finish writes the results of this process. If over is true, the command must end without further work or output.
func (r *Run) Finish() (over bool, err error) {
	if r == nil || r.given != nil || r.dir == "" {
		return false, nil
	}
	for _, i := range r.Left() {
		if _, err := r.mine[i].Write(r.dir); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Units yields the results of a stage's n units in order: all results in a merge or without shards, otherwise those of
// this process's shards. Each result is computed on demand, and is encoded and decoded as JSON.
func Units[T any](r *Run, stage string, n int, one func(unit int) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		base := 0
		if r != nil {
			base = r.next
			r.next += n
		}
		for u := range n {
			i := 1 + (base+u)%r.Of()
			if r != nil && r.given == nil && r.mine[i] == nil {
				continue
			}
			got, err := unit(r, i, Key{stage, u}, one)
			if !yield(got, err) || err != nil {
				return
			}
		}
	}
}

func unit[T any](r *Run, i int, key Key, one func(int) (T, error)) (out T, err error) {
	var text json.RawMessage
	if r != nil && r.given != nil {
		var ok bool
		if text, ok = r.given.units[key]; !ok {
			return out, fmt.Errorf("%s: %w: unit %v is missing; delete the file and run shard %d again", filepath.Join(r.dir, r.given.from[i-1]), ErrResult, key, i)
		}
	} else {
		v, err := one(key.Unit)
		if err != nil {
			return out, err
		}
		if text, err = json.Marshal(v); err != nil {
			return out, fmt.Errorf("unit %v: %w", key, err)
		}
	}
	if r != nil && r.given == nil {
		r.mine[i].Units = append(r.mine[i].Units, Unit{key, text})
	}
	if err := strict(text, &out); err != nil {
		return out, fmt.Errorf("unit %v: %w: %w", key, ErrResult, err)
	}
	return out, nil
}

// NewQuestion returns the question of a program. The caller must add the arguments.
func NewQuestion(program, version string) Question {
	return Question{Schema: questionSchema, Program: program, Version: version}
}

// Lacks returns a question's shards that have no valid result in a folder, and the reasons why it rejects files there.
func Lacks(dir string, q *Question) (out map[int]bool, refused []error, err error) {
	names, err := list(dir)
	if err != nil {
		return nil, nil, err
	}
	out = make(map[int]bool, q.Shards)
	for i := range q.Shards {
		out[i+1] = true
	}
	for _, name := range names {
		if r, err := Read(dir, name, q); err == nil {
			delete(out, r.Shard)
		} else {
			refused = append(refused, fmt.Errorf("%w; delete the file", err))
		}
	}
	return out, refused, nil
}

// Find returns the name and content of a shard's valid result in a folder.
func Find(dir string, q *Question, i int) (name string, text []byte, err error) {
	names, err := list(dir)
	if err != nil {
		return "", nil, err
	}
	for _, name := range names {
		if k, _, err := shardOf(name); err != nil || k != i {
			continue
		}
		text, err := readAll(filepath.Join(dir, name), MaxResult)
		if err != nil {
			return "", nil, err
		}
		_, err = Decode(name, text, q)
		return name, text, err
	}
	return "", nil, fmt.Errorf("%s: %w of shard %d", dir, ErrMissing, i)
}
