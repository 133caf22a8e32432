// sluice run --zoo serves clients, each with its own link. Workers run the networks of a zoo.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth/capture"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/engine"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/report"
)

type zooFlags struct {
	Zoo     string   `placeholder:"FILE" help:"Serve clients over links by a zoo of networks: a file (CSV, see host/jellyfish), or synthetic."`
	Clients string   `serves:"zoo" default:"4" placeholder:"FILE|N" help:"--zoo: the clients, a file (CSV, see host/jellyfish), or a number of equal ones with --rate, --slo and --link."`
	Link    []string `serves:"zoo" default:"wifi" help:"--zoo: the clients' links, in turn: steps, wifi, lte, a file with one Mbit/s value a line, or pcap:PORT:FILE, the rates of a capture's requests to a port."`
	Workers int      `serves:"zoo" default:"2" help:"--zoo: workers, one network at a time each."`
	Capture string   `serves:"zoo" placeholder:"INTERFACE" help:"--zoo with --listen HOST:PORT: measure the clients' links by the packets of this interface, as sluice bandwidth --live does, not by when the frames' bytes are read (Linux; needs root or CAP_NET_RAW)."`
	Listen  string   `serves:"zoo" placeholder:"ADDR" help:"--zoo: serve the frames of clients that connect to this address (HOST:PORT or unix:PATH), in real time over real links. sluice camera sends frames; host/ingest has the format."`
}

// Limits of a run with a zoo.
const (
	mostWorkers = 64
	mostFrames  = 5_000_000
)

type zooClientDoc struct {
	Client   string   `json:"client"`
	Rate     int      `json:"rate"`
	SLO      int64    `json:"slo_ns"`
	Link     string   `json:"link"`
	Frames   int      `json:"frames"`
	OnTime   int      `json:"on_time"`
	Miss     *float64 `json:"miss_rate"` // null: the client sent no frame
	Accuracy *float64 `json:"accuracy"`  // accuracy of the frames on time; null: no frame was on time
	P50      *int64   `json:"p50_ns"`    // time from creation to result
	P99      *int64   `json:"p99_ns"`
	Bits     *float64 `json:"link_bits_per_s"` // harmonic mean of the rates of the client's transfers, as reported to the server
}

type zooPolicyDoc struct {
	engine.Summary
	Frames   int            `json:"frames"`
	Miss     *float64       `json:"miss_rate"`
	Accuracy *float64       `json:"accuracy"`
	Aligned  *float64       `json:"aligned"` // share of the frames on time that had the input size of the network that answered
	P50      *int64         `json:"p50_ns"`  // time from the frame's creation to its result; latency is measured from the frame's arrival
	P99      *int64         `json:"p99_ns"`
	Changes  int            `json:"changes"`  // number of times that a worker changed its network
	Hits     int            `json:"hits"`     // number of changes to a network that was already loaded
	HitRate  *float64       `json:"hit_rate"` // null: no changes
	Clients  []zooClientDoc `json:"clients"`
}

type zooRunDoc struct {
	cli.Header
	Zoo          string         `json:"zoo"`
	Networks     []string       `json:"networks"` // the zoo's remaining networks, smallest first
	Workers      int            `json:"workers"`
	Listen       string         `json:"listen"`            // empty: the run is in virtual time, over simulated links
	Capture      string         `json:"capture,omitempty"` // interface of the capture that measures the links; empty: measured by the frames' bytes
	Time         int64          `json:"time_ns"`
	Assumed      edge.Assumed   `json:"assumed"`
	zooPolicyDoc                // values of the last policy
	Runs         []zooPolicyDoc `json:"runs"`
}

// some returns a pointer to v, or nil if no value exists.
func some[T int64 | float64](there bool, v T) *T {
	if !there {
		return nil
	}
	return &v
}

