// sluice camera simulates clients that send frames to `sluice run --zoo --listen`.

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/ingest"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/sched"
)

type cameraCmd struct {
	To      string        `arg:"" placeholder:"ADDR" help:"Address of sluice run --zoo --listen: HOST:PORT or unix:PATH."`
	Zoo     string        `default:"synthetic" placeholder:"FILE" help:"The server's zoo, which gives the frame sizes."`
	Clients string        `required:"" placeholder:"FILE" help:"The clients, the same file as the server's (CSV, see host/jellyfish)."`
	Only    []string      `help:"Only these clients, by name."`
	AsIs    bool          `help:"Send at the speed of the network, not at the rates of the clients' links. The time of a transfer is then that of the copy into the socket's buffer, so a slow link looks fast, and the wait in that buffer is missing from the frames' age."`
	Time    time.Duration `default:"30s" help:"Time to send."`
	Seed    uint64        `default:"1" help:"Seed of the random links."`
	JSON    bool          `name:"json" help:"Print JSON."`
}

func (*cameraCmd) Help() string {
	return `Opens a connection for each client and sends its frames, noise of a frame's size, at the rate of its
link; no larger than the server has advised, nor than the link carries by the next. It waits 10 s for
the server to come.

Example:
  sluice run --zoo synthetic --clients cameras.csv --listen :9000 --time 1m
  sluice camera :9000 --clients cameras.csv --time 50s`
}

type cameraDoc struct {
	cli.Header
	Clients []cameraClientDoc `json:"clients"`
}

type cameraClientDoc struct {
	Client  string               `json:"client"`
	Frames  int                  `json:"frames"`
	Bytes   int64                `json:"bytes"`
	Endings map[sched.Ending]int `json:"endings"` // as reported by the server
}

func (c *cameraCmd) Run(e *cli.Env) error {
	zoo, err := jellyfish.Named(c.Zoo)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	if c.Time <= 0 || c.Time > 24*time.Hour {
		return cli.Errorf(cli.Usage, "--time %s: more than 0 and at most 24h is expected", c.Time)
	}
	f, err := os.Open(c.Clients)
	if err != nil {
		return cli.Errorf(cli.Input, "--clients: %w", err)
	}
	defer f.Close()
	clients, err := edge.NewOwn(c.Seed).Clients(c.Clients, f)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(clients, func(k edge.Camera) bool { return k.Name == name }) {
			return cli.Errorf(cli.Usage, "--only %s: %s has no such client", name, c.Clients)
		}
	}
	ctx, stop := context.WithCancelCause(e.Ctx)
	defer stop(nil)
	docs := make([]*cameraClientDoc, len(clients))
	var all sync.WaitGroup
	for k := range clients {
		if len(c.Only) > 0 && !slices.Contains(c.Only, clients[k].Name) {
			continue
		}
		all.Go(func() {
			sent, err := c.send(ctx, zoo, k, &clients[k])
			if err != nil {
				stop(fmt.Errorf("client %s: %w", clients[k].Name, err))
				return
			}
			docs[k] = &cameraClientDoc{clients[k].Name, sent.Frames, sent.Bytes, sent.Endings}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return cli.Coded(cli.Device, context.Cause(ctx))
	}
	doc := cameraDoc{Header: cli.NewHeader("sluice-camera/1", c.Seed, "measured")}
	for _, d := range docs {
		if d != nil {
			doc.Clients = append(doc.Clients, *d)
		}
	}
	if c.JSON {
		return e.Output(doc, "", true)
	}
	t := report.Table{Head: []string{"", "frames", "sent", "on time", "late", "dropped", "refused"}}
	for _, d := range doc.Clients {
		t.Add(d.Client, fmt.Sprint(d.Frames), report.Bytes(uint64(d.Bytes)), fmt.Sprint(d.Endings[sched.OnTime]), fmt.Sprint(d.Endings[sched.Late]),
			fmt.Sprint(d.Endings[sched.Dropped]), fmt.Sprint(d.Endings[sched.Refused]))
	}
	return t.Write(e.Stdout)
}

func (c *cameraCmd) send(ctx context.Context, zoo jellyfish.Zoo, k int, client *edge.Camera) (*ingest.Sent, error) {
	network, address := networkOf(c.To)
	var conn net.Conn
	var err error
	for wait := time.Now().Add(10 * time.Second); ; {
		if conn, err = (&net.Dialer{}).DialContext(ctx, network, address); err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(wait) {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return edge.NewSender(zoo, k, client, !c.AsIs).Run(ctx, conn, c.Time)
}
