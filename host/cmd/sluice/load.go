// sluice load sends requests to any server of the Open Inference Protocol.

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/drive"
)

type loadCmd struct {
	URL      string        `arg:"" name:"url" placeholder:"URL" help:"Server: http://HOST:PORT, https://, grpc:// or grpcs://."`
	Model    string        `required:"" help:"Model to send requests to."`
	Rate     float64       `default:"100" help:"Requests per second in an open loop: they are sent on time, even if the server is slow."`
	Process  string        `default:"poisson" help:"How they arrive: poisson, gamma:cv=2, markov:high=4:share=0.1:dwell=2, periodic, day; see host/load."`
	Arrivals string        `placeholder:"FILE" type:"existingfile" help:"File of arrival times (.csv or .json) in place of --rate, --process and --n."`
	Closed   int           `placeholder:"CLIENTS" help:"Closed loop in place of an open one: a number of clients, each with one request at a time."`
	N        int           `default:"1000" short:"n" help:"Requests."`
	SLO      time.Duration `name:"slo" help:"Latency objective, from when a request was due; sent as slo_us. 0: none."`
	Data     string        `placeholder:"PATH" type:"path" help:"Inputs in place of random ones: pictures, a folder of them, a .npy or IDX file, as sluice run takes them; the server says how pixels become inputs."`
	Labels   string        `placeholder:"WHICH" help:"Classes of --data, as sluice run takes them: folders, numbers, none or a file."`
	Batch    int           `default:"1" help:"Samples of a request."`
	Priority int           `help:"Priority to send, 1 the highest; default: the model's."`
	Theta    string        `help:"Exit threshold to send; default: the model's."`
	Stream   bool          `help:"Send each request on a stream of its own (ModelStreamInfer, grpc:// or grpcs://), which brings every exit's answer as it is passed."`
	Seed     uint64        `default:"1" help:"Seed of the arrivals and of the random inputs."`
	Token    string        `placeholder:"FILE" type:"existingfile" help:"File with the bearer token to send."`
	CA       string        `name:"ca" placeholder:"FILE" type:"existingfile" help:"CA certificates (PEM) for the server; default: the system's."`
	Cert     string        `placeholder:"FILE" type:"existingfile" help:"Client certificate (PEM), with --key."`
	Key      string        `placeholder:"FILE" type:"existingfile" help:"Its private key."`
	Out      string        `default:"out/load" help:"Folder for summary.json."`
	JSON     bool          `name:"json" help:"Print JSON."`
}

func (*loadCmd) Help() string {
	return `Sends requests with random inputs, or with those of --data, to a server of the Open Inference Protocol (sluice serve, Triton, KServe) and counts
how they end. A latency counts from when the request was due. The exit code is 1 where a request ended in an error.

Example:
  sluice load http://localhost:8000 --model my --rate 200 --n 1000 --slo 50ms`
}

type loadDoc struct {
	cli.Header
	URL     string `json:"url"`
	Model   string `json:"model"`
	Server  string `json:"server_label,omitempty"` // label of the server's times, for example for simulated times
	Process string `json:"process"`                // the arrival process, or closed:N for a closed loop of N clients
	SLO     int64  `json:"slo_ns"`
	*drive.Summary
}

func (c *loadCmd) Run(e *cli.Env) error {
	l, how, err := c.load()
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	s, err := c.dial()
	if err != nil {
		return err
	}
	defer s.Close()
	total := c.N
	if l.Times != nil {
		total = len(l.Times)
	}
	set, done := e.Progress("load", total)
	l.Ended = set
	sum, err := drive.Run(e.Ctx, s, l)
	done()
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	if e.Ctx.Err() != nil {
		return fmt.Errorf("%d of %d requests were cancelled: %w", sum.Cancelled, sum.Requests, e.Ctx.Err())
	}
	doc := loadDoc{cli.NewHeader("sluice-load/1", c.Seed, "measured"), c.URL, c.Model, sum.Paced, how, c.SLO.Nanoseconds(), sum}
	if err := e.Print(doc, c.Out, c.JSON, doc.print); err != nil {
		return err
	}
	for i := range sum.Results {
		if r := &sum.Results[i]; r.Ending == "error" {
			return cli.Coded(cli.Check, fmt.Errorf("%d of %d requests ended in an error; the first: %s", sum.Errors, sum.Requests, r.Why))
		}
	}
	return nil
}

