package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
	"github.com/sluice-npu/sluice/hw/syn/timing"
)

type synthCmd struct {
	Config []string `default:"small" placeholder:"NAME|FILE.yaml" help:"Configurations."`
	Module []string `default:"npu_top" placeholder:"NAME" help:"Modules of each; units: all that hw/syn/timing analyses alone."`
	Family string   `placeholder:"xc7|xcup" help:"Family for a configuration without a board of boards (default xc7)."`
	Out    string   `shard:"here" placeholder:"FILE.json" help:"Also write the figures to a file."`
	cli.Shards
}

func (synthCmd) Help() string {
	return `Synthesise modules with yosys (hw/syn/synth.sh) and estimate their clock (hw/syn/timing), a unit of work
each. Run it in the repository, whose RTL must be the program's. What hw/syn refuses is an error, and a
path beyond its limit is status 1. The time that yosys took is not in the figures.

Example: dse synth --config small,zc706 --module fbcb,run_gen --shard 1-4/4 --resume shards; dse merge shards`
}

// netlistOf is a module that is to be synthesised with the parameters of a configuration.
type netlistOf struct {
	config         string // value of --config
	design         configs.Design
	family, module string
	set            []string
	tables         []*timing.Table
}

// synthesised is the result for a netlist.
type synthesised struct {
	Run    syn.Run      `json:"synthesised"` // without the CPU time and memory of yosys
	Timing []timing.Row `json:"estimated"`   // one row per timing table
}

type synthDoc struct {
	cli.Header
	Netlists []*synthesised `json:"netlists"`
}

func (c *synthCmd) Run(e *cli.Env) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all, err := c.netlists()
	if err != nil {
		return err
	}
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	doc := synthDoc{Header: newHeader("synth", 0)}
	doc.Label = "synthesised, estimated"
	for s, err := range shard.Units(shards, "netlists", len(all), func(i int) (*synthesised, error) { return all[i].make(ctx, e, shards) }) {
		if err != nil {
			return err
		}
		doc.Netlists = append(doc.Netlists, s)
	}
	if over, err := shards.Finish(); err != nil || over {
		return err
	}
	late := 0
	for i, s := range doc.Netlists {
		if err := all[i].owns(s); err != nil {
			return err
		}
		for _, r := range s.Timing {
			if !r.Meets() {
				late++
			}
		}
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		if err := doc.print(e.Stdout); err != nil {
			return err
		}
	}
	if late > 0 {
		return cli.Errorf(cli.Check, "%d of the estimates are beyond their limits", late)
	}
	return nil
}

// netlists returns the netlists that the flags select.
func (c *synthCmd) netlists() (all []*netlistOf, err error) {
	for _, config := range c.Config {
		d, err := configs.Load(config)
		if err == nil {
			err = errors.Join(d.Elaborates(), d.Built(), d.OwnName())
		}
		// synth.sh uses the file's name for the build folder and in the yosys script
		if name := strings.TrimSuffix(filepath.Base(config), ".yaml"); err == nil && name != d.Name {
			err = fmt.Errorf("%s: %q, expected a file of the configuration's name, %s.yaml", config, name, d.Name)
		}
		if err != nil {
			return nil, err
		}
		b, family := boards.Board{}, cmp.Or(c.Family, "xc7")
		if slices.Contains(boards.Names(), d.Board) {
			if b, err = boards.Load(d.Board); err != nil {
				return nil, err
			}
			if family = b.Family; c.Family != "" && c.Family != family {
				return nil, usage("--family %s: %s is for the board %s, whose family is %s", c.Family, d.Name, b.Name, family)
			}
		}
		tables, _ := timing.Graded(family, b.SpeedGrade)
		if len(tables) == 0 {
			return nil, usage("--family: expected xc7 or xcup, found %q", family)
		}
		units := timing.Units(b, d)
		add := func(u timing.Unit) error {
			n := &netlistOf{config, d, family, u.Module, u.Set, tables}
			for _, o := range all {
				if o.design.Name == d.Name && o.module == u.Module {
					return usage("%s of %s twice", u.Module, d.Name)
				}
			}
			all = append(all, n)
			_, err := syn.Built(u.Module)
			return cli.Coded(cli.Usage, err)
		}
		for _, module := range c.Module {
			some := []timing.Unit{{Module: module}}
			at := slices.IndexFunc(units, func(u timing.Unit) bool { return u.Module == module })
			switch {
			case module == "units":
				some = units
			case module == "npu_top":
				some[0].Set = timing.Top(b, d)
			case at >= 0:
				some[0] = units[at]
			}
			for _, u := range some {
				if err := add(u); err != nil {
					return nil, err
				}
			}
		}
	}
	return all, nil
}

