// A kernel list is a CSV file with one operation per line:
//
//	network,name,kind,blocks,threads,registers,shared,issue,block_ns,bytes,reads,writes,exit
//
// The column "kind" contains kernel, memcpy_up, memcpy_down or memset. The next six columns are only for kernels:
// number of blocks, threads per block, registers per thread, shared memory per block in bytes, share of an SM's issue
// slots, and time in ns of a block that is alone on an SM. The columns "reads" and "writes" are empty or lists of spans
// in the network's memory, such as 0-4096 4096-8192. The column "exit" is 1 if a segment ends with this line. The last
// line of a network always ends a segment. The lines of a network must be adjacent.

package kernel

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/names"
)

// Limits of a list.
const (
	maxFile    = 64 << 20 // bytes
	maxKernels = 100_000
	maxBytes   = 1 << 50
	maxGrid    = 1 << 24 // blocks per kernel
	maxThreads = 1024    // threads per block, on every GPU
	maxRegs    = 256     // registers per thread: 255 on NVIDIA's GPUs, 256 on AMD's
	maxShared  = 1 << 20
)

func columns() []string {
	return []string{"network", "name", "kind", "blocks", "threads", "registers", "shared", "issue", "block_ns", "bytes", "reads", "writes", "exit"}
}

func kinds() []string { return []string{"kernel", "memcpy_up", "memcpy_down", "memset"} }

// ReadCSV returns the networks of a list in their order. In errors, name is the file's name.
func ReadCSV(name string, r io.Reader) ([]*Program, error) {
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	c := csv.NewReader(plaintext.NewReader(limited))
	c.ReuseRecord, c.FieldsPerRecord = true, -1
	var out []*Program
	for line, n := 0, 0; ; line++ {
		row, err := c.Read()
		if limited.N == 0 {
			return nil, fmt.Errorf("%w: %s: more than %d bytes", ErrProgram, name, maxFile)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrProgram, name, err)
		}
		at, _ := c.FieldPos(0)
		fail := func(format string, a ...any) ([]*Program, error) {
			return nil, fmt.Errorf("%w: %s:%d: %s", ErrProgram, name, at, fmt.Sprintf(format, a...))
		}
		if line == 0 {
			if !slices.Equal(row, columns()) {
				return fail("expected the header %s", strings.Join(columns(), ","))
			}
			continue
		}
		if len(row) != len(columns()) {
			return fail("%d columns, expected %d", len(row), len(columns()))
		}
		if n++; n > maxKernels {
			return fail("more than %d kernels", maxKernels)
		}
		k, exit, err := parse(row)
		if err != nil {
			return fail("%v", err)
		}
		if row[0] == "" {
			return fail("no network")
		}
		for column, text := range row[:2] {
			if !names.Printable(text) {
				return fail("%s: %.80q, expected characters that can be printed", columns()[column], text)
			}
		}
		if len(out) == 0 || out[len(out)-1].Name != row[0] {
			if slices.ContainsFunc(out, func(p *Program) bool { return p.Name == row[0] }) {
				return fail("network %q goes on, but its lines stood above", row[0])
			}
			out = append(out, &Program{Name: strings.Clone(row[0])})
		}
		p := out[len(out)-1]
		for _, s := range append(slices.Clone(k.Reads), k.Writes...) {
			p.Memory = max(p.Memory, s.To)
		}
		p.Kernels = append(p.Kernels, k)
		if exit {
			p.Exits = append(p.Exits, len(p.Kernels)-1)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: there is no kernel", ErrProgram, name)
	}
	for _, p := range out {
		if n := len(p.Exits); n == 0 || p.Exits[n-1] != len(p.Kernels)-1 {
			p.Exits = append(p.Exits, len(p.Kernels)-1)
		}
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// parse parses a line.
func parse(row []string) (k Kernel, exit bool, err error) {
	whole := func(column int, most int64) int64 {
		if row[column] == "" {
			return 0
		}
		v, e := strconv.ParseInt(row[column], 10, 64)
		if (e != nil || v < 0 || v > most) && err == nil {
			err = fmt.Errorf("%s: expected a whole number of 0..%d, found %q", columns()[column], most, row[column])
		}
		return v
	}
	number := func(column int, most float64) float64 {
		v, e := strconv.ParseFloat(row[column], 64)
		if (e != nil || !(v > 0 && v <= most)) && err == nil {
			err = fmt.Errorf("%s: expected a number above 0, at most %g, found %q", columns()[column], most, row[column])
		}
		return v
	}
	spans := func(column int) (out []Span) {
		for text := range strings.FieldsSeq(row[column]) {
			from, to, ok := strings.Cut(text, "-")
			a, e1 := strconv.ParseInt(from, 10, 64)
			b, e2 := strconv.ParseInt(to, 10, 64)
			if !ok || e1 != nil || e2 != nil || a < 0 || b <= a || b > maxBytes {
				if err == nil {
					err = fmt.Errorf("%s: expected spans FROM-TO, FROM < TO <= %d, found %q", columns()[column], int64(maxBytes), text)
				}
				return nil
			}
			out = append(out, Span{a, b})
		}
		return out
	}
	kind := slices.Index(kinds(), row[2])
	if kind < 0 {
		return k, false, fmt.Errorf("kind: expected %s, found %q", strings.Join(kinds(), ", "), row[2])
	}
	k = Kernel{Name: strings.Clone(row[1]), Kind: Kind(kind), Bytes: whole(9, maxBytes), Reads: spans(10), Writes: spans(11)}
	if k.Kind == Compute {
		k.Blocks, k.Threads, k.Regs, k.Shared = int(whole(3, maxGrid)), int(whole(4, maxThreads)), int(whole(5, maxRegs)), int(whole(6, maxShared))
		k.Issue, k.BlockNs = number(7, 1), number(8, 1e12)
		if err == nil && (k.Blocks < 1 || k.Threads < 1) {
			err = fmt.Errorf("a kernel of %d blocks of %d threads, at least one of each is expected", k.Blocks, k.Threads)
		}
	} else if err == nil && strings.Join(row[3:9], "") != "" {
		err = fmt.Errorf("%s has blocks, threads, registers, shared, issue or block_ns, which are a kernel's", row[2])
	}
	switch row[12] {
	case "", "0":
	case "1":
		exit = true
	default:
		if err == nil {
			err = fmt.Errorf("exit: expected 1, 0 or nothing, found %q", row[12])
		}
	}
	return k, exit, err
}
