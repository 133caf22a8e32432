// This file reads arrivals from a file.
//
// CSV: the first line is `arrival_ns` or `arrival_s`. Every further line is one arrival time, not earlier than the
// previous time. Blank lines, and lines that begin with #, are ignored.
//
//	arrival_ns
//	0
//	1500000
//
// JSON: one object with the unit and the times.
//
//	{"unit": "s", "arrivals": [0, 0.0015, 0.004]}
//
// ns must be whole numbers; s may have a fraction. Times are 0..400 days.

package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// maxFile and maxLine are the maximum sizes of a file and a line, in bytes.
const (
	maxFile = 256 << 20
	maxLine = 256
)

// File reads arrivals from a .csv or .json file.
func File(path string) ([]Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	defer f.Close()
	r := io.LimitReader(f, maxFile+1)
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		return CSV(path, r)
	case ".json":
		return JSON(path, r)
	default:
		return nil, fmt.Errorf("%w: %s: expected a file that ends in .csv or .json", ErrLoad, path)
	}
}

// CSV reads the CSV form. name is used in error messages.
func CSV(name string, r io.Reader) ([]Time, error) {
	var (
		out  []Time
		unit string
		line int
		size int64
	)
	fail := func(format string, a ...any) ([]Time, error) {
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrLoad, name, line, fmt.Errorf(format, a...))
	}
	s := bufio.NewScanner(plaintext.NewReader(r))
	s.Buffer(make([]byte, 0, maxLine), maxLine)
	for s.Scan() {
		line++
		if size += int64(len(s.Bytes())) + 1; size > maxFile {
			return fail("the file is longer than %d bytes", maxFile)
		}
		text := strings.TrimSpace(s.Text())
		if inner, ok := strings.CutPrefix(text, `"`); ok { // the form of a header that R writes
			if inner, ok = strings.CutSuffix(inner, `"`); ok {
				text = strings.TrimSpace(inner)
			}
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if unit == "" {
			switch text {
			case "arrival_ns", "arrival_s":
				unit = strings.TrimPrefix(text, "arrival_")
			default:
				return fail("expected the header arrival_ns or arrival_s, found %q", text)
			}
			continue
		}
		at, err := parse(text, unit)
		if err != nil {
			return fail("%w", err)
		}
		if n := len(out); n > 0 {
			if err := next(out[n-1], at); err != nil {
				return fail("%w", err)
			}
		}
		if len(out) == MaxArrivals {
			return fail("more than %d arrivals", MaxArrivals)
		}
		out = append(out, at)
	}
	if err := s.Err(); err != nil {
		line++
		return fail("%w", err)
	}
	if len(out) == 0 {
		return fail("there is no arrival")
	}
	if err := Check(out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// JSON reads the JSON form. name is used in error messages.
func JSON(name string, r io.Reader) ([]Time, error) {
	fail := func(format string, a ...any) ([]Time, error) {
		return nil, fmt.Errorf("%w: %s: %w", ErrLoad, name, fmt.Errorf(format, a...))
	}
	text, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	if bytes.Count(text, []byte(",")) > MaxArrivals { // checked before memory is allocated for the times
		return fail("more than %d arrivals", MaxArrivals)
	}
	var doc struct {
		Unit     string            `json:"unit"`
		Arrivals []json.RawMessage `json:"arrivals"` // not float64, since times in ns can have more digits
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return fail("expected the keys unit and arrivals: %w", place(text, err))
	}
	switch {
	case d.More():
		return fail("expected nothing after the object")
	case doc.Unit != "ns" && doc.Unit != "s":
		return fail("unit: expected \"ns\" or \"s\", found %q", doc.Unit)
	case len(doc.Arrivals) == 0:
		return fail("there is no arrival")
	}
	out := make([]Time, len(doc.Arrivals))
	last := Time(0)
	for i, raw := range doc.Arrivals {
		if out[i], err = parse(string(raw), doc.Unit); err == nil {
			err = next(last, out[i])
		}
		if err != nil {
			return fail("arrival %d: %w", i, err)
		}
		last = out[i]
	}
	if err := Check(out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func parse(text, unit string) (Time, error) {
	if unit == "ns" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("expected a whole number of ns, found %q", text)
		}
		return n, next(0, n)
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(s) || math.IsInf(s, 0) {
		return 0, fmt.Errorf("expected a number of seconds, found %q", text)
	}
	switch ns := s * 1e9; {
	case ns < 0:
		return 0, fmt.Errorf("%s s is out of range, 0..%g: %w", text, float64(MaxTime)/1e9, ErrNegative)
	case ns <= float64(MaxTime):
		return Time(math.Round(ns)), nil
	}
	return 0, fmt.Errorf("%s s is out of range, 0..%g", text, float64(MaxTime)/1e9)
}
