//go:build !static

// sluice bench gpu: what an NVIDIA GPU does, measured; on the driver without a GPU what would be.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/report"
)

type benchCUDACmd struct {
	Bundles []string `arg:"" optional:"" help:"Bundles to run, one or more, in place of --networks; the first is best effort, the last has priority."`
	Nets    []string `name:"networks" help:"Networks of the zoo, one or more; the first is best effort, the last has priority; default: resnet50,mobilenetv2,fashion."`
	Config  string   `help:"Configuration that the networks are compiled for; default: mid."`
	Build   string   `default:"build" help:"Folder for what is built once." env:"SLUICE_BUILD"`
	GPU     int      `default:"0" help:"Which GPU."`
	Params  string   `help:"Parameters of the GPU, by which padding is decided and into which params.yaml puts what is measured: a name, or a file. Without it those of the GPU's name; the H200's, as assumed ones, where none are known."`
	N       int      `short:"n" default:"1000" help:"Runs of each thing, at most: p99 takes 1000, p95 200."`
	Parts   []string `help:"What is measured (partitions, latency, costs, copies, preemption, kills, padding, slowdown); default: all."`
	Batches []int    `help:"Batches of the latencies; default: 1,8,32."`
	Seed    uint64   `default:"1" help:"Of inputs and of the times at which launches come."`
	Out     string   `default:"out/bench-cuda" help:"Folder for summary.json, the runs, and, where there is a GPU, params.yaml; one without runs."`
	JSON    bool     `name:"json" help:"Print JSON."`

	For time.Duration `name:"for" default:"1m" help:"How long a part takes about, once it has ten runs of each thing; 0: until it has all."`

	DISB      time.Duration `name:"disb" help:"Run REEF's benchmark too, so long each workload under each system; 0: not."`
	Shrink    int           `default:"1" help:"Of DISB's networks: every side of a tensor is divided by it."`
	Workloads []string      `help:"Of DISB (A, B, C, D, E, drive); default: all."`
}

// Help implements the command.
func (*benchCUDACmd) Help() string {
	return `Measures an NVIDIA GPU: on which SMs partitions run, latencies by partition and batch, what launches,
events, signals, partitions and decisions cost, copies alone and beside kernels, preemption by resetting and by
waiting with 1 to 16 kernels queued, whether launches that are stopped go on to the same bits (exit code 1 where one
does not, or where none was stopped), what padding costs, and how well the slowdown of two and four networks
together is foreseen. Figures stand with their number of runs and their spread, the median (and p99) with where it is
in 95 of 100 cases; p95 is given from 200 runs on, p99 from 1000; the runs are kept, and
params.yaml is the parameter file with what was measured in place of what was assumed. A part ends when it has all
its runs, or when its time (--for) is over and it has ten of each thing; the best-effort network runs at the batch at
which a launch takes 2 ms. Where it ends early, by an error or by you, the runs until then are kept. A folder
that has runs is not written into again: each command has one of its own.

Example:
  sluice bench gpu -n 20 --out out/try
  sluice bench gpu -n 1000 --out out/h200
  sluice bench gpu -n 10000 --parts preemption,kills --for 5m --out out/kills
  sluice bench gpu -n 1000 --disb 1s --out out/h200-disb
  sluice bench gpu a.sluice b.sluice c.sluice --json`
}

type cudaBenchDoc struct {
	cli.Header
	Facts    cuda.Facts  `json:"gpu"`
	Networks []string    `json:"networks"`
	N        int         `json:"n"`
	Rows     []bench.Row `json:"rows"`
	// Restores counts what became of launches that were stopped.
	Restores []bench.Restores `json:"restores,omitempty"`
	// Controls are launches under a break, which are to go wrong.
	Controls []bench.Restores `json:"controls,omitempty"`
	Shrink   int              `json:"shrink"`            // of DISB's networks
	DISB     int64            `json:"disb_ns,omitempty"` // of its runs
	// Moved are the parts within which the GPU's clock did by more than 5 %.
	Moved []string `json:"moved,omitempty"`
	// Foretold is what the simulated GPU said of this one before anything was measured; published, what REEF says of
	// an MI50, by part and key, where networks have their own size.
	Foretold  *disb.Told         `json:"foretold,omitempty"`
	Published map[string]float64 `json:"published,omitempty"`
}

