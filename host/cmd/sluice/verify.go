// sluice verify compares the hardware with the golden executor, the golden executor with onnxruntime, and the device
// cosim with the device soft.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

type verifyCmd struct {
	what
	Device string `default:"cosim" enum:"cosim,hls,soft,uio" help:"What is compared with the golden executor: cosim (the Verilated RTL), hls (the HLS kernel's C-simulation: no cycles, no bus faults), uio (the NPU of the board that this runs on: random layers alone) or soft (the golden executor itself, which tests this command)."`
	N      int    `default:"200" short:"n" help:"Random layers of at most 2 MMAC; 0 leaves them out."`
	Images int    `default:"256" help:"Test images under a random schedule; 0 leaves them out."`
	Oracle int    `default:"2000" help:"Test images for onnxruntime; 0 leaves it out."`
	Orders int    `default:"128" help:"Requests for comparing the order of actions on soft and on the device; 0 leaves it out."`
	Python string `shard:"here" help:"Python with onnxruntime (default: venv/bin/python in the build folder)."`
	Root   string `shard:"here" default:"." help:"The repository's root, for dse/zoo."`
	Stub   int    `help:"Random layers on which the build without MACs must count what the full one counts; 0 leaves them out."`
	Faults int    `help:"Random faults on each configuration; 0 leaves them out (sluice faults reports more)."`

	Checked         string `help:"Those of --config whose build with the assertions of sim/checkers is run (SLUICE_CHECK=1 sim/build.sh CONFIG), separated by commas."`
	RequireCoverage bool   `help:"Fail if a bin of the coverage table was not hit; adds a fault of each directed kind."`

	Segments int `help:"Instead of all other checks: the first segments of the network with one image, and random weights if it has none; negative: all of them (--segments=-1)."`
	Input    int `help:"With --segments: height and width of the input in place of the network's own."`

	Theta thetaFlag `default:"0.8" help:"Exit threshold for the oracle and the orders."`
	Seed  uint64    `default:"1" help:"Seed of all random choices."`
	uioFlags
	cli.Shards
	Out  string `shard:"here" default:"out/verify" help:"Folder for summary.json."`
	JSON bool   `shard:"here" name:"json" help:"Print JSON."`

	finds func(ctx context.Context, slots int) (*npu.Driver, error) // tests set it to find another NPU on uio
}

func (*verifyCmd) Help() string {
	return `The checks:
  images   every image on the device under a random schedule (batches of 1 to 8, halting, merging, an
           exit threshold of its own for each request): results, logits and all bytes of all slots
           equal the golden executor's
  layers   random networks of one to a few layers, under any legal FBCB entries, random batches, on a
           memory whose bandwidth, latencies, depth and stalls are drawn for each: all bytes of all slots
  oracle   the golden executor against onnxruntime in float: same exit on at least 99.8 %, accuracy
           within 0.1 point
  orders   soft and the device serve the same arrivals: by the table, equal results and order of
           actions; with measured cycles, equal results, differing actions are counted

  stub     random layers on the full build and on the one without MACs: all counters are equal
  faults   as sluice faults does; here for the error codes of the coverage table

--config may name several configurations: the layers are spread over them, stub and faults run on
each, and images, oracle and orders on ` + "`run`" + ` where it is among them. With --segments, whole segments
of a large network are compared instead, all bytes of the slot after each of them.

Where --checked names a configuration, its layers and faults run with the assertions of sim/checkers
in, which end the run where one fails, and who waits for whom at its ports is in the coverage table.

A mismatch prints the seed, the layer's descriptor and the first element that differs.

Example:
  sluice verify --n 200 --images 256 --seed 42
  sluice verify --config v5,v7,v8,v13x --n 500 --require-coverage --checked v13x
  sluice verify --config mid --network resnet50 --segments 2 --input 64
  sluice verify --config zc706 --device uio --label measured --clock-mhz 150 --images 0 --oracle 0 --orders 0`
}

