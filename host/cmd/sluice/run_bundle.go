// sluice run serves one bundle on the NPU, on a software model of the NPU, or on a GPU.

package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
)

type resultDoc struct {
	ID     device.RequestID `json:"id"`
	Exit   int              `json:"exit"`
	Class  int              `json:"class"`
	Logits string           `json:"logits_sha256"`
	Ending engine.Ending    `json:"ending"`
}

// referenceDoc compares a run with its repetition on the soft device with the latency table's times.
type referenceDoc struct {
	Results int `json:"results_differ"` // number of requests with an exit, class or logits that differ from the golden executor's
	Actions int `json:"actions_differ"` // number of actions that differ from the run on the soft device
	Of      int `json:"actions"`
}

type policyDoc struct {
	engine.Summary
	Accuracy      *float64      `json:"accuracy"`       // share of correct classes among the requests with a result; null without labels
	AccuracyFloat *float64      `json:"accuracy_float"` // accuracy of the float network, with the same images and thresholds
	Rate          float64       `json:"rate"`           // requests per second
	RateMultiple  *float64      `json:"rate_multiple"`  // rate divided by the capacity under the policy serial; null if the device's table is unknown
	MACUtil       *float64      `json:"mac_util"`       // MACs done / (T_P * T_C * busy cycles)
	Cycles        *uint64       `json:"cycles"`         // Summary.Cycles; null, like MACUtil and Bytes, if the device has no counters
	Bytes         *uint64       `json:"bytes"`          // Summary.Bytes
	Reference     *referenceDoc `json:"reference,omitempty"`
	Results       []resultDoc   `json:"results"`
}

// tableDoc contains values that are computed from the device's latency table.
type tableDoc struct {
	Alone     *int64   `json:"alone_ns"`   // time of one request alone in the whole network
	Service   *float64 `json:"service_ns"` // mean service time under the policy serial, with early exits
	BatchGain *float64 `json:"batch_gain"` // throughput at B = B_max divided by throughput at B = 1, for the whole network
}

type runDoc struct {
	cli.Header
	Device    string            `json:"device"`
	Config    string            `json:"config"`
	Network   string            `json:"network"`
	Bundle    string            `json:"bundle_hash"`
	Profile   string            `json:"profile,omitempty"` // file that contains the table; empty: the bundle's table
	Served    string            `json:"images"`            // description of the served images
	Range     string            `json:"calibration"`       // source of the bundle's ranges
	Ranged    bool              `json:"calibrated"`
	Clock     string            `json:"clock"`
	Theta     experiments.Theta `json:"theta"`
	SLO       int64             `json:"slo_ns"`
	tableDoc                    // null on a GPU without a profile, because the bundle's table is for the NPU
	Cached    bool              `json:"bundle_cached"`
	policyDoc                   // values of the last policy
	Runs      []policyDoc       `json:"runs"`
}

// serve runs a bundle on the selected device, once with each policy.
func (c *runCmd) serve(e *cli.Env) error {
	if err := c.checkValues(); err != nil {
		return err
	}
	r := &bundleRun{runCmd: c, e: e, memo: &soft.Memo{}}
	for _, step := range []func() error{r.arrivals, r.prepared, r.images, r.open} {
		if err := step(); err != nil {
			return err
		}
	}
	defer r.dev.Close()
	for _, name := range c.Policy {
		if err := r.policy(name); err != nil {
			return err
		}
	}
	if err := r.write(); err != nil {
		return err
	}
	return r.failed()
}

// checkValues checks the flags of a run with a bundle, before any work.
func (c *runCmd) checkValues() error {
	switch {
	case c.tableUnknown() && (!c.Rate.absolute || c.SLO.ns == 0):
		return cli.Errorf(cli.Usage, "--device %s: --rate N/s and --slo TIME are expected (250/s, 20ms): the bundle's table is the NPU's, and multiples would be of its figures; or --profile FILE, of sluice profile", c.Device)
	case c.N < 1 || c.N > maxRequests:
		return cli.Errorf(cli.Usage, "--n %d: expected 1..%d, as every request is kept; sluice bench rates serves more", c.N, maxRequests)
	case c.Device == "hls" && c.Clock == "measured":
		return cli.Errorf(cli.Usage, "--clock measured: the HLS kernel's C-simulation counts no cycles")
	case c.Clock == "real" && c.Device != "uio":
		return cli.Errorf(cli.Usage, "--clock real: only the NPU of a board (--device uio) has a clock that goes on by itself, the device is %s", c.Device)
	}
	for _, name := range c.Policy {
		if _, err := sched.New(name, sched.Options{}); err != nil {
			return cli.Coded(cli.Usage, err)
		}
	}
	return nil
}

