// This file reads a zoo of measured profiles.

package jellyfish

import (
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

// columns returns the columns before the latencies.
func columns() []string { return []string{"name", "side", "bytes", "accuracy"} }

// Named returns a zoo by name. The name is "synthetic" or the path of a file.
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

// ReadZoo reads profiles as CSV with the header name,side,bytes,accuracy,b1,b2,... Each line describes a network: the
// side of its square input in pixels, the bytes of a compressed frame of this size, its accuracy on such frames (0..1),
// and the 99th percentile of its time in ms at batch 1, 2, .... NewZoo builds the zoo. Errors contain name.
func ReadZoo(name string, r io.Reader) (Zoo, error) {
	var nets []Net
	fixed, known := columns(), len(columns())
	header := strings.Join(fixed, ",") + ",b1,b2,..."
	err := plaintext.Table(name, r, func(head []string) error {
		for i, n := range head {
			want := "b" + strconv.Itoa(i-known+1)
			if i < known {
				want = fixed[i]
			}
			if n != want || i >= known+mostBatch {
				return fmt.Errorf("column %d is %.40q, expected %s up to b%d", i+1, n, header, mostBatch)
			}
		}
		if len(head) <= known {
			return fmt.Errorf("%d columns, expected %s up to b%d", len(head), header, mostBatch)
		}
		return nil
	}, func(row *plaintext.Row) error {
		if len(nets) == mostNets {
			return fmt.Errorf("more than %d networks", mostNets)
		}
		n := Net{Name: row.Text(0), Side: int(row.Whole(1, mostSide)), Bytes: row.Whole(2, mostBytes), Accuracy: row.Number(3, 1e-6, 1)}
		if !names.Printable(n.Name) {
			return fmt.Errorf("name: %.80q, expected characters that can be printed", n.Name)
		}
		for i := known; i < row.Len(); i++ {
			n.P99 = append(n.P99, Time(math.Round(row.Number(i, 1e-3, mostMs)*1e6)))
		}
		nets = append(nets, n)
		return row.Err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrZoo, err)
	}
	z, err := NewZoo(nets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return z, nil
}
