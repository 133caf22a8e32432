// sluice bench runs policies in many settings and compares the results with published values.

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/fluid"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/shard"
)

type benchCmd struct {
	Rates   benchRatesCmd   `cmd:"" help:"Goodput over the arrival rate: 0.5 to 1.3 of serial's capacity."`
	GPU     benchCUDACmd    `cmd:"" name:"gpu" arch:"any" help:"An NVIDIA GPU, measured: partitions, latencies, copies, preemption, padding, interference."`
	Compose benchComposeCmd `cmd:"" help:"Combinations of systems that were published separately, compared with each alone."`
	Suite   benchSuiteCmd   `cmd:"" default:"withargs" help:"Benches by name: fig1, fig7, fig8, fig9, fig10, table1, table2, own, ablation, overload, bursts, heldout, exits, sensitivity, all."`
}

func (*benchCmd) Help() string {
	return `Example:
  sluice bench table2 fig7 fig8 fig9 --json
  sluice bench all --workers 2
  sluice bench rates --device cosim --rates 0.9,1.1 --n 256`
}

type benchSuiteCmd struct {
	Names    []string `arg:"" optional:"" name:"name" help:"fig1, fig7, fig8, fig9, fig10, table1, table2, own, ablation, overload, bursts, heldout, exits, sensitivity, or all."`
	Policies []string `placeholder:"A,B" help:"Only these policies of ${policies} (default: all)."`
	Seeds    []uint64 `default:"1,2,3" help:"Seeds; intervals are over them."`
	N        int      `default:"20000" short:"n" help:"Requests a run."`
	Workers  int      `shard:"here" default:"2" help:"Runs at the same time; the results do not depend on it."`
	Data     string   `default:"/usr/share/datasets/fashion-mnist" help:"Folder of the data set (exits)."`
	Build    string   `shard:"here" default:"build" help:"Folder for what is built once." env:"SLUICE_BUILD"`
	Trace    []string `placeholder:"FORMAT:FILE" sep:"none" help:"Also replay a published trace (bench name: trace): azure-llm, azure-functions, azure-minutes, alibaba, pai or disb, a colon, the file."`
	Out      string   `shard:"here" default:"out/bench-suite" help:"Folder for summary.json, report.html, pictures, and the runs so far."`
	Fresh    bool     `help:"Discard the runs that an interrupted bench left in the folder."`
	JSON     bool     `name:"json" shard:"here" help:"Print JSON."`
	cli.Shards

	claims func(*fluid.Suite) error // judges the claims, and may compute more runs; nil: no claims are judged
}

func (*benchSuiteCmd) Help() string {
	return `Runs every policy of the registry at the published settings and at others, in virtual time,
over latency tables from the compiler and the law of cycles, and prints the numbers beside the
published ones. An interrupted bench goes on where it was when it is called again; one in shards keeps its
runs in the folder of --resume instead.

Example:
  sluice bench table2 fig7 fig8 fig9
  sluice bench all --seeds 1,2,3,4,5 --workers 2 --out out/all
  sluice bench table2 --policies lazy,lazy-idle,fluid --json
  sluice bench --trace azure-llm:AzureLLMInferenceTrace_conv.csv`
}

type suiteDoc struct {
	cli.Header
	Benches   []string                      `json:"benches"`
	Seeds     []uint64                      `json:"seeds"`
	N         int                           `json:"n"`
	Bandwidth map[string]map[string]float64 `json:"bandwidth_gb_s"` // fluid.Bandwidths
	Policies  []string                      `json:"policies"`
	Rows      []frame.Row                   `json:"rows"`
}

func (c *benchSuiteCmd) Run(e *cli.Env) error {
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	suite, benches, err := c.run(e, shards)
	if err != nil || suite == nil {
		return err
	}
	doc := &suiteDoc{
		Header: cli.NewHeader("sluice-bench-suite/1", c.Seeds[0], "estimated"), Seeds: c.Seeds, N: c.N,
		Bandwidth: fluid.Bandwidths(), Policies: c.Policies, Rows: suite.Rows,
	}
	if len(c.Policies) == 0 {
		doc.Policies = fluid.Policies()
	}
	for i := range benches {
		doc.Benches = append(doc.Benches, benches[i].Name)
	}
	if err := c.page(doc, suite, benches); err != nil {
		return err
	}
	return e.Print(doc, c.Out, c.JSON, func(w io.Writer) error { return c.print(w, doc, benches) })
}

