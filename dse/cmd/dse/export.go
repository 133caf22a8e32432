package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

type exportCmd struct {
	Board string `placeholder:"NAME|FILE.yaml" help:"Board: ${boards}, or a file (default: that of the sweep)."`
	Point string `xor:"what" required:"" placeholder:"TR,TP,TC" help:"The grid's design at <T_R, T_P, T_C>."`
	Sweep string `xor:"what" required:"" placeholder:"FILE.json" help:"The best design of a sweep, as dse sweep --out wrote it."`
	Name  string `placeholder:"NAME" help:"Name of the configuration (default: from the point)."`
	Out   string `required:"" placeholder:"DIR" help:"Folder for NAME.yaml, NAME.board.yaml and NAME.json."`
	place
	spare
}

type exportDoc struct {
	cli.Header
	Config     string             `json:"config"` // configuration file for sim/build.sh and hw/syn/synth.sh
	BoardFile  string             `json:"board_file"`
	Design     configs.Design     `json:"design"`
	DesignHash string             `json:"design_hash"`
	Verilator  []string           `json:"verilator"` // parameters of npu_top
	Macros     []string           `json:"macros"`    // the same parameters for C++
	Resources  resource.Estimate  `json:"resources"`
	Used       map[string]float64 `json:"used"` // used share of the board, by resource
	// Calibration describes the synthesis runs behind the estimates of LUT and FF, and whether their RTL is the RTL of
	// this tree.
	Calibration string   `json:"calibration"`
	Commands    []string `json:"commands"`
	Layers      []any    `json:"layers"` // empty without a sweep
	Infeasible  []string `json:"infeasible"`
}

// errExport is wrapped by errors about designs that cannot be exported.
var errExport = errors.New("nothing to export")

// maxSweepFile is the maximum size of a sweep's file in bytes.
const maxSweepFile = 256 << 20

// Run writes the files of a design that simulation, synthesis and bitstream builds need.
func (c *exportCmd) Run(e *cli.Env) error {
	d, b, why, err := c.design()
	if err != nil {
		return err
	}
	if c.Name != "" {
		d.Name = c.Name
		var wrong *configs.FieldError
		if err := d.Validate(); errors.As(err, &wrong) && wrong.Field == "name" {
			return usage("--name: %v", wrong)
		}
	}
	if slices.Contains(configs.Names(), d.Name) { // its build would overwrite the build of a shipped configuration
		return usage("--name %s is a configuration of hw/configs, expected another name", d.Name)
	}
	d.Reason = fmt.Sprintf("<%d, %d, %d> of a design space search for the %s", d.TR, d.TP, d.TC, b.Name)
	est := resource.Of(b, d)
	doc := exportDoc{
		Header: newHeader("export", 0), Design: d, DesignHash: fmt.Sprintf("%016x", d.Hash()), Verilator: d.VerilatorParams(),
		Macros: macros(d), Resources: est, Used: est.Utilisation(b), Layers: []any{}, Infeasible: []string{},
	}
	doc.Calibration = calibration(b.Family, d.Int8())
	if err := errors.Join(d.Elaborates(), est.Check(b)); err != nil {
		why = err
	}
	if err := why; err != nil {
		doc.Infeasible = append(doc.Infeasible, strings.Split(err.Error(), "\n")...)
		if err := e.Document(doc, "", e.JSON); err != nil {
			return err
		}
		fmt.Fprintf(e.Stderr, "dse: <%d, %d, %d> is infeasible: %v\n", d.TR, d.TP, d.TC, err)
		return cli.Told(cli.Check)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	doc.Config = filepath.Join(c.Out, d.Name+".yaml")
	doc.BoardFile = filepath.Join(c.Out, d.Name+".board.yaml")
	doc.Commands = following(d, b, doc.Config, c.Out)
	if err := writeConfig(doc.Config, d); err != nil {
		return err
	}
	if err := writeBoard(doc.BoardFile, b); err != nil {
		return err
	}
	if err := e.Document(doc, filepath.Join(c.Out, d.Name+".json"), e.JSON); err != nil || e.JSON {
		return err
	}
	fmt.Fprintf(e.Stdout, "%s: <%d, %d, %d>, design hash %s\n", doc.Config, d.TR, d.TP, d.TC, doc.DesignHash)
	fmt.Fprintf(e.Stdout, "%d DSP, %.1f BRAM36, %d URAM, LUT %v, FF %v (estimated; %s)\n", est.DSP, est.BRAM36, est.URAM, est.LUT, est.FF, doc.Calibration)
	for _, s := range doc.Commands {
		fmt.Fprintln(e.Stdout, " ", s)
	}
	return nil
}

// following returns the commands that build, check and use the exported design.
func following(d configs.Design, b boards.Board, file, dir string) []string {
	config := files.Quoted(file)
	compile := "bin/dse compile --network NAME --config " + config + " --out NAME.sluice"
	build := []string{"sim/build.sh " + config, "sim/build.sh " + config + " --stub"}
	switch {
	case !d.Int8():
		return append(build, fmt.Sprintf("hw/syn/synth.sh %s --family %s", config, b.Family), compile, "bin/dse check "+files.Quoted(filepath.Clean(dir)))
	default: // synth.sh synthesises int8 from other sources (hw/INT8.md), but dse check cannot
		return append(build, compile)
	}
}

// design returns the design to export, its board, and the reason why the grid does not contain the design, or nil.
func (c *exportCmd) design() (d configs.Design, b boards.Board, why, err error) {
	if c.Sweep != "" {
		d, b, err = c.swept()
		return d, b, nil, err
	}
	if c.Board == "" {
		return d, b, nil, usage("--point: --board says on which board")
	}
	if b, err = boards.Load(c.Board); err != nil {
		return d, b, nil, err
	}
	grid, err := c.grid(b)
	if err != nil {
		return d, b, nil, err
	}
	grid.Budget.Margin = c.share(b)
	if err := grid.Check(); err != nil {
		return d, b, nil, cli.Coded(cli.Usage, err)
	}
	var v [3]int
	parts := strings.Split(c.Point, ",")
	if len(parts) != 3 {
		return d, b, nil, usage("--point %q: expected TR,TP,TC", c.Point)
	}
	for i, p := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(p))
		if err != nil || n < 1 || n > 1<<16 {
			return d, b, nil, usage("--point %q: %q is no number in 1..65536", c.Point, p)
		}
		v[i] = n
	}
	d, why = grid.At(v[0], v[1], v[2])
	return d, b, why, nil
}

