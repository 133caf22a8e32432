// sluice reproduce prints a publication's claims, each with this project's value, a verdict and the verdict's cause.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/fluid"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/seeb"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/report"
)

type reproduceCmd struct {
	Paper     string        `arg:"" enum:"fluid,seeb,reef,strait,jellyfish,all" help:"fluid, seeb, reef, strait, jellyfish, or all."`
	Seeds     []uint64      `default:"1,2,3,4,5,6" help:"Seeds; intervals are over them. If all give the same value, six are needed for a verdict."`
	Time      time.Duration `help:"Virtual time of a run (default: reef 400ms, seeb 30s, strait 4s, jellyfish 30s). Not for fluid."`
	N         int           `default:"20000" short:"n" help:"fluid: requests a run."`
	Instances int           `default:"100" help:"jellyfish: random instances of each size for the approximation ratio."`
	Only      string        `placeholder:"PREFIX" help:"Only claims whose name begins with this (fig6, table3), without further numbers."`
	With      string        `placeholder:"KEY[=X]" help:"Run with one assumed parameter times a factor X, with a whole number X in place of it (seeb's most), or with a switch, such as the causes of failing claims name; a wrong one lists them."`
	Vary      bool          `help:"Halve and double every assumed parameter (long; not for fluid)."`
	Workers   int           `default:"2" help:"fluid, jellyfish, reef, strait: runs at the same time; the results do not depend on it."`
	Trace     string        `placeholder:"FORMAT:FILE" help:"reef: a workload of DISB (disb:REAL.json) in place of the random one of the car. seeb: arrivals (pai:FILE for PAI's table of tasks, with the publication's filters) in place of the bursts. strait: rates of the load 'trace' (azure-minutes:FILE)."`
	GPU       []string      `name:"gpu" placeholder:"NAME=FILE.yaml" help:"reef (mi50, gv100), seeb (rtx3090): your own parameters of a GPU."`
	Begin     string        `placeholder:"FILE" help:"strait: predictor.json of an earlier run, with which every predictor begins (default: a new model)."`
	Link      []string      `placeholder:"FILE" sep:"none" help:"jellyfish: also serve over this link: a file with one Mbit/s value a line, one a second, or pcap:PORT:FILE, the rates of a capture's requests to a port."`
	Build     string        `default:"build" help:"fluid: folder for what is built once." env:"SLUICE_BUILD"`
	Out       string        `default:"out/reproduce" help:"Folder for summary.json and report.html, in a folder of the publication's name."`
	Check     bool          `help:"Exit with 1 if a claim does not hold."`
	JSON      bool          `name:"json" help:"Print JSON."`
}

func (*reproduceCmd) Help() string {
	return `Reproduces the tables and figures of a publication by simulation. Each claim is printed with the published value,
our mean with its 95 % interval over the seeds, and the verdict: holds (the interval is within the claim's bounds),
fails (beyond them), undecided (both) or not-tried. A claim that fails has a cause: why ours differs, and
what it gives with what is suspected changed (--with); of the other verdicts the cause says why there is none.

If all seeds give the same value there is no interval, and a sign test decides; it needs six seeds.

Processor time with the defaults, extrapolated from a fiftieth and less of it: seeb some 6 minutes (7.8 s for one seed
of 3 s), reef 6 (7.1 s for one seed of 50 ms), strait 16 at most (16.5 s for one seed of 400 ms, its profiles in it), jellyfish 10
at most (9.7 s for one seed of 3 s and 5 instances). Of an older day: fluid some 7 minutes. With one seed or two,
or shorter runs, it is a smoke run: it shows that all runs, and decides little.

Example:
  sluice reproduce reef --time 100ms --seeds 1,2
  sluice reproduce strait --only fig7 --begin out/reproduce/strait/predictor.json
  sluice reproduce jellyfish --link train.txt --json
  sluice reproduce reef --with programs/fill=0.5 --only fig15-16/gv100 --time 100ms --seeds 1,2
  sluice reproduce seeb --vary --time 8s --seeds 1`
}

