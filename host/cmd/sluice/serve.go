// sluice serve serves bundles through the Open Inference Protocol.

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/serve"
)

type serveCmd struct {
	Models     []string      `arg:"" placeholder:"DIR|BUNDLE" help:"Bundles, as dse compile writes them, or folders of them: each NAME.sluice is a model, with its settings in NAME.yaml beside it."`
	Device     string        `default:"soft" help:"Where they run: soft (golden numerics, paced by the bundle's latency table), cosim, hls, uio, cuda or hip, as sluice run has them; gpu-sim:NAME or gpu-sim:FILE.yaml (golden numerics, paced by a simulated GPU). Models of one design and policy share it."`
	HTTP       string        `name:"http" default:"127.0.0.1:8000" help:"Address of REST."`
	GRPC       string        `name:"grpc" default:"127.0.0.1:8001" help:"Address of gRPC."`
	Metrics    string        `default:"127.0.0.1:8002" help:"Address of the status page (/) and of Prometheus metrics (/metrics)."`
	Triton     bool          `name:"triton-metrics" help:"Also show nv_inference_*, as Triton names and counts them."`
	Profile    []string      `placeholder:"FILE" type:"existingfile" help:"Tables that sluice profile measured on this device (summary.json), one a model, in place of the bundles' own: deadlines are judged by them, on a GPU too."`
	Policy     string        `default:"fluid" help:"Policy of the device, for models that name none: ${policies}."`
	SLO        time.Duration `name:"slo" help:"Deadline of requests that name none, from their arrival, and the longest that others may have; 0: none."`
	Theta      thetaFlag     `default:"0.8" help:"Exit threshold of requests that name none: one for all exits, or one an exit, by commas."`
	Queue      int           `default:"1024" help:"Samples of a model that wait or run at the same time; more are refused with a retry time."`
	Strict     bool          `help:"End where a model cannot be loaded. Otherwise the index lists it as UNAVAILABLE with the reason, and the others serve."`
	Token      string        `placeholder:"FILE" type:"existingfile" help:"File with the bearer token that clients must send; it is read again when it changes."`
	Cert       string        `placeholder:"FILE" type:"existingfile" help:"TLS certificate (PEM) of all three ports, with --key; it, the key and --client-ca are read again when they change."`
	Key        string        `placeholder:"FILE" type:"existingfile" help:"Its private key."`
	ClientCA   string        `name:"client-ca" placeholder:"FILE" type:"existingfile" help:"CA certificates (PEM) for clients."`
	MaxBytes   int           `default:"67108864" help:"Longest request in bytes, unpacked."`
	MaxMemory  int           `default:"1073741824" help:"Bytes of all requests under way, unpacked; more are refused with a retry time."`
	MaxSamples int           `default:"64" help:"Samples of one request."`
	MaxConns   int           `default:"1024" help:"Connections of each port at a time."`
	PerClient  int           `name:"max-conns-per-client" help:"Connections of each port at a time of one client's address; 0: as many as the port has."`
	MaxRate    float64       `help:"Requests per second of one client's address; 0: no limit."`
	Grace      time.Duration `default:"30s" help:"Time for the requests in flight after SIGTERM."`
	Linger     time.Duration `help:"Time after SIGTERM in which it says that it is not ready, and serves on, before it drains: what a balancer takes to notice."`
	uioFlags
}

func (*serveCmd) Help() string {
	return `Serves models to clients of the Open Inference Protocol (Triton's, KServe's, curl) until SIGTERM or SIGINT; then
it takes no more requests and ends when those that are there have ended. Requests may bring slo_us, exit_threshold,
max_exit and priority; see host/serve/README.md.

Example:
  sluice serve my.sluice --device soft --slo 50ms
  curl localhost:8000/v2/models/my`
}

func (c *serveCmd) Run(e *cli.Env) error {
	o, secure, err := c.options(e)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(e.Ctx) // the server stops after Drain, not at the end of e.Ctx
	s, err := serve.New(running, o)
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	if err := c.add(s, e.Log); err != nil {
		return cli.Coded(cli.Input, err)
	}
	ports, err := c.listen(e.Ctx)
	defer func() {
		for _, l := range ports {
			_ = l.Close()
		}
	}()
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	defer runtime.KeepAlive(serve.Ballast())
	err = c.serve(e, s, secure, ports)
	short, stop := context.WithTimeout(running, 5*time.Second)
	defer stop()
	return errors.Join(err, o.Tracer.Close(short))
}

