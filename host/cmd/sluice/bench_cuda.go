//go:build !static

// sluice bench gpu measures an NVIDIA GPU. With the fake driver, it shows the planned measurements.

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/seeb/real"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/report"
)

type benchCUDACmd struct {
	Bundles []string `arg:"" optional:"" help:"Bundles to run, before those of --networks. The first of all is best effort, the last has priority."`
	Nets    []string `name:"networks" help:"Networks of the zoo. The first is best effort, the last has priority. Default, without bundles: resnet50,mobilenetv2, which need no data set."`
	Config  string   `help:"Configuration that the networks are compiled for; default: mid."`
	Build   string   `shard:"here" default:"build" help:"Folder for what is built once." env:"SLUICE_BUILD"`
	GPU     int      `shard:"here" default:"0" help:"Which GPU."`
	Params  string   `help:"Parameters of the GPU: a name, or a file. Padding is decided by them, and params.yaml adds the measurements to them. Default: those of the GPU's name, or the H200's, marked as assumed."`
	N       int      `short:"n" default:"1000" help:"Most runs of each measurement: p99 needs 1000, p95 200."`
	Parts   []string `help:"Parts to measure (golden, costs, copies, kills, preemption, latency, layers, slowdown, padding, partitions); default: all."`
	Kernels string   `type:"existingfile" placeholder:"FILE" help:"PTX in place of the built-in kernels, such as a build without checks of the stop flag."`
	Batches []int    `help:"Batches of the latencies; default: 1,8,32."`
	Queued  []int    `help:"Kernels in a stream for preemption; default: 1,2,4,8,16."`
	Modes   []string `help:"Modes for preemption; default: reset,reset-ahead,wait."`
	Seed    uint64   `default:"1" help:"Seed of inputs and launch times."`
	Out     string   `shard:"here" default:"out/bench-cuda" help:"Folder for summary.json, the runs, and, where there is a GPU, params.yaml; one without runs. With the ending .tgz: an archive of these."`
	JSON    bool     `shard:"here" name:"json" help:"Print JSON."`

	Budget time.Duration `help:"Time limit for all parts, DISB included. Each part gets a share of the remaining time; without any it is skipped. 0: no limit."`
	Read   []string      `placeholder:"FOLDER" help:"Measure nothing: print the figures of the runs in these folders or archives."`

	For time.Duration `name:"for" default:"1m" help:"Approximate time of a part after ten runs of each measurement; 0: until all runs are done."`

	DISB      time.Duration `name:"disb" help:"Also run REEF's benchmark, each workload under each system for this time; 0: no."`
	SEEB      time.Duration `name:"seeb" help:"Also run SEEB's policy and its baselines on partitions, each for this time; 0: no."`
	Shrink    int           `default:"1" help:"Divisor of every side of a tensor in DISB's networks."`
	Workloads []string      `help:"Workloads of DISB (A, B, C, D, E, drive); default: all."`

	cli.Shards
}

func (*benchCUDACmd) Help() string {
	return `Measures an NVIDIA GPU: whether results are golden's, bit for bit (exit code 1 where they are not), on which
SMs partitions run, latencies by partition and batch, what launches, events, signals, partitions and decisions cost, copies alone and beside kernels, preemption by resetting, going ahead and
waiting with 1 to 16 kernels queued, whether launches that are stopped go on to the same bits (exit code 1 where one
does not, or where none was stopped), what padding costs, and how well the slowdown of two and four networks
together is foreseen. Figures stand with their number of runs and their spread, the median (and p99) with where it is
in 95 of 100 cases; p95 is given from 200 runs on, p99 from 1000; the runs are kept, and
params.yaml is the parameter file with what was measured in place of what was assumed. A part ends when it has all
its runs, or when its time (--for) is over and it has ten of each thing, three of latencies that take longer than
their share; the best-effort network runs at the batch at
which a launch takes 2 ms. A part that fails does not end the others. Each run is written as it ends, so
whatever ends the command, those before are kept; --read makes figures of them, and names the parts that
are missing. --read ends with exit code 1 where results or restored launches are wrong; a break on purpose that nothing has
seen is printed, since the runs beside it are what they are. A folder that has runs is not written into again: each
command has one of its own.

Example:
  sluice bench gpu -n 20 --out out/try
  sluice bench gpu -n 1000 --out out/h200
  sluice bench gpu -n 10000 --parts preemption,kills --for 5m --out out/kills
  sluice bench gpu -n 1000 --disb 1s --out out/h200-disb
  sluice bench gpu a.sluice b.sluice c.sluice --budget 9m --out out/short
  sluice bench gpu --read out/h200,out/short
  sluice bench gpu -n 1000 --shard 1-10/10 --resume shards; sluice merge shards --out out/h200`
}