type reproducedDoc struct {
	cli.Header
	Paper   string            `json:"paper"`
	Seeds   []uint64          `json:"seeds"`
	With    string            `json:"with,omitempty"`
	TimeNs  int64             `json:"time_ns"` // length of a run; 0: a run is limited by its number of requests
	N       int               `json:"n,omitempty"`
	GPUs    map[string]string `json:"gpus,omitempty"` // parameter files that replace the built-in ones
	Trace   *traceDoc         `json:"trace"`          // null: random arrivals
	Begin   string            `json:"begin"`          // strait: initial checkpoint of every predictor; "": none
	Rows    []frame.Statement `json:"rows"`
	Numbers []frame.Row       `json:"numbers"`

	Fits    map[string]*seeb.Fit `json:"latency_models,omitempty"` // seeb: latency model by network, in ns
	Open    seeb.Open            `json:"open,omitempty"`           // seeb: values that the publication does not contain
	Assumed *edge.Assumed        `json:"assumed,omitempty"`        // jellyfish
	Ratios  []edge.Ratio         `json:"ratios,omitempty"`

	sections []report.Section
	save     *predict.Model
}

// traceDoc is the published trace of a load.
type traceDoc struct {
	Format  string   `json:"format"`
	File    string   `json:"file"`
	SHA256  string   `json:"sha256"`
	Decides []string `json:"decides,omitempty"` // strait: claims about this trace; all other claims are about random loads
}

// paper defines how a publication is reproduced.
type paper struct {
	name  string
	time  time.Duration // default length of a run
	trace string        // supported trace format
	gpus  []string
	run   func(*reproduceCmd, *cli.Env, frame.Config, *given, *reproducedDoc) (*frame.Result, error)
}

// given contains the data of the files on the command line.
type given struct {
	trace *load.Trace
	files map[string]*params.File
	begin *predict.Model
}

func papers() []paper {
	return []paper{
		{name: "fluid", run: (*reproduceCmd).fluid},
		{name: "seeb", time: 30 * time.Second, trace: "pai", gpus: []string{seeb.GPU}, run: (*reproduceCmd).seeb},
		{name: "reef", time: 400 * time.Millisecond, trace: "disb", gpus: reef.GPUs(), run: (*reproduceCmd).reef},
		{name: "strait", time: 4 * time.Second, trace: "azure-minutes", run: (*reproduceCmd).strait},
		{name: "jellyfish", time: 30 * time.Second, run: (*reproduceCmd).jellyfish},
	}
}

func (c *reproduceCmd) Run(e *cli.Env) error {
	if err := checkSeeds(c.Seeds); err != nil {
		return err
	}
	if c.Time != 0 && (c.Time < time.Millisecond || c.Time > 24*time.Hour) {
		return cli.Errorf(cli.Usage, "--time %s: 1ms to 24h are expected", c.Time)
	}
	if c.N < 1 || c.Instances < 1 || c.Instances > 10_000 || c.Workers < 1 || c.Out == "" {
		return cli.Errorf(cli.Usage, "-n %d, --instances %d, --workers %d, --out %q: at least 1, 1 to 10000, at least 1 and a folder are expected", c.N, c.Instances, c.Workers, c.Out)
	}
	var docs []*reproducedDoc
	open := 0
	for _, p := range papers() {
		if c.Paper != p.name && c.Paper != "all" {
			continue
		}
		doc, err := c.one(e, &p)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
		open += len(slices.DeleteFunc(slices.Clone(doc.Rows), func(s frame.Statement) bool { return s.Verdict == frame.Holds }))
	}
	if c.JSON {
		var doc any = docs[0]
		if c.Paper == "all" {
			doc = struct {
				cli.Header
				Papers []*reproducedDoc `json:"papers"`
			}{cli.NewHeader("sluice-reproduce-all/1", c.Seeds[0], "simulated"), docs}
		}
		if err := e.Output(doc, "", true); err != nil {
			return err
		}
	}
	if c.Check && open > 0 {
		return cli.Errorf(cli.Check, "%d claims do not hold, or are not decided", open)
	}
	return nil
}

