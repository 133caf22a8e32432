package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

type checkCmd struct {
	What    string   `arg:"" placeholder:"DIR|NAME|FILE.yaml" help:"Folder that dse export wrote, or a configuration."`
	Board   string   `placeholder:"NAME|FILE.yaml" help:"Board of a configuration (default: what dse export wrote beside it, or the board of its name, or zc706)."`
	Network []string `default:"resnet50,mobilenetv2" placeholder:"NAME" help:"Networks whose layers are timed, where they fit."`
	recipe.Import
	Batch   []int   `default:"1,8" help:"Batch sizes of their layers."`
	N       int     `name:"n" default:"240" help:"Random layers to time."`
	Share   float64 `default:"0.1" help:"Share of the networks' layers to time, drawn by the seed."`
	Longest int64   `default:"200000" help:"Leave out layers of more cycles than this by the law; 0 takes all."`
	Seed    uint64  `default:"1" help:"Seed of the random layers and of the sample."`
	NoSynth bool    `name:"no-synth" help:"Leave yosys out: cycles only."`
	Out     string  `placeholder:"FILE.json" help:"Also write the figures to a file."`
}

func (checkCmd) Help() string {
	return `Build a design with Verilator (without MACs: same cycles) and yosys, time layers and count cells, and hold
the estimates to their bands: DSPs and memories are exact, LUTs and registers have the band of their
law, cycles that of the layers in dse/counted. A band that was found on other RTL than
hw/rtl is called stale and judges nothing. Run it in the repository.

Exit codes: 1 where a number is outside its band, 5 where Verilator or yosys is missing.

Example: dse export --board zc706 --point 64,4,8 --out out/export && dse check out/export`
}

// Verdicts about a value.
const (
	inside       = "inside"
	outside      = "outside"
	stale        = "stale"          // the band was measured on other RTL
	uncalibrated = "not calibrated" // no band exists
	unmeasured   = "not measured"
	undecided    = "too few layers to tell" // outside the band, but by less than the uncertainty of the mean
)

// figure contains an estimate and the measured value.
type figure struct {
	Name     string   `json:"name"`
	Estimate float64  `json:"estimate"`
	Measured float64  `json:"measured"`
	Error    float64  `json:"error"` // error of the estimate, relative to the measured value
	Band     float64  `json:"band"`  // limit for Error in both directions
	CI95     *float64 `json:"ci95"`  // half of the 95 % confidence interval of a mean Error; null for a single value
	Verdict  string   `json:"verdict"`
	How      string   `json:"how"` // simulated, synthesised
}

type checkedDoc struct {
	cli.Header
	Config      string          `json:"config"`
	Design      configs.Design  `json:"design"`
	DesignHash  string          `json:"design_hash"`
	Family      string          `json:"family"`
	Calibration string          `json:"calibration"`
	Figures     []figure        `json:"figures"`
	Cycles      counted.Summary `json:"cycles"`
	Worst       []counted.Layer `json:"worst"`
	Met         bool            `json:"met"`   // no value is outside its band
	Stale       []string        `json:"stale"` // names of values without a valid band
}

// Run builds a design, measures it, and compares the estimates with the measured values.
func (c *checkCmd) Run(e *cli.Env) error {
	if err := checkSample(c.N, c.Share, c.Batch); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if info, err := os.Stat("hw/rtl"); err != nil || !info.IsDir() {
		return fmt.Errorf("check: hw/rtl is not here: run it in the repository's root")
	}
	config, board, err := c.find()
	if err != nil {
		return err
	}
	d, err := configs.Load(config)
	if err != nil {
		return err
	}
	doc := checkedDoc{
		Header: newHeader("check", c.Seed), Config: config, Design: d, DesignHash: fmt.Sprintf("%016x", d.Hash()),
		Family: board.Family, Calibration: calibration(board.Family, d.Int8(), d), Stale: []string{},
	}
	doc.Label = "simulated"
	if err := c.cycles(ctx, e, d, &doc); err != nil {
		return err
	}
	if !c.NoSynth {
		doc.Label = "simulated, synthesised"
		if err := c.resources(ctx, e, board, d, &doc); err != nil {
			return err
		}
	}
	doc.judge()
	if err := e.Document(doc, c.Out, e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		if err := doc.print(e.Stdout); err != nil {
			return err
		}
	}
	if !doc.Met {
		return cli.Told(cli.Check)
	}
	return nil
}