// bundleRun contains the state of a run of one bundle under several policies.
type bundleRun struct {
	*runCmd
	e        *cli.Env
	memo     *soft.Memo
	p        *prepared
	setup    *experiments.Setup
	im       *zoo.Images
	float    [][]device.ExitResult // results of the float network; nil if the user named a bundle
	profiled string                // label of the profile; empty: none
	service  float64               // mean service time under the policy serial, in ns
	point    experiments.Point
	dev      device.Blocking
	results  []*engine.Result
	doc      runDoc
}

func (r *bundleRun) arrivals() error {
	r.point = experiments.Point{Theta: r.Theta.theta, Seed: r.Seed, N: r.N, ByTable: r.Admit}
	if r.Arrivals == "" {
		return nil
	}
	times, err := load.File(r.Arrivals)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	if len(times) > maxRequests {
		return cli.Errorf(cli.Input, "%s: %d arrivals, at most %d are served, as every request is kept", r.Arrivals, len(times), maxRequests)
	}
	r.N = len(times)
	r.point.N, r.point.Times = r.N, times
	return nil
}

// prepared compiles or reads the bundle, and replaces its table with the profile's table.
func (r *bundleRun) prepared() error {
	w := &r.what
	w.waves, w.file, w.board, w.gpu = r.Waves, r.Bundle, &r.uioFlags, r.GPU
	p, err := w.prepare(r.e, r.Theta.fits)
	if err != nil {
		return err
	}
	r.p = p
	summary, err := p.bundle.Summarize()
	if err != nil {
		return err
	}
	if r.Profile != "" {
		if p.bundle, r.profiled, err = readProfile(r.Profile, p.bundle, summary.BundleHash, r.Device); err != nil {
			return err
		}
	}
	table, err := sched.NewTable(p.bundle.Latency, p.bundle.Network.Name)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	alone := table.Alone()
	if r.point.SLO = r.SLO.at(alone); r.point.SLO < alone && !r.tableUnknown() {
		return cli.Errorf(cli.Input, "--slo %s: %w: %d ns, and %s alone takes %d ns", r.SLO.text, engine.ErrSLO, r.point.SLO, p.bundle.Network.Name, alone)
	}
	r.doc = runDoc{
		Header: cli.NewHeader("sluice-run/1", r.Seed, ""),
		Device: r.Device, Config: p.design.Name, Network: p.bundle.Network.Name, Bundle: summary.BundleHash,
		Profile: r.Profile, Range: p.info.Text(), Ranged: !p.info.Missing && p.info.From != "",
		Theta: r.point.Theta, SLO: r.point.SLO, Cached: p.cached,
	}
	if !r.tableUnknown() {
		r.doc.Alone = &alone
	}
	return nil
}

// images computes the exits of all images. From the exits, it computes the service time and the rate.
func (r *bundleRun) images() (err error) {
	if r.setup, r.im, err = r.p.setup(r.e, &r.what, r.memo, r.N); err != nil {
		return err
	}
	if r.p.graph != nil {
		if r.float, err = floatExits(r.e.Ctx, r.p.graph, r.im); err != nil {
			return err
		}
	}
	r.service = r.setup.Service(r.point.Theta)
	r.point.Rate = r.Rate.at(1e9 / r.service)
	if times := r.point.Times; times != nil {
		r.point.Rate = float64(len(times)) / (float64(max(times[len(times)-1], 1)) / 1e9)
	}
	r.doc.Served = r.served(r.p, r.im)
	if alone := r.doc.Alone; alone != nil {
		table := r.setup.Table
		most := table.MaxBatch()
		gain := float64(most) * float64(*alone) / float64(table.At(0, table.Segments()-1, most))
		r.doc.Service, r.doc.BatchGain = &r.service, &gain
	}
	return r.checkWaves(r.p, r.service)
}

