// sluice faults checks that the NPU reports each injected fault and executes the next start correctly.

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

type faultsCmd struct {
	Config  string `default:"tiny" help:"Configurations of the hardware, separated by commas."`
	Checked string `help:"Those of --config whose build with the assertions of sim/checkers is run (SLUICE_CHECK=1 sim/build.sh CONFIG), separated by commas."`
	N       int    `default:"150" short:"n" help:"Faults in all, at least one of each kind whose ending is known on each configuration."`
	Kind    string `help:"Only kinds of faults whose name contains this."`
	Seed    uint64 `default:"1" help:"Seed of all random choices."`
	cli.Shards
	Out  string `shard:"here" default:"out/faults" help:"Folder for summary.json."`
	JSON bool   `shard:"here" name:"json" help:"Print JSON."`
}

func (*faultsCmd) Help() string {
	return `Random faults over random starts of random networks, on the registers of the Verilated NPU.

Where the right ending is known (most kinds), the error code, and the layer or port it names, must be
that. Random bits in descriptors and FBCB entries may end in any error or do no harm. In every case
the start ends within its cycles plus twice the watchdog; memory that is not the batch's own stays as
it was; a start that reports no error has golden's results; and the next good start, without any
reset, has them too. A port has four IDs to lose answers on; after three the NPU gets a hard reset.

Example:
  sluice faults --config tiny,v7 --n 2000 --seed 42`
}

type faultsDoc struct {
	cli.Header
	Configs    []string           `json:"configs"`
	Faults     int                `json:"faults"`
	Networks   int                `json:"networks"`
	Starts     int                `json:"starts"`
	HardResets int                `json:"hard_resets"` // number of hard resets, after three lost answers on one port and direction
	Kinds      []verify.KindCount `json:"kinds"`
	Coverage   *verify.Coverage   `json:"coverage"`
	Violations []string           `json:"violations"`
}

func (c *faultsCmd) Run(e *cli.Env) error {
	if c.N < 1 || c.N > 1e6 {
		return cli.Errorf(cli.Usage, "--n %d: expected 1..1000000", c.N)
	}
	designs, err := loadDesigns(c.Config)
	if err != nil {
		return err
	}
	check, err := checkedOf(c.Checked, c.Config, designs)
	if err != nil {
		return err
	}
	doc := &faultsDoc{Header: cli.NewHeader("sluice-faults/1", c.Seed, "simulated"), Coverage: verify.NewCoverage(designs), Violations: []string{}}
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	tally := verify.Tally{}
	for i, d := range designs {
		f := verify.Campaign{
			N: (c.N*(i+1))/len(designs) - (c.N*i)/len(designs), Seed: c.Seed + uint64(i)<<32, Only: c.Kind, Coverage: doc.Coverage, Tally: tally,
		}
		if err := runCampaign(e, shards, &f, designs, i, check.build(d), c.Config); err != nil {
			return err
		}
		doc.Configs = append(doc.Configs, d.Name)
		doc.Faults += f.Done
		doc.Networks += f.Networks
		doc.Starts += f.Starts
		doc.HardResets += f.HardResets
		doc.Violations = append(doc.Violations, f.Violations...)
	}
	if over, err := shards.Finish(); err != nil || over {
		return err
	}
	doc.Kinds = tally.Kinds()
	if err := e.Print(doc, c.Out, c.JSON, doc.print); err != nil {
		return err
	}
	if len(doc.Violations) > 0 {
		return cli.Errorf(cli.Check, "faults, seed %d: %s", c.Seed, strings.Join(doc.Violations, "\n  "))
	}
	return nil
}

// block contains the results of a block of faults.
type block struct {
	Done, Networks, Starts, HardResets int
	Violations                         []string
	Tally                              verify.Tally
	Hits                               verify.Hits
}

// runCampaign runs a campaign on designs. Each block uses its own simulator.
func runCampaign(e *cli.Env, shards *shard.Run, f *verify.Campaign, designs []configs.Design, at int, build, list string) error {
	blocks, err := f.Blocks()
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	d := designs[at]
	set, done := e.Progress("faults on "+d.Name, blocks)
	defer done()
	for b, err := range shard.Units(shards, "faults on "+d.Name, blocks, func(b int) (*block, error) {
		rig, err := openRig(e.Ctx, shards, d, build, list)
		if err != nil {
			return nil, err
		}
		defer rig.Close()
		one := verify.Campaign{N: f.N, Seed: f.Seed, Only: f.Only, Coverage: verify.NewCoverage(designs), Tally: verify.Tally{}}
		err = one.Block(e.Ctx, rig, b)
		set(b + 1)
		return &block{one.Done, one.Networks, one.Starts, one.HardResets, one.Violations, one.Tally, one.Coverage.Hits()}, cli.Coded(cli.Device, err)
	}) {
		if err != nil {
			return err
		}
		f.Done += b.Done
		f.Networks += b.Networks
		f.Starts += b.Starts
		f.HardResets += b.HardResets
		f.Tally.Add(b.Tally)
		f.Coverage.Add(b.Hits)
		f.Violations = append(f.Violations, b.Violations...)
		if len(f.Violations) >= verify.MaxViolations {
			break
		}
	}
	return nil
}

// openRig starts the simulator of a design's build and returns a Rig on its registers.
func openRig(ctx context.Context, shards *shard.Run, d configs.Design, kind, list string) (*verify.Rig, error) {
	made(shards, kind, list)
	bus, err := openBus(ctx, d, kind, list, verify.RigMemory())
	if err != nil {
		return nil, err
	}
	return verify.NewRig(bus, d), nil
}

// made records the simulator of a build in the results.
func made(shards *shard.Run, kind, list string) {
	shards.Made("simulator of "+kind, func() string {
		path, err := npu.FindCosim(kind, splitList(list)...)
		if err != nil {
			return err.Error() // the function that opens the simulator reports this error
		}
		return cli.Simulator(path)
	})
}

func (d *faultsDoc) print(w io.Writer) error {
	var s strings.Builder
	for _, k := range d.Kinds {
		known := "  "
		if k.Directed {
			known = "= "
		}
		fmt.Fprintf(&s, "%-28s %6d  %s", k.Name, k.N, known)
		for i, name := range slices.Sorted(maps.Keys(k.Endings)) {
			if i > 0 {
				s.WriteString(", ")
			}
			fmt.Fprintf(&s, "%s %d", name, k.Endings[name])
		}
		s.WriteByte('\n')
	}
	fmt.Fprintf(&s, "\n%d faults on %s over %d networks, %d starts, %d hard resets; %d violations, seed %d\n",
		d.Faults, strings.Join(d.Configs, ", "), d.Networks, d.Starts, d.HardResets, len(d.Violations), d.Seed)
	_, err := io.WriteString(w, s.String())
	return err
}
