// sluice work computes the shards of a command on many machines.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/host/work"
)

type workCmd struct {
	Hub    workHubCmd    `cmd:"" help:"Give a command's shards to workers, and collect their results."`
	Join   workJoinCmd   `cmd:"" help:"Do shards for a hub."`
	Script workScriptCmd `cmd:"" help:"Write an array job of Slurm or an indexed Job of Kubernetes that does a command's shards."`
}

// asked is the command that is divided into shards.
type asked struct {
	Resume  string   `required:"" placeholder:"DIR" help:"Folder of the results: what is there is not done again."`
	Shards  int      `required:"" placeholder:"N" help:"Number of shards."`
	Command []string `arg:"" passthrough:"" placeholder:"dse|sluice COMMAND" help:"The command, with the flags that ask: dse sweep, validate or synth, sluice verify, sluice faults or sluice bench."`
}

// settle writes the command's question to the folder and returns it. It returns nil if the command contains --help.
func (a *asked) settle(e *cli.Env) (*shard.Question, error) {
	c := a.Command
	if len(c) > 0 && c[0] == "--" {
		c = c[1:]
	}
	if len(c) < 2 || c[0] != "dse" && c[0] != "sluice" {
		return nil, cli.Errorf(cli.Usage, "%q: expected dse or sluice, without a folder, and a command", c)
	}
	for _, word := range c {
		if name, _, _ := strings.Cut(word, "="); name == "--shard" || name == "--resume" || name == "--out" {
			return nil, cli.Errorf(cli.Usage, "%s in the command: expected none; --shards and --resume come before it, and merge has --out", name)
		}
	}
	if slices.Contains(c, "--help") {
		return nil, runProgram(e.Ctx, e.Stdout, c[0], c[1:])
	}
	if a.Shards < 1 || a.Shards > shard.Most {
		return nil, cli.Errorf(cli.Usage, "--shards %d: expected 1..%d", a.Shards, shard.Most)
	}
	if err := runProgram(e.Ctx, io.Discard, c[0], append(c[1:], "--shard", fmt.Sprintf("0/%d", a.Shards), "--resume", a.Resume)); err != nil {
		if strings.Contains(err.Error(), "unknown flag --shard") {
			return nil, cli.Errorf(cli.Usage, "%s %s: it has no shards (work hub --help lists the commands that do)", c[0], c[1])
		}
		return nil, err
	}
	return shard.Asked(a.Resume)
}

// connection contains the flags for authentication with the NATS server.
type connection struct {
	Token string `env:"SLUICE_WORK_TOKEN" help:"What hub and workers know; needed where the hub listens beyond this machine. In the environment other users do not see it."`
	Creds string `placeholder:"FILE" help:"NATS credentials."`
	CA    string `name:"tls-ca" placeholder:"FILE.pem" help:"Certificate that signed the server's."`
}

func (c *connection) options(log *slog.Logger) []nats.Option {
	said := "" // no lock is needed, because NATS calls one handler after another
	again := func(*nats.Conn) {
		if said != "" {
			log.Info("connected")
		}
		said = ""
	}
	o := []nats.Option{nats.ConnectHandler(again), nats.ReconnectHandler(again), nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
		if text := err.Error(); text != said { // NATS retries once a second
			log.Warn("no connection to the NATS server; tried again", "error", err)
			said = text
		}
	})}
	if c.Token != "" {
		o = append(o, nats.Token(c.Token))
	}
	if c.Creds != "" {
		o = append(o, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		o = append(o, nats.RootCAs(c.CA))
	}
	return o
}

type workHubCmd struct {
	Listen string `default:"127.0.0.1:4222" help:"Where the hub's own NATS server listens."`
	URL    string `placeholder:"nats://HOST:PORT" help:"Somebody's NATS servers with JetStream, in place of the hub's own."`
	connection
	Needs   []string      `placeholder:"TOOL" help:"What workers need to have: simulator, yosys, board, gpu, or any other word that join --has gives."`
	Cores   int           `help:"Processors that workers need."`
	Memory  int           `placeholder:"GIB" help:"Memory that workers need."`
	Retries int           `default:"3" help:"How often a shard is given out before it has failed."`
	Ack     time.Duration `default:"30s" help:"A worker that is not heard of for so long has lost its shard."`
	Page    string        `default:"127.0.0.1:0" help:"Where a page shows the progress, on a loopback address; none: nowhere."`
	asked
}

func (*workHubCmd) Help() string {
	return `Gives the shards of a command to workers (sluice work join) until each has a result in the folder of
--resume; then merge puts them together. Results are kept there and shards that have one are not given
out again, so that a hub may be stopped, killed and started again. A shard that fails --retries times is
listed with the reason.

Example:
  sluice work hub --resume shards --shards 64 -- dse sweep --network resnet50 --board zc706
  sluice work join nats://127.0.0.1:4222        # in other shells, on other machines with --listen and --token
  dse merge shards --out best.json`
}