// find returns the name or file of the configuration, and its board.
func (c *checkCmd) find() (string, boards.Board, error) {
	info, err := os.Stat(c.What)
	if err != nil || !info.IsDir() {
		d, err := configs.Load(c.What)
		if err != nil {
			return "", boards.Board{}, err
		}
		b, err := boardOf(c.What, d, c.Board)
		if b != nil || err != nil {
			return c.What, *cmp.Or(b, new(boards.Board)), err
		}
		own, err := boards.Load("zc706")
		return c.What, own, err
	}
	files, err := filepath.Glob(filepath.Join(c.What, "*.json"))
	if err != nil {
		return "", boards.Board{}, err
	}
	config := ""
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", boards.Board{}, err
		}
		var doc struct {
			Schema string         `json:"schema"`
			Design configs.Design `json:"design"`
		}
		if json.Unmarshal(text, &doc) != nil || doc.Schema != newHeader("export", 0).Schema {
			continue
		}
		if config != "" {
			return "", boards.Board{}, fmt.Errorf("%s: %w: more than one design was exported there; name one's file NAME.yaml", c.What, errExport)
		}
		// the configuration is in the folder of the board file, even if the folder was moved
		config = strings.TrimSuffix(f, ".json") + ".yaml"
		d, err := configs.Load(config)
		if err != nil {
			return "", boards.Board{}, err
		}
		if d != doc.Design {
			return "", boards.Board{}, fmt.Errorf("%s: %w: it is not the design of %s", config, errExport, f)
		}
	}
	if config == "" {
		return "", boards.Board{}, fmt.Errorf("%s: %w: no NAME.json of dse export", c.What, errExport)
	}
	d, err := configs.Load(config)
	if err != nil {
		return "", boards.Board{}, err
	}
	b, err := boardOf(config, d, c.Board)
	if b == nil && err == nil {
		err = fmt.Errorf("%s: %w: the design names no board", config, errExport)
	}
	return config, *cmp.Or(b, new(boards.Board)), err
}

// cycles builds the RTL without MACs and measures the time of layers on it.
func (c *checkCmd) cycles(ctx context.Context, e *cli.Env, d configs.Design, doc *checkedDoc) error {
	if _, err := script(ctx, e.Stderr, "sim/build.sh", doc.Config, "--stub"); err != nil {
		return err
	}
	v := validateCmd{
		Network: c.Network, Import: c.Import, Config: []string{doc.Config}, Batch: c.Batch, N: c.N, Share: c.Share, Longest: c.Longest, Seed: c.Seed,
	}
	all, err := v.design(ctx, e, nil, d)
	if err != nil {
		return err
	}
	doc.Cycles = counted.Summarise(all)
	counted.Sort(all)
	doc.Worst = all[:min(len(all), 5)]
	kinds, err := counted.Kinds(all)
	if err != nil {
		return err
	}
	for i := range kinds {
		k := &kinds[i]
		if k.Int8 != d.Int8() || len(k.Layers) == 0 && len(all) > 0 {
			continue // no network fits, or no random layers were requested
		}
		mean := figure{Name: "cycles, mean of " + k.What, Band: k.Band.Mean, How: "simulated", Verdict: unmeasured}
		worst := figure{Name: "cycles, worst of " + k.What, Band: k.Band.Worst, How: "simulated", Verdict: unmeasured}
		if len(k.Layers) > 0 {
			for _, l := range k.Layers {
				mean.Estimate += float64(l.Law)
				mean.Measured += float64(l.Cycles)
			}
			s := counted.Summarise(k.Layers)
			mean.Error, worst.Error = s.Mean, s.Worst
			if l := counted.Worst(k.Layers); l != nil {
				worst.Estimate, worst.Measured = float64(l.Law), float64(l.Cycles)
			}
			mean.Verdict, mean.CI95 = meanVerdict(k.Layers, k.Band.Mean)
			worst.Verdict = verdict(s.Worst <= k.Band.Worst)
		}
		doc.Figures = append(doc.Figures, mean, worst)
	}
	return nil
}

func verdict(in bool) string {
	if in {
		return inside
	}
	return outside
}

// meanVerdict compares the mean error of layers with a band. The mean of 20 random layers is uncertain by half of its
// value. Therefore a mean outside the band by less than this uncertainty is undecided, and needs more layers.
func meanVerdict(layers []counted.Layer, band float64) (string, *float64) {
	shares := make([]float64, len(layers))
	for i := range layers {
		shares[i] = math.Abs(layers[i].Share())
	}
	mean, half := frame.Interval(shares)
	switch {
	case mean <= band:
		return inside, half
	case half == nil || mean-*half <= band:
		return undecided, half
	}
	return outside, half
}

