package plaintext

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Row is a line of a table. Its methods read single fields. Err is the error of the first invalid field.
type Row struct {
	head, fields []string
	Err          error
}

// Len returns the number of fields.
func (r *Row) Len() int { return len(r.fields) }

// Text returns field i without surrounding spaces.
func (r *Row) Text(i int) string { return strings.TrimSpace(r.fields[i]) }

// Number returns field i, which must be a number from `least` to `most`.
func (r *Row) Number(i int, least, most float64) float64 {
	v, err := strconv.ParseFloat(r.Text(i), 64)
	if (err != nil || !(v >= least && v <= most)) && r.Err == nil {
		r.Err = fmt.Errorf("%s: %.40q, expected %g to %g", r.head[i], r.fields[i], least, most)
	}
	return v
}

// Whole returns field i, which must be a whole number from 1 to `most`.
func (r *Row) Whole(i int, most float64) int64 {
	v := r.Number(i, 1, most)
	if v != math.Trunc(v) && r.Err == nil {
		r.Err = fmt.Errorf("%s: %.40q, expected a whole number", r.head[i], r.fields[i])
	}
	return int64(v)
}

// Table reads CSV, and ignores lines that begin with #. It calls head to check the header, and row for each later line.
// An error names the file and the line.
func Table(name string, r io.Reader, head func([]string) error, row func(*Row) error) error {
	c := csv.NewReader(NewReader(r))
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment = -1, true, '#'
	var names []string
	for {
		fields, err := c.Read()
		if errors.Is(err, io.EOF) && names != nil {
			return nil
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("empty, a header is expected")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line, _ := c.FieldPos(0)
		switch {
		case names == nil:
			for _, n := range fields {
				names = append(names, strings.TrimSpace(n))
			}
			err = head(names)
		case len(fields) != len(names):
			err = fmt.Errorf("%d fields, expected %d", len(fields), len(names))
		default:
			err = row(&Row{head: names, fields: fields})
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}