type cudaBenchDoc struct {
	cli.Header
	Facts    cuda.Facts  `json:"gpu"`
	Networks []string    `json:"networks"`
	N        int         `json:"n"`
	Rows     []bench.Row `json:"rows"`
	// Differ lists the networks with results that differ from the golden executor's.
	Differ []string `json:"differ,omitempty"`
	// TookNs is the total time of all parts in ns, by the clock of the budget.
	TookNs int64 `json:"took_ns,omitempty"`
	// Missing lists the parts that have no runs.
	Missing []string `json:"parts_missing,omitempty"`
	// Cut lists the parts that were interrupted. Some values of these parts are missing, and some values are based on
	// fewer runs.
	Cut []string `json:"parts_cut,omitempty"`
	// Torn means that the end of the runs' file is missing.
	Torn bool `json:"file_cut_off,omitempty"`
	// Restores counts the outcomes of launches that were stopped.
	Restores []bench.Restores `json:"restores,omitempty"`
	// Controls are launches with a deliberate error, which must have wrong results.
	Controls []bench.Restores `json:"controls,omitempty"`
	Shrink   int              `json:"shrink"`            // factor by which DISB's networks are reduced
	DISB     int64            `json:"disb_ns,omitempty"` // length of each DISB run in ns
	// Moved lists the parts during which the GPU's clock changed by more than 5 %.
	Moved []string `json:"moved,omitempty"`
	// Ended lists the parts that were completed. The values of incomplete parts are based on fewer runs.
	Ended []string `json:"parts_ended"`
	// Foretold is the simulated GPU's prediction for this GPU. The date of the prediction is in package disb. Published
	// contains REEF's values for an MI50, by part and key. It is empty if networks are reduced.
	Foretold  *disb.Told         `json:"foretold,omitempty"`
	Published map[string]float64 `json:"published,omitempty"`
}

// check rejects invalid flags before any work.
func (c *benchCUDACmd) check() error {
	if c.N < 1 || c.N > 100_000 {
		return fmt.Errorf("-n %d: expected 1..100000", c.N)
	}
	if err := upTo("--batches", cuda.MaxBatch, c.Batches); err != nil {
		return err
	}
	if err := upTo("--queued", 64, c.Queued); err != nil {
		return err
	}
	if err := among("--modes", c.Modes, bench.Preempting()); err != nil {
		return err
	}
	if err := among("--parts", c.Parts, bench.Parts()); err != nil {
		return err
	}
	if err := c.idle(); err != nil {
		return err
	}
	if c.For < 0 || c.Budget < 0 {
		return fmt.Errorf("--for %s --budget %s: expected none below 0", c.For, c.Budget)
	}
	if c.DISB < 0 || c.DISB > time.Minute || c.Shrink < 1 || c.Shrink > 64 {
		return fmt.Errorf("--disb %s --shrink %d: expected up to 1m, and 1..64", c.DISB, c.Shrink)
	}
	if c.SEEB < 0 || c.SEEB > time.Minute {
		return fmt.Errorf("--seeb %s: expected up to 1m", c.SEEB)
	}
	if c.DISB == 0 && (len(c.Workloads) > 0 || c.Shrink > 1) {
		return errors.New("--workloads and --shrink are DISB's: expected with --disb TIME")
	}
	if err := among("--workloads", c.Workloads, disb.Names()); err != nil {
		return err
	}
	if c.Shard != "" && (len(c.Bundles) > 0 || c.DISB > 0 || c.SEEB > 0) {
		return errors.New("--shard: expected --networks in place of bundles, and neither --disb nor --seeb")
	}
	return nil
}