// resources synthesises the design and counts its resources.
func (c *checkCmd) resources(ctx context.Context, e *cli.Env, b boards.Board, d configs.Design, doc *checkedDoc) error {
	_, refused := script(ctx, e.Stderr, "hw/syn/synth.sh", doc.Config, "--family", b.Family)
	if errors.Is(refused, errTool) || ctx.Err() != nil {
		return refused
	}
	folder := os.Getenv("SLUICE_SYN")
	if folder == "" {
		folder = filepath.Join("build", "syn")
	}
	used, err := cells(filepath.Join(folder, d.Name+"-"+b.Family))
	if err != nil {
		return errors.Join(refused, err)
	}
	if refused != nil {
		// the counts are reported even if the device is too small or a memory is in LUTs
		doc.Figures = append(doc.Figures, figure{Name: "netlist", Verdict: outside, How: "refused by hw/syn, which said why"})
	}
	if err := syn.Part(b).Fits(used); err != nil && refused == nil {
		doc.Figures = append(doc.Figures, figure{Name: "netlist", Verdict: outside, How: "more than the board has: " + strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
	est := resource.Of(b, d)
	_, err = resource.Calibration(b.Family, ".", d)
	doc.Figures = append(doc.Figures,
		held("DSP", float64(est.DSP), float64(used.DSP), 0, nil),
		held("BRAM36", est.BRAM36, used.BRAM(), 0, nil),
		held("URAM", float64(est.URAM), float64(used.URAM), 0, nil),
		held("LUT", float64(est.LUT.Value), float64(used.LUTs()), est.LUT.Band, err),
		held("FF", float64(est.FF.Value), float64(used.FF), est.FF.Band, err),
	)
	return nil
}

// cells counts the cells of the netlist in a folder of hw/syn/synth.sh. A folder has a hash only after yosys has ended.
func cells(dir string) (syn.Resources, error) {
	if _, err := os.Stat(filepath.Join(dir, "hash")); err != nil {
		return syn.Resources{}, fmt.Errorf("hw/syn/synth.sh made no netlist: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "stat.txt"))
	if err != nil {
		return syn.Resources{}, err
	}
	return syn.Parse(string(text))
}

// held compares an estimate with its band. The parameter calibration is an error about this band, or nil.
func held(name string, estimate, measured, band float64, calibration error) figure {
	f := figure{Name: name, Estimate: estimate, Measured: measured, Band: band, How: "synthesised"}
	switch {
	case measured != 0:
		f.Error = estimate/measured - 1
	case estimate != 0:
		f.Error = 1
	}
	switch {
	case errors.Is(calibration, resource.ErrStale):
		f.Verdict = stale
	case calibration != nil || band >= 1:
		f.Verdict = uncalibrated
	default:
		f.Verdict = verdict(math.Abs(f.Error) <= band+1e-12)
	}
	return f
}

func (d *checkedDoc) judge() {
	d.Met = true
	for _, f := range d.Figures {
		switch f.Verdict {
		case outside, unmeasured, undecided:
			d.Met = false
		case stale, uncalibrated:
			d.Stale = append(d.Stale, f.Name)
		}
	}
}

func (d *checkedDoc) print(out io.Writer) error {
	fmt.Fprintf(out, "%s: <%d, %d, %d>, design hash %s, %d layers timed; %s\n", d.Config, d.Design.TR, d.Design.TP, d.Design.TC, d.DesignHash, d.Cycles.N, d.Calibration)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\testimate\tmeasured\terror\tband\t\t\n")
	for _, f := range d.Figures {
		band := fmt.Sprintf("%.1f %%", 100*f.Band)
		switch {
		case f.Band == 0:
			band = "exact"
		case f.Verdict == stale || f.Verdict == uncalibrated:
			band = "-"
		}
		off := fmt.Sprintf("%.2f %%", 100*f.Error)
		if f.CI95 != nil {
			off = fmt.Sprintf("%.2f ± %.2f %%", 100*f.Error, 100**f.CI95)
		}
		fmt.Fprintf(w, "%s\t%.10g\t%.10g\t%s\t%s\t%s\t%s\n", f.Name, f.Estimate, f.Measured, off, band, f.Verdict, f.How)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := "every number that has a band is inside it"
	if !d.Met {
		text = "NOT every number is inside its band"
		if slices.ContainsFunc(d.Figures, func(f figure) bool { return f.Verdict == undecided }) {
			text += "; of a mean of too few layers more would tell (--n, --share)"
		}
	}
	if len(d.Stale) > 0 {
		text += "; no band holds for " + strings.Join(d.Stale, ", ")
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// errTool reports a missing program.
var errTool = errors.New("a tool is missing")

// script runs one of the repository's scripts and returns its output.
func script(ctx context.Context, stderr io.Writer, name string, args ...string) (string, error) {
	fmt.Fprintf(stderr, "dse: %s %s\n", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == cli.Tool:
		return "", fmt.Errorf("%s: %w", name, errTool)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