// one reproduces a single publication.
func (c *reproduceCmd) one(e *cli.Env, p *paper) (*reproducedDoc, error) {
	length := cmp.Or(c.Time, p.time)
	label := map[bool]string{true: "estimated", false: "simulated"}[p.name == "fluid"]
	doc := &reproducedDoc{Header: cli.NewHeader("sluice-reproduce/1", c.Seeds[0], label), Paper: p.name, Seeds: c.Seeds, With: c.With, TimeNs: length.Nanoseconds(), Begin: c.Begin}
	g, err := c.given(p, doc)
	if err != nil {
		return nil, err
	}
	with, err := frame.ChangeOf(c.With)
	if err != nil || with != nil && c.Vary {
		return nil, cli.Errorf(cli.Usage, "--with %s: KEY, KEY=FACTOR or KEY=NUMBER is expected, without --vary", c.With)
	}
	cfg := frame.Config{
		With:  with,
		Seeds: c.Seeds, Ns: max(1, length.Nanoseconds()), Only: c.Only, Vary: c.Vary, Workers: c.Workers,
		Tell: func(what string) { e.Log.Info("reproduce "+p.name, "at", what) },
	}
	r, err := p.run(c, e, cfg, g, doc)
	switch {
	case errors.Is(err, strait.ErrUntraced), errors.Is(err, frame.ErrOnly), errors.Is(err, frame.ErrWith):
		return nil, cli.Coded(cli.Usage, err)
	case errors.Is(err, reef.ErrWorkload), errors.Is(err, links.ErrTrace):
		return nil, cli.Coded(cli.Input, err)
	case err != nil:
		return nil, cli.Coded(runCode(err), err)
	}
	doc.Rows, doc.Numbers = r.Statements, r.Rows
	folder, files := filepath.Join(c.Out, p.name), "report.html, summary.json"
	if doc.save != nil {
		if err := cli.WriteFile(filepath.Join(folder, "predictor.json"), doc.save.Save); err != nil {
			return nil, err
		}
		files += ", predictor.json"
	}
	if err := c.page(doc, folder); err != nil {
		return nil, err
	}
	if err := e.Output(doc, folder, false); err != nil || c.JSON {
		return doc, err
	}
	if err := frame.Print(e.Stdout, doc.Rows); err != nil {
		return doc, err
	}
	_, err = fmt.Fprintf(e.Stdout, "written to %s: %s\n", filepath.ToSlash(folder), files)
	return doc, err
}

// page writes report.html with the claims and all results.
func (c *reproduceCmd) page(doc *reproducedDoc, folder string) error {
	t := report.PageTable{Caption: frame.Count(doc.Rows), Strong: map[int]bool{}, Table: report.Table{
		Head: []string{"claim", "source", "what is said", "published", "ours", "verdict", "", "cause", "evidence"},
	}}
	for i := range doc.Rows {
		s := &doc.Rows[i]
		x := s.Cells()
		t.Strong[i] = s.Verdict == frame.Holds
		t.Table.Add(s.ID, s.Source, s.Text, strings.Trim(x[3], "()"), x[1]+" "+x[2], s.Verdict, x[5], s.Cause, s.Evidence)
	}
	page := report.Page{
		Title:    "sluice reproduce " + doc.Paper,
		Lead:     []string{fmt.Sprintf("Seeds %s; intervals are 95 %% over seeds. Everything here is %s.", strings.Trim(fmt.Sprint(doc.Seeds), "[]"), doc.Label)},
		Sections: append([]report.Section{{ID: "claims", Title: "Claims", Tables: []report.PageTable{t}}}, doc.sections...),
	}
	if doc.sections == nil {
		page.Sections = append(page.Sections, report.Section{ID: "numbers", Title: "Numbers", Tables: lawTables(doc.Numbers, nil)})
	}
	return cli.WriteFile(filepath.Join(folder, "report.html"), page.Write)
}

