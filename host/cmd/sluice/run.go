// sluice run: the main job.

package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
)

type runCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to serve, as dse compile writes it, in place of --network and --config."`
	what
	Device   string    `default:"cosim" help:"Where it runs: cosim (the Verilated RTL), hls (the HLS kernel's C-simulation, which has no clock), soft (golden numerics, the bundle's latency table), uio (the NPU of the board that this runs on), cuda or hip (a GPU of NVIDIA's or AMD's, the bundle's numbers to the bit), or gpu-sim:NAME or gpu-sim:FILE.yaml (a simulated GPU by name, or by a parameter file of your own, with --workload)."`
	Policy   []string  `default:"serial,fluid" help:"Policies, one run each; the last one's numbers also stand at the top of the summary. With a bundle: ${policies}. gpu-sim has its own: ${gpu_policies} (streams,reef where none is given), and Strait's: ${strait_policies}. --zoo: ${zoo_policies} (jellyfish,jellyfish+)."`
	Rate     rateFlag  `default:"1.0" help:"Arrival rate: a multiple of serial's capacity (0.9), or requests per second (250/s)."`
	SLO      sloFlag   `default:"5x" name:"slo" help:"Latency objective: a multiple of one request alone through the whole network (5x), or a time (20ms)."`
	Theta    thetaFlag `default:"0.8" help:"Exit threshold on the softmax top-1: one for all exits, or one an exit, by commas."`
	Seed     uint64    `default:"1" help:"Seed of the arrivals."`
	N        int       `default:"256" short:"n" help:"Requests; request i brings test image i (modulo the 10,000 there are)."`
	Arrivals string    `help:"File of arrival times (.csv or .json, see host/load) in place of --rate, --seed and --n."`
	GPU      int       `name:"gpu" default:"0" help:"cuda, hip: which GPU, counted from 0 as sluice doctor lists them."`
	Profile  string    `placeholder:"FILE" help:"The summary.json of sluice profile: policies read its table in place of the bundle's."`
	Clock    string    `default:"auto" enum:"auto,table,measured,real" help:"Durations: the bundle's latency table, the device's cycles, or, on uio, real time by the NPU's TIME. auto: measured for cosim, cuda and hip, real for uio, table for all others."`
	Out      string    `default:"out/run" help:"Folder for summary.json, latency.svg and schedule.json."`
	Waves    string    `placeholder:"FILE" help:"On cosim: also write an FST wave file (needs sim/build.sh CONFIG --trace)."`
	WavesGiB float64   `name:"waves-gib" default:"1" help:"Largest wave file that a run may be expected to write; beyond, it does not begin."`
	JSON     bool      `name:"json" help:"Print the summary as JSON."`
	uioFlags
	zooFlags
	straitFlags

	Workload string        `placeholder:"FILE" help:"gpu-sim: workload file of DISB (JSON)."`
	Kernels  string        `placeholder:"FILE" help:"gpu-sim: kernel list (CSV, see host/gpu) in place of the catalogue's programs."`
	Style    string        `default:"tvm" help:"gpu-sim: framework whose kernels the catalogue gives: tvm, tensorrt, pytorch."`
	Time     time.Duration `help:"gpu-sim: end the workload after so much virtual time; --zoo: its length (default: 30s)."`
}

func (*runCmd) Help() string {
	return `Serves test images that arrive at random (Poisson), once with each policy, and prints one table.
The schedule opens in Perfetto.

Example:
  sluice run --device soft --rate 1.1 --n 1000
  sluice run my.sluice --device soft --data held-out
  sluice run --config tiny --network tiny --n 4 --policy fluid --waves out/tiny.fst
  sluice run --device cosim --clock table --policy fluid --theta 0.9,0.85,0.8,0
  sluice run my.sluice --device uio --label measured --clock-mhz 150 --data held-out
  sluice run my.sluice --device cuda --profile out/profile/summary.json --rate 0.8 --slo 5x
  sluice run --device gpu-sim:mi50 --workload A.json --kernels mine.csv --policy streams,reef --time 2s
  sluice run --device gpu-sim:l4 --workload mine.json --policy static,strait --gpus 2
  sluice run --zoo synthetic --clients 8 --rate 15/s --slo 100ms --link lte,steps,seen.txt --policy jellyfish+,b-m
  sluice run --zoo profiles.csv --clients cameras.csv --workers 4
  sluice run --zoo profiles.csv --clients cameras.csv --listen :9000 --time 10m`
}

// maxRequests bounds what a run keeps: each request's record, result and place in the schedule, 2 kB or so.
const maxRequests = 500_000