// room creates the folder and writes a test file. If writing is impossible, the user sees the error at once and not
// after an hour. A folder that already contains runs is rejected and not changed.
func (c *benchCUDACmd) room() error {
	dir := c.dir()
	for _, there := range []string{filepath.Join(dir, bench.RawFile), filepath.Join(dir, bench.JournalFile), c.Out} {
		if there == dir {
			continue
		}
		if _, err := os.Lstat(there); err == nil {
			return fmt.Errorf("--out %s: %s is there already: name another folder", c.Out, there)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--out %s: %w", c.Out, err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	f, err := os.CreateTemp(dir, ".try-")
	if err != nil {
		return fmt.Errorf("--out %s: nothing can be written there: %w", c.Out, err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	return nil
}

// dir returns the folder of the runs. For an archive, it returns the archive's path without the suffix.
func (c *benchCUDACmd) dir() string { return cmp.Or(strings.TrimSuffix(c.Out, archived), ".") }

// pack writes the archive, if --out names one.
func (c *benchCUDACmd) pack() error {
	if !strings.HasSuffix(c.Out, archived) {
		return nil
	}
	return cli.WriteFile(c.Out, func(w io.Writer) error { return pack(w, c.dir()) })
}

// Default values of flags.
var (
	benchNets   = []string{"resnet50", "mobilenetv2"}
	benchConfig = "mid"
)

// idle rejects flags that would have no effect.
func (c *benchCUDACmd) idle() error {
	if c.Nets != nil && len(c.Nets) == 0 {
		return errors.New("--networks: none is given")
	}
	if (c.Queued != nil || c.Modes != nil) && c.Parts != nil && !slices.Contains(c.Parts, bench.Preemption) {
		return errors.New("--queued and --modes are the part preemption's: expected with it")
	}
	if c.Batches != nil && c.Parts != nil && !slices.Contains(c.Parts, bench.Latency) {
		return errors.New("--batches are the part latency's: expected with it")
	}
	if len(c.Bundles) == 0 || c.Nets != nil {
		return nil
	}
	built := c.Build != "build" && c.Build != os.Getenv("SLUICE_BUILD")
	for _, x := range []struct {
		flag  string
		given bool
	}{{"--config", c.Config != ""}, {"--build", built}} {
		if x.given {
			return fmt.Errorf("%s beside bundles: nothing is compiled, expected with --networks", x.flag)
		}
	}
	return nil
}

// upTo rejects numbers that are not in 1..most, or that occur twice.
func upTo(flag string, most int, given []int) error {
	if given != nil && len(given) == 0 {
		return fmt.Errorf("%s: none is given", flag)
	}
	for _, n := range given {
		if n < 1 || n > most {
			return fmt.Errorf("%s %d: expected 1..%d", flag, n, most)
		}
	}
	return once(flag, given)
}

// among rejects values that are not in the list "all", or that occur twice.
func among(flag string, given, all []string) error {
	if given != nil && len(given) == 0 {
		return fmt.Errorf("%s: none is given: expected of %s", flag, strings.Join(all, ", "))
	}
	for _, x := range given {
		if !slices.Contains(all, x) {
			return fmt.Errorf("%s %s: expected of %s", flag, x, strings.Join(all, ", "))
		}
	}
	return once(flag, given)
}

// once rejects values that occur twice.
func once[T comparable](flag string, given []T) error {
	for i, x := range given {
		if slices.Contains(given[:i], x) {
			return fmt.Errorf("%s %v: duplicate", flag, x)
		}
	}
	return nil
}

func (c *benchCUDACmd) Run(e *cli.Env) error {
	if c.Read != nil && c.Shard == "" {
		return c.read(e)
	}
	err := c.check()
	if c.Read != nil {
		err = errors.New("--read does not go with --shard")
	}
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	if shards != nil {
		return c.sharded(e, shards)
	}
	return c.measure(e)
}

// measure measures all parts in this process.
func (c *benchCUDACmd) measure(e *cli.Env) error {
	if err := c.room(); err != nil { // first, because nothing can be saved without the folder
		return cli.Coded(cli.Usage, err)
	}
	base, device, err := c.gpu(e) // before compilation
	if err != nil {
		return err
	}
	nets, err := c.nets(e)
	if err != nil {
		return err
	}
	ptx, err := c.ptx()
	if err != nil {
		return err
	}
	at, err := cuda.FakeClock(device.Library)
	if err != nil {
		return cli.Coded(cli.Device, err)
	}
	clock := bench.Clock(at)
	p, about, began := base.Params(), cli.About("sluice"), clock.Now()
	file := &appender{path: filepath.Join(c.dir(), bench.JournalFile)}
	journal, lost := &bench.Journal{W: file}, false
	keep := func(raw *bench.Raw) {
		if err := journal.Add(raw); err != nil && !lost {
			e.Log.Warn("runs are not on disk before the end", "err", err)
			lost = true
		}
	}
	later := c.later()
	log := func(part string) func(string) {
		return func(what string) {
			e.Log.Info("bench gpu", "at", part+what, "after", clock.Since(began).Round(time.Second))
		}
	}
	raw, err := bench.Run(e.Ctx, bench.Config{
		Library: device.Library, NVML: device.NVML, GPU: c.GPU, Masks: device.Masks, Networks: nets, Params: &p, N: c.N, For: c.For, Budget: c.Budget, Parts: c.Parts, Later: later, Seed: c.Seed, Batches: c.Batches, Capacities: c.Queued, Modes: c.Modes, Kernels: ptx,
		Program: about.Program + " " + about.Version, Revision: revision(about.Revision),
		Clock: clock, Tell: log(""), Keep: keep,
	})
	if raw == nil || raw.Facts.GPU == "" {
		return cli.Coded(cli.Device, err)
	}
	more := &cudaParts{c: c, ctx: e.Ctx, began: began, clock: clock, raw: raw, keep: keep, later: later, err: err}
	more.run(device, nets, ptx, base, log)
	if file.f != nil {
		_ = file.f.Close() // the error is ignored, because keep writes the whole file again at the end
	}
	return c.report(e, raw, base, more.err)
}

// later returns the parts that run after the parts of bench.Run, in order.
func (c *benchCUDACmd) later() (parts []string) {
	if c.SEEB > 0 {
		parts = append(parts, bench.SEEB)
	}
	if c.DISB > 0 {
		parts = append(parts, bench.DISB)
	}
	return parts
}

// revision identifies the program that writes runs: by its sources or, if these are unknown, by the hash of its own file.
func revision(known string) string {
	if known != cli.Unknown {
		return known
	}
	sum, err := cli.ProgramHash()
	if err != nil {
		return known
	}
	return fmt.Sprintf("%s, program sha256 %.32s", known, sum)
}

// ptx reads the file of --kernels; nil without this flag.
func (c *benchCUDACmd) ptx() ([]byte, error) {
	if c.Kernels == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Kernels)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "--kernels: %w", err)
	}
	return text, nil
}

// cudaParts runs the parts that bench.Run does not run, within the budget. It saves series while a part runs.
type cudaParts struct {
	c     *benchCUDACmd
	ctx   context.Context
	began time.Time
	clock bench.Clock
	raw   *bench.Raw
	keep  func(*bench.Raw)
	later []string // the next part and all parts after it
	err   error    // error of all parts
}

// run runs SEEB's systems and REEF's benchmark, if selected.
func (p *cudaParts) run(device cuda.Config, nets []*bundle.Bundle, ptx []byte, base *params.File, log func(part string) func(string)) {
	c, used, spin := p.c, base.Params(), !p.raw.Facts.Fake
	if c.SEEB > 0 {
		p.next(func(ctx context.Context, keep func([]bench.Series)) ([]bench.Series, error) {
			return real.Run(ctx, real.Config{
				GPU: cuda.Config{Library: device.Library, GPU: c.GPU, Masks: device.Masks, Kernels: ptx, Params: &used, Spin: spin}, Networks: nets, Ns: c.SEEB.Nanoseconds(), Seed: c.Seed,
				Keep: keep, Tell: log("SEEB "),
			})
		})
	}
	if c.DISB > 0 {
		p.raw.Made.Shrink, p.raw.Made.DISBNs = c.Shrink, c.DISB.Nanoseconds()
		p.next(func(ctx context.Context, keep func([]bench.Series)) ([]bench.Series, error) {
			return disb.Run(ctx, disb.Config{
				Library: device.Library, NVML: device.NVML, GPU: c.GPU, Looks: c.N, Params: base, Shrink: c.Shrink, Ns: c.DISB.Nanoseconds(), Seed: c.Seed, Workloads: c.Workloads,
				Spin: spin, Keep: keep, Tell: log("DISB "),
			})
		})
	}
}

// next runs the next part. As in bench.Run, the part is stopped when its share of the remaining time has passed, so
// that time remains for the later parts.
func (p *cudaParts) next(run func(ctx context.Context, keep func([]bench.Series)) ([]bench.Series, error)) {
	ctx, part := p.ctx, p.later[0]
	if p.c.Budget > 0 {
		_, most := bench.Share(bench.Spare(p.c.Budget)-p.clock.Since(p.began), p.later)
		var end context.CancelFunc
		ctx, end = p.clock.Until(ctx, p.clock.Now().Add(most))
		defer end()
	}
	p.later = p.later[1:]
	var failed error
	if ctx.Err() != nil {
		failed = context.Cause(ctx)
	} else {
		before := slices.Clip(p.raw.Series)
		save := func(all []bench.Series) {
			p.raw.Series = append(before, all...)
			p.keep(p.raw)
		}
		var all []bench.Series
		all, failed = run(ctx, save)
		p.raw.Made.TookNs = p.clock.Since(p.began).Nanoseconds()
		if failed == nil {
			p.raw.Made.Parts = append(p.raw.Made.Parts, part)
		}
		save(all)
		if failed == nil {
			return
		}
		if errors.Is(context.Cause(ctx), bench.ErrBudget) {
			failed = fmt.Errorf("%w: %w", bench.ErrBudget, failed)
		}
	}
	p.err = errors.Join(p.err, fmt.Errorf("%s: %w", part, failed))
}

// report prints and saves the results. The argument err is the error of the measurement.
func (c *benchCUDACmd) report(e *cli.Env, raw *bench.Raw, base *params.File, err error) error {
	doc, untold := figures(raw)
	lost := errors.Join(untold, c.keep(e, raw, doc, base)) // reported last, so that it does not hide other errors
	if c.JSON {
		lost = errors.Join(lost, e.Output(doc, "", true))
	} else {
		lost = errors.Join(lost, doc.print(e.Stdout))
	}
	if err != nil {
		err = cli.Errorf(cli.Device, "%w (what was measured until then is in %s)", err, filepath.Join(c.dir(), bench.RawFile))
	}
	var unseen error
	if !slices.Contains(doc.Cut, bench.Kills) { // an interrupted control might still have found a wrong launch
		unseen = blind(doc.Controls)
	}
	return errors.Join(differ(doc.Differ), wrongRestores(doc.Restores), missed(doc.Restores), unseen, err, lost)
}

// appender is a file that is created with its first line. After that, lines are only appended.
type appender struct {
	path string
	f    *os.File
}

// Write implements io.Writer.
func (a *appender) Write(text []byte) (n int, err error) {
	if len(text) == 0 {
		return 0, nil
	}
	if a.f == nil {
		if a.f, err = os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
			return 0, err
		}
	}
	return a.f.Write(text)
}

