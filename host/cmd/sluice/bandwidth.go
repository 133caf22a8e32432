// sluice bandwidth measures the throughput of clients' links from captured packets.

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth/capture"
	"github.com/sluice-npu/sluice/host/cli"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
)

type bandwidthCmd struct {
	File   string        `arg:"" optional:"" help:"pcap file."`
	Live   string        `placeholder:"INTERFACE" help:"Capture from this interface (needs root or CAP_NET_RAW)."`
	For    time.Duration `default:"10s" help:"How long to capture (--live)."`
	Port   uint16        `required:"" help:"The server's TCP port."`
	Gap    time.Duration `default:"200ms" help:"Pause that ends an unanswered request."`
	Skip   int64         `default:"0" help:"Bytes at the start of a request that are not timed, since the first burst looks too fast. 0: ten full packets, or two of a short request; -1: none."`
	Link   string        `placeholder:"FILE" help:"Also write a client's estimates, in Mbit/s, one line per second, as reproduce jellyfish --link reads them. With several clients, of --client."`
	Client string        `placeholder:"ADDRESS" help:"Client for --link."`
	Out    string        `help:"Folder for summary.json (default: none)."`
	JSON   bool          `name:"json" help:"Print JSON."`
}

func (*bandwidthCmd) Help() string {
	return `Takes the requests that clients send to a port out of captured packets, times their transfers, and
estimates each client's link: the harmonic mean over a second of what its connections' requests had.

A request ends with any data of the server's: over HTTP/2 or gRPC its window updates cut long requests
into pieces, each measured for itself. Requests that run at the same time over several connections share the
link, and each reads its share alone. '-' is not measured: too few packets (a frame in one or two packets,
as an interface that puts packets together shows it), or further apart than --gap, which with 200 ms is
below 60 kbit/s. What packets there were is said where nothing was measured.

Example:
  sluice bandwidth requests.pcap --port 8080
  sluice bandwidth --live eth0 --port 8080 --for 30s --json
  sluice bandwidth requests.pcap --port 8080 --link camera.txt   # then: sluice reproduce jellyfish --link camera.txt`
}

type transferDoc struct {
	Client   string  `json:"client"`
	AtNs     int64   `json:"at_ns"` // end of the transfer, in ns after the beginning of the first transfer
	TookNs   int64   `json:"took_ns"`
	Packets  int     `json:"packets"`
	Bytes    int64   `json:"bytes"`
	Rate     float64 `json:"bits_per_s"` // 0: too few packets
	Short    bool    `json:"short"`      // only two packets were excluded instead of ten, so the rate is too high if bursts are longer
	Estimate float64 `json:"estimate_bits_per_s"`
}

type bandwidthDoc struct {
	cli.Header
	Transfers []transferDoc `json:"transfers"`
	Packets   packetsDoc    `json:"packets"`
	Error     string        `json:"error,omitempty"` // reason for an early end of the capture
}

type packetsDoc struct {
	All    int `json:"all"`
	Port   int `json:"to_port"`
	Unread int `json:"without_tcp"`
	Jumps  int `json:"clock_jumps"`
}

func (c *bandwidthCmd) Run(e *cli.Env) error {
	if (c.File == "") == (c.Live == "") || c.Port == 0 || c.Gap <= 0 || c.For <= 0 {
		return cli.Errorf(cli.Usage, "a pcap file or --live, a --port, a --gap and a --for above 0 are expected")
	}
	doc := &bandwidthDoc{Header: cli.NewHeader("sluice-bandwidth/1", 0, "measured"), Transfers: []transferDoc{}}
	var estimates []edge.Estimate
	each := edge.Estimates(func(t capture.Transfer, x edge.Estimate) {
		estimates = append(estimates, x)
		doc.Transfers = append(doc.Transfers, transferDoc{
			Client: t.Client.String(), AtNs: x.AtNs, TookNs: t.End.Sub(t.Start).Nanoseconds(),
			Packets: t.Packets, Bytes: t.Bytes, Rate: t.Rate, Short: t.Short, Estimate: x.Rate,
		})
	})
	seen, failed := c.take(e, capture.Config{Port: c.Port, Gap: c.Gap, Skip: c.Skip}, each)
	doc.Packets = packetsDoc{seen.Packets, seen.Port, seen.Unread, seen.Jumps}
	if failed != nil {
		failed = cli.Coded(cli.Input, failed)
		if doc.Error = failed.Error(); len(doc.Transfers) == 0 {
			return failed
		}
	}
	measured := 0
	for i := range doc.Transfers {
		if doc.Transfers[i].Rate > 0 {
			measured++
		}
	}
	if measured == 0 || seen.Jumps > 0 {
		fmt.Fprintf(e.Stderr, "sluice: port %d: %s; %d of %d requests were measured (--help says when one is not)\n", c.Port, seen, measured, len(doc.Transfers))
	}
	if c.Link != "" && failed == nil {
		if err := c.trace(estimates); err != nil {
			return cli.Coded(cli.Input, err)
		}
	}
	if err := e.Print(doc, c.Out, c.JSON, doc.print); err != nil {
		return err
	}
	return failed
}

func (d *bandwidthDoc) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\tat s\ttook ms\tbytes\tMbit/s\testimate Mbit/s")
	mbits := func(rate float64) string {
		if rate == 0 {
			return "-" // not measured
		}
		return fmt.Sprintf("%.2f", rate/1e6)
	}
	for _, t := range d.Transfers {
		fmt.Fprintf(w, "%s\t%.3f\t%.2f\t%d\t%s\t%s\n", t.Client, float64(t.AtNs)/1e9, float64(t.TookNs)/1e6, t.Bytes, mbits(t.Rate), mbits(t.Estimate))
	}
	return w.Flush()
}

// trace writes a client's estimate for each second.
func (c *bandwidthCmd) trace(all []edge.Estimate) error {
	client, rates, err := edge.BySecond(all, c.Client)
	if err != nil {
		return fmt.Errorf("--link %s: %w (--client names it)", c.Link, err)
	}
	return cli.WriteFile(c.Link, func(w io.Writer) error {
		fmt.Fprintf(w, "# %s, port %d: estimates by the second, Mbit/s\n", client, c.Port)
		for _, r := range rates {
			if _, err := fmt.Fprintf(w, "%.3f\n", float64(r)/1e6); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *bandwidthCmd) take(e *cli.Env, cfg capture.Config, each func(capture.Transfer)) (capture.Seen, error) {
	if c.Live != "" {
		s, err := capture.Open(c.Live, cfg)
		if err != nil {
			return capture.Seen{}, err
		}
		ctx, stop := context.WithTimeout(e.Ctx, c.For)
		defer stop()
		return s.Live(ctx, each)
	}
	f, err := os.Open(filepath.Clean(c.File))
	if err != nil {
		return capture.Seen{}, fmt.Errorf("read a capture: %w", err)
	}
	defer f.Close()
	return capture.Read(c.File, f, cfg, each)
}