// load describes the requests and their arrivals according to the flags.
func (c *loadCmd) load() (l *drive.Load, how string, err error) {
	if c.N < 1 || c.N > maxRequests || c.SLO < 0 || c.Closed < 0 || c.Closed > maxRequests {
		return nil, "", fmt.Errorf("--n %d, --slo %v, --closed %d: expected 1..%d requests, no negative time, at most as many clients", c.N, c.SLO, c.Closed, maxRequests)
	}
	if c.Theta != "" {
		if v, err := strconv.ParseFloat(c.Theta, 64); err != nil || !(v >= 0 && v <= 2) {
			return nil, "", fmt.Errorf("--theta %s: expected a number of 0..2", c.Theta)
		}
	}
	switch {
	case c.Closed > 0 && (c.Rate != defaultRate || c.Process != "poisson"), c.Arrivals != "" && (c.Rate != defaultRate || c.Process != "poisson" || c.N != defaultN):
		return nil, "", errors.New("--rate and --process are for an open loop, without --closed and --arrivals; --arrivals has its own number of requests, without --n")
	case c.Batch < 1 || c.Batch > maxRequests || c.Priority < 0:
		return nil, "", fmt.Errorf("--batch %d, --priority %d: expected at least 1 sample, and no negative priority", c.Batch, c.Priority)
	case c.Stream && !strings.HasPrefix(c.URL, "grpc"):
		return nil, "", fmt.Errorf("--stream: %s has no streams: expected grpc:// or grpcs://", c.URL)
	case c.Labels != "" && c.Data == "":
		return nil, "", errors.New("--labels: of --data, which is missing")
	}
	l = &drive.Load{Model: c.Model, Clients: c.Closed, N: c.N, SLO: c.SLO, Theta: c.Theta, Priority: c.Priority, Stream: c.Stream, Batch: c.Batch, Seed: c.Seed}
	if c.Data != "" {
		l.Samples = c.samples
	}
	switch {
	case c.Closed > 0 && c.Arrivals != "":
		return nil, "", errors.New("--closed and --arrivals: one of them says when requests are sent")
	case c.Closed > 0:
		how = fmt.Sprintf("closed:%d", c.Closed)
	case c.Arrivals != "":
		how = c.Arrivals
		l.Times, err = load.File(c.Arrivals)
	default:
		how = c.Process
		var p load.Process
		if p, err = load.ParseProcess(c.Process); err == nil {
			l.Times, err = p.Times(c.Rate, c.N, c.Seed)
		}
	}
	return l, how, err
}

// Default values of flags that are rejected in combination with other flags.
const (
	defaultRate = 100
	defaultN    = 1000
)

// samples reads --data in the format that the server's model expects.
func (c *loadCmd) samples(m *drive.Model) (data [][]byte, labels []int, err error) {
	if len(m.Inputs) != 1 || m.Inputs[0].Datatype != "FP32" || len(m.Inputs[0].Shape) != 4 {
		return nil, nil, fmt.Errorf("--data: model %s takes %v: expected one input of FP32 and [n, H, W, C]", m.Name, m.Inputs)
	}
	var p images.Preprocess
	shape := m.Inputs[0].Shape
	if text := m.Params["preprocess"]; text != "" {
		if p, err = images.ParsePreprocess(text, int(shape[3])); err != nil {
			return nil, nil, err
		}
	}
	set, err := images.Open(c.Data, images.Shape{H: int(shape[1]), W: int(shape[2]), C: int(shape[3])}, p, images.Options{Labels: c.Labels, Max: maxData})
	if err != nil {
		return nil, nil, err
	}
	if !set.Floats && m.Params["preprocess"] == "" {
		return nil, nil, fmt.Errorf("--data %s has pixels, and the server does not say how they become inputs: expected a .npy file of floats", c.Data)
	}
	for i := range set.Len() {
		x, err := set.Image(i)
		if err != nil {
			return nil, nil, err
		}
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		data = append(data, b)
	}
	return data, set.Labels, nil
}

// maxData is the maximum number of inputs from --data. The inputs are sent in turn.
const maxData = 256

// dial connects to the server, with the token and certificates that it requires.
func (c *loadCmd) dial() (drive.Server, error) {
	token := ""
	if c.Token != "" {
		var err error
		if token, err = serve.ReadToken(c.Token); err != nil {
			return nil, cli.Errorf(cli.Input, "--token %s: %w", c.Token, err)
		}
	}
	secure, err := serve.ClientTLS(c.CA, c.Cert, c.Key)
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	s, err := drive.Dial(c.URL, token, secure)
	if err != nil {
		return nil, cli.Coded(cli.Usage, err)
	}
	return s, nil
}

func (d *loadDoc) print(w io.Writer) error {
	of := ""
	if d.Server != "" {
		of = ", of a device that is " + d.Server
	}
	fmt.Fprintf(w, "%s at %s (%s%s): %d requests, %s, %.0f/s, seed %d\n\n", d.Model, d.URL, d.Label, of, d.Requests, d.Process, d.Rate, d.Seed)
	t := report.Table{Head: []string{"", ""}}
	for _, r := range []struct {
		name string
		n    int
	}{
		{"on time", d.OnTime},
		{"late", d.Late},
		{"dropped", d.Dropped},
		{"refused", d.Refused},
		{"cancelled", d.Cancelled},
		{"errors", d.Errors},
		{"not sent in time by this machine", d.Unsent},
		{"sent more than 1 ms late", d.SentLate},
	} {
		t.Add(r.name, strconv.Itoa(r.n))
	}
	t.Add("left at exit", strings.Trim(fmt.Sprint(d.Exits), "[]"))
	show := func(name string, l *drive.Latencies) {
		if l != nil && l.Avg >= 0 {
			t.Add(name+" average", report.Ns(l.Avg))
			t.Add("  p50", report.Ns(l.P50))
			t.Add("  p99", report.Ns(l.P99))
		}
	}
	show("latency", &d.Latency)
	show("to the first exit", d.First)
	if d.Accuracy != nil {
		t.Add("accuracy", fmt.Sprintf("%.1f %%", 100**d.Accuracy))
	}
	t.Add("goodput", fmt.Sprintf("%.0f/s", d.Goodput))
	return t.Write(w)
}