// kept reads the runs of a folder or an archive. The runs of a killed command are in its journal (JournalFile). RawFile
// may exist too, if the command was killed near its end. kept returns the readable runs, and errors for other files.
func kept(dir string) (all []*bench.Raw, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) { // the archive is written at the end; before that, the runs are in the folder
		dir = strings.TrimSuffix(dir, archived)
	}
	add := func(name string, text []byte, read func(string, io.Reader) (*bench.Raw, error)) error {
		raw, err := read(filepath.Join(dir, name), bytes.NewReader(text))
		if err == nil {
			all = append(all, raw)
		}
		return err
	}
	if strings.HasSuffix(dir, archived) {
		text, err := unpacked(dir, bench.RawFile)
		cut := errors.Is(err, io.ErrUnexpectedEOF)
		if err == nil || cut && len(text) > 0 { // in a truncated archive, the complete lines are used
			err = add(bench.RawFile, text, bench.Read)
		}
		if cut && err != nil {
			err = fmt.Errorf("the archive is cut off before its first complete line of runs: copy it again: %w", err)
		}
		return all, err
	}
	text, none := os.ReadFile(filepath.Join(dir, bench.RawFile))
	if none == nil {
		err = add(bench.RawFile, text, bench.Read)
	}
	switch text, failed := os.ReadFile(filepath.Join(dir, bench.JournalFile)); {
	case failed == nil:
		err = errors.Join(err, add(bench.JournalFile, text, bench.ReadJournal))
	case errors.Is(none, fs.ErrNotExist) || errors.Is(none, syscall.ENOTDIR):
		err = unwritten(dir)
	case none != nil:
		err = none
	case !errors.Is(failed, fs.ErrNotExist):
		err = errors.Join(err, failed)
	}
	return all, err
}