// open opens the device and sets its clock.
func (r *bundleRun) open() (err error) {
	real := r.Clock == "real" || r.Clock == "auto" && r.Device == "uio"
	r.point.Clock = engine.Table
	if r.Clock == "measured" || r.Clock == "auto" && (r.Device == "cosim" || onGPU(r.Device)) || real {
		r.point.Clock = engine.Measured
	}
	if r.tableUnknown() {
		r.point.Watchdog.Fixed = 10e9
	}
	if r.dev, err = r.openDevice(r.e.Ctx, r.Device, r.p, r.memo); err != nil {
		return err
	}
	label := r.dev.Info().Label
	if r.profiled != label && r.profiled != "" && onGPU(r.Device) {
		return errors.Join(cli.Errorf(cli.Input, "--profile %s: its times are %s, and what this device shows is %s", r.Profile, r.profiled, label), r.dev.Close())
	}
	r.doc.Clock, r.doc.Label = r.point.Clock.String(), label
	if real {
		r.point.Now, r.doc.Clock = r.now, "real"
	}
	if r.point.Clock == engine.Table {
		r.doc.Label = "estimated" // computed by the law of cycles or by package machine
	}
	return nil
}

func (r *bundleRun) policy(name string) error {
	r.point.Policy = name
	set, done := r.e.Progress(name, r.N)
	res, err := r.setup.Run(r.e.Ctx, r.dev, r.point, set)
	done()
	if err != nil {
		return cli.Coded(runCode(err), err)
	}
	r.results = append(r.results, res)
	d := describe(r.setup, r.im, r.float, r.point.Theta, res)
	if d.Rate = r.point.Rate; !r.tableUnknown() {
		multiple := d.Rate * r.service / 1e9
		d.RateMultiple = &multiple
	}
	if r.Device != "hls" && !onGPU(r.Device) { // hls and GPUs have no counters
		util := 0.0
		if res.Stats.Cycles > 0 {
			util = float64(res.Stats.MACs) / (float64(r.p.design.MACs()) * float64(res.Stats.Cycles))
		}
		d.MACUtil, d.Cycles, d.Bytes = &util, &d.Summary.Cycles, &d.Summary.Bytes
	}
	if r.Device != "soft" {
		if d.Reference, err = r.reference(res); err != nil {
			return err
		}
	}
	r.doc.Runs = append(r.doc.Runs, d)
	return nil
}

func (r *bundleRun) write() error {
	r.doc.policyDoc = r.doc.Runs[len(r.doc.Runs)-1]
	files := "summary.json, schedule.json: opens in Perfetto"
	if report.Draws {
		files = "summary.json, latency.svg, schedule.json: opens in Perfetto"
		if err := cli.WriteFile(filepath.Join(r.Out, "latency.svg"), func(w io.Writer) error {
			return report.LatencySVG(w, r.point.SLO, r.results...)
		}); err != nil {
			return err
		}
	}
	if err := cli.WriteFile(filepath.Join(r.Out, "schedule.json"), func(w io.Writer) error {
		return report.Trace(w, r.results...)
	}); err != nil {
		return err
	}
	if err := r.e.Output(r.doc, r.Out, r.JSON); err != nil || r.JSON {
		return err
	}
	if err := r.doc.print(r.e.Stdout); err != nil {
		return err
	}
	fmt.Fprintf(r.e.Stdout, "\nwrote %s (%s)\n", r.Out, files)
	return nil
}

// failed returns an error if requests ended with errors, or with results that differ from the golden executor's.
func (r *bundleRun) failed() error {
	for i, d := range r.doc.Runs {
		if d.Errors > 0 {
			return cli.Errorf(cli.Device, "%s on %s: %d of %d requests ended in an error; the first: %s",
				d.Policy, r.Device, d.Errors, d.Requests, experiments.FirstWhy(r.results[i]))
		}
		if d.Reference != nil && d.Reference.Results > 0 {
			return cli.Errorf(cli.Check, "%s on %s: %d of %d results are not those of the golden executor", d.Policy, r.Device, d.Reference.Results, d.Requests)
		}
	}
	return nil
}

