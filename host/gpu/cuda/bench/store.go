// The file of runs: one line of JSON facts, then one line a series, gzip-compressed.

package bench

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// ErrRaw is wrapped by errors about a file of runs.
var ErrRaw = errors.New("runs of a GPU")

// RawFile is the file's name in a folder.
const RawFile = "runs.csv.gz"

const (
	schema   = "sluice-gpu-runs/1"
	maxBytes = 1 << 28 // uncompressed
	maxLine  = 1 << 24
)

type head struct {
	Schema string     `json:"schema"`
	Seed   uint64     `json:"seed"`
	Facts  cuda.Facts `json:"facts"`
	Made   Made       `json:"made"`
}

// units are the units of stored runs. Another unit means another writer, and its figures would mean something else.
var units = []string{
	"ns", "sm", "samples", "preemptions", "kills", "kernels", "kernel", "kernel from 0", "exit", "exits", "output",
	"launches", "devices", "MHz", "ppm", "units",
}

// bad reports whether a word cannot be part of a line.
func bad(word string) bool { return strings.ContainsAny(word, ",\n\r") }

// Write writes the runs.
func (r *Raw) Write(w io.Writer) error {
	for i := range r.Series {
		if s := &r.Series[i]; bad(s.Part) || bad(s.Key) || bad(s.Unit) {
			return fmt.Errorf("%w: write runs: %q, %q in %q: words without commas and ends of lines are expected", ErrRaw, s.Part, s.Key, s.Unit)
		}
	}
	z := gzip.NewWriter(w)
	text, err := json.Marshal(head{schema, r.Seed, r.Facts, r.Made})
	if err != nil {
		return fmt.Errorf("write runs: %w", err)
	}
	b := bufio.NewWriter(z)
	b.Write(text)
	b.WriteByte('\n')
	for i := range r.Series {
		s := &r.Series[i]
		b.WriteString(s.Part + "," + s.Key + "," + s.Unit)
		for _, v := range s.Runs {
			b.WriteByte(',')
			b.WriteString(strconv.FormatInt(v, 10))
		}
		b.WriteByte('\n')
	}
	if err := errors.Join(b.Flush(), z.Close()); err != nil {
		return fmt.Errorf("write runs: %w", err)
	}
	return nil
}

// Read reads the runs; from is the name for errors.
func Read(from string, in io.Reader) (*Raw, error) {
	line := 0
	fail := func(format string, a ...any) (*Raw, error) {
		return nil, fmt.Errorf("%w: %s, line %d: %s", ErrRaw, from, line, fmt.Sprintf(format, a...))
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return fail("%v", err)
	}
	limited := &io.LimitedReader{R: z, N: maxBytes}
	s := bufio.NewScanner(limited)
	s.Buffer(nil, maxLine)
	r := &Raw{}
	known := map[string]bool{}
	for s.Scan() {
		if line++; line == 1 {
			var h head
			if err := json.Unmarshal(s.Bytes(), &h); err != nil {
				return fail("%v", err)
			}
			if h.Schema != schema {
				return fail("schema %q, expected %s", h.Schema, schema)
			}
			if h.Facts.SMs < 1 {
				return fail("a GPU of %d SMs", h.Facts.SMs)
			}
			r.Seed, r.Facts, r.Made = h.Seed, h.Facts, h.Made
			continue
		}
		if strings.Contains(s.Text(), "\r") {
			return fail("an end of line in the line")
		}
		f := strings.Split(s.Text(), ",")
		if len(f) < 3 {
			return fail("%d fields, expected part, key, unit and runs", len(f))
		}
		if all := append(Parts(), DISB, SEEB, Clocks); !slices.Contains(all, f[0]) {
			return fail("part %q, expected of %s", f[0], strings.Join(all, ", "))
		}
		if !slices.Contains(units, f[2]) {
			return fail("%s %s in %q, expected of %s", f[0], f[1], f[2], strings.Join(units, ", "))
		}
		one := Series{Part: f[0], Key: f[1], Unit: f[2]}
		if name := f[0] + "," + f[1]; known[name] {
			return fail("%s %s comes twice", f[0], f[1])
		} else {
			known[name] = true
		}
		for i, x := range f[3:] {
			v, err := strconv.ParseInt(x, 10, 64)
			if err != nil || v < 0 {
				return fail("run %d is %q, expected a number", i+1, x)
			}
			one.Runs = append(one.Runs, v)
		}
		r.Series = append(r.Series, one)
	}
	switch {
	case s.Err() != nil:
		return fail("%v", s.Err())
	case limited.N <= 0:
		return fail("more than %d bytes", maxBytes)
	case line == 0:
		return fail("it is empty")
	}
	return r, nil
}