// unwritten returns the error for a path without runs. It lists the expected files, and subfolders with runs.
func unwritten(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	have := ""
	if at, _ := fs.Glob(os.DirFS(dir), "*/"+bench.JournalFile+"*"); at != nil {
		for i := range at {
			at[i] = filepath.Join(dir, filepath.Dir(at[i]))
		}
		have = "; there are runs in " + strings.Join(slices.Compact(at), ",")
	}
	return fmt.Errorf("no runs are there: expected a folder that bench gpu --out wrote, with %s or, of a call that was broken off, %s, or its archive (%s)%s",
		bench.RawFile, bench.JournalFile, archived, have)
}

// read prints the results of runs that were saved earlier.
func (c *benchCUDACmd) read(e *cli.Env) error {
	type runs struct {
		*bench.Raw
		from string
	}
	var all []runs
	var wrong error
	once := func(from, not string) { e.Log.Warn("the same runs are read once", "from", from, "not from", not) }
	for _, dir := range c.Read {
		raws, err := kept(dir)
		if err != nil { // the values of the other parts are still printed
			wrong = errors.Join(wrong, cli.Errorf(cli.Input, "--read %s: %w", dir, err))
		}
		for _, raw := range raws {
			if i := slices.IndexFunc(all, func(x runs) bool { return x.Holds(raw) }); i >= 0 {
				once(all[i].from, dir)
				continue
			}
			all = append(slices.DeleteFunc(all, func(x runs) bool {
				if !raw.Holds(x.Raw) {
					return false
				}
				once(dir, x.from)
				return true
			}), runs{raw, dir})
		}
	}
	var docs []*cudaBenchDoc
	for _, x := range all {
		doc, err := figures(x.Raw)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
		wrong = errors.Join(wrong, differ(doc.Differ), wrongRestores(doc.Restores))
	}
	if docs == nil {
		return wrong
	}
	if c.JSON {
		return errors.Join(e.Output(docs, "", true), wrong)
	}
	for i, doc := range docs {
		fmt.Fprintf(e.Stdout, "%s\n", all[i].from)
		if err := doc.print(e.Stdout); err != nil {
			return err
		}
	}
	return wrong
}

