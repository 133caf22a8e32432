// Own reads clients from a user's file.

package jellyfish

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/names"
)

// Limits of the values in a clients file.
const (
	mostClients = 4096
	mostRate    = 10_000
	mostSLOMs   = 1e6
	mostStartS  = 1e6
)

// clientColumns are the columns of a clients file.
func clientColumns() []string { return []string{"name", "rate", "slo_ms", "link", "start_s"} }

// Own creates clients from the names of their links. The random links of two clients differ.
type Own struct{ seed uint64 }

// NewOwn returns an Own with a seed.
func NewOwn(seed uint64) *Own { return &Own{seed} }

// Link returns the link of client k: steps, wifi, lte, a file or a capture (LinkOf).
func (o *Own) Link(name string, k int) (*links.Trace, error) {
	return LinkOf(name, o.seed+uint64(k), links.Memory)
}

// Camera returns client k.
func (o *Own) Camera(k int, name string, rate int, slo int64, link string) (Camera, error) {
	t, err := o.Link(link, k)
	return Camera{Registered: jellyfish.Registered{Rate: rate, SLO: slo}, Name: name, Trace: t}, err
}

// Clients reads clients from CSV with the header name,rate,slo_ms,link,start_s. rate is in frames per second. slo_ms is
// the SLO in ms from the creation of a frame. link is steps, wifi, lte, a file with one Mbit/s value per line, or a
// capture. start_s is the start time in s. Errors contain the argument "name".
func (o *Own) Clients(name string, r io.Reader) ([]Camera, error) {
	header := strings.Join(clientColumns(), ",")
	var out []Camera
	err := plaintext.Table(name, r, func(head []string) error {
		if !slices.Equal(head, clientColumns()) {
			return fmt.Errorf("%.80q, expected %s", strings.Join(head, ","), header)
		}
		return nil
	}, func(row *plaintext.Row) error {
		if len(out) == mostClients {
			return fmt.Errorf("more than %d clients", mostClients)
		}
		c, err := o.row(len(out), row)
		if err == nil && slices.ContainsFunc(out, func(o Camera) bool { return o.Name == c.Name }) {
			err = fmt.Errorf("name: %.40q is a duplicate", c.Name)
		}
		out = append(out, c)
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: no client, expected a line each of %s", name, header)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSetup, err)
	}
	return out, nil
}

func (o *Own) row(k int, row *plaintext.Row) (Camera, error) {
	rate, slo, start := row.Whole(1, mostRate), row.Number(2, 0.001, mostSLOMs), row.Number(4, 0, mostStartS)
	name := row.Text(0)
	switch {
	case row.Err != nil:
		return Camera{}, row.Err
	case name == "":
		return Camera{}, errors.New("name: one is expected")
	case !names.Printable(name):
		return Camera{}, fmt.Errorf("name: %.80q, expected characters that can be printed", name)
	}
	c, err := o.Camera(k, name, int(rate), int64(math.Round(slo*1e6)), row.Text(3))
	c.Start = int64(math.Round(start * 1e9))
	return c, err
}