type resultDoc struct {
	ID     device.RequestID `json:"id"`
	Exit   int              `json:"exit"`
	Class  int              `json:"class"`
	Logits string           `json:"logits_sha256"`
	Ending engine.Ending    `json:"ending"`
}

// referenceDoc compares a run with soft's by the table.
type referenceDoc struct {
	Results int `json:"results_differ"` // requests whose exit, class or logits are not those of the golden executor
	Actions int `json:"actions_differ"` // places at which the order of actions is not that of soft by the table
	Of      int `json:"actions"`
}

type policyDoc struct {
	engine.Summary
	Accuracy      *float64      `json:"accuracy"`       // share of right classes among the requests with a result; null without labels
	AccuracyFloat *float64      `json:"accuracy_float"` // the float network's, same images, same thresholds
	Rate          float64       `json:"rate"`           // requests per second
	RateMultiple  *float64      `json:"rate_multiple"`  // of serial's capacity; null where no table of the device is known
	MACUtil       *float64      `json:"mac_util"`       // MACs done / (T_P * T_C * busy cycles)
	Cycles        *uint64       `json:"cycles"`         // the summary's; null, as the two beside it, on a device that counts none
	Bytes         *uint64       `json:"bytes"`          // the summary's
	Reference     *referenceDoc `json:"reference,omitempty"`
	Results       []resultDoc   `json:"results"`
}

// tableDoc is what follows from the latency table of the device.
type tableDoc struct {
	Alone     *int64   `json:"alone_ns"`   // one request alone through the whole network
	Service   *float64 `json:"service_ns"` // serial's mean service time, exits taken
	BatchGain *float64 `json:"batch_gain"` // throughput at B = B_max over B = 1, whole network
}

type runDoc struct {
	header
	Device    string            `json:"device"`
	Config    string            `json:"config"`
	Network   string            `json:"network"`
	Bundle    string            `json:"bundle_hash"`
	Profile   string            `json:"profile,omitempty"` // file that the table came from; else the bundle
	Served    string            `json:"images"`            // what was served
	Range     string            `json:"calibration"`       // where the bundle's ranges come from
	Ranged    bool              `json:"calibrated"`
	Clock     string            `json:"clock"`
	Theta     experiments.Theta `json:"theta"`
	SLO       int64             `json:"slo_ns"`
	tableDoc                    // null on a GPU without a profile: the bundle's table is the NPU's
	Cached    bool              `json:"bundle_cached"`
	policyDoc                   // of the last policy
	Runs      []policyDoc       `json:"runs"`
}