// gpu finds the GPU. It also returns the parameter file, whose values are used where no value is measured.
func (c *benchCUDACmd) gpu(e *cli.Env) (*params.File, cuda.Config, error) {
	var f *params.File
	var err error
	if c.Params != "" {
		if f, err = params.Of(c.Params); err != nil {
			return nil, cuda.Config{}, cli.Coded(cli.Input, err)
		}
	}
	at, err := foundGPU("cuda", c.GPU)
	if err != nil {
		return nil, cuda.Config{}, cli.Coded(cli.Device, err)
	}
	device, err := gpuConfig("cuda", c.GPU)
	if err != nil {
		return nil, device, cli.Coded(cli.Device, err)
	}
	if f == nil {
		name, _, _ := strings.Cut(at, ", driver for ")
		if f, err = params.Find(name); err == nil && f == nil {
			e.Log.Warn("this GPU has no parameter file: the H200's values are assumed for what is not measured", "gpu", name)
			f, err = params.Of("h200")
		}
	}
	return f, device, err
}

// nets reads the bundles and compiles the networks, in their order.
func (c *benchCUDACmd) nets(e *cli.Env) (nets []*bundle.Bundle, err error) {
	var all []what
	for _, file := range c.Bundles {
		all = append(all, what{file: file})
	}
	names := c.Nets
	if names == nil && len(c.Bundles) == 0 {
		names = benchNets
	}
	for _, name := range names {
		all = append(all, what{Config: cmp.Or(c.Config, benchConfig), Network: name, Build: c.Build})
	}
	for i := range all {
		if err := e.Ctx.Err(); err != nil { // compilation is slow and does not stop when the context ends
			return nil, err
		}
		if all[i].file == "" {
			e.Log.Info("compiling " + all[i].Network)
		}
		p, err := all[i].open(e, nil) // prepare would warn of ranges from noise, but no value here depends on ranges
		if err != nil {
			return nil, err
		}
		name := p.bundle.Network.Name
		if slices.ContainsFunc(nets, func(b *bundle.Bundle) bool { return b.Network.Name == name }) {
			return nil, cli.Errorf(cli.Usage, "network %s is given twice", name)
		}
		nets = append(nets, p.bundle)
	}
	return nets, e.Ctx.Err()
}