// check rejects flags that exclude each other or are out of range.
func (c *serveCmd) check() error {
	if (c.Cert == "") != (c.Key == "") || c.ClientCA != "" && c.Cert == "" {
		return errors.New("--cert, --key: expected both or neither; --client-ca needs them")
	}
	if c.MaxBytes < 1 || c.MaxMemory < 1 || c.MaxSamples < 1 || c.MaxSamples > engine.MaxOpen || c.MaxConns < 1 || c.PerClient < 0 || !(c.MaxRate >= 0) || c.Queue < 1 || c.Grace < 0 || c.Linger < 0 {
		return errors.New("--max-bytes, --max-memory, --max-samples, --max-conns, --queue: expected at least 1 (samples: 16384 at most); --max-conns-per-client, --max-rate, --grace, --linger: no negative number")
	}
	return nil
}

// options returns the server's options from the flags, and the TLS configuration if a certificate is set.
func (c *serveCmd) options(e *cli.Env) (serve.Options, *tls.Config, error) {
	o := serve.Options{
		Version: cli.Version(), Log: e.Log, Open: c.open, About: about, TritonMetrics: c.Triton,
		Defaults: serve.Settings{Policy: c.Policy, SLO: serve.Duration(c.SLO), Theta: serve.Thetas(c.Theta.theta), Queue: c.Queue},
		Limits:   serve.Limits{Message: c.MaxBytes, Memory: c.MaxMemory, Samples: c.MaxSamples, Connections: c.MaxConns, Rate: c.MaxRate},
	}
	err := c.check()
	if err == nil {
		o.Tracer, err = serve.NewTracer(e.Ctx, e.Log)
	}
	if err != nil {
		return o, nil, cli.Coded(cli.Usage, err)
	}
	var secure *tls.Config
	if c.Token != "" {
		o.Token, err = serve.TokenFile(c.Token, e.Log)
	}
	if err == nil && c.Cert != "" {
		secure, err = serve.TLS(c.Cert, c.Key, c.ClientCA, e.Log)
	}
	if err != nil {
		return o, nil, cli.Coded(cli.Input, err)
	}
	if c.Profile != nil {
		o.Latency = c.profiled
	}
	name, simulated := strings.CutPrefix(c.Device, gpuSim)
	switch {
	case !simulated:
		return o, secure, checkDevice(c.Device)
	case c.Profile != nil:
		return o, nil, cli.Errorf(cli.Usage, "--profile: a simulated GPU has times of its own")
	}
	if o.Open, o.Latency, err = simulatedGPU(name); err != nil {
		return o, nil, cli.Coded(cli.Usage, err)
	}
	return o, secure, nil
}

// about returns the names of a bundle's classes, and the conversion from pixels to the input.
func about(b *bundle.Bundle) (serve.About, error) {
	i, err := recipe.Of(b)
	if err != nil || i.From == "" {
		return serve.About{}, err
	}
	about := serve.About{Classes: i.Classes}
	if i.Missing {
		about.Warning = recipe.Warning
	} else if !i.Floats {
		about.Pixel = i.Preprocess.Pixel
		about.Pixels, err = i.Preprocess.Text()
	}
	return about, err
}

// add adds the models to the server. It logs invalid files. If no file is valid, it returns an error.
func (c *serveCmd) add(s *serve.Server, log *slog.Logger) error {
	var named error
	for _, m := range c.Models {
		err := s.Add(m)
		if err != nil && (c.Strict || !errors.Is(err, serve.ErrName)) {
			return err
		}
		named = errors.Join(named, err)
	}
	if named == nil {
		return nil
	}
	if log.Error("some files are no models", "err", named); len(s.Index()) > 0 {
		return nil
	}
	return named
}

// listen opens the ports of REST, gRPC and the status page. After an error, it returns the ports that are already open.
func (c *serveCmd) listen(ctx context.Context) (ports []net.Listener, err error) {
	for _, at := range []struct{ flag, address string }{{"http", c.HTTP}, {"grpc", c.GRPC}, {"metrics", c.Metrics}} {
		if at.address == "" {
			return ports, fmt.Errorf("--%s: no address: expected HOST:PORT; :PORT is of all interfaces, port 0 is any", at.flag)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.address)
		if err != nil {
			return ports, fmt.Errorf("--%s %s: %w; --%s HOST:PORT names another port, 0 is any", at.flag, at.address, err, at.flag)
		}
		ports = append(ports, l)
	}
	return ports, nil
}

// open opens a device with its first model.
func (c *serveCmd) open(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
	w := what{Config: b.Design.Name, board: &c.uioFlags, memory: 1 << 30}
	d, err := w.openDevice(ctx, c.Device, &prepared{design: b.Design, bundle: b}, nil) // no memo, because it would grow with every input
	if err != nil {
		return nil, err
	}
	o := &serve.Opened{Device: device.Adapt(d), Timely: true}
	o.Watchdog.Other = loads
	if c.Device == "soft" {
		o.Watchdog.Least = stalls
	}
	if c.Profile == nil && c.Device != "soft" && (c.Device != "uio" || c.Label != "measured") { // simulations are slower than their tables, and GPUs have no table
		o.Timely, o.Watchdog.Fixed = false, 600e9
	}
	return o, nil
}

