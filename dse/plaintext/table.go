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

// Row is a line of a table. Its methods read a field each; Err is the error of the first bad one.
type Row struct {
	head, fields []string
	Err          error
}

// Len is the number of fields.
func (r *Row) Len() int { return len(r.fields) }

// Text is a field without spaces around it.
func (r *Row) Text(i int) string { return strings.TrimSpace(r.fields[i]) }

// Number is a number of least..most.
func (r *Row) Number(i int, least, most float64) float64 {
	v, err := strconv.ParseFloat(r.Text(i), 64)
	if (err != nil || !(v >= least && v <= most)) && r.Err == nil {
		r.Err = fmt.Errorf("%s: %.40q, expected %g to %g", r.head[i], r.fields[i], least, most)
	}
	return v
}

// Whole is a whole number of 1..most.
func (r *Row) Whole(i int, most float64) int64 {
	v := r.Number(i, 1, most)
	if v != math.Trunc(v) && r.Err == nil {
		r.Err = fmt.Errorf("%s: %.40q, expected a whole number", r.head[i], r.fields[i])
	}
	return int64(v)
}

// Table reads CSV without lines that begin with #. head checks the header, and row gets every line after it. An error
// names the file and the line.
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