// figures computes the results of runs, new or saved.
func figures(raw *bench.Raw) (doc *cudaBenchDoc, err error) {
	doc = &cudaBenchDoc{
		Header: cli.NewHeader("sluice-bench-cuda/1", raw.Seed, raw.Label()), N: raw.Made.N, TookNs: raw.Made.TookNs, Ended: raw.Made.Parts,
		Facts: raw.Facts, Rows: raw.Rows(), Restores: raw.Restores(), Controls: raw.Controls(), Moved: raw.Moved(), Differ: raw.Differ(), Torn: raw.Torn,
		Shrink: max(1, raw.Made.Shrink), DISB: raw.Made.DISBNs, Published: published(max(1, raw.Made.Shrink)),
	}
	for _, n := range raw.Made.Networks {
		doc.Networks = append(doc.Networks, n.Name)
	}
	for _, part := range append(bench.Parts(), bench.SEEB, bench.DISB) {
		if !slices.ContainsFunc(doc.Rows, func(r bench.Row) bool { return r.Part == part && (r.N > 0 || r.Note != "") }) {
			doc.Missing = append(doc.Missing, part)
		} else if !slices.Contains(doc.Ended, part) {
			doc.Cut = append(doc.Cut, part)
		}
	}
	doc.Foretold, err = disb.Foretold(doc.Facts.GPU, doc.Shrink)
	return doc, err
}