// check refuses what nothing can be measured by, before anything is looked for.
func (c *benchCUDACmd) check() error {
	if c.N < 1 || c.N > 100_000 {
		return fmt.Errorf("-n %d: expected 1..100000", c.N)
	}
	if c.Batches != nil && len(c.Batches) == 0 {
		return errors.New("--batches: none is given")
	}
	for _, b := range c.Batches {
		if b < 1 || b > cuda.MaxBatch {
			return fmt.Errorf("--batches %d: expected 1..%d", b, cuda.MaxBatch)
		}
	}
	if err := once("--batches", c.Batches); err != nil {
		return err
	}
	if err := among("--parts", c.Parts, bench.Parts()); err != nil {
		return err
	}
	if err := c.idle(); err != nil {
		return err
	}
	if c.For < 0 {
		return fmt.Errorf("--for %s: expected none below 0", c.For)
	}
	if c.DISB < 0 || c.DISB > time.Minute || c.Shrink < 1 || c.Shrink > 64 {
		return fmt.Errorf("--disb %s --shrink %d: expected up to 1m, and 1..64", c.DISB, c.Shrink)
	}
	if c.DISB == 0 && (len(c.Workloads) > 0 || c.Shrink > 1) {
		return errors.New("--workloads and --shrink are DISB's: expected with --disb TIME")
	}
	if err := among("--workloads", c.Workloads, disb.Names()); err != nil {
		return err
	}
	return c.room() // last, since it leaves a folder
}

