// Command timing estimates the clock of the RTL (package hw/syn/timing). It synthesises units and whole NPUs with
// hw/syn/synth.sh, finds their longest paths with the FPGA part's delay table, and writes out/timing/summary.json. It
// fails if a path exceeds its limits, or is longer than stored in hw/syn/results/timing/figures.json. A stored figure
// of the same RTL, parameters, flow and model is used without a new synthesis.
//
// Exit codes: 0 ok, 1 a path is too long or a figure too low, 2 wrong usage, 3 a file is missing or
// malformed, or -only matches nothing, 5 a tool is missing.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
	"github.com/sluice-npu/sluice/hw/syn/timing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `timing estimates the clock that the RTL reaches: the longest paths of netlists, by a stated table.

  go run ./hw/syn/cmd/timing                             what has changed, units and small
  go run ./hw/syn/cmd/timing -only zc706/weight_feed -paths 3
  go run ./hw/syn/cmd/timing -tops -all                  everything anew, whole NPUs too (hours of CPU)
  go run ./hw/syn/cmd/timing -only my/mine.yaml/run_gen  a unit of a configuration of one's own: printed, held to nothing
  go run ./hw/syn/cmd/timing -tops -all -only zc706/npu_top -nets 2   were all nets twice as long: printed, held to nothing
  go run ./hw/syn/cmd/timing -all -only zc706/gemm_seq -distance zc706   with what distances on its die cost: printed, held to nothing
  go run ./hw/syn/cmd/timing -netlist FILE.json -top MODULE -grade k7-2
  go run ./hw/syn/cmd/timing -netlist FILE.json -top MODULE -registers