// keep writes the runs and the results. After an error in one file, keep still writes the other files.
func (c *benchCUDACmd) keep(e *cli.Env, raw *bench.Raw, doc *cudaBenchDoc, base *params.File) error {
	err := cli.WriteFile(filepath.Join(c.dir(), bench.RawFile), raw.Write)
	if err == nil { // each run is there now
		if err = os.Remove(filepath.Join(c.dir(), bench.JournalFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	switch measured, e := raw.Params(base); {
	case e == nil:
		err = errors.Join(err, cli.WriteFile(filepath.Join(c.dir(), "params.yaml"), measured.Write))
	case !errors.Is(e, params.ErrFile):
		err = errors.Join(err, e)
	}
	return errors.Join(err, e.Output(doc, c.dir(), false), c.pack())
}

// published returns REEF's values by part and key. It returns nil if networks are reduced.
func published(shrink int) map[string]float64 {
	if shrink != 1 {
		return nil
	}
	out := map[string]float64{}
	for k, v := range reef.Published("mi50") {
		out[bench.DISB+" "+strings.Join(k[:], " ")] = v
	}
	return out
}

// differ returns an error if the results of some networks differ from the golden executor's.
func differ(networks []string) error {
	if networks == nil {
		return nil
	}
	return cli.Errorf(cli.Check, "results differ from golden's: %s", strings.Join(networks, ", "))
}

// wrongRestores returns an error if stopped launches have ended with wrong results.
func wrongRestores(all []bench.Restores) error {
	return against(all, "launches that were stopped show wrong results", func(r *bench.Restores) bool { return r.Spoilt > 0 })
}

// missed returns an error if no launch was stopped in some part.
func missed(all []bench.Restores) error {
	return against(all, "no launch was stopped", func(r *bench.Restores) bool { return r.Hit == 0 })
}

// blind returns an error if a deliberate error was not detected.
func blind(controls []bench.Restores) error {
	return against(controls, "the check of restores proves nothing: a deliberate fault went unnoticed", (*bench.Restores).Unseen)
}

// against returns an error that lists all entries for which bad is true, or nil.
func against(all []bench.Restores, what string, bad func(*bench.Restores) bool) error {
	var says []string
	for i := range all {
		if bad(&all[i]) {
			says = append(says, all[i].String())
		}
	}
	if says == nil {
		return nil
	}
	return cli.Errorf(cli.Check, "%s: %s", what, strings.Join(says, "; "))
}

// figure formats a value. The value may be missing.
func figure(format string, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

func between(i *bench.Interval) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%.4g to %.4g", i[0], i[1])
}

func (doc *cudaBenchDoc) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, driver for %s (%s); n %d, seed %d\n", doc.Facts.GPU, doc.Facts.Driver, doc.Label, doc.N, doc.Seed)
	if doc.Facts.Signals == cuda.SignalsCopied {
		fmt.Fprintf(w, "kernels are told to leave by copies, which take longer: %s\n", doc.Facts.WhyCopied)
	}
	if doc.Shrink > 1 {
		fmt.Fprintf(w, "DISB's networks are shrunk by %d, so no published values are shown beside them\n", doc.Shrink)
	}
	t := report.Table{Head: []string{"part", "what", "unit", "n", "median", "95 % of it", "p95", "p99", "95 % of it", "spread", "foretold", "published (MI50)", "note"}}
	foretold := map[string]float64{}
	if f := doc.Foretold; f != nil {
		foretold = f.Values
		fmt.Fprintf(w, "foretold by the simulated %s, DISB in runs of %s, seed %d (here %s, seed %d)\n", f.GPU, time.Duration(f.Ns), f.Seed, time.Duration(doc.DISB), doc.Seed)
	} else {
		fmt.Fprintf(w, "nothing was foretold of this GPU\n")
	}
	beside := func(of map[string]float64, r *bench.Row) string {
		if v, ok := of[r.Part+" "+r.Key]; ok {
			return fmt.Sprintf("%.4g", v)
		}
		return ""
	}
	for _, r := range doc.Rows {
		median := ""
		if r.N > 0 { // a median requires runs
			median = fmt.Sprintf("%.4g", r.Median)
		}
		t.Add(r.Part, r.Key, r.Unit, fmt.Sprint(r.N), median, between(r.MedianIn), figure("%.4g", r.P95), figure("%.4g", r.P99), between(r.P99In), figure("%.2f", r.Spread), beside(foretold, &r), beside(doc.Published, &r), r.Note)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if slices.ContainsFunc(doc.Rows, func(r bench.Row) bool { return r.N > 1 && r.P99 == nil }) {
		fmt.Fprintf(w, "p95 is there from 200 runs on, p99 from 1000, so that ten are beyond it; runs are as many as -n %d and --for let be\n", doc.N)
	}
	if len(doc.Moved) > 0 {
		fmt.Fprintf(w, "the same kernels took more than 5 %% longer or shorter within these parts, so their figures mix several clocks: %s\n", strings.Join(doc.Moved, ", "))
	}
	if doc.Torn {
		fmt.Fprintln(w, "the file of runs is cut off: its complete lines are shown, and any part may lack runs")
	}
	if len(doc.Missing) > 0 {
		fmt.Fprintf(w, "nothing was measured of %s\n", strings.Join(doc.Missing, ", "))
	}
	if len(doc.Cut) > 0 {
		fmt.Fprintf(w, "broken off, so that figures are missing or of few runs: %s\n", strings.Join(doc.Cut, ", "))
	}
	for i := range doc.Restores {
		fmt.Fprintf(w, "kills: %s\n", &doc.Restores[i])
	}
	for i := range doc.Controls {
		note := ""
		if c := &doc.Controls[i]; c.Unseen() && c.Hit > 0 { // other cases are reported on a separate line
			note = ": it was not seen, so that restores show nothing"
			if slices.Contains(doc.Cut, bench.Kills) {
				note = ": it was broken off before it was seen"
			}
		}
		fmt.Fprintf(w, "kills, a break that is to be seen: %s%s\n", &doc.Controls[i], note)
	}
	return nil
}