// room makes the folder and tries a file in it, so that nobody hears after an hour that nothing can be kept. Runs that
// are there already, whole or broken off, stay as they are.
func (c *benchCUDACmd) room() error {
	runs := filepath.Join(c.Out, bench.RawFile)
	if _, err := os.Lstat(runs); err == nil {
		return fmt.Errorf("--out %s: %s is there already: name another folder", c.Out, runs)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	dir := cmp.Or(c.Out, ".")
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

// What runs where nothing else is named.
var (
	benchNets   = []string{"resnet50", "mobilenetv2", "fashion"}
	benchConfig = "mid"
)

// idle refuses what would say nothing.
func (c *benchCUDACmd) idle() error {
	if c.Nets != nil && len(c.Nets) == 0 {
		return errors.New("--networks: none is given")
	}
	if c.Batches != nil && c.Parts != nil && !slices.Contains(c.Parts, bench.Latency) {
		return errors.New("--batches are the part latency's: expected with it")
	}
	if len(c.Bundles) == 0 {
		return nil
	}
	built := c.Build != "build" && c.Build != os.Getenv("SLUICE_BUILD")
	for _, x := range []struct {
		flag  string
		given bool
	}{{"--networks", c.Nets != nil}, {"--config", c.Config != ""}, {"--build", built}} {
		if x.given {
			return fmt.Errorf("%s beside bundles: nothing is compiled, expected either", x.flag)
		}
	}
	return nil
}

// among refuses what is not of all, or comes twice.
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

// once refuses what comes twice.
func once[T comparable](flag string, given []T) error {
	for i, x := range given {
		if slices.Contains(given[:i], x) {
			return fmt.Errorf("%s %v: it comes twice", flag, x)
		}
	}
	return nil
}

// Run implements the command.
func (c *benchCUDACmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return cli.Coded(cli.Usage, err)
	}
	f, device, err := c.device(e) // before anything is compiled
	if err != nil {
		return err
	}
	doc := &cudaBenchDoc{N: c.N}
	nets, err := c.compiled(e, doc)
	if err != nil {
		return err
	}
	raw, err := c.measure(e, f, device, nets)
	if err != nil {
		return cli.Coded(cli.Device, err)
	}
	doc.Header = cli.NewHeader("sluice-bench-cuda/1", c.Seed, raw.Label())
	doc.Facts, doc.Rows, doc.Restores, doc.Moved = raw.Facts, raw.Rows(), raw.Restores(), raw.Moved()
	doc.Controls = raw.Controls()
	doc.Shrink, doc.DISB, doc.Published = c.Shrink, c.DISB.Nanoseconds(), published(c.Shrink)
	var untold error
	doc.Foretold, untold = disb.Foretold(doc.Facts.GPU, c.Shrink)
	lost := errors.Join(untold, c.keep(e, raw, doc, f)) // which hides no figure
	if c.JSON {
		err = e.Output(doc, "", true)
	} else {
		err = doc.print(e.Stdout)
	}
	return errors.Join(err, lost, wrongRestores(doc.Restores), missed(doc.Restores), blind(doc.Controls))
}

// device finds the GPU, how it is opened, and the parameters to compare with.
func (c *benchCUDACmd) device(e *cli.Env) (f *params.File, device cuda.Config, err error) {
	if c.Params != "" {
		if f, err = params.Of(c.Params); err != nil {
			return nil, device, cli.Coded(cli.Input, err)
		}
	}
	at, err := foundGPU("cuda", c.GPU)
	if err == nil {
		device, err = gpuConfig("cuda", c.GPU)
	}
	if err != nil {
		return nil, device, cli.Coded(cli.Device, err)
	}
	if f != nil {
		return f, device, nil
	}
	name, _, _ := strings.Cut(at, ", driver for ")
	if f, err = params.Find(name); err == nil && f == nil {
		e.Log.Warn("no parameters are known of this GPU: the H200's stand for what is not measured, as assumed ones", "gpu", name)
		f, err = params.Of("h200")
	}
	return f, device, err
}

// compiled are the bundles to measure; their names go into the document.
func (c *benchCUDACmd) compiled(e *cli.Env, doc *cudaBenchDoc) (nets []*bundle.Bundle, err error) {
	var all []what
	for _, file := range c.Bundles {
		all = append(all, what{file: file})
	}
	if len(all) == 0 {
		names := c.Nets
		if names == nil {
			names = benchNets
		}
		for _, name := range names {
			all = append(all, what{Config: cmp.Or(c.Config, benchConfig), Network: name, Build: c.Build})
		}
	}
	for _, w := range all {
		if err := e.Ctx.Err(); err != nil { // compiling one takes its time, and does not end by itself
			return nil, err
		}
		if w.file == "" {
			e.Log.Info("compiling " + w.Network)
		}
		p, err := w.prepare(e)
		if err != nil {
			return nil, err
		}
		if slices.Contains(doc.Networks, p.bundle.Network.Name) {
			return nil, cli.Errorf(cli.Usage, "network %s comes twice", p.bundle.Network.Name)
		}
		nets, doc.Networks = append(nets, p.bundle), append(doc.Networks, p.bundle.Network.Name)
	}
	return nets, e.Ctx.Err()
}

// measure runs the parts that were asked for. What was measured before an error is written to a file.
func (c *benchCUDACmd) measure(e *cli.Env, f *params.File, device cuda.Config, nets []*bundle.Bundle) (*bench.Raw, error) {
	p, about := f.Params(), cli.About("sluice")
	raw, err := bench.Run(e.Ctx, bench.Config{
		Library: device.Library, NVML: device.NVML, GPU: c.GPU, Masks: device.Masks, Networks: nets, Params: &p, N: c.N, For: c.For, Parts: c.Parts, Seed: c.Seed, Batches: c.Batches,
		Program: about.Program + " " + about.Version, Revision: about.Revision,
		Tell: func(part string) { e.Log.Info("bench gpu", "at", part) },
	})
	if err == nil && c.DISB > 0 {
		var all []bench.Series
		all, err = disb.Run(e.Ctx, disb.Config{
			Library: device.Library, NVML: device.NVML, GPU: c.GPU, Looks: c.N, Params: f, Shrink: c.Shrink, Ns: c.DISB.Nanoseconds(), Seed: c.Seed, Workloads: c.Workloads,
			Spin: !raw.Facts.Fake, Tell: func(what string) { e.Log.Info("bench gpu", "at", "DISB "+what) },
		})
		raw.Series = append(raw.Series, all...)
	}
	if err == nil || raw == nil {
		return raw, err
	}
	if path := filepath.Join(c.Out, bench.RawFile); len(raw.Series) > 0 {
		if failed := cli.WriteFile(path, raw.Write); failed != nil {
			err = errors.Join(err, failed)
		} else {
			err = fmt.Errorf("%w (what was seen until then is in %s, without figures)", err, path)
		}
	}
	return nil, errors.Join(err, wrongRestores(raw.Restores())) // what broke it off does not hide those
}

// keep writes what was seen and the figures, each file whatever became of the others.
func (c *benchCUDACmd) keep(e *cli.Env, raw *bench.Raw, doc *cudaBenchDoc, base *params.File) error {
	err := cli.WriteFile(filepath.Join(c.Out, bench.RawFile), raw.Write)
	switch measured, e := raw.Params(base); {
	case e == nil:
		err = errors.Join(err, cli.WriteFile(filepath.Join(c.Out, "params.yaml"), measured.Write))
	case !errors.Is(e, params.ErrFile):
		err = errors.Join(err, e)
	}
	return errors.Join(err, e.Output(doc, c.Out, false))
}

// published is what REEF says, by part and key; nothing of networks that are shrunk.
func published(shrink int) map[string]float64 {
	if shrink != 1 {
		return nil
	}
	out := map[string]float64{}
	for k, v := range gpus.Published("mi50") {
		out[bench.DISB+" "+strings.Join(k[:], " ")] = v
	}
	return out
}

// wrongRestores is the error of launches that went on as others.
func wrongRestores(all []bench.Restores) error {
	return against(all, "launches that were stopped show wrong results", func(r *bench.Restores) bool { return r.Spoilt > 0 })
}

// missed is the error of launches that no stop has hit.
func missed(all []bench.Restores) error {
	return against(all, "no launch was stopped", func(r *bench.Restores) bool { return r.Hit == 0 })
}

// blind is the error of breaks that nothing was seen of.
func blind(controls []bench.Restores) error {
	return against(controls, "restores show nothing, since what is broken on purpose goes unseen", (*bench.Restores).Unseen)
}

// against is the error of those that are bad.
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

// figure is a cell of one that may not be there.
func figure(format string, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// between is a cell of an interval.
func between(i *bench.Interval) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%.4g to %.4g", i[0], i[1])
}

// print writes the figures as text.
func (doc *cudaBenchDoc) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, driver for %s (%s); n %d, seed %d\n", doc.Facts.GPU, doc.Facts.Driver, doc.Label, doc.N, doc.Seed)
	if doc.Facts.Signals == cuda.SignalsCopied {
		fmt.Fprintf(w, "kernels are told to leave by copies, which take longer: %s\n", doc.Facts.WhyCopied)
	}
	if doc.Shrink > 1 {
		fmt.Fprintf(w, "DISB's networks are shrunk by %d: what is published is of others, and stands beside none\n", doc.Shrink)
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
		if r.N > 0 { // of no runs there is none
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
		fmt.Fprintf(w, "the same kernels took more than 5 %% longer or shorter within these parts, whose figures are of several clocks: %s\n", strings.Join(doc.Moved, ", "))
	}
	for i := range doc.Restores {
		fmt.Fprintf(w, "kills: %s\n", &doc.Restores[i])
	}
	for i := range doc.Controls {
		fmt.Fprintf(w, "kills, a break that is to be seen: %s\n", &doc.Controls[i])
	}
	return nil
}
