// The file of runs has a line of facts in JSON, then one line per series, gzip-compressed. During a measurement, runs
// are written to a journal of the same form. There, later facts replace earlier facts, and a series may have several
// lines.

package bench

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// ErrRaw is wrapped by errors about a file of runs.
var ErrRaw = errors.New("runs of a GPU")

// RawFile is the file of runs. JournalFile is the journal, which exists until RawFile is written.
const (
	RawFile     = "runs.csv.gz"
	JournalFile = "runs.csv"
)

const (
	schema   = "sluice-gpu-runs/1"
	maxBytes = 1 << 28 // maximum size of the uncompressed file, in bytes
	maxLine  = 1 << 24
)

type head struct {
	Schema string     `json:"schema"`
	Seed   uint64     `json:"seed"`
	Facts  cuda.Facts `json:"facts"`
	Made   Made       `json:"made"`
}

// units are the units of stored runs. A file with any other unit was not written by this program.
var units = []string{
	"ns", "sm", "samples", "preemptions", "kills", "kernels", "kernel", "kernel from 0", "exit", "exits", "output",
	"launches", "devices", "MHz", "ppm", "units",
}

// bad reports whether a word cannot be stored in a line.
func bad(word string) bool { return strings.ContainsAny(word, ",\n\r") }

// Write writes the runs.
func (r *Raw) Write(w io.Writer) error {
	z := gzip.NewWriter(w)
	if err := errors.Join((&Journal{W: z}).Add(r), z.Close()); err != nil {
		return fmt.Errorf("write runs: %w", err)
	}
	return nil
}

// Journal writes runs as they arrive. Each call of Add writes once, so a killed process loses no run of an earlier
// call. After a failed write, nothing more is written.
type Journal struct {
	W       io.Writer
	head    []byte
	written map[[2]string]int // number of runs written, by part and key
	failed  error             // error of a failed write; later text would be read as part of an incomplete line
}

// Add writes the runs that are new since the last call. Runs are only appended to a series, never removed.
func (j *Journal) Add(r *Raw) error {
	if j.failed != nil {
		return j.failed
	}
	head, err := json.Marshal(head{schema, r.Seed, r.Facts, r.Made})
	if err != nil {
		return err
	}
	var text []byte
	if !bytes.Equal(head, j.head) {
		text = append(append(text, head...), '\n')
	}
	if j.written == nil {
		j.written = map[[2]string]int{}
	}
	for i := range r.Series {
		s := &r.Series[i]
		n, known := j.written[[2]string{s.Part, s.Key}]
		if known && n == len(s.Runs) {
			continue
		}
		if bad(s.Part) || bad(s.Key) || bad(s.Unit) {
			return fmt.Errorf("%w: %q, %q in %q: words without commas and ends of lines are expected", ErrRaw, s.Part, s.Key, s.Unit)
		}
		text = append(text, s.Part+","+s.Key+","+s.Unit...)
		for _, v := range s.Runs[n:] {
			text = strconv.AppendInt(append(text, ','), v, 10)
		}
		text = append(text, '\n')
	}
	if _, j.failed = j.W.Write(text); j.failed != nil {
		return j.failed
	}
	j.head = head
	for i := range r.Series {
		s := &r.Series[i]
		j.written[[2]string{s.Part, s.Key}] = len(s.Runs)
	}
	return nil
}

// Read reads the runs. Errors contain the file's name "from". If the file is truncated, Read returns the runs of its
// complete lines and treats every part as unfinished.
func Read(from string, in io.Reader) (*Raw, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %s, line 0: %v", ErrRaw, from, err)
	}
	return read(from, z, false)
}

// ReadJournal reads a journal, in which a series may have several lines.
func ReadJournal(from string, in io.Reader) (*Raw, error) { return read(from, in, true) }

func read(from string, in io.Reader, journal bool) (*Raw, error) {
	line := 0
	fail := func(format string, a ...any) (*Raw, error) {
		return nil, fmt.Errorf("%w: %s, line %d: %s", ErrRaw, from, line, fmt.Sprintf(format, a...))
	}
	tail := &torn{Reader: in}
	limited := &io.LimitedReader{R: tail, N: maxBytes}
	s := bufio.NewScanner(limited)
	s.Buffer(nil, maxLine)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if atEOF && len(data) > 0 && !bytes.ContainsRune(data, '\n') {
			tail.is = true
			return len(data), nil, nil
		}
		return bufio.ScanLines(data, atEOF)
	})
	r := &Raw{}
	known := map[string]int{}
	for s.Scan() {
		if line++; line == 1 || journal && strings.HasPrefix(s.Text(), "{") {
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
		name := f[0] + "," + f[1]
		at, twice := known[name]
		if twice && !journal {
			return fail("%s %s comes twice", f[0], f[1])
		}
		for i, x := range f[3:] {
			v, err := strconv.ParseInt(x, 10, 64)
			if err != nil || v < 0 {
				return fail("run %d is %q, expected a number", i+1, x)
			}
			one.Runs = append(one.Runs, v)
		}
		if twice {
			r.Series[at].Runs = append(r.Series[at].Runs, one.Runs...)
			continue
		}
		known[name] = len(r.Series)
		r.Series = append(r.Series, one)
	}
	switch {
	case s.Err() != nil:
		return fail("%v", s.Err())
	case limited.N <= 0:
		return fail("more than %d bytes", maxBytes)
	case line == 0:
		return fail("no line is whole, facts are expected")
	}
	if tail.is { // the last runs of any part may be missing
		r.Torn, r.Made.Parts = true, nil
	}
	return r, nil
}

// torn is a reader for a file that may be truncated. If the compressed data is incomplete, torn ends without an error
// and sets its field `is`. The function read sets this field too, if the last line is incomplete.
type torn struct {
	io.Reader
	is bool
}

// Read implements io.Reader.
func (t *torn) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		t.is, err = true, io.EOF
	}
	return n, err
}

// Holds reports whether r contains all runs of o, and r and o are from the same call of Run. Both must have the same
// program and start, and each series of o must be a prefix of that series in r. If both have equally many runs, r must
// also be complete if o is, and have at least as many finished parts.
func (r *Raw) Holds(o *Raw) bool {
	if r.Seed != o.Seed || !reflect.DeepEqual(r.Facts, o.Facts) || r.Made.Program != o.Made.Program || r.Made.Revision != o.Made.Revision || !r.Made.Began.Equal(o.Made.Began) {
		return false
	}
	for i := range o.Series {
		s := &o.Series[i]
		if runs := r.find(s.Part, s.Key); len(runs) < len(s.Runs) || !slices.Equal(runs[:len(s.Runs)], s.Runs) {
			return false
		}
	}
	if r.runs() > o.runs() {
		return true
	}
	return len(r.Made.Parts) >= len(o.Made.Parts) && (o.Torn || !r.Torn)
}

// runs returns the number of runs in all series.
func (r *Raw) runs() (n int) {
	for i := range r.Series {
		n += len(r.Series[i].Runs)
	}
	return n
}