// swept returns the best design of a sweep, and the board of that sweep. The design is valid only for that board.
func (c *exportCmd) swept() (configs.Design, boards.Board, error) {
	var doc struct {
		Schema string       `json:"schema"`
		Law    string       `json:"law"`
		Device boards.Board `json:"device"`
		Best   struct {
			Point *struct {
				Design configs.Design `json:"design"`
			} `json:"point"`
		} `json:"best"`
	}
	refuse := func(format string, args ...any) (configs.Design, boards.Board, error) {
		return configs.Design{}, boards.Board{}, fmt.Errorf("%s: %w: %w", c.Sweep, errExport, fmt.Errorf(format, args...))
	}
	if c.Template != "" || c.BytesPerCycle != 0 || c.Margin != nil {
		return configs.Design{}, boards.Board{}, usage("--sweep: the design stands as it was found: --template, --bytes-per-cycle and --margin go with --point")
	}
	f, err := os.Open(c.Sweep)
	if err != nil {
		return configs.Design{}, boards.Board{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSweepFile))
	if err != nil {
		return configs.Design{}, boards.Board{}, err
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return refuse("%w", err)
	}
	switch {
	case doc.Schema != newHeader("sweep", 0).Schema:
		return refuse("schema %q is no finished sweep's", doc.Schema)
	case doc.Law != "rtl" || doc.Best.Point == nil:
		return refuse("a sweep by the law %q has no design that can be built", doc.Law)
	}
	d := doc.Best.Point.Design
	if err := errors.Join(d.Elaborates(), doc.Device.Validate()); err != nil {
		return refuse("%w", err)
	}
	if d.Board != doc.Device.Name {
		return refuse("the design is for the board %q, the sweep for %q", d.Board, doc.Device.Name)
	}
	if c.Board != "" {
		b, err := boards.Load(c.Board)
		if err != nil {
			return configs.Design{}, b, err
		}
		if b.Name != doc.Device.Name {
			return refuse("the sweep was for the board %s, --board is %s", doc.Device.Name, b.Name)
		}
		if diff := differences(doc.Device, b); len(diff) > 0 {
			return refuse("the board %s of the sweep and that of --board differ in %s", b.Name, strings.Join(diff, "; "))
		}
	}
	return d, doc.Device, nil
}

// calibration describes the synthesis runs behind the estimates of LUTs and registers. It says if their RTL differs
// from this program's. Runs of the given designs are excluded.
func calibration(family string, int8 bool, of ...configs.Design) string {
	l, err := resource.Calibration(family, "", of...)
	switch {
	case errors.Is(err, resource.ErrStale):
		return "law of LUT and FF fitted on another RTL than hw/rtl: nothing says how far they are off"
	case err != nil:
		return fmt.Sprintf("LUT and FF not calibrated for %s", family)
	}
	text := fmt.Sprintf("LUT and FF fitted on %d runs of yosys; their bands are those of %d other runs (whole NPUs: %d; small designs are farther off)", l.Fitted, l.Held, l.Whole)
	if int8 {
		text += ", none of them of int8, whose LUT and FF have no band"
	}
	return text
}

// macros returns the parameters of a design as -D flags.
func macros(d configs.Design) []string {
	var out []string
	for _, p := range d.VerilatorParams() {
		name, value, _ := strings.Cut(strings.TrimPrefix(p, "-G"), "=")
		if hex, ok := strings.CutPrefix(value, "64'h"); ok {
			value = "0x" + hex + "ull"
		}
		out = append(out, fmt.Sprintf("-DSLUICE_%s=%s", name, value))
	}
	return out
}

// writeConfig writes a configuration, and reads the file again to check it.
func writeConfig(path string, d configs.Design) error {
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	back, err := configs.Parse(path, text)
	if err != nil {
		return err
	}
	if back != d {
		return fmt.Errorf("write %s: it reads back as another design", path)
	}
	return os.WriteFile(path, text, 0o644)
}

func writeBoard(path string, b boards.Board) error {
	text, err := yaml.Marshal(b)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := boards.Parse(path, text); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