// orDash formats a number for a table. It returns "-" for a missing number.
func orDash[T any](v *T, text func(T) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

func (c *runCmd) zoo(e *cli.Env) error {
	zoo, err := jellyfish.Named(c.Zoo)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	length := cmp.Or(c.Time, 30*time.Second)
	if length < time.Second || length > 24*time.Hour {
		return cli.Errorf(cli.Usage, "--time %s: 1s to 24h are expected", length)
	}
	if c.Capture != "" && c.Listen == "" {
		return cli.Errorf(cli.Usage, "--capture %s: --listen is expected beside it; a file of packets is a --link (pcap:PORT:FILE)", c.Capture)
	}
	if c.Workers < 1 || c.Workers > mostWorkers {
		return cli.Errorf(cli.Usage, "--workers %d: 1 to %d are expected", c.Workers, mostWorkers)
	}
	clients, err := c.zooClients(e, length)
	if err != nil {
		return err
	}
	systems, err := c.zooSystems(e, zoo)
	if err != nil {
		return err
	}
	doc := zooRunDoc{
		Header: cli.NewHeader("sluice-run-zoo/1", c.Seed, "simulated"), Zoo: c.Zoo, Workers: c.Workers, Listen: c.Listen, Capture: c.Capture, Time: length.Nanoseconds(), Assumed: edge.Assume(),
	}
	for i := range zoo {
		doc.Networks = append(doc.Networks, zoo[i].Name)
	}
	for _, s := range systems {
		set := &edge.Setting{Zoo: zoo, Workers: c.Workers, Clients: clients, Ns: doc.Time, Seed: c.Seed}
		var o *edge.Outcome
		if c.Listen != "" {
			o, err = c.live(e, set, s, doc.Assumed)
		} else {
			_, done := e.Progress(s.Name, 1)
			o, err = edge.Run(e.Ctx, set, s, doc.Assumed)
			done()
		}
		if err != nil {
			return cli.Coded(runCode(err), err)
		}
		doc.Runs = append(doc.Runs, zooPolicy(s.Name, clients, c.Listen != "", o))
	}
	doc.zooPolicyDoc = doc.Runs[len(doc.Runs)-1]
	return e.Print(doc, c.Out, c.JSON, doc.print)
}

// zooSystems returns the systems in --policy, by default the systems of Jellyfish.
func (c *runCmd) zooSystems(e *cli.Env, zoo jellyfish.Zoo) ([]edge.System, error) {
	policies := c.Policy
	switch {
	case e.Has("policy"):
		if c.Listen != "" && len(policies) != 1 {
			return nil, cli.Errorf(cli.Usage, "--listen %s --policy %s: clients come once: one policy is expected", c.Listen, strings.Join(policies, ","))
		}
	case c.Listen != "": // the default of --policy is for an NPU
		policies = []string{"jellyfish+"}
	default:
		policies = []string{"jellyfish", "jellyfish+"}
	}
	var systems []edge.System
	for _, p := range policies {
		s, err := edge.NamedOf(zoo, p)
		if err != nil {
			return nil, cli.Errorf(cli.Usage, "--policy %s: %w", p, err)
		}
		if c.Listen != "" && strings.HasPrefix(p, "da-") {
			return nil, cli.Errorf(cli.Usage, "--listen %s --policy %s: how large frames are is the clients' business", c.Listen, p)
		}
		systems = append(systems, s)
	}
	return systems, nil
}

// networkOf returns the kind of an address: HOST:PORT or unix:PATH.
func networkOf(address string) (network, rest string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

// live serves clients that connect to an address.
func (c *runCmd) live(e *cli.Env, set *edge.Setting, s edge.System, a edge.Assumed) (*edge.Outcome, error) {
	network, address := networkOf(c.Listen)
	l, err := (&net.ListenConfig{}).Listen(e.Ctx, network, address)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "--listen: %w", err)
	}
	var rates *edge.Rates
	if c.Capture != "" {
		rates = &edge.Rates{}
		end, err := c.capture(e, l, rates)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		defer end()
	}
	e.Log.Info("listening", "at", l.Addr().String(), "for", time.Duration(set.Ns).String())
	return edge.Serve(e.Ctx, set, s, a, l, rates, func(err error) { e.Log.Warn("a connection was ended", "why", err) })
}

// capture measures the links of a listener's clients from captured packets, until `end` is called.
func (c *runCmd) capture(e *cli.Env, l net.Listener, rates *edge.Rates) (end func(), err error) {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, cli.Errorf(cli.Usage, "--capture %s --listen %s: packets are of TCP, HOST:PORT is expected", c.Capture, c.Listen)
	}
	s, err := capture.Open(c.Capture, capture.Config{Port: uint16(at.Port)})
	if err != nil {
		return nil, cli.Errorf(cli.Input, "--capture: %w", err)
	}
	ctx, stop := context.WithCancel(e.Ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		seen, err := s.Live(ctx, rates.Add)
		if e.Log.Info("captured", "packets", seen.String()); err != nil {
			e.Log.Warn("the capture has ended; links are measured by when bytes are read", "why", err)
		}
	})
	return func() { stop(); reader.Wait() }, nil
}

// zooClients returns the clients of --clients.
func (c *runCmd) zooClients(e *cli.Env, length time.Duration) ([]edge.Camera, error) {
	clients, err := c.registered(e, length.Nanoseconds())
	frames := 0.0
	for i := range clients {
		frames += float64(clients[i].Rate) * length.Seconds()
	}
	if frames > mostFrames {
		err = cli.Errorf(cli.Input, "%d clients send %.0f frames in %s, at most %d are served", len(clients), frames, length, mostFrames)
	}
	return clients, err
}

