// Clients from a user's file.

package jellyfish

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/names"
)

// Limits of the values in a file.
const (
	mostClients = 4096
	mostRate    = 10_000
	mostSLOMs   = 1e6
	mostStartS  = 1e6
)

// clientColumns are a file's.
func clientColumns() []string { return []string{"name", "rate", "slo_ms", "link", "start_s"} }

// Own gives clients their links by name. Random links differ from client to client.
type Own struct{ seed uint64 }

// NewOwn makes one.
func NewOwn(seed uint64) *Own { return &Own{seed} }

// Link is the k-th client's: steps, wifi, lte, a file or a capture (LinkOf).
func (o *Own) Link(name string, k int) (*links.Trace, error) {
	return LinkOf(name, o.seed+uint64(k), links.Memory)
}

// Camera is the k-th client.
func (o *Own) Camera(k int, name string, rate int, slo int64, link string) (Camera, error) {
	t, err := o.Link(link, k)
	return Camera{Registered: jellyfish.Registered{Rate: rate, SLO: slo}, Name: name, Trace: t}, err
}

// Clients reads clients from CSV with the header name,rate,slo_ms,link,start_s: frames per second, the SLO from a frame's
// creation in ms, the link (steps, wifi, lte, or a file with one Mbit/s value per line), and the start in s. name is for
// errors.
func (o *Own) Clients(name string, r io.Reader) ([]Camera, error) {
	want := clientColumns()
	header := strings.Join(want, ",")
	c := csv.NewReader(plaintext.NewReader(r))
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment = -1, true, '#'
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: header %s expected: %w", ErrSetup, name, header, err)
	}
	if !slices.EqualFunc(head, want, func(a, b string) bool { return strings.TrimSpace(a) == b }) {
		return nil, fmt.Errorf("%w: %s:1: %.80q, expected %s", ErrSetup, name, strings.Join(head, ","), header)
	}
	var out []Camera
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrSetup, name, err)
		}
		line, _ := c.FieldPos(0)
		if len(out) == mostClients {
			return nil, fmt.Errorf("%w: %s:%d: more than %d clients", ErrSetup, name, line, mostClients)
		}
		cam, err := o.row(len(out), row)
		if err == nil && slices.ContainsFunc(out, func(o Camera) bool { return o.Name == cam.Name }) {
			err = fmt.Errorf("name: %.40q is a duplicate", cam.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrSetup, name, line, err)
		}
		out = append(out, cam)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: no client, expected a line each of %s", ErrSetup, name, header)
	}
	return out, nil
}

func (o *Own) row(k int, row []string) (c Camera, err error) {
	want := clientColumns()
	if len(row) != len(want) {
		return c, fmt.Errorf("%d fields, expected %d", len(row), len(want))
	}
	number := func(i int, least, most float64) float64 {
		v, bad := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
		if (bad != nil || !(v >= least && v <= most)) && err == nil {
			err = fmt.Errorf("%s: %.40q, expected %g to %g", want[i], row[i], least, most)
		}
		return v
	}
	rate, slo, start := number(1, 1, mostRate), number(2, 0.001, mostSLOMs), number(4, 0, mostStartS)
	name, link := strings.TrimSpace(row[0]), strings.TrimSpace(row[3])
	switch {
	case err != nil:
		return c, err
	case name == "":
		return c, errors.New("name: one is expected")
	case !names.Printable(name):
		return c, fmt.Errorf("name: %.80q, expected characters that can be printed", name)
	case rate != math.Trunc(rate):
		return c, fmt.Errorf("rate: %.40q, expected a whole number", row[1])
	}
	c, err = o.Camera(k, name, int(rate), int64(math.Round(slo*1e6)), link)
	c.Start = int64(math.Round(start * 1e9))
	return c, err
}