// make synthesises and analyses a netlist.
func (n *netlistOf) make(ctx context.Context, e *cli.Env, shards *shard.Run) (*synthesised, error) {
	want, err := syn.Built(n.module)
	if err != nil {
		return nil, err
	}
	if is, err := syn.SourcesIn(".", n.module); err != nil || is != want { // another worker may have the right sources
		return nil, cli.Errorf(cli.Tool, "synth: hw/rtl here is not the RTL of this program: run it in the repository's root, and build it anew: %w", cmp.Or(err, fmt.Errorf("%s has the hash %s, expected %s", n.module, is, want)))
	}
	out, err := script(ctx, e.Stderr, "hw/syn/synth.sh", append([]string{n.config, "--family", n.family, "--top", n.module}, timing.Flags(n.set)...)...)
	if err != nil {
		return nil, err
	}
	dir := strings.TrimSpace(out)
	s := &synthesised{}
	if s.Run, err = syn.LoadRun(filepath.Join(dir, "summary.json")); err != nil {
		return nil, err
	}
	s.Run.CPUSeconds, s.Run.PeakMB = 0, 0 // a result must not depend on the machine that computes it
	flow, err := os.ReadFile("hw/syn/synth.sh")
	if err != nil {
		return nil, err
	}
	pack, err := files.Hash("hw/syn/pack.go")
	if err != nil {
		return nil, err
	}
	shards.Made("yosys", func() string { return s.Run.Tool })
	shards.Made("flow", func() string { return fmt.Sprintf("%x %s", sha256.Sum256(flow), pack) })
	f, err := os.Open(filepath.Join(dir, "netlist.json"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	netlist, err := timing.Read(f, n.module)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	for i, t := range n.tables {
		a, err := netlist.Analyse(t, 1, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		limit := 1000 / n.design.ClockMHz
		if i > 0 {
			limit = 1000 / t.Clock // a smaller device of the family, at its own clock
		}
		r := timing.RowOf(n.design.Name, n.module, a, limit)
		r.Sources, r.Flow = want, timing.Flow(flow, n.family, n.module, n.design, n.set)
		s.Timing = append(s.Timing, r)
	}
	return s, n.owns(s)
}

// owns returns an error if a result belongs to another netlist.
func (n *netlistOf) owns(s *synthesised) error {
	want, err := syn.Built(n.module)
	if err != nil {
		return err
	}
	r := &s.Run
	is := []any{r.Config, r.Design, r.Family, r.Top, r.Sources}
	expected := []any{n.design.Name, n.design, n.family, n.module, want}
	for _, t := range s.Timing {
		is = append(is, t.Config, t.Family, t.Grade, t.Module, t.Sources, t.Model)
	}
	for _, t := range n.tables {
		expected = append(expected, n.design.Name, n.family, t.Name, n.module, want, timing.Model())
	}
	if !reflect.DeepEqual(is, expected) {
		return fmt.Errorf("%s of %s: %w: it is of %v, expected %v", n.module, n.design.Name, shard.ErrResult, is, expected)
	}
	return nil
}

func (d *synthDoc) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "configuration\tfamily\tmodule\tDSP\tBRAM36\tURAM\tLUT\tLC\tFF\tgrade\tns\tlimit\tlevels")
	for _, s := range d.Netlists {
		r, u := &s.Run, &s.Run.Resources
		for _, row := range s.Timing {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%g\t%d\t%d\t%d\t%d\t%s\t%.2f\t%.2f\t%d\n", r.Config, r.Family, r.Top, u.DSP, u.BRAM(), u.URAM, u.LUTs(), r.LC, u.FF, row.Grade, row.NS, row.Most(), row.Levels)
		}
	}
	return t.Flush()
}