type verifyDoc struct {
	cli.Header
	Device        string   `json:"device"`
	Config        string   `json:"config"`
	Layers        int      `json:"layers"`
	Images        int      `json:"images"`
	Mismatches    int      `json:"mismatches"`
	ExitAgreement *float64 `json:"exit_agreement"` // null: not checked
	AccuracyDelta *float64 `json:"accuracy_delta"` // accuracy of the golden executor minus accuracy of onnxruntime, as a share
	OracleImages  int      `json:"oracle_images"`
	Coverage      struct {
		Images struct {
			verify.Exercised
			Preemptions int64 `json:"preemptions"`
			Merges      int64 `json:"merges"`
		} `json:"images"`
		Layers  verify.Layers            `json:"layers"`
		Cycles  uint64                   `json:"layer_cycles"` // counted on cosim and uio
		Orders  map[string]verify.Orders `json:"orders"`       // by policy
		Stub    int                      `json:"stub_layers"`
		Faults  int                      `json:"faults"`
		Bins    *verify.Coverage         `json:"bins"`
		Missing []string                 `json:"missing"`
	} `json:"coverage"`
	Network  string           `json:"network"`
	Segments []verify.Segment `json:"segments"`
	Problems []string         `json:"problems"`
}

// designs loads the configurations under test.
func (c *verifyCmd) designs() ([]configs.Design, error) { return loadDesigns(c.Config) }

func splitList(list string) []string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}