// profiled returns the table from the profile for this bundle.
func (c *serveCmd) profiled(_ context.Context, b *bundle.Bundle) ([]bundle.LatencyEntry, error) {
	s, err := b.Summarize()
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, file := range c.Profile {
		of, _, err := readProfile(file, b, s.BundleHash, c.Device)
		if err == nil {
			return of.Latency, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// Time limits of devices, in ns. Large models load slowly, and devices are slow on an overloaded machine.
const loads, stalls = 600e9, 2e9

// faces are the server's three ports.
type faces struct {
	grpc   *grpc.Server
	http   [2]*http.Server
	failed chan error // receives the error of a port that stopped unexpectedly
}

// answer serves the ports: REST, gRPC and the status page. If a port reaches its limit of connections, it closes idle
// HTTP connections. It logs this at most every 10 s.
func (c *serveCmd) answer(s *serve.Server, secure *tls.Config, ports []net.Listener, log *slog.Logger) *faces {
	told := rate.Sometimes{Interval: 10 * time.Second}
	limited := func(l net.Listener, face *http.Server) net.Listener {
		return serve.Limit(l, c.MaxConns, c.PerClient, func() {
			if face != nil {
				face.SetKeepAlivesEnabled(false)
				face.SetKeepAlivesEnabled(true)
			}
			told.Do(func() {
				log.Warn("a port has more connections than it may; those beyond are closed", "port", l.Addr(), "max-conns", c.MaxConns, "max-conns-per-client", c.PerClient)
			})
		})
	}
	var opts []grpc.ServerOption
	if secure != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(secure)))
	}
	f := &faces{grpc: s.GRPC(opts...), http: [2]*http.Server{{Handler: s.REST()}, {Handler: s.Status()}}, failed: make(chan error, 3)}
	for i, face := range f.http {
		face.ReadHeaderTimeout, face.IdleTimeout = 10*time.Second, 2*time.Minute
		face.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
		l := limited(ports[2*i], face)
		go func() {
			if secure != nil {
				face.TLSConfig = secure
				f.failed <- face.ServeTLS(l, "", "")
				return
			}
			f.failed <- face.Serve(l)
		}()
	}
	go func() { f.failed <- f.grpc.Serve(limited(ports[1], nil)) }()
	return f
}

// stop closes the ports, all connections and all streams.
func (f *faces) stop() {
	const patience = time.Second
	stopped := make(chan struct{})
	go func() {
		f.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(patience): // some clients leave streams open
		f.grpc.Stop()
	}
	for _, face := range f.http {
		short, stop := context.WithTimeout(context.Background(), patience)
		if face.Shutdown(short) != nil {
			face.Close()
		}
		stop()
	}
}

// serve answers requests until the command must end. Then it drains the server.
func (c *serveCmd) serve(e *cli.Env, s *serve.Server, secure *tls.Config, ports []net.Listener) error {
	f := c.answer(s, secure, ports, e.Log)
	watching, done := context.WithCancel(e.Ctx)
	defer done()
	go s.Watch(watching, time.Second)
	loaded := make(chan error, 1) // the server already answers while models are loaded
	go func() { loaded <- s.LoadAll() }()
	var err error
	for serving := true; serving; {
		select {
		case err = <-loaded:
			var names []string
			for _, i := range s.Index() {
				if i.State == "READY" {
					names = append(names, i.Name+":"+i.Version)
				}
			}
			if serving = err == nil || len(names) > 0 && !c.Strict; !serving {
				err = cli.Coded(cli.Input, err)
				break
			}
			err = nil // the error is in the log and in the models' index
			fmt.Fprintf(e.Stdout, "ready: %s on %s; http %s, grpc %s, status %s\n",
				strings.Join(names, ", "), c.Device, ports[0].Addr(), ports[1].Addr(), ports[2].Addr())
		case <-e.Ctx.Done():
			serving = false
			s.Leave()
			e.Log.Info("draining", "after", c.Linger, "at most", c.Grace)
			select {
			case <-time.After(c.Linger):
			case err = <-f.failed:
				err = cli.Coded(cli.Fault, fmt.Errorf("serve: %w", err))
			}
		case err = <-f.failed:
			serving, err = false, cli.Coded(cli.Fault, fmt.Errorf("serve: %w", err))
		}
	}
	until, stop := context.WithTimeout(context.WithoutCancel(e.Ctx), c.Grace)
	defer stop()
	if drained := s.Drain(until); drained != nil {
		err = errors.Join(err, cli.Coded(cli.Device, drained))
	}
	done()
	f.stop()
	return err
}