`

// synth is the path of the script that synthesises a netlist.
const synth = "hw/syn/synth.sh"

type options struct {
	root, out, only, netlist, top, grade, core string
	distance                                   string
	family                                     string
	all, tops, store, inside, deep, registers  bool
	fill                                       bool
	paths                                      int
	nets, far, every                           float64
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	t := cli.NewFlagTool("timing", usage, stderr)
	t.StringVar(&o.root, "root", ".", "root of the repository")
	t.StringVar(&o.out, "out", "out/timing", "`folder` for summary.json, absolute or from the root; empty: none is written")
	t.StringVar(&o.only, "only", "", "`config/module,...`: nothing else; a configuration alone means all of it; any of hw/configs, or a YAML file")
	t.StringVar(&o.family, "family", "", "xc7 or xcup, for a configuration of -only whose board is not among boards (default xc7)")
	t.BoolVar(&o.all, "all", false, "synthesise what is stored too")
	t.BoolVar(&o.tops, "tops", false, "zcu104's units and whole npu_top of zc706 and zcu104 too")
	t.BoolVar(&o.store, "store", false, "store the figures")
	t.IntVar(&o.paths, "paths", 0, "print so many `paths` of each, cell by cell")
	t.BoolVar(&o.deep, "deep", false, "print those with the most levels, beyond the bound, instead")
	t.StringVar(&o.core, "core", "", "`picorv32.v` that the tables are held against")
	t.StringVar(&o.netlist, "netlist", "", "a netlist of yosys' json `file`, alone")
	t.StringVar(&o.top, "top", "npu_top", "its module")
	t.BoolVar(&o.inside, "inside", false, "between its registers only, without its ports")
	t.BoolVar(&o.registers, "registers", false, "count the registers in its DSPs and memories (AREG, BREG, CREG, MREG, PREG, OUT) instead of its paths")
	t.Float64Var(&o.nets, "nets", 1, "nets of up to 64 loads `times` as long as the table has them (2: without the calibration); printed only")
	t.Float64Var(&o.far, "far", 1, "what those of more take beyond that `times` as long; printed only")
	t.Float64Var(&o.every, "every", 1, "every net, of many loads and over the die too, `times` as long; printed only")
	t.StringVar(&o.distance, "distance", "", "the `board` on whose die the nets have to go from block to block too (timing.Distance); printed only")
	t.BoolVar(&o.fill, "fill", false, "with -distance, as if the netlist's DSPs and memories, however few, filled the part")
	t.StringVar(&o.grade, "grade", "k7-2", "its table: "+grades())
	return t.Main(args, func() error {
		if err := errors.Join(o.exclusive(t.FlagSet), o.check(t.Args())); err != nil {
			return cli.Coded(cli.Usage, err)
		}
		if _, err := os.Stat(o.core); o.core != "" && err != nil {
			return fmt.Errorf("-core: %w", err)
		}
		if o.netlist != "" {
			return one(o, stdout, stderr)
		}
		if err := syn.Tools(); err != nil {
			return cli.Coded(cli.Tool, err)
		}
		if _, err := os.Stat(filepath.Join(o.root, synth)); err != nil {
			return fmt.Errorf("%s is not the root of the repository: -root names it (%w)", o.root, err)
		}
		bad, err := all(ctx, o, stdout, stderr)
		if err == nil && bad != nil {
			err = cli.Errorf(cli.Check, "the clock is not met:\n%w", bad)
		}
		return err
	})
}

// exclusive rejects combinations of flags that exclude each other.
func (o *options) exclusive(fs *flag.FlagSet) (wrong error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case f.Name == "core" && o.core == "": // for example if a search in the shell found no file
			wrong = cli.Errorf(cli.Input, "-core is empty: expected the path of picorv32.v (make setup)")
		case f.Name == "only" && o.only == "":
			wrong = errors.New("-only is empty")
		case f.Name == "family" && o.only == "":
			wrong = errors.New("-family goes with -only")
		case o.netlist == "" && slices.Contains([]string{"grade", "top", "inside", "registers"}, f.Name):
			wrong = fmt.Errorf("-%s goes with -netlist alone", f.Name)
		case o.netlist != "" && slices.Contains([]string{"all", "tops", "store", "only", "core", "family", "out"}, f.Name):
			wrong = fmt.Errorf("-%s does not go with -netlist", f.Name)
		}
	})
	return wrong
}

// check checks the values of the flags.
func (o *options) check(args []string) error {
	switch {
	case len(args) != 0:
		return fmt.Errorf("unexpected %q", args[0])
	case o.paths < 0:
		return fmt.Errorf("-paths: expected 0 or more, found %d", o.paths)
	case !(o.nets > 0 && o.far > 0 && o.every > 0) || max(o.nets, o.far, o.every) > 100:
		return fmt.Errorf("-nets, -far, -every: expected more than 0 and 100 at most, found %g, %g and %g", o.nets, o.far, o.every)
	case o.store && o.whatIf():
		return errors.New("-store: what other nets would give is not stored")
	case o.fill && o.distance == "":
		return errors.New("-fill goes with -distance")
	case o.distance != "" && o.deep:
		return errors.New("-distance does not go with -deep: depths are the same")
	case table(o.grade) == nil:
		return fmt.Errorf("-grade: there is no table %s; there are %s", o.grade, grades())
	case o.family != "" && len(timing.ByFamily(o.family)) == 0:
		return fmt.Errorf("-family: expected xc7 or xcup, found %q", o.family)
	}
	return nil
}

// grades returns the names of the tables.
func grades() string {
	var names []string
	for _, t := range timing.Tables {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// table returns a table by name, or nil.
func table(name string) *timing.Table {
	for _, t := range timing.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// whatIf reports whether net delays differ from the tables. If so, figures are printed, but neither stored nor checked.
func (o *options) whatIf() bool { return o.nets != 1 || o.far != 1 || o.every != 1 || o.distance != "" }

// one prints the paths of one netlist, and warns on stderr if the estimate does not cover its clocks.
func one(o options, w, stderr io.Writer) error {
	text, err := os.ReadFile(o.netlist)
	if err != nil {
		return err
	}
	if err := timing.Flat(text, o.top); err != nil {
		return fmt.Errorf("%s: %w", o.netlist, err)
	}
	n, err := timing.Read(bytes.NewReader(text), o.top)
	if err != nil {
		return fmt.Errorf("%s: %w", o.netlist, err)
	}
	if o.registers {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "cell\tregister\twith\tof\twithout, by their outputs")
		for _, r := range n.Registers() {
			without := slices.Compact(slices.Sorted(slices.Values(r.Without)))
			if most := max(o.paths, 3); len(without) > most {
				without = append(without[:most], "...")
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", r.Kind, r.Register, r.Have, r.Of, strings.Join(without, " "))
		}
		return t.Flush()
	}
	for _, s := range n.Unseen() {
		fmt.Fprintf(stderr, "timing: warning: %s: %s\n", o.netlist, s)
	}
	a, err := o.analyse(n, table(o.grade), 20, !o.inside)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: estimated, by the table %s, nothing placed\n", o.netlist, o.grade)
	if o.distance != "" {
		fmt.Fprintf(w, "with distances on %s: %.0f MHz with %.1f ns of uncertainty\n", o.distance, 1000/(a.MaxNS+timing.Uncertainty), timing.Uncertainty)
	}
	if o.deep && len(o.show(a)) == 0 {
		fmt.Fprintf(w, "no path is deeper than %d levels\n", timing.MostLevels)
	}
	printPaths(w, o.show(a), max(o.paths, 1))
	return nil
}

// analyse finds the paths of a netlist, with the net delays that the flags select.
func (o *options) analyse(n *timing.Netlist, t *timing.Table, keep int, ports bool) (*timing.Analysis, error) {
	t, keep = t.Longer(o.nets*o.every, o.far*o.every), max(o.paths, keep)
	if o.distance == "" {
		return n.Analyse(t, keep, ports)
	}
	d, err := o.die(t)
	if err != nil {
		return nil, err
	}
	return n.AnalyseOn(t, d, keep, ports)
}

func (o *options) die(t *timing.Table) (*timing.Distance, error) {
	b, err := boards.Load(o.distance)
	if err != nil {
		return nil, err
	}
	d, err := timing.DistanceOn(b, t)
	if err == nil {
		d.Fill = o.fill
		d.Step *= o.every
	}
	return d, err
}

func (o *options) read(file, top string, t *timing.Table, ports bool) (*timing.Analysis, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := timing.Read(f, top)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return o.analyse(n, t, 1, ports)
}

// job is one synthesis.
type job struct {
	config, family, module string
	set                    []string
	limit                  float64 // clock period in ns
	sources, flow          string
	always                 bool   // synthesise even if figures are stored, because other checks need the netlist
	own                    string // user's configuration in -only, or empty; its figures are neither stored nor checked
	design                 configs.Design
	tables                 []*timing.Table
}

func (j *job) name() string { return j.config + "/" + j.module }

// pick returns the jobs that -only selects. A name without a job is an error. For a whole NPU, the error names -tops.
func (o *options) pick(list []*job, stderr io.Writer) ([]*job, error) {
	if o.only == "" {
		return list, nil
	}
	wanted := map[*job]bool{}
	said := map[string]bool{}
	warn := func(format string, a ...any) { // prints each warning only once
		if s := fmt.Sprintf(format, a...); !said[s] {
			said[s] = true
			fmt.Fprintln(stderr, "timing:", s)
		}
	}
	var own []*job
	for s := range strings.SplitSeq(o.only, ",") {
		found := false
		for _, j := range list {
			if (s == j.config || s == j.name()) && (o.family == "" || o.family == j.family) {
				wanted[j], found = true, true
			}
		}
		if config, module, _ := strings.Cut(s, "/"); !found && module == "npu_top" && !o.tops &&
			slices.ContainsFunc(list, func(j *job) bool { return j.config == config }) {
			return nil, fmt.Errorf("-only %s: a whole NPU needs -tops", s)
		}
		if !found {
			more, err := o.ofOwn(s, warn)
			if err != nil {
				return nil, err
			}
			own = append(own, more...)
		}
	}
	return append(slices.DeleteFunc(list, func(j *job) bool { return !wanted[j] }), own...), nil
}

// ofOwn returns the jobs of a user's configuration. s comes from -only: a name or file, optionally with a module.
func (o *options) ofOwn(s string, warn func(format string, a ...any)) ([]*job, error) {
	config, module := s, ""
	if i := strings.LastIndexByte(s, '/'); i >= 0 && !strings.HasSuffix(s, ".yaml") {
		config, module = s[:i], s[i+1:]
	}
	if !strings.HasSuffix(config, ".yaml") && !slices.Contains(configs.Names(), config) {
		return nil, fmt.Errorf("-only: unknown %q: expected config/module or a configuration, which is %s or a YAML file", s, strings.Join(configs.Names(), ", "))
	}
	d, err := configs.Load(config)
	if err == nil {
		err = errors.Join(d.Elaborates(), d.Built(), d.OwnName()) // the name is also the name of the build folder
	}
	if err != nil {
		return nil, fmt.Errorf("-only %s: %w", s, err)
	}
	if strings.HasSuffix(config, ".yaml") { // the script runs in the root folder
		if config, err = filepath.Abs(config); err != nil {
			return nil, fmt.Errorf("-only %s: %w", s, err)
		}
	}
	if o.store {
		return nil, fmt.Errorf("-only %s: nothing is stored of %s: -store is for the references", s, d.Name)
	}
	b, family := boards.Board{}, cmp.Or(o.family, "xc7")
	switch {
	case slices.Contains(boards.Names(), d.Board):
		if b, err = boards.Load(d.Board); err != nil {
			return nil, err
		}
		if family = b.Family; o.family != "" && o.family != family {
			return nil, cli.Errorf(cli.Usage, "-family %s: %s is for the board %s, whose family is %s", o.family, d.Name, b.Name, family)
		}
	case o.family == "":
		what := "it names no board"
		if d.Board != "" {
			what = fmt.Sprintf("board %q is not among boards", d.Board)
		}
		warn("%s: %s: family %s is taken (-family)", d.Name, what, family)
	}
	tables, found := timing.Graded(family, b.SpeedGrade)
	if !found || strings.Contains(b.Part, fmt.Sprintf("%dL", b.SpeedGrade)) {
		warn("warning: %s: no table is of %s's part (%s); its paths take longer than those of %s", d.Name, b.Name, b.Part, tables[0].Part)
	}
	var list []*job
	units := timing.Units(b, d)
	if o.tops {
		units = append(units, timing.Unit{Module: "npu_top", Set: timing.Top(b, d)})
	} else if module == "npu_top" {
		return nil, fmt.Errorf("-only %s: a whole NPU needs -tops", s)
	}
	var modules []string
	for _, u := range units {
		modules = append(modules, u.Module)
		if module == "" || module == u.Module {
			list = append(list, &job{config: d.Name, own: config, design: d, family: family, module: u.Module, set: u.Set, tables: tables})
		}
	}
	if list == nil {
		return nil, fmt.Errorf("-only: unknown %q: the modules of %s are %s", s, d.Name, strings.Join(modules, ", "))
	}
	return list, nil
}

// references lists the configurations with stored and checked figures. nightly: only the nightly run includes them.
var references = []struct {
	config, family string
	nightly        bool
}{{"zc706", "xc7", false}, {"zcu104", "xcup", true}}

func jobs(o *options, stderr io.Writer) ([]*job, error) {
	flow, err := os.ReadFile(filepath.Join(o.root, "hw", "syn", "synth.sh"))
	if err != nil {
		return nil, err
	}
	list := []*job{{config: "small", family: "xc7", module: "npu_top", always: true}}
	for _, r := range references {
		d, err := configs.Load(r.config)
		if err != nil {
			return nil, err
		}
		b, err := boards.Load(d.Board)
		if err != nil {
			return nil, err
		}
		for _, u := range timing.Units(b, d) {
			if r.nightly && !o.tops && o.only == "" {
				break
			}
			list = append(list, &job{config: r.config, family: r.family, module: u.Module, set: u.Set})
		}
		if o.tops {
			list = append(list, &job{config: r.config, family: r.family, module: "npu_top", set: timing.Top(b, d)})
		}
	}
	if list, err = o.pick(list, stderr); err != nil {
		return nil, err
	}
	for _, j := range list {
		if j.own == "" {
			if j.design, err = configs.Load(j.config); err != nil {
				return nil, err
			}
			j.tables = timing.ByFamily(j.family)
		}
		d := j.design
		if j.sources, err = syn.SourcesIn(o.root, j.module); err != nil {
			return nil, err
		}
		j.limit = 1000 / d.ClockMHz
		j.flow = timing.Flow(flow, j.family, j.module, d, j.set)
	}
	return list, nil
}

// all runs every job without current stored figures. bad lists the figures that fail.
func all(ctx context.Context, o options, stdout, stderr io.Writer) (bad, err error) {
	list, err := jobs(&o, stderr)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.root, "hw", "syn", "results", "timing", "figures.json")
	stored, err := timing.LoadFile(path)
	if err != nil {
		return nil, err
	}
	var now timing.Summary
	var errs []error
	if o.core != "" {
		if err := core(ctx, o, stdout, stderr); err != nil {
			errs = append(errs, err)
		}
	}
	for _, j := range list {
		if rows := j.stored(stored); j.own == "" && rows != nil && !o.all && !j.always && !o.whatIf() {
			for _, r := range rows {
				now.Put(*r)
				errs = append(errs, timing.Gate(r, *r))
			}
			continue
		}
		rows, gates, err := o.run(ctx, j, stored, path, stdout, stderr)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			now.Put(r)
		}
		errs = append(errs, gates)
	}
	if err := printRows(stdout, now.Rows); err != nil {
		return nil, err
	}
	if o.out != "" && !o.whatIf() {
		dir := o.out
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(o.root, dir)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := now.Report(filepath.Join(dir, "summary.json")); err != nil {
			return nil, err
		}
	}
	if o.store {
		fmt.Fprintln(stdout, "stored in", path)
	}
	old, err := stale(o.root, path, now)
	if err != nil {
		return nil, err
	}
	if len(old) > 0 {
		fmt.Fprintf(stdout, "of other RTL or another model than today's, not looked at: %s (-tops)\n", strings.Join(old, ", "))
	}
	return errors.Join(errs...), nil
}

// run synthesises a job and analyses it with each of its tables. gates lists the figures that fail.
func (o *options) run(ctx context.Context, j *job, stored *timing.Summary, path string, stdout, stderr io.Writer) (rows []timing.Row, gates, err error) {
	dir, err := syn.Script(ctx, o.root, synth, nil, stderr, append([]string{cmp.Or(j.own, j.config), "--family", j.family, "--top", j.module}, timing.Flags(j.set)...)...)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range j.tables {
		if _, unknown := o.die(t); o.distance != "" && unknown != nil && len(j.tables) > 1 {
			continue // the table is for a smaller part of the family
		}
		a, err := o.read(filepath.Join(dir, "netlist.json"), j.module, t, true)
		if err != nil {
			return nil, nil, err
		}
		limit := j.limit
		if j.own == "" && t != timing.ByFamily(j.family)[0] {
			limit = 1000 / t.Clock // a smaller part of the family has its own clock
		}
		r := timing.RowOf(j.config, j.module, a, limit)
		r.Sources, r.Flow = j.sources, j.flow
		if j.own == "" && !o.whatIf() {
			before := stored.Find(r.Key())
			if o.store { // -store accepts figures that are worse than stored, but no late or too deep path
				before = nil
			}
			gates = errors.Join(gates, timing.Gate(before, r))
		}
		rows = append(rows, r)
		if o.store { // store each result now, because the other jobs can take hours
			if err := timing.Store(path, r); err != nil {
				return nil, nil, err
			}
		}
		if o.paths > 0 {
			fmt.Fprintf(stdout, "%s\n", r.Key())
			printPaths(stdout, o.show(a), o.paths)
		}
	}
	return rows, gates, nil
}

// stale returns the keys of outdated stored figures: their RTL or model changed, and this run did not compute them.
func stale(root, path string, now timing.Summary) ([]string, error) {
	stored, err := timing.LoadFile(path)
	if err != nil {
		return nil, err
	}
	hash := map[string]string{}
	var old []string
	for _, r := range stored.Rows {
		if hash[r.Module] == "" {
			if hash[r.Module], err = syn.SourcesIn(root, r.Module); err != nil {
				return nil, err
			}
		}
		if now.Find(r.Key()) == nil && (r.Sources != hash[r.Module] || r.Model != timing.Model()) {
			old = append(old, r.Key())
		}
	}
	return old, nil
}

// stored returns a job's stored rows if all of them are for today's RTL, parameters, flow, model and clock.
func (j *job) stored(s *timing.Summary) []*timing.Row {
	var rows []*timing.Row
	for i, t := range j.tables {
		r := s.Find((&timing.Row{Config: j.config, Grade: t.Name, Module: j.module}).Key())
		if r == nil || r.Sources != j.sources || r.Flow != j.flow || r.Model != timing.Model() ||
			i == 0 && math.Abs(r.LimitNS-j.limit) > 1e-3 {
			return nil
		}
		rows = append(rows, r)
	}
	return rows
}

// core compares the tables with the core's published clock. A table that is faster than Vivado is an error.
func core(ctx context.Context, o options, stdout, stderr io.Writer) error {
	rtl, err := timing.WriteCore(o.root, o.core)
	if err != nil {
		return err
	}
	var errs []error
	for _, family := range []string{"xc7", "xcup"} {
		dir, err := syn.Script(ctx, o.root, synth, []string{"SLUICE_RTL=" + rtl}, stderr, "small", "--family", family, "--top", timing.CoreModule)
		if err != nil {
			return err
		}
		for _, t := range timing.ByFamily(family) {
			want, ok := timing.Published(t.Name)
			if !ok {
				continue
			}
			a, err := o.read(filepath.Join(dir, "netlist.json"), timing.CoreModule, t, false)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "picorv32_axi %s: %.2f ns, %d levels (Vivado, published: %.1f ns)\n", t.Name, a.MaxNS, a.MaxLevels, want)
			printPaths(stdout, a.Worst, o.paths)
			if a.MaxNS < want && !o.whatIf() {
				errs = append(errs, fmt.Errorf("table %s reads picorv32_axi at %.2f ns; Vivado reaches no less than %.1f", t.Name, a.MaxNS, want))
			}
		}
	}
	return errors.Join(errs...)
}

func printRows(w io.Writer, rows []timing.Row) error {
	fmt.Fprintf(w, "estimated, by the tables of hw/syn/timing, nothing placed; limit: the period less %.1f ns for the clock's uncertainty; slow, deep: ends of paths beyond it (*), beyond %d levels\n",
		timing.Uncertainty, timing.MostLevels)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "configuration\tgrade\tmodule\tns\tlimit\tlevels\tslow\tdeep\tof\tfrom\tto\tRTL")
	for _, r := range rows {
		mark := ""
		if !r.Meets() {
			mark = " *"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f%s\t%.2f\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Config, r.Grade, r.Module, r.NS, mark, r.Most(), r.Levels, r.Slow, r.Deep, r.Ends, r.From, r.To, r.RTL)
	}
	return t.Flush()
}

// show selects the paths to print.
func (o *options) show(a *timing.Analysis) []timing.Path {
	if o.deep {
		return a.Deepest
	}
	return a.Worst
}

func printPaths(w io.Writer, paths []timing.Path, n int) {
	for i, p := range paths {
		fmt.Fprintf(w, "  %6.2f ns  %d levels, %d carry chains  %s (%s) -> %s (%s)\n", p.NS, p.Levels, p.Carries, p.From, p.FromRTL, p.To, p.ToRTL)
		if i >= n {
			continue
		}
		for _, s := range p.Stages {
			fmt.Fprintf(w, "    %6.2f  %-8s fan-out %-5d %s  %s\n", s.NS, s.Cell, s.Fanout, s.Net, s.RTL)
		}
	}
}