func (c *workHubCmd) Run(e *cli.Env) error {
	if c.Retries < 1 || c.Ack < time.Second {
		return cli.Errorf(cli.Usage, "--retries %d, --ack %v: expected 1 or more, and 1s or more", c.Retries, c.Ack)
	}
	q, err := c.settle(e)
	if err != nil || q == nil {
		return err
	}
	lock, err := work.Lock(c.Resume)
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	defer lock.Close()
	url, o := c.URL, c.options(e.Log)
	if url == "" {
		s, err := work.Serve(c.Listen, c.Token, filepath.Join(c.Resume, ".hub"))
		if err != nil {
			return cli.Coded(cli.Usage, err)
		}
		defer func() { s.Shutdown(); s.WaitForShutdown() }()
		url, o = s.ClientURL(), append(o, nats.InProcessServer(s))
		at, err := work.URL(s)
		if err != nil {
			return err
		}
		if c.Token != "" {
			at += ", with SLUICE_WORK_TOKEN in the environment"
		}
		fmt.Fprintf(e.Stderr, "workers: sluice work join %s\n", at)
	}
	nc, err := work.Connect(url, "hub", o...)
	if err != nil {
		return cli.Coded(cli.Device, err)
	}
	defer nc.Close()
	set, done := e.Progress("shards", c.Shards)
	h := &work.Hub{Dir: c.Resume, Needs: work.Needs{Tools: c.Needs, Cores: c.Cores, Memory: c.Memory}, Retries: c.Retries, Ack: c.Ack, Log: e.Log, Progress: set}
	close, err := c.serve(e, h)
	if err == nil {
		defer close()
		err = h.Run(e.Ctx, nc)
	}
	done()
	if errors.Is(err, work.ErrHub) {
		return cli.Coded(cli.Usage, err)
	}
	if err != nil {
		return cli.Coded(cli.Check, err)
	}
	_, err = fmt.Fprintf(e.Stdout, "%d shards are done; %s merge %s\n", c.Shards, q.Program, c.Resume)
	return err
}

// serve serves the page until the returned function close is called.
func (c *workHubCmd) serve(e *cli.Env, h *work.Hub) (close func() error, err error) {
	if c.Page == "none" {
		return func() error { return nil }, nil
	}
	at, err := netip.ParseAddrPort(c.Page)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, cli.Errorf(cli.Usage, "--page %s: expected a loopback address with a port, or none", c.Page)
	}
	l, err := net.Listen("tcp", c.Page)
	if err != nil {
		return nil, cli.Coded(cli.Usage, err)
	}
	s := &http.Server{Handler: h.Page(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // returns when s is closed
	fmt.Fprintf(e.Stderr, "progress: http://%s/\n", l.Addr())
	return s.Close, nil
}

type workJoinCmd struct {
	URL string `arg:"" help:"The hub's NATS server."`
	connection
	Has    []string      `placeholder:"TOOL" help:"What this machine has: simulator, yosys, board, gpu, or any other word that hub --needs gives."`
	Cores  int           `help:"Processors (default: all)."`
	Memory int           `placeholder:"GIB" help:"Memory."`
	Dir    string        `default:"out/work" help:"Folder for questions, their inputs and results."`
	Idle   time.Duration `help:"Leave after so long without work or without the hub; 0: never."`
}

func (*workJoinCmd) Help() string {
	return `Does shards for a hub, one at a time, until it is interrupted; it waits for a hub that is away, at most
--idle. The program (and dse beside it) has to be of the hub's version and RTL, otherwise the question is
left to others. It runs sluice and dse alone, and only questions of --shard.

Example:
  SLUICE_WORK_TOKEN=SECRET sluice work join nats://lab7:4222 --has simulator --memory 16`
}

func (c *workJoinCmd) Run(e *cli.Env) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	name = fmt.Sprintf("%s/%d", name, os.Getpid())
	for at := range strings.SplitSeq(c.URL, ",") {
		if u, err := url.Parse(at); err == nil && u.Port() != "" {
			if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
				return cli.Errorf(cli.Usage, "%s: expected a port up to 65535", at)
			}
		}
	}
	for _, tool := range c.Has {
		if err := found(tool); err != nil {
			return cli.Errorf(cli.Tool, "--has %s: %w", tool, err)
		}
	}
	nc, err := work.Connect(c.URL, name, c.options(e.Log)...)
	if err != nil {
		return cli.Coded(cli.Device, err)
	}
	defer nc.Close()
	w := work.Worker{
		Name: name, Dir: c.Dir, Has: work.Needs{Tools: c.Has, Cores: c.Cores, Memory: c.Memory}, Idle: c.Idle, Log: e.Log, Run: runShard,
	}
	if w.Has.Cores == 0 {
		w.Has.Cores = runtime.NumCPU()
	}
	return cli.Coded(cli.Device, w.Join(e.Ctx, nc))
}