// Run implements the command.
func (c *runCmd) Run(e *env) error {
	if c.Zoo != "" {
		return c.zoo(e)
	}
	for _, f := range []string{"clients", "link", "workers", "listen"} {
		if slices.Contains(e.given, f) {
			return coded(codeUsage, fmt.Errorf("--%s is for --zoo FILE|synthetic", f))
		}
	}
	for _, f := range []string{"gpus", "begin"} {
		if slices.Contains(e.given, f) && !strings.HasPrefix(c.Device, gpuSim) {
			return coded(codeUsage, fmt.Errorf("--%s is for --device %sNAME, the device is %s", f, gpuSim, c.Device))
		}
	}
	if err := c.checkDevice(e); err != nil {
		return err
	}
	if strings.HasPrefix(c.Device, gpuSim) {
		return c.gpu(e)
	}
	c.waves, c.file, c.board, c.what.gpu = c.Waves, c.Bundle, &c.uioFlags, c.GPU
	if c.N < 1 || c.N > maxRequests {
		return coded(codeUsage, fmt.Errorf("--n %d: expected 1..%d, as every request is kept; sluice bench rates serves more", c.N, maxRequests))
	}
	if c.Waves != "" && c.Device != "cosim" {
		return coded(codeUsage, fmt.Errorf("--waves %s: only cosim has waves, the device is %s", c.Waves, c.Device))
	}
	if c.Device == "hls" && c.Clock == "measured" {
		return coded(codeUsage, errors.New("--clock measured: the HLS kernel's C-simulation counts no cycles"))
	}
	if c.Clock == "real" && c.Device != "uio" {
		return coded(codeUsage, fmt.Errorf("--clock real: only the NPU of a board (--device uio) has a clock that goes on by itself, the device is %s", c.Device))
	}
	for _, name := range c.Policy {
		if _, err := sched.New(name, sched.Options{}); err != nil {
			return coded(codeUsage, err)
		}
	}
	var times []int64
	if c.Arrivals != "" {
		var err error
		if times, err = load.File(c.Arrivals); err != nil {
			return coded(codeInput, err)
		}
		if c.N = len(times); c.N > maxRequests {
			return coded(codeInput, fmt.Errorf("%s: %d arrivals, at most %d are served, as every request is kept", c.Arrivals, c.N, maxRequests))
		}
	}
	theta := c.Theta.theta
	p, err := c.prepare(e, c.Theta.fits)
	if err != nil {
		return err
	}
	summary, err := p.bundle.Summarize()
	if err != nil {
		return err
	}
	profiled := ""
	if c.Profile != "" {
		if p.bundle, profiled, err = readProfile(c.Profile, p.bundle, summary.BundleHash, c.Device); err != nil {
			return err
		}
	}
	table, err := sched.NewTable(p.bundle.Latency, p.bundle.Network.Name)
	if err != nil {
		return coded(codeInput, err)
	}
	alone := table.Alone()
	slo := c.SLO.at(alone)
	if slo < alone && !c.untold() {
		return coded(codeInput, fmt.Errorf("--slo %s: %w: %d ns, and %s alone takes %d ns", c.SLO.text, engine.ErrSLO, slo, p.bundle.Network.Name, alone))
	}
	memo := &soft.Memo{}
	s, im, err := p.setup(e, &c.what, memo, c.N)
	if err != nil {
		return err
	}
	var float [][]device.ExitResult // a bundle alone has no float network
	if p.graph != nil {
		if float, err = floatExits(e.ctx, p.graph, im); err != nil {
			return err
		}
	}
	service := s.Service(theta)
	rate := c.Rate.at(1e9 / service)
	if times != nil {
		rate = float64(len(times)) / (float64(max(times[len(times)-1], 1)) / 1e9)
	}
	clock := engine.Table
	real := c.Clock == "real" || c.Clock == "auto" && c.Device == "uio"
	if c.Clock == "measured" || c.Clock == "auto" && (c.Device == "cosim" || onGPU(c.Device)) || real {
		clock = engine.Measured
	}
	if err := c.checkWaves(p, service); err != nil {
		return err
	}
	bMax := s.Table.MaxBatch()
	doc := runDoc{
		header: header{Schema: "sluice-run/1", Version: version, Seed: c.Seed},
		Device: c.Device, Config: p.design.Name, Network: p.bundle.Network.Name, Bundle: summary.BundleHash,
		Profile: c.Profile, Served: c.served(p, im), Range: p.info.Text(), Ranged: !p.info.Missing && p.info.From != "",
		Clock: clock.String(), Theta: theta, SLO: slo, Cached: p.cached,
	}
	if !c.untold() {
		gain := float64(bMax) * float64(alone) / float64(s.Table.At(0, s.Table.Segments()-1, bMax))
		doc.tableDoc = tableDoc{&alone, &service, &gain}
	}
	point := experiments.Point{Rate: rate, SLO: slo, Theta: theta, Seed: c.Seed, N: c.N, Times: times, Clock: clock}
	if c.untold() {
		point.Watchdog.Fixed = 10e9
	}
	dev, err := c.openDevice(e.ctx, c.Device, p, memo)
	if err != nil {
		return err
	}
	defer dev.Close()
	if label := dev.Info().Label; profiled != label && profiled != "" && onGPU(c.Device) {
		return coded(codeInput, fmt.Errorf("--profile %s: its times are %s, and what this device shows is %s", c.Profile, profiled, label))
	}
	if real {
		point.Now, doc.Clock = c.now, "real"
	}
	if doc.Label = dev.Info().Label; clock == engine.Table {
		doc.Label = "estimated" // the bundle's table comes from the law of cycles
	}
	var results []*engine.Result
	for _, name := range c.Policy {
		point.Policy = name
		set, done := e.progress(name, c.N)
		res, err := s.Run(e.ctx, dev, point, set)
		done()
		if err != nil {
			return coded(runCode(err), err)
		}
		results = append(results, res)
		d := describe(s, im, float, theta, res)
		if d.Rate = rate; !c.untold() {
			multiple := rate * service / 1e9
			d.RateMultiple = &multiple
		}
		if c.Device != "hls" && !onGPU(c.Device) { // there are no counters
			util := 0.0
			if res.Stats.Cycles > 0 {
				util = float64(res.Stats.MACs) / (float64(p.design.MACs()) * float64(res.Stats.Cycles))
			}
			d.MACUtil, d.Cycles, d.Bytes = &util, &d.Summary.Cycles, &d.Summary.Bytes
		}
		if c.Device != "soft" {
			if d.Reference, err = c.reference(e, p, s, memo, point, res); err != nil {
				return err
			}
		}
		doc.Runs = append(doc.Runs, d)
	}
	doc.policyDoc = doc.Runs[len(doc.Runs)-1]

	if err := writeFile(filepath.Join(c.Out, "latency.svg"), func(w io.Writer) error {
		return report.LatencySVG(w, slo, results...)
	}); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(c.Out, "schedule.json"), func(w io.Writer) error {
		return report.Trace(w, results...)
	}); err != nil {
		return err
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if !c.JSON {
		if err := doc.print(e.stdout); err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "\nwrote %s (summary.json, latency.svg, schedule.json: opens in Perfetto)\n", c.Out)
	}
	for i, d := range doc.Runs {
		if d.Errors > 0 {
			return coded(codeDevice, fmt.Errorf("%s on %s: %d of %d requests ended in an error; the first: %s",
				d.Policy, c.Device, d.Errors, d.Requests, experiments.FirstWhy(results[i])))
		}
		if d.Reference != nil && d.Reference.Results > 0 {
			return coded(codeCheck, fmt.Errorf("%s on %s: %d of %d results are not those of the golden executor", d.Policy, c.Device, d.Reference.Results, d.Requests))
		}
	}
	return nil
}