// loadDesigns loads a list of configurations, separated by commas.
func loadDesigns(list string) ([]configs.Design, error) {
	var all []configs.Design
	for _, name := range splitList(list) {
		d, err := configs.Load(name)
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		for _, other := range all {
			if other.Name == d.Name {
				return nil, cli.Errorf(cli.Usage, "--config %s: duplicate %s", list, d.Name)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// checked contains the names of the designs that also run in a build with assertions.
type checked map[string]bool

// checkedOf reads a list of designs under test, separated by commas. A design is specified by its name or as in
// --config. The argument designs has the order of --config.
func checkedOf(list, config string, designs []configs.Design) (checked, error) {
	out := checked{}
	if list == "" {
		return out, nil
	}
	given := splitList(config)
	for _, name := range splitList(list) {
		i := slices.IndexFunc(designs, func(d configs.Design) bool { return d.Name == name })
		if i < 0 {
			i = slices.Index(given, name)
		}
		if i < 0 || i >= len(designs) {
			return nil, cli.Errorf(cli.Usage, "--checked %s: %q is none of --config", list, name)
		}
		out[designs[i].Name] = true
	}
	return out, nil
}

// build returns the name of a design's simulator.
func (c checked) build(d configs.Design) string {
	if c[d.Name] {
		return d.Name + "-check"
	}
	return d.Name
}

// served returns the configuration for the checks that serve a network: the only configuration, or else "run".
func served(designs []configs.Design) (string, bool) {
	if len(designs) == 1 {
		return designs[0].Name, true
	}
	for _, d := range designs {
		if d.Name == "run" {
			return d.Name, true
		}
	}
	return "", false
}

func (c *verifyCmd) Run(e *cli.Env) error {
	if min(c.N, c.Images, c.Oracle, c.Orders, c.Stub, c.Faults, c.Input) < 0 || max(c.N, c.Stub, c.Faults) > 1e6 {
		return cli.Coded(cli.Usage, errors.New("--n, --images, --oracle, --orders, --stub, --faults and --input must not be negative"))
	}
	if c.Input > 0 && (c.Segments == 0 || c.InputSide.H != 0) {
		return cli.Coded(cli.Usage, errors.New("--input needs --segments, and no --input-side beside it"))
	}
	if err := e.Unread(cli.Choice{Tag: "device", Chosen: c.Device}); err != nil {
		return err
	}
	designs, err := c.designs()
	if err != nil {
		return err
	}
	if err := c.something(designs); err != nil {
		return err
	}
	check, err := checkedOf(c.Checked, c.Config, designs)
	if err != nil {
		return err
	}
	doc := &verifyDoc{
		Header: cli.NewHeader("sluice-verify/2", c.Seed, "simulated"), Device: c.Device, Config: c.Config,
		Network: c.Network, Problems: []string{}, Segments: []verify.Segment{},
	}
	if c.Device == "uio" {
		doc.Label = c.Label
	}
	doc.Coverage.Bins = c.table(designs, check)
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	if c.Segments != 0 {
		err = c.whole(shards, "segments", designs[0].Name, doc, func(d *verifyDoc) error { return c.segments(e, designs, d) })
	} else {
		err = c.checks(e, shards, designs, check, doc)
	}
	if err != nil {
		return err
	}
	if over, err := shards.Finish(); err != nil || over {
		return err
	}
	if err := c.covered(e, designs, check, doc); err != nil {
		return err
	}
	if err := e.Print(doc, c.Out, c.JSON, doc.print); err != nil {
		return err
	}
	if len(doc.Problems) > 0 {
		return cli.Errorf(cli.Check, "verify, seed %d: %s", c.Seed, strings.Join(doc.Problems, "\n  "))
	}
	return nil
}

// something returns an error if the options select no check.
func (c *verifyCmd) something(designs []configs.Design) error {
	if c.Segments != 0 {
		if c.Device == "uio" {
			return cli.Coded(cli.Usage, errors.New("--segments does not go with --device uio"))
		}
		if c.Checked != "" || c.RequireCoverage || max(c.Stub, c.Faults) > 0 {
			return cli.Coded(cli.Usage, errors.New("--checked, --stub, --faults and --require-coverage do not go with --segments, which checks nothing else"))
		}
		return nil
	}
	if c.Device == "uio" && (c.Label == "" || c.ClockMHz <= 0) {
		return cli.Coded(cli.Usage, errors.New("--device uio: expected --label and --clock-mhz with it"))
	}
	if c.Device == "uio" && (len(designs) > 1 || max(c.Images, c.Oracle, c.Orders) > 0) {
		return cli.Coded(cli.Usage, errors.New("--device uio: expected one configuration, the board's, and --images 0 --oracle 0 --orders 0: random layers run there, and nothing else"))
	}
	if c.Device != "cosim" && max(c.Stub, c.Faults) > 0 {
		return cli.Coded(cli.Usage, errors.New("--stub and --faults need --device cosim"))
	}
	if max(c.N, c.Stub, c.Faults) > 0 || c.RequireCoverage {
		return nil
	}
	if max(c.Images, c.Oracle, c.Orders) == 0 {
		return cli.Coded(cli.Usage, errors.New("--n, --images, --oracle, --orders, --stub and --faults are all 0: nothing would be checked"))
	}
	if _, ok := served(designs); !ok {
		return cli.Errorf(cli.Usage, "--config %s: nothing would be checked: of several configurations `run` alone serves --images, --oracle and --orders", c.Config)
	}
	return nil
}

// wholePart contains the findings of a check that runs as one unit.
type wholePart struct {
	Found verifyDoc // findings without coverage bins
	Hits  verify.Hits
}

// whole runs a check as one unit. The argument build is the name of the check's simulator.
func (c *verifyCmd) whole(shards *shard.Run, name, build string, doc *verifyDoc, check func(*verifyDoc) error) error {
	for got, err := range shard.Units(shards, name, 1, func(int) (*wholePart, error) {
		if c.Device != "soft" {
			made(shards, build, c.Config)
		}
		var part wholePart
		part.Found.Coverage.Bins = doc.Coverage.Bins.Empty()
		err := check(&part.Found)
		part.Hits, part.Found.Coverage.Bins = part.Found.Coverage.Bins.Hits(), nil
		return &part, err
	}) {
		if err != nil {
			return err
		}
		part := &got.Found
		doc.Coverage.Bins.Add(got.Hits)
		doc.Layers += part.Layers
		doc.Images += part.Images
		doc.Mismatches += part.Mismatches
		doc.ExitAgreement, doc.AccuracyDelta = cmp.Or(doc.ExitAgreement, part.ExitAgreement), cmp.Or(doc.AccuracyDelta, part.AccuracyDelta)
		doc.OracleImages += part.OracleImages
		doc.Segments = append(doc.Segments, part.Segments...)
		doc.Problems = append(doc.Problems, part.Problems...)
		doc.Coverage.Stub += part.Coverage.Stub
		if x := &part.Coverage.Images; x.Launches > 0 {
			doc.Coverage.Images = *x
		}
		if part.Coverage.Orders != nil {
			doc.Coverage.Orders = part.Coverage.Orders
		}
	}
	return nil
}

func (c *verifyCmd) checks(e *cli.Env, shards *shard.Run, designs []configs.Design, check checked, doc *verifyDoc) error {
	if name, ok := served(designs); ok && max(c.Images, c.Oracle, c.Orders) > 0 {
		one := *c
		if len(designs) > 1 {
			one.Config = name
		}
		if err := one.whole(shards, "served", name, doc, func(d *verifyDoc) error { return one.serve(e, d) }); err != nil {
			return err
		}
	}
	if c.N > 0 {
		if err := c.layers(e, shards, designs, check, doc); err != nil {
			return err
		}
	}
	if c.Device != "cosim" {
		return nil
	}
	for i, d := range designs {
		if c.Stub > 0 {
			if err := c.whole(shards, "stub of "+d.Name, d.Name, doc, func(part *verifyDoc) error { return c.stub(e, d, part) }); err != nil {
				return err
			}
		}
		n := c.Faults
		if c.RequireCoverage {
			n = max(n, verify.DirectedKinds())
		}
		if n > 0 {
			f := verify.Campaign{N: n, Seed: c.Seed + uint64(i)<<32, Coverage: doc.Coverage.Bins, Tally: verify.Tally{}}
			if err := runCampaign(e, shards, &f, designs, i, check.build(d), c.Config); err != nil {
				return err
			}
			doc.Coverage.Faults += f.Done
			doc.Mismatches += len(f.Violations)
			doc.Problems = append(doc.Problems, f.Violations...)
		}
	}
	return nil
}

// stub compares the builds of a design with and without MACs.
func (c *verifyCmd) stub(e *cli.Env, d configs.Design, doc *verifyDoc) error {
	full, err := openRig(e.Ctx, nil, d, d.Name, c.Config)
	if err != nil {
		return err
	}
	defer full.Close()
	stub, err := openRig(e.Ctx, nil, d, d.Name+"-stub", c.Config)
	if err != nil {
		return err
	}
	defer stub.Close()
	set, done := e.Progress("stub of "+d.Name, c.Stub)
	defer done()
	n, wrong, err := verify.CompareStub(e.Ctx, full, stub, c.Stub, c.Seed, set)
	doc.Coverage.Stub += n
	if wrong != "" {
		doc.Mismatches++
		doc.Problems = append(doc.Problems, wrong)
	}
	return cli.Coded(cli.Device, err)
}

// serve runs the checks that need the network: oracle, images, orders.
func (c *verifyCmd) serve(e *cli.Env, doc *verifyDoc) error {
	theta := c.Theta.theta
	p, err := c.prepare(e, c.Theta.fits)
	if err != nil {
		return err
	}
	if c.Oracle > 0 { // check this before the images are computed
		im, err := c.what.images(e, p, 1, false)
		if err != nil {
			return err
		}
		if _, err := os.Stat(c.python()); err != nil && im.Labels[0] >= 0 {
			return cli.Errorf(cli.Tool, "python with onnxruntime: %w; make setup builds it, --oracle 0 leaves the check out", err)
		}
	}
	memo := &soft.Memo{}
	s, im, err := p.setup(e, &c.what, memo, max(c.Images, c.Oracle, c.Orders))
	if err != nil {
		return err
	}
	if c.Oracle > 0 {
		if err := c.oracle(e, p, s, im, theta, doc); err != nil {
			return err
		}
	}
	if c.Images > 0 {
		if err := c.images(e, p, s, doc); err != nil {
			return err
		}
	}
	if c.Orders > 0 {
		return c.orders(e, p, s, memo, theta, doc)
	}
	return nil
}

// problem records a mismatch that a check found. Any other error is returned as a device error, which ends the command.
func (d *verifyDoc) problem(name string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, verify.ErrMismatch) {
		return cli.Errorf(cli.Device, "%s: %w", name, err)
	}
	d.Mismatches++
	d.Problems = append(d.Problems, fmt.Sprintf("%s: %v", name, err))
	return nil
}

// shadow opens the device, and a golden executor that stores the content of all slots.
func (c *verifyCmd) shadow(ctx context.Context, p *prepared) (*verify.Shadow, error) {
	s := &verify.Shadow{Reference: soft.New(p.design, soft.Options{})}
	if c.Device == "soft" {
		s.Slotted = soft.New(p.design, soft.Options{})
		return s, nil
	}
	d, err := c.openCosim(ctx, c.Device, p)
	if err != nil {
		return nil, err
	}
	s.Slotted = d
	return s, nil
}

func (c *verifyCmd) images(e *cli.Env, p *prepared, s *experiments.Setup, doc *verifyDoc) error {
	dev, err := c.shadow(e.Ctx, p)
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := dev.Load(e.Ctx, p.bundle); err != nil {
		return cli.Coded(cli.Device, err)
	}
	few := *s
	few.Inputs, few.Exits = s.Inputs[:min(c.Images, len(s.Inputs))], s.Exits[:min(c.Images, len(s.Inputs))]
	set, done := e.Progress("images", len(few.Inputs))
	res, err := verify.Serve(e.Ctx, &few, dev, c.Seed, set)
	done()
	doc.Coverage.Images.Exercised = dev.Exercised
	if err != nil {
		return doc.problem("images", err)
	}
	doc.Images = len(few.Inputs)
	doc.Coverage.Images.Preemptions, doc.Coverage.Images.Merges = res.Preemptions, res.Merges
	return nil
}

// bench opens a configuration's device, with enough memory for random networks. `over` closes the device, and adds the
// counts that the simulator prints at its end if its build has assertions.
func (c *verifyCmd) bench(e *cli.Env, d configs.Design, check checked) (b *verify.Bench, over func(*verify.Coverage) error, err error) {
	b = &verify.Bench{Design: d, Dev: &verify.Shadow{Reference: soft.New(d, soft.Options{})}}
	if c.Device == "soft" {
		b.Dev.Slotted = soft.New(d, soft.Options{})
		return b, func(*verify.Coverage) error { return b.Dev.Close() }, nil
	}
	if c.Device == "uio" {
		find := c.find
		if c.finds != nil {
			find = c.finds
		}
		drv, err := find(e.Ctx, verify.LayerSlots)
		if err != nil {
			return nil, nil, err
		}
		if is := drv.Build(); is.DesignHash != d.Hash() || is.Stub {
			return nil, nil, errors.Join(cli.Errorf(cli.Input, "the board has the design %016x (without MACs: %v), expected %s, %016x", is.DesignHash, is.Stub, d.Name, d.Hash()), drv.Close())
		}
		b.Dev.Slotted = drv
		return b, func(*verify.Coverage) error { return b.Dev.Close() }, nil
	}
	var o npu.CosimOpts
	if c.Device == "hls" {
		o.DRAMBytes = 256 << 20 // on the largest arrays, the weights of random networks exceed the default memory
	}
	bus, err := openBus(e.Ctx, d, c.build(d, check), c.Config, o)
	if err != nil {
		return nil, nil, err
	}
	if c.Device == "cosim" {
		b.Bus = bus
	}
	if b.Dev.Slotted, err = openDriver(bus, c.Device, d, verify.LayerSlots); err != nil {
		return nil, nil, errors.Join(err, bus.Close())
	}
	return b, func(cov *verify.Coverage) error {
		if err := b.Dev.Close(); err != nil || !check[d.Name] || cov == nil {
			return err
		}
		return cov.AddCheckerCounts(d, bus.Output())
	}, nil
}

// build returns the name of the simulator for the random layers of a design.
func (c *verifyCmd) build(d configs.Design, check checked) string {
	if c.Device == "cosim" {
		return check.build(d)
	}
	return cosimOf(c.Device, d)
}

func (c *verifyCmd) table(designs []configs.Design, check checked) *verify.Coverage {
	cov := verify.NewCoverage(designs)
	if c.Device == "hls" || c.Device == "uio" {
		cov.LayersOnly()
	}
	for _, d := range designs {
		if check[d.Name] {
			cov.Checked(d)
		}
	}
	return cov
}

// layersPart contains the results of a block of random layers.
type layersPart struct {
	N       int
	Layers  *verify.Layers
	Cycles  uint64
	Hits    verify.Hits
	Problem string // a mismatch
}

// layers runs blocks of random layers, each on its own device.
func (c *verifyCmd) layers(e *cli.Env, shards *shard.Run, designs []configs.Design, check checked, doc *verifyDoc) error {
	all := verify.LayersConfig{N: c.N, Designs: len(designs), Seed: c.Seed}
	set, done := e.Progress("layers", c.N)
	defer done()
	for part, err := range shard.Units(shards, "layers", all.Blocks(), func(i int) (*layersPart, error) {
		d, one := designs[i%len(designs)], all
		if c.Device == "cosim" || c.Device == "hls" {
			made(shards, c.build(d, check), c.Config)
		}
		b, over, err := c.bench(e, d, check)
		if err != nil {
			return nil, err
		}
		counted := func() uint64 { return 0 }
		if drv, ok := b.Dev.Slotted.(*npu.Driver); ok && c.Device != "hls" {
			before := drv.Counters()[abi.CntCyclesBusy]
			counted = func() uint64 { return drv.Counters()[abi.CntCyclesBusy] - before }
		}
		one.Coverage = c.table(designs, check)
		l, err := verify.RandomLayers(e.Ctx, b, one, i)
		if err != nil {
			err = errors.Join(err, over(nil))
		} else {
			err = over(one.Coverage)
		}
		part := &layersPart{N: l.N, Layers: l, Cycles: counted(), Hits: one.Coverage.Hits()}
		if errors.Is(err, verify.ErrMismatch) {
			part.Problem, err = fmt.Sprintf("layers: %v", err), nil
		}
		set(c.N * (i + 1) / all.Blocks())
		if err != nil {
			return nil, cli.Errorf(cli.Device, "layers: %w", err)
		}
		return part, nil
	}) {
		if err != nil {
			return err
		}
		part.Layers.N = part.N
		doc.add(part)
		if part.Problem != "" {
			break
		}
	}
	return nil
}

func (d *verifyDoc) add(part *layersPart) {
	d.Coverage.Layers.Add(part.Layers)
	d.Coverage.Bins.Add(part.Hits)
	d.Coverage.Cycles += part.Cycles
	d.Layers += part.N
	if part.Problem != "" {
		d.Mismatches++
		d.Problems = append(d.Problems, part.Problem)
	}
}

// covered lists the missing coverage. With --require-coverage, it first runs layers for the missing bins, and reports
// bins that are still missing as a problem.
func (c *verifyCmd) covered(e *cli.Env, designs []configs.Design, check checked, doc *verifyDoc) error {
	if c.RequireCoverage {
		if err := c.missing(e, designs, check, doc); err != nil {
			return err
		}
	}
	doc.Coverage.Missing = doc.Coverage.Bins.Missing()
	if c.RequireCoverage && len(doc.Coverage.Missing) > 0 {
		doc.Problems = append(doc.Problems, "not covered: "+strings.Join(doc.Coverage.Missing, ", "))
	}
	return nil
}

// missing runs layers for the bins that no random layer covered, on all designs. With shards, only merge does this,
// because merge has the coverage of all shards.
func (c *verifyCmd) missing(e *cli.Env, designs []configs.Design, check checked, doc *verifyDoc) error {
	if c.N == 0 || c.Segments != 0 || len(doc.Problems) > 0 || !doc.Coverage.Bins.LayersMissing() {
		return nil
	}
	var all []*verify.Bench
	var ends []func(*verify.Coverage) error
	end := func(cov *verify.Coverage) (err error) {
		for _, over := range ends {
			err = errors.Join(err, over(cov))
		}
		return err
	}
	for _, d := range designs {
		b, over, err := c.bench(e, d, check)
		if err != nil {
			return errors.Join(err, end(nil))
		}
		all, ends = append(all, b), append(ends, over)
	}
	set, done := e.Progress("missing kinds of layers", c.N)
	defer done()
	l, err := verify.MissingLayers(e.Ctx, all, verify.LayersConfig{N: c.N, Designs: len(designs), Seed: c.Seed, Coverage: doc.Coverage.Bins}, set)
	doc.Coverage.Layers.Add(l)
	doc.Layers += l.N
	if err != nil {
		return doc.problem("layers", errors.Join(err, end(nil)))
	}
	return end(doc.Coverage.Bins)
}

// orders serves the same arrivals on soft and on the device, both with the table's times, and (except on hls) on the
// device with measured times.
func (c *verifyCmd) orders(e *cli.Env, p *prepared, s *experiments.Setup, memo *soft.Memo, theta experiments.Theta, doc *verifyDoc) error {
	doc.Coverage.Orders = map[string]verify.Orders{}
	dev, err := c.openDevice(e.Ctx, c.Device, p, memo)
	if err != nil {
		return err
	}
	defer dev.Close()
	ref, err := c.openDevice(e.Ctx, "soft", p, memo)
	if err != nil {
		return err
	}
	defer ref.Close()
	for _, policy := range []string{"serial", "fluid"} {
		o, err := verify.CompareOrders(e.Ctx, s, dev, ref, experiments.Point{
			Policy: policy, Rate: 1e9 / s.Service(theta), SLO: 5 * s.Table.Alone(), Theta: theta, Seed: c.Seed, N: c.Orders,
		}, c.Device != "hls")
		if err != nil {
			return cli.Coded(cli.Device, err)
		}
		doc.Coverage.Orders[policy] = o
		if what := o.Problem(); what != "" {
			doc.Mismatches++
			doc.Problems = append(doc.Problems, "orders of "+policy+": "+what)
		}
	}
	return nil
}

// python returns the path of Python with onnxruntime.
func (c *verifyCmd) python() string {
	return cmp.Or(c.Python, filepath.Join(c.Build, "venv", "bin", "python"))
}

// oracle compares the golden executor with onnxruntime.
func (c *verifyCmd) oracle(e *cli.Env, p *prepared, s *experiments.Setup, im *zoo.Images, theta experiments.Theta, doc *verifyDoc) error {
	if im.Labels[0] < 0 {
		if max(c.N, c.Images, c.Orders, c.Stub, c.Faults) == 0 && !c.RequireCoverage {
			return cli.Errorf(cli.Input, "--oracle %d: there are no labelled images for %s, and nothing else would be checked", c.Oracle, c.Network)
		}
		e.Log.Warn("no labelled images for this network: the oracle is left out")
		return nil
	}
	model := c.Network
	if !strings.ContainsRune(model, '/') && !strings.HasSuffix(model, ".onnx") {
		model = filepath.Join(c.Root, "dse", "zoo", model+".onnx")
	}
	dir, err := os.MkdirTemp("", "sluice-oracle-")
	if err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "logits")
	n := min(c.Oracle, len(s.Exits))
	cmd := exec.CommandContext(e.Ctx, c.python(), filepath.Join(c.Root, "dse", "zoo", "oracle.py"), "--model", model,
		"--images", filepath.Join(cmp.Or(c.Data, zoo.DefaultData), "t10k-images-idx3-ubyte.gz"), "--n", strconv.Itoa(n), "--out", out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return cli.Errorf(cli.Tool, "run %s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(text)))
	}
	f, err := os.Open(out)
	if err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	defer f.Close()
	want, err := verify.ReadOracle(f, n, p.exits())
	if err != nil {
		return cli.Errorf(cli.Input, "oracle's logits: %w", err)
	}
	o := verify.CompareOracle(s.Exits, want, im.Labels, theta)
	doc.ExitAgreement, doc.AccuracyDelta, doc.OracleImages = &o.Agreement, &o.Delta, o.Images
	if what := o.Problem(); what != "" {
		doc.Problems = append(doc.Problems, what)
	}
	return nil
}

func (d *verifyDoc) print(w io.Writer) error {
	row := func(check, count, found string) { fmt.Fprintf(w, "%-22s %6s  %s\n", check, count, found) }
	if d.Coverage.Images.Launches > 0 {
		x := &d.Coverage.Images
		row("images = golden", strconv.Itoa(d.Images), fmt.Sprintf("%d starts, batches %v, exits %v, %d preemptions, %d merges, %s compared (%d halted slots)",
			x.Launches, x.Batches, x.Exits, x.Preemptions, x.Merges, report.Bytes(x.Bytes), x.Halted))
	}
	if d.Coverage.Layers.Ops != nil {
		x := &d.Coverage.Layers
		row("layers = golden", strconv.Itoa(d.Layers), fmt.Sprintf("%d networks, %d with woven maps, %v, batches %v, %s compared", x.Networks, x.Woven, x.Ops, x.Batches, report.Bytes(x.Bytes)))
		if n := d.Coverage.Cycles; n > 0 {
			row("  cycles of these", strconv.FormatUint(n, 10), "counted")
		}
		if m := &x.Memory; m.Networks > 0 {
			row("  memory of each drawn", strconv.Itoa(m.Networks), fmt.Sprintf("%.1f to %.1f bytes a cycle, latencies of %d to %d cycles, %d stalls",
				m.BytesPerCycle[0], m.BytesPerCycle[1], m.Latency[0], m.Latency[1], m.Stalls))
		}
	}
	if d.ExitAgreement != nil {
		row("golden ~ onnxruntime", strconv.Itoa(d.OracleImages), fmt.Sprintf("same exit on %.2f %%, accuracy %+.2f points", 100**d.ExitAgreement, 100**d.AccuracyDelta))
	}
	for _, p := range []string{"serial", "fluid"} {
		if o, ok := d.Coverage.Orders[p]; ok {
			row("orders of "+p, strconv.Itoa(o.Requests), fmt.Sprintf("of %d actions %d differ by the table, %d measured; results %d, %d",
				o.Actions, o.TableActions, o.MeasuredActions, o.TableResults, o.MeasuredResults))
		}
	}
	if n := d.Coverage.Stub; n > 0 {
		row("counters of the stub", strconv.Itoa(n), "layers on which it counts what the full build counts")
	}
	if n := d.Coverage.Faults; n > 0 {
		row("faults", strconv.Itoa(n), "each ended as it must, and the next start was right")
	}
	for _, s := range d.Segments {
		row("segment "+strconv.Itoa(s.Segment)+" = golden", strconv.Itoa(s.Layers), fmt.Sprintf("layers of %s, %d cycles, %.0f MMAC, array busy %.0f %%", d.Network,
			s.Cycles, float64(s.MACs)/1e6, 100*s.Util))
	}
	if len(d.Segments) == 0 {
		if err := d.Coverage.Bins.Print(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%d mismatches, seed %d\n", d.Mismatches, d.Seed)
	return err
}