// given reads the files of the command line. A file that this publication does not use is a usage error.
func (c *reproduceCmd) given(p *paper, doc *reproducedDoc) (*given, error) {
	g := &given{files: map[string]*params.File{}}
	for _, x := range []struct {
		set        bool
		flag, only string
	}{{c.Begin != "", "--begin", "strait"}, {len(c.Link) > 0, "--link", "jellyfish"}} {
		if x.set && p.name != x.only {
			return nil, cli.Errorf(cli.Usage, "%s is read by reproduce %s, not by reproduce %s", x.flag, x.only, c.Paper)
		}
	}
	if c.Trace != "" {
		format, file, ok := strings.Cut(c.Trace, ":")
		if !ok {
			return nil, cli.Errorf(cli.Usage, "--trace %q: FORMAT:FILE is expected; formats are %v", c.Trace, load.Formats())
		}
		if format != p.trace {
			return nil, cli.Errorf(cli.Usage, "--trace %s: reproduce %s reads traces of the format %q", c.Trace, c.Paper, p.trace)
		}
		var err error
		if g.trace, err = load.TraceFile(format, file, c.Seeds[0]); err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		sum, err := files.Hash(file)
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		doc.Trace = &traceDoc{Format: g.trace.Format, File: file, SHA256: sum}
	}
	for _, x := range c.GPU {
		name, path, ok := strings.Cut(x, "=")
		if !ok || !params.IsFile(path) || g.files[name] != nil {
			return nil, cli.Errorf(cli.Usage, "--gpu %s: NAME=FILE.yaml is expected, a name once", x)
		}
		if !slices.Contains(p.gpus, name) {
			return nil, cli.Errorf(cli.Usage, "--gpu %s: reproduce %s runs on no GPU of this name", name, c.Paper)
		}
		f, err := params.Of(path)
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		if g.files[name] = f; doc.GPUs == nil {
			doc.GPUs = map[string]string{}
		}
		doc.GPUs[name] = path
	}
	var err error
	if c.Begin != "" {
		g.begin, err = learnt(c.Begin)
	}
	return g, err
}

func learnt(path string) (*predict.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "read a checkpoint of a predictor: %w", err)
	}
	defer f.Close()
	m, err := predict.Load(path, f)
	return m, cli.Coded(cli.Input, err)
}

func (c *reproduceCmd) fluid(e *cli.Env, cfg frame.Config, _ *given, doc *reproducedDoc) (*frame.Result, error) {
	if doc.TimeNs, doc.N = 0, c.N; cfg.Vary {
		return nil, cli.Errorf(cli.Usage, "--vary is not read by reproduce fluid: sluice bench sensitivity varies bandwidth, batch and SLO")
	}
	r := &frame.Result{}
	bench := benchSuiteCmd{Seeds: c.Seeds, N: c.N, Workers: c.Workers, Build: c.Build, Out: filepath.Join(c.Out, "fluid")}
	bench.claims = func(s *fluid.Suite) (err error) {
		r.Rows = s.Rows
		r.Statements, err = s.Statements(e.Ctx, cfg)
		return err
	}
	if cfg.Only == "" { // with --only, just the runs for the claims exist
		bench.Names = fluid.Reproduced()
	}
	suite, benches, err := bench.run(e, nil)
	if err != nil {
		return nil, err
	}
	doc.sections, err = bench.sections(suite, benches)
	return r, err
}

func (*reproduceCmd) reef(e *cli.Env, cfg frame.Config, g *given, _ *reproducedDoc) (*frame.Result, error) {
	return reef.Run(e.Ctx, reef.Config{Config: cfg, Files: g.files, Real: g.trace})
}

func (*reproduceCmd) seeb(e *cli.Env, cfg frame.Config, g *given, doc *reproducedDoc) (*frame.Result, error) {
	s := seeb.Config{Config: cfg, File: g.files[seeb.GPU]}
	if g.trace != nil {
		s.PAI = g.trace.Times()
	}
	b, err := seeb.Run(e.Ctx, s)
	if err != nil {
		return nil, err
	}
	doc.Fits, doc.Open = b.Fits, b.Open
	return &b.Result, nil
}

func (*reproduceCmd) strait(e *cli.Env, cfg frame.Config, g *given, doc *reproducedDoc) (*frame.Result, error) {
	b, err := strait.RunBench(e.Ctx, strait.Config{Config: cfg, Trace: g.trace, Model: g.begin})
	if err != nil {
		return nil, err
	}
	if doc.save = b.Model; doc.Trace != nil {
		doc.Trace.Decides = b.Traced
	}
	return &b.Result, nil
}

func (c *reproduceCmd) jellyfish(e *cli.Env, cfg frame.Config, _ *given, doc *reproducedDoc) (*frame.Result, error) {
	if c.Time != 0 && c.Time < time.Second {
		return nil, cli.Errorf(cli.Usage, "--time %s: links change by the second, 1s at least is expected", c.Time)
	}
	assumed := edge.Assume()
	b, err := edge.RunBench(e.Ctx, edge.Config{Config: cfg, Instances: c.Instances, Traces: c.Link, Assumed: assumed})
	if err != nil {
		return nil, err
	}
	doc.Assumed, doc.Ratios = &assumed, b.Ratios
	return &b.Result, nil
}