// waveBytes is what a cycle adds to a wave file for each MAC of the array: 12.4 M cycles of the 256 MACs of
// run made 20 GB.
const waveBytes = 6.3

// checkWaves refuses a wave file that would fill a disk before anybody notices.
func (c *runCmd) checkWaves(p *prepared, service float64) error {
	if c.Waves == "" {
		return nil
	}
	cycles := service / 1e9 * p.design.ClockMHz * 1e6 * float64(c.N*len(c.Policy))
	gib := cycles * waveBytes * float64(p.design.MACs()) / (1 << 30)
	if gib > c.WavesGiB {
		return coded(codeUsage, fmt.Errorf("--waves %s: %d requests under %d policies are about %.1f M cycles, whose waves take some %.1f GiB; fewer (--n, --policy), a smaller --config, or --waves-gib",
			c.Waves, c.N, len(c.Policy), cycles/1e6, gib))
	}
	return nil
}

// runCode is the exit code of a failed run.
func runCode(err error) int {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(engine.ErrSLO, load.ErrLoad, load.ErrSLO, engine.ErrConfig, engine.ErrSource, sched.ErrTable, sched.ErrRates, experiments.ErrSetup):
		return codeInput
	case is(engine.ErrPolicy, engine.ErrStuck):
		return codeFault
	}
	return codeDevice
}

// describe counts what the engine does not know: accuracy, and who left where.
func describe(s *experiments.Setup, im *zoo.Images, float [][]device.ExitResult, theta experiments.Theta, res *engine.Result) policyDoc {
	d := policyDoc{Summary: res.Summary()}
	var n, right, rightFloat int
	for i := range res.Records {
		r := &res.Records[i]
		d.Results = append(d.Results, resultDoc{r.ID, r.Exit, r.Class, r.Logits, r.Ending})
		img := s.Image(r.ID)
		if r.Exit < 0 || im.Labels[img] < 0 {
			continue
		}
		n++
		if r.Class == im.Labels[img] {
			right++
		}
		if float != nil && float[img][experiments.Taken(float[img], theta)].Class == im.Labels[img] {
			rightFloat++
		}
	}
	if n > 0 {
		a, f := float64(right)/float64(n), float64(rightFloat)/float64(n)
		if d.Accuracy = &a; float != nil {
			d.AccuracyFloat = &f
		}
	}
	return d
}

// served says in a few words what the requests brought.
func (c *runCmd) served(p *prepared, im *zoo.Images) string {
	labels := "with classes"
	if im.Labels[0] < 0 {
		labels = "without classes"
	}
	switch {
	case c.Noise:
		return "serving noise: exits mean nothing"
	case p.info.Fashion() && (c.Data == "" || c.fashion() != ""):
		return fmt.Sprintf("serving %d test images of Fashion-MNIST", len(im.Pixels))
	}
	return fmt.Sprintf("serving %d images of %s, %s", len(im.Pixels), filepath.Base(c.Data), labels)
}