// run simulates selected policies in selected settings.
func (c *benchSuiteCmd) run(e *cli.Env, shards *shard.Run) (*fluid.Suite, []fluid.Bench, error) {
	cfg, err := c.chosen()
	if err != nil {
		return nil, nil, err
	}
	cfg.Models, cfg.Shards = newModelStore(e, c.Build, c.Data), shards
	if shards == nil {
		store, err := c.store()
		if err != nil {
			return nil, nil, err
		}
		defer store.Close()
		cfg.Store = store
	}
	suite, err := c.suite(e, cfg)
	if err == nil && c.claims != nil {
		err = c.claims(suite)
	}
	return suite, cfg.Benches, cli.Coded(runCode(err), err)
}

// chosen returns the benches and policies selected on the command line.
func (c *benchSuiteCmd) chosen() (cfg fluid.SuiteConfig, err error) {
	if err := checkSeeds(c.Seeds); err != nil {
		return cfg, err
	}
	traces, names, err := c.traces(c.Seeds[0])
	if err != nil {
		return cfg, cli.Coded(cli.Input, err)
	}
	var benches []fluid.Bench
	if len(c.Names) > 0 || len(names) == 0 && c.claims == nil {
		if benches, err = fluid.Select(c.Names); err != nil {
			return cfg, cli.Coded(cli.Usage, err)
		}
	}
	if len(names) > 0 {
		benches = append(benches, fluid.TraceBench(names))
	}
	if len(c.Policies) > 0 {
		if benches, err = fluid.Only(benches, c.Policies); err != nil {
			return cfg, cli.Coded(cli.Usage, err)
		}
	}
	if c.N < 1 || c.Workers < 1 || c.Out == "" {
		return cfg, cli.Errorf(cli.Usage, "--n %d, --workers %d, --out %q: expected at least 1, and a folder", c.N, c.Workers, c.Out)
	}
	return fluid.SuiteConfig{Benches: benches, Seeds: c.Seeds, N: c.N, Workers: c.Workers, Traces: traces}, nil
}

// runsFile is the file of the runs in the folder of --out.
const runsFile = "runs.jsonl"

// store opens the file with the runs of earlier commands. It removes old results, which are written again at the end.
func (c *benchSuiteCmd) store() (*fluid.Store, error) {
	program, err := cli.ProgramHash()
	if err != nil {
		return nil, err
	}
	old := []string{"summary.json", "report.html"}
	if c.Fresh {
		old = append(old, runsFile)
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(c.Out, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove an old result: %w", err)
		}
	}
	return fluid.OpenStore(filepath.Join(c.Out, runsFile), program)
}

// suite computes the runs that are missing in the store.
func (c *benchSuiteCmd) suite(e *cli.Env, cfg fluid.SuiteConfig) (*fluid.Suite, error) {
	path := filepath.Join(c.Out, runsFile)
	if cfg.Store != nil && cfg.Store.Loaded() > 0 {
		e.Log.Info("going on", "runs_kept", cfg.Store.Loaded(), "path", path)
	}
	set, done := e.Progress("bench "+strings.Join(c.Names, " "), cfg.Runs())
	defer done()
	cfg.Progress = func(n, _ int) { set(n) }
	suite, err := fluid.RunSuite(e.Ctx, cfg)
	if e.Ctx.Err() != nil && cfg.Store != nil {
		e.Log.Warn("interrupted; the runs so far are kept, the same command goes on with them", "path", path)
	}
	return suite, err
}

// traces reads the files of --trace. The name of a trace contains the file's name and a hash of its arrivals, so that
// saved runs of another file are not used.
func (c *benchSuiteCmd) traces(seed uint64) (map[string][]int64, []string, error) {
	var names []string
	traces := map[string][]int64{}
	for _, t := range c.Trace {
		format, path, _ := strings.Cut(t, ":")
		tr, err := load.TraceFile(format, path, seed)
		if err != nil {
			return nil, nil, err
		}
		times := tr.Times()
		h := sha256.New()
		for _, at := range times {
			fmt.Fprintln(h, at)
		}
		name := fmt.Sprintf("%s-%x", strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), h.Sum(nil)[:4])
		names, traces[name] = append(names, name), times
	}
	return traces, names, nil
}