// registered reads the clients from a file, or creates a number of equal clients.
func (c *runCmd) registered(e *cli.Env, ns int64) ([]edge.Camera, error) {
	own := edge.NewOwn(c.Seed)
	n, err := strconv.Atoi(c.Clients)
	if err != nil { // --clients is a file
		for _, f := range []string{"rate", "slo", "link"} {
			if e.Has(f) {
				return nil, cli.Errorf(cli.Usage, "--%s beside --clients %s: the file says each client's", f, c.Clients)
			}
		}
		f, err := os.Open(c.Clients)
		if err != nil {
			return nil, cli.Errorf(cli.Input, "--clients: neither a number nor a file: %w", err)
		}
		defer f.Close()
		all, err := own.Clients(c.Clients, f)
		return all, cli.Coded(cli.Input, err)
	}
	if n < 1 || n > 4096 {
		return nil, cli.Errorf(cli.Usage, "--clients %d: 1 to 4096 are expected", n)
	}
	rate, slo := 25.0, int64(150e6)
	if e.Has("rate") {
		if rate = c.Rate.value; !c.Rate.absolute || rate != math.Trunc(rate) || rate > 10_000 {
			return nil, cli.Errorf(cli.Usage, "--rate %s: with --zoo whole frames a second of each client are expected (25/s)", c.Rate.text)
		}
	}
	if e.Has("slo") {
		if slo = c.SLO.ns; slo == 0 {
			return nil, cli.Errorf(cli.Usage, "--slo %s: with --zoo a time is expected (150ms)", c.SLO.text)
		}
	}
	var cams []edge.Camera
	for k := range n {
		cam, err := own.Camera(k, fmt.Sprintf("client%d", k), int(rate), slo, c.Link[k%len(c.Link)])
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		cams = append(cams, cam)
	}
	for k, at := range edge.Cameras(n, func(i int) jellyfish.Registered { return cams[i].Registered }, ns, c.Seed) {
		cams[k].Start = at.Start
	}
	return cams, nil
}

// link returns the name of a client's link.
func link(c *edge.Camera, live bool) string {
	if live {
		return "as it is"
	}
	return c.Trace.Name
}

func zooPolicy(name string, clients []edge.Camera, live bool, o *edge.Outcome) zooPolicyDoc {
	d := zooPolicyDoc{
		Summary: o.Summary, Frames: o.Frames, Miss: some(o.Frames > 0, o.Miss), Accuracy: some(o.OnTime > 0, o.Accuracy), Aligned: some(o.OnTime > 0, o.Aligned),
		P50: some(o.OnTime > 0, o.P50), P99: some(o.OnTime > 0, o.P99), Changes: o.Counts.Changes, Hits: o.Counts.Hits, HitRate: some(o.Counts.Changes > 0, o.HitRate),
	}
	d.Policy = name
	for i := range o.Clients {
		k, by := &clients[i], &o.Clients[i]
		d.Clients = append(d.Clients, zooClientDoc{
			Client: k.Name, Rate: k.Rate, SLO: k.SLO, Link: link(k, live), Frames: by.Frames, OnTime: by.OnTime,
			Miss: some(by.Frames > 0, 1-float64(by.OnTime)/float64(max(1, by.Frames))), Accuracy: some(by.OnTime > 0, by.Accuracy),
			P50: some(by.OnTime > 0, by.P50), P99: some(by.OnTime > 0, by.P99), Bits: some(by.Link > 0, by.Link),
		})
	}
	return d
}

func (d *zooRunDoc) print(w io.Writer) error {
	how := "simulated"
	if d.Listen != "" {
		how = "real time, over " + d.Listen + "; simulated workers"
	}
	fmt.Fprintf(w, "%d clients, %d workers, zoo %s of %d networks, %s (%s), seed %d\n\n",
		len(d.Clients), d.Workers, d.Zoo, len(d.Networks), report.Ns(d.Time), how, d.Seed)
	share := func(v *float64) string { return orDash(v, report.Percent) }
	ns := func(v *int64) string { return orDash(v, report.Ns) }
	t := report.Table{Head: []string{"", "frames", "missed", "late", "dropped", "accuracy", "p50", "p99", "busy", "changes", "loaded before"}}
	for i := range d.Runs {
		p := &d.Runs[i]
		t.Add(p.Policy, strconv.Itoa(p.Frames), share(p.Miss), strconv.FormatInt(p.Late, 10), strconv.FormatInt(p.Dropped, 10), share(p.Accuracy), ns(p.P50), ns(p.P99),
			report.Percent(p.Busy), strconv.Itoa(p.Changes), share(p.HitRate))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = report.Table{Head: []string{d.Policy, "rate", "SLO", "link", "measured", "frames", "missed", "accuracy", "p50", "p99"}}
	for i := range d.Clients {
		k := &d.Clients[i]
		bits := orDash(k.Bits, func(v float64) string { return fmt.Sprintf("%.2f Mbit/s", v/1e6) })
		t.Add(k.Client, fmt.Sprintf("%d/s", k.Rate), report.Ns(k.SLO), k.Link, bits, strconv.Itoa(k.Frames), share(k.Miss), share(k.Accuracy), ns(k.P50), ns(k.P99))
	}
	return t.Write(w)
}