// reference runs the same point on soft by the table and compares.
func (c *runCmd) reference(
	e *env, p *prepared, s *experiments.Setup, memo *soft.Memo, point experiments.Point, res *engine.Result,
) (*referenceDoc, error) {
	dev, err := c.openDevice(e.ctx, "soft", p, memo)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	point.Clock, point.Now = engine.Table, nil
	ref, err := s.Run(e.ctx, dev, point, nil)
	if err != nil {
		return nil, fmt.Errorf("reference run: %w", err)
	}
	return &referenceDoc{Results: engine.DiffResults(ref, res), Actions: engine.DiffSteps(ref.Steps, res.Steps), Of: len(ref.Steps)}, nil
}

func (d *runDoc) print(w io.Writer) error {
	load := fmt.Sprintf("%.0f/s", d.Rate)
	if d.RateMultiple != nil {
		load += fmt.Sprintf(" = %.2f x serial's capacity", *d.RateMultiple)
	}
	fmt.Fprintf(w, "%s on %s (%s, %s), clock: %s; %d requests at %s, seed %d\n",
		d.Network, d.Device, d.Config, d.Label, d.Clock, d.Requests, load, d.Seed)
	fmt.Fprintf(w, "bundle %s; %s; calibration: %s\n", d.Bundle, d.Served, d.Range)
	if d.Alone == nil {
		fmt.Fprintf(w, "SLO %s; policies read the bundle's latency table, which is the NPU's (--profile: a GPU's own)\n\n", report.Ns(d.SLO))
	} else {
		fmt.Fprintf(w, "one request alone takes %s (with its exits %s on average), SLO %s; a batch of B_max brings %.2f x the throughput\n\n",
			report.Ns(*d.Alone), report.Ns(int64(*d.Service)), report.Ns(d.SLO), *d.BatchGain)
	}
	t := report.Table{Head: []string{""}}
	for i := range d.Runs {
		t.Head = append(t.Head, d.Runs[i].Policy)
	}
	row := func(name string, cell func(*policyDoc) string) {
		cells := []string{name}
		for i := range d.Runs {
			cells = append(cells, cell(&d.Runs[i]))
		}
		t.Add(cells...)
	}
	count := func(name string, of func(*policyDoc) int) {
		row(name, func(p *policyDoc) string { return strconv.Itoa(of(p)) })
	}
	share := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return report.Percent(*v)
	}
	known := func(v *uint64, text func(uint64) string) string {
		if v == nil {
			return "-"
		}
		return text(*v)
	}
	count("on time", func(p *policyDoc) int { return p.OnTime })
	count("late", func(p *policyDoc) int { return p.Late })
	count("dropped", func(p *policyDoc) int { return p.Dropped })
	count("refused", func(p *policyDoc) int { return p.Refused })
	count("cancelled", func(p *policyDoc) int { return p.Cancelled })
	count("errors", func(p *policyDoc) int { return p.Errors })
	row("violations", func(p *policyDoc) string { return report.Percent(float64(p.Violations) / float64(p.Requests)) })
	row("left at exit", func(p *policyDoc) string { return strings.Trim(fmt.Sprint(p.Exits), "[]") })
	row("accuracy", func(p *policyDoc) string { return share(p.Accuracy) })
	row("  float network", func(p *policyDoc) string { return share(p.AccuracyFloat) })
	row("latency average", func(p *policyDoc) string { return report.Ns(p.Latency.Avg) })
	row("  p50", func(p *policyDoc) string { return report.Ns(p.Latency.P50) })
	row("  p99", func(p *policyDoc) string { return report.Ns(p.Latency.P99) })
	row("goodput", func(p *policyDoc) string { return fmt.Sprintf("%.0f/s", p.Goodput) })
	row("device busy", func(p *policyDoc) string { return report.Percent(p.Busy) })
	row("MAC utilisation", func(p *policyDoc) string { return share(p.MACUtil) })
	row("mean batch", func(p *policyDoc) string { return fmt.Sprintf("%.2f", p.MeanBatch) })
	row("DRAM traffic", func(p *policyDoc) string { return known(p.Bytes, report.Bytes) })
	row("cycles", func(p *policyDoc) string {
		return known(p.Cycles, func(n uint64) string { return strconv.FormatUint(n, 10) })
	})
	count("scheduler calls", func(p *policyDoc) int { return p.Calls })
	count("preemptions", func(p *policyDoc) int { return p.Preemptions })
	count("merges", func(p *policyDoc) int { return p.Merges })
	if d.Runs[0].Reference != nil {
		row("results unlike golden", func(p *policyDoc) string { return strconv.Itoa(p.Reference.Results) })
		row("actions unlike soft by table", func(p *policyDoc) string { return fmt.Sprintf("%d of %d", p.Reference.Actions, p.Reference.Of) })
	}
	return t.Write(w)
}