// waveBytes is the size of a wave file in bytes per cycle and MAC. It was measured with the configuration "run": 12.4 M
// cycles of 256 MACs resulted in 20 GB.
const waveBytes = 6.3

// checkWaves returns an error if the wave file could fill the disk.
func (c *runCmd) checkWaves(p *prepared, service float64) error {
	if c.Waves == "" {
		return nil
	}
	cycles := service / 1e9 * p.design.ClockMHz * 1e6 * float64(c.N*len(c.Policy))
	gib := cycles * waveBytes * float64(p.design.MACs()) / (1 << 30)
	if gib > c.WavesGiB {
		return cli.Errorf(cli.Usage, "--waves %s: %d requests under %d policies are about %.1f M cycles, whose waves take some %.1f GiB; fewer (--n, --policy), a smaller --config, or --waves-gib",
			c.Waves, c.N, len(c.Policy), cycles/1e6, gib)
	}
	return nil
}

// runCode returns the exit code for a failed run.
func runCode(err error) int {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(engine.ErrSLO, load.ErrLoad, load.ErrSLO, engine.ErrConfig, engine.ErrSource, sched.ErrTable, sched.ErrRates, experiments.ErrSetup):
		return cli.Input
	case is(engine.ErrPolicy, engine.ErrStuck):
		return cli.Fault
	}
	return cli.Device
}

// describe adds the accuracy and the number of requests at each exit, which the engine does not compute.
func describe(s *experiments.Setup, im *zoo.Images, float [][]device.ExitResult, theta experiments.Theta, res *engine.Result) policyDoc {
	d := policyDoc{Summary: res.Summary()}
	var n, right, rightFloat int
	for i := range res.Records {
		r := &res.Records[i]
		d.Results = append(d.Results, resultDoc{r.ID, r.Exit, r.Class, r.Logits, r.Ending})
		img := s.Image(r.ID)
		if r.Exit < 0 || r.Class < 0 || im.Labels[img] < 0 {
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

// served returns a short description of the served images.
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

// reference repeats the run on the soft device with the table, and compares both runs.
func (r *bundleRun) reference(res *engine.Result) (*referenceDoc, error) {
	dev, err := r.openDevice(r.e.Ctx, "soft", r.p, r.memo)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	point := r.point
	point.Clock, point.Now = engine.Table, nil
	ref, err := r.setup.Run(r.e.Ctx, dev, point, nil)
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
	count := func(name string, of func(*policyDoc) int64) {
		row(name, func(p *policyDoc) string { return strconv.FormatInt(of(p), 10) })
	}
	share := func(v *float64) string { return orDash(v, report.Percent) }
	count("on time", func(p *policyDoc) int64 { return p.OnTime })
	count("late", func(p *policyDoc) int64 { return p.Late })
	count("dropped", func(p *policyDoc) int64 { return p.Dropped })
	count("refused", func(p *policyDoc) int64 { return p.Refused })
	count("cancelled", func(p *policyDoc) int64 { return p.Cancelled })
	count("errors", func(p *policyDoc) int64 { return p.Errors })
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
	row("DRAM traffic", func(p *policyDoc) string { return orDash(p.Bytes, report.Bytes) })
	row("cycles", func(p *policyDoc) string {
		return orDash(p.Cycles, func(n uint64) string { return strconv.FormatUint(n, 10) })
	})
	count("scheduler calls", func(p *policyDoc) int64 { return p.Calls })
	count("preemptions", func(p *policyDoc) int64 { return p.Preemptions })
	count("merges", func(p *policyDoc) int64 { return p.Merges })
	if d.Runs[0].Reference != nil {
		row("results unlike golden", func(p *policyDoc) string { return strconv.Itoa(p.Reference.Results) })
		row("actions unlike soft by table", func(p *policyDoc) string { return fmt.Sprintf("%d of %d", p.Reference.Actions, p.Reference.Of) })
	}
	return t.Write(w)
}
