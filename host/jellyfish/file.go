// A zoo from a file of measured profiles.

package jellyfish

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/names"
)

// Limits of a file.
const (
	mostNets  = 255
	mostBatch = 255
	mostMs    = 1e6
	mostSide  = 1 << 20
	mostBytes = 1 << 30
)

// columns are those before the latencies.
func columns() []string { return []string{"name", "side", "bytes", "accuracy"} }

// Named returns a zoo by name: synthetic, or from a file.
func Named(name string) (Zoo, error) {
	if name == "synthetic" {
		return Synthetic(1), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w %q: neither synthetic nor a file: %w", ErrZoo, name, err)
	}
	defer f.Close()
	return ReadZoo(name, f)
}

// ReadZoo reads profiles as CSV with the header name,side,bytes,accuracy,b1,b2,... A line is a network: the side of
// its square input in pixels, the bytes of a compressed frame of that size, its accuracy on such frames (0..1), and
// the 99th percentile of its time in ms at batch 1, 2, .... NewZoo processes them; name is for errors.
func ReadZoo(name string, r io.Reader) (Zoo, error) {
	c := csv.NewReader(plaintext.NewReader(r))
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment = -1, true, '#'
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: header %s,b1,b2,... expected: %w", ErrZoo, name, strings.Join(columns(), ","), err)
	}
	fixed := len(columns())
	want := columns()
	for b := 1; b <= len(head)-fixed && b <= mostBatch; b++ {
		want = append(want, "b"+strconv.Itoa(b))
	}
	for i := range head {
		if i >= len(want) || strings.TrimSpace(head[i]) != want[i] {
			return nil, fmt.Errorf("%w: %s:1: column %d is %.40q, expected %s,b1,b2,... up to b%d", ErrZoo, name, i+1, head[i], strings.Join(columns(), ","), mostBatch)
		}
	}
	if len(head) <= fixed {
		return nil, fmt.Errorf("%w: %s:1: %d columns, expected %s,b1,b2,... up to b%d", ErrZoo, name, len(head), strings.Join(columns(), ","), mostBatch)
	}
	var nets []Net
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrZoo, name, err)
		}
		line, _ := c.FieldPos(0)
		if len(nets) == mostNets {
			return nil, fmt.Errorf("%w: %s:%d: more than %d networks", ErrZoo, name, line, mostNets)
		}
		n, err := net(row, want)
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrZoo, name, line, err)
		}
		nets = append(nets, n)
	}
	z, err := NewZoo(nets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return z, nil
}

// net parses a line.
func net(row, head []string) (n Net, err error) {
	if len(row) != len(head) {
		return n, fmt.Errorf("%d fields, expected %d", len(row), len(head))
	}
	number := func(i int, least, most float64) float64 {
		v, bad := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
		if (bad != nil || !(v >= least && v <= most)) && err == nil {
			err = fmt.Errorf("%s: %.40q, expected %g to %g", head[i], row[i], least, most)
		}
		return v
	}
	whole := func(i int, most float64) int64 {
		v := number(i, 1, most)
		if v != math.Trunc(v) && err == nil {
			err = fmt.Errorf("%s: %.40q, expected a whole number", head[i], row[i])
		}
		return int64(v)
	}
	if n.Name = strings.TrimSpace(row[0]); !names.Printable(n.Name) {
		return n, fmt.Errorf("%s: %.80q, expected characters that can be printed", head[0], n.Name)
	}
	n.Side, n.Bytes, n.Accuracy = int(whole(1, mostSide)), whole(2, mostBytes), number(3, 1e-6, 1)
	for i := len(columns()); i < len(row); i++ {
		n.P99 = append(n.P99, Time(math.Round(number(i, 1e-3, mostMs)*1e6)))
	}
	return n, err
}