// found returns an error if the tool is missing on this machine. It checks only known tools.
func found(tool string) (err error) {
	switch tool {
	case "yosys":
		_, err = exec.LookPath(tool)
	case "gpu":
		_, err = readyGPUs("cuda")
	case "board":
		err = foundBoard()
	}
	return err
}

// runShard computes a shard in a separate process.
func runShard(ctx context.Context, dir string, q *shard.Question, i int) error {
	err := runProgram(ctx, io.Discard, q.Program, append(q.Command(dir), "--shard", fmt.Sprintf("%d/%d", i, q.Shards), "--resume", dir))
	if cli.CodeOf(err) == cli.Tool && err != nil {
		return fmt.Errorf("%w: %w", work.ErrUnable, err)
	}
	return err
}

// runProgram runs this program or dse. dse must be in this program's folder or in PATH. The error ends with the
// program's last output.
func runProgram(ctx context.Context, stdout io.Writer, name string, args []string) error {
	path, err := os.Executable()
	switch {
	case name != "sluice" && name != "dse":
		return fmt.Errorf("%w: the program %q", work.ErrUnable, name)
	case err != nil:
		return err
	case name == "dse":
		path = filepath.Join(filepath.Dir(path), "dse"+filepath.Ext(path))
		if _, err := os.Stat(path); err != nil {
			if path, err = exec.LookPath("dse"); err != nil {
				return cli.Coded(cli.Tool, err)
			}
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = stdout, &said
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLUICE_WORK_TOKEN=") }) // the program needs no token
	cmd.WaitDelay = 5 * time.Second
	err = cli.Tied(cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text := strings.TrimSpace(said.String())
		return cli.Errorf(exit.ExitCode(), "%s %s: %w: %s", name, args[0], err, text[max(0, len(text)-2000):])
	}
	return err
}

type workScriptCmd struct {
	Slurm      bool   `xor:"engine" required:"" help:"An array job of Slurm, for sbatch."`
	Kubernetes bool   `xor:"engine" required:"" help:"An indexed Job, for kubectl create."`
	Cores      int    `default:"1" help:"Processors of a shard."`
	Memory     int    `default:"4" placeholder:"GIB" help:"Memory of a shard (default: 4)."`
	Retries    int    `default:"3" help:"How often a shard is tried."`
	Image      string `default:"sluice" help:"With --kubernetes: image that has dse and sluice, and what they need, in its PATH."`
	Claim      string `default:"sluice" help:"With --kubernetes: claim of the volume that is mounted at the folder of --resume."`
	asked
}

func (*workScriptCmd) Help() string {
	return `Prints a job that does each shard of a command in a folder that all nodes see by the path of --resume.
The files on the command line are copied there. A job that is submitted again does what has no result
yet; merge then puts the results together. The image of --kubernetes has to hold the programs that print the
job: print and merge in that image. With LSF, untested, a command with --shard $LSB_JOBINDEX/64 is enough.

Example:
  sluice work script --slurm --resume /shared/shards --shards 64 -- dse sweep --network resnet50 --board zc706 | sbatch
  bsub -J 's[1-64]' 'dse sweep --network resnet50 --board zc706 --shard $LSB_JOBINDEX/64 --resume /shared/shards'`
}

func (c *workScriptCmd) Run(e *cli.Env) error {
	if c.Cores < 1 || c.Memory < 1 || c.Retries < 1 {
		return cli.Errorf(cli.Usage, "--cores, --memory and --retries: expected 1 or more")
	}
	var err error
	if c.Resume, err = filepath.Abs(c.Resume); err != nil {
		return err
	}
	q, err := c.settle(e)
	if err != nil || q == nil {
		return err
	}
	s := work.Script{Question: q, Dir: c.Resume, Program: q.Program, Cores: c.Cores, Memory: c.Memory, Retries: c.Retries, Image: c.Image, Claim: c.Claim}
	var text string
	if c.Kubernetes {
		text, err = s.Kubernetes()
	} else {
		if path, err := exec.LookPath(q.Program); err == nil {
			s.Program = path
		} else if path, err := os.Executable(); err == nil {
			s.Program = filepath.Join(filepath.Dir(path), q.Program)
		}
		text = s.Slurm()
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(e.Stdout, text)
	return err
}
