// sluice verify: the hardware against the golden executor, the golden executor against onnxruntime,
// and the two devices against each other.

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/soft"
)

type verifyCmd struct {
	what
	Device string `default:"cosim" enum:"cosim,soft" help:"What is held against the golden executor (soft: the golden executor itself, which tests this command)."`
	N      int    `default:"200" short:"n" help:"Random layers of at most 2 MMAC; 0 leaves them out."`
	Images int    `default:"256" help:"Test images under a random schedule; 0 leaves them out."`
	Oracle int    `default:"2000" help:"Test images for onnxruntime; 0 leaves it out."`
	Orders int    `default:"128" help:"Requests for comparing the order of actions on soft and on the device; 0 leaves it out."`
	Python string `help:"Python with onnxruntime (default: venv/bin/python in the build folder)."`
	Root   string `default:"." help:"The repository's root, for dse/zoo."`
	Theta  string `default:"0.8" help:"Exit threshold for the oracle and the orders."`
	Seed   uint64 `default:"1" help:"Seed of everything drawn."`
	Out    string `default:"out/verify" help:"Folder for summary.json."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (*verifyCmd) Help() string {
	return `Four checks:
  images   every image on the device under a random schedule (batches of 1 to 8, halting, merging, an
           exit threshold of its own for each request): results, logits and all bytes of all slots
           equal the golden executor's
  layers   random networks of one to a few layers, random batches: all bytes of all slots
  oracle   the golden executor against onnxruntime in float: same exit on at least 99.8 %, accuracy
           within 0.1 point
  orders   soft and the device serve the same arrivals: by the table, equal results and order of
           actions; with measured cycles, equal results, differing actions are counted

A mismatch prints the seed, the layer's descriptor and the first element that differs.

Example:
  sluice verify --n 200 --images 256 --seed 42`
}

type ordersDoc struct {
	Requests        int `json:"requests"`
	Actions         int `json:"actions"`
	TableActions    int `json:"table_actions_differ"`
	TableResults    int `json:"table_results_differ"`
	MeasuredActions int `json:"measured_actions_differ"`
	MeasuredResults int `json:"measured_results_differ"`
}

type verifyDoc struct {
	header
	Device        string   `json:"device"`
	Config        string   `json:"config"`
	Layers        int      `json:"layers"`
	Images        int      `json:"images"`
	Mismatches    int      `json:"mismatches"`
	ExitAgreement *float64 `json:"exit_agreement"` // null: not asked
	AccuracyDelta *float64 `json:"accuracy_delta"` // golden minus onnxruntime, share
	OracleImages  int      `json:"oracle_images"`
	Coverage      struct {
		Images struct {
			experiments.Coverage
			Preemptions int `json:"preemptions"`
			Merges      int `json:"merges"`
		} `json:"images"`
		Layers struct {
			experiments.Coverage
			Networks int            `json:"networks"`
			Ops      map[string]int `json:"ops"`
			MACs     int64          `json:"macs"`
		} `json:"layers"`
		Orders map[string]ordersDoc `json:"orders"` // by policy
	} `json:"coverage"`
	Problems []string `json:"problems"`
}

// The bounds of the oracle check.
const (
	minAgreement = 0.998
	maxDelta     = 0.001
)

// Run implements the command.
func (c *verifyCmd) Run(e *env) error {
	if c.N < 0 || c.Images < 0 || c.Oracle < 0 || c.Orders < 0 || c.N > 1e6 {
		return coded(codeUsage, errors.New("--n, --images, --oracle and --orders must not be negative"))
	}
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	theta, err := parseTheta(c.Theta, len(p.graph.Exits))
	if err != nil {
		return err
	}
	doc := &verifyDoc{header: header{"sluice-verify/1", version, c.Seed, "simulated"}, Device: c.Device, Config: p.design.Name, Problems: []string{}}
	memo := &soft.Memo{}
	var s *experiments.Setup
	var im *zoo.Images
	if n := max(c.Images, c.Oracle, c.Orders); n > 0 {
		if s, im, err = p.setup(e, &c.what, memo, n); err != nil {
			return err
		}
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
	if c.N > 0 {
		if err := c.layers(e, p, doc); err != nil {
			return err
		}
	}
	if c.Orders > 0 {
		if err := c.orders(e, p, s, memo, theta, doc); err != nil {
			return err
		}
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if !c.JSON {
		if err := doc.print(e.stdout); err != nil {
			return err
		}
	}
	if len(doc.Problems) > 0 {
		return coded(codeCheck, fmt.Errorf("verify, seed %d: %s", c.Seed, strings.Join(doc.Problems, "\n  ")))
	}
	return nil
}

// problem notes what a check found; what is no mismatch is an error of the device and ends it all.
func (d *verifyDoc) problem(name string, err error) error {
	if !errors.Is(err, experiments.ErrMismatch) {
		return coded(codeDevice, fmt.Errorf("%s: %w", name, err))
	}
	d.Mismatches++
	d.Problems = append(d.Problems, fmt.Sprintf("%s: %v", name, err))
	return nil
}

// shadow opens the device beside a full golden executor.
func (c *verifyCmd) shadow(ctx context.Context, p *prepared) (*experiments.Shadow, error) {
	s := &experiments.Shadow{Reference: soft.New(p.design, soft.Options{})}
	if c.Device == "soft" {
		s.Slotted = soft.New(p.design, soft.Options{})
		return s, nil
	}
	d, err := c.openCosim(ctx, p)
	if err != nil {
		return nil, err
	}
	s.Slotted = d
	return s, nil
}

func (c *verifyCmd) images(e *env, p *prepared, s *experiments.Setup, doc *verifyDoc) error {
	dev, err := c.shadow(e.ctx, p)
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := dev.Load(e.ctx, p.bundle); err != nil {
		return coded(codeDevice, err)
	}
	few := *s
	few.Inputs, few.Exits = s.Inputs[:min(c.Images, len(s.Inputs))], s.Exits[:min(c.Images, len(s.Inputs))]
	set, done := e.progress("images", len(few.Inputs))
	res, err := experiments.Serve(e.ctx, &few, dev, c.Seed, set)
	done()
	doc.Coverage.Images.Coverage = dev.Coverage
	if err != nil {
		return doc.problem("images", err)
	}
	doc.Images = len(few.Inputs)
	doc.Coverage.Images.Preemptions, doc.Coverage.Images.Merges = res.Preemptions, res.Merges
	return nil
}

func (c *verifyCmd) layers(e *env, p *prepared, doc *verifyDoc) error {
	dev, err := c.shadow(e.ctx, p)
	if err != nil {
		return err
	}
	defer dev.Close()
	doc.Coverage.Layers.Ops = map[string]int{}
	set, done := e.progress("layers", c.N)
	defer done()
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650003))
	next := device.RequestID(0)
	for seed := c.Seed << 20; doc.Layers < c.N; seed++ {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		net, err := randnet.New(seed, p.design, randnet.Built())
		if err != nil {
			return err
		}
		b := rename(net.Bundle, "random") // one name: the device replaces the one before
		if err := dev.Load(e.ctx, b); err != nil {
			return coded(codeDevice, fmt.Errorf("random network of seed %d: %w", seed, err))
		}
		l := device.Launch{ID: device.LaunchID(doc.Coverage.Layers.Networks + 1), Network: b.Network.Name, Last: len(b.Network.Exits) - 1}
		for range 1 + rng.IntN(dev.Info().MaxBatch) {
			next++
			l.Requests, l.Theta = append(l.Requests, next), append(l.Theta, experiments.Never)
			if err = dev.Admit(e.ctx, l.Network, next, randnet.Input(rng, b)); err != nil {
				break
			}
		}
		for seg := 0; seg <= l.Last && err == nil; seg++ {
			one := l
			one.First, one.Last = seg, seg
			_, err = dev.Run(e.ctx, one)
		}
		for _, id := range l.Requests {
			dev.Release(id)
		}
		if err != nil {
			return doc.problem(fmt.Sprintf("random network of seed %d", seed), err)
		}
		for i := range b.Layers {
			doc.Coverage.Layers.Ops[b.Layers[i].Op.String()]++
		}
		for _, x := range b.Network.Exits {
			doc.Coverage.Layers.MACs += x.MACs * int64(len(l.Requests))
		}
		doc.Coverage.Layers.Networks++
		doc.Layers += len(b.Layers)
		set(min(doc.Layers, c.N))
	}
	doc.Coverage.Layers.Coverage = dev.Coverage
	return nil
}

func rename(b *bundle.Bundle, name string) *bundle.Bundle {
	c := *b
	c.Network.Name = name
	c.Latency = append([]bundle.LatencyEntry(nil), b.Latency...)
	for i := range c.Latency {
		c.Latency[i].Network = name
	}
	return &c
}

// orders serves the same arrivals on soft by the table, and on the device by the table and measured.
func (c *verifyCmd) orders(e *env, p *prepared, s *experiments.Setup, memo *soft.Memo, theta experiments.Theta, doc *verifyDoc) error {
	doc.Coverage.Orders = map[string]ordersDoc{}
	dev, err := c.openDevice(e.ctx, c.Device, p, memo)
	if err != nil {
		return err
	}
	defer dev.Close()
	ref, err := c.openDevice(e.ctx, "soft", p, memo)
	if err != nil {
		return err
	}
	defer ref.Close()
	for _, policy := range []string{"serial", "fluid"} {
		pt := experiments.Point{
			Policy: policy, Rate: 1e9 / s.Service(theta), SLO: 5 * s.Table.Alone(), Theta: theta, Seed: c.Seed, N: c.Orders,
		}
		run := func(d device.Device, clock engine.Clock) (*engine.Result, error) {
			q := pt
			q.Clock = clock
			r, err := s.Run(e.ctx, d, q, nil)
			if err == nil && r.Faults > 0 {
				err = fmt.Errorf("%d segments failed on %s: %s", r.Faults, d.Info().Name, firstWhy(r))
			}
			return r, coded(codeDevice, err)
		}
		want, err := run(ref, engine.Table)
		if err != nil {
			return err
		}
		table, err := run(dev, engine.Table)
		if err != nil {
			return err
		}
		measured, err := run(dev, engine.Measured)
		if err != nil {
			return err
		}
		o := ordersDoc{
			Requests: c.Orders, Actions: len(want.Steps),
			TableActions: engine.DiffSteps(want.Steps, table.Steps), TableResults: engine.DiffResults(want, table),
			MeasuredActions: engine.DiffSteps(want.Steps, measured.Steps), MeasuredResults: engine.DiffResults(want, measured),
		}
		doc.Coverage.Orders[policy] = o
		if o.TableActions+o.TableResults+o.MeasuredResults > 0 {
			doc.Mismatches++
			doc.Problems = append(doc.Problems, fmt.Sprintf("orders of %s: by the table %d actions and %d results differ, measured %d results", policy, o.TableActions, o.TableResults, o.MeasuredResults))
		}
	}
	return nil
}

func firstWhy(r *engine.Result) string {
	for i := range r.Records {
		if r.Records[i].Why != "" {
			return r.Records[i].Why
		}
	}
	return "all were retried"
}

// oracle compares the golden executor with onnxruntime.
func (c *verifyCmd) oracle(e *env, p *prepared, s *experiments.Setup, im *zoo.Images, theta experiments.Theta, doc *verifyDoc) error {
	if im.Labels[0] < 0 {
		e.log.Warn("no labelled images for this network: the oracle is left out")
		return nil
	}
	python := c.Python
	if python == "" {
		python = filepath.Join(c.Build, "venv", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		return coded(codeTool, fmt.Errorf("python with onnxruntime: %w; make setup builds it, --oracle 0 leaves the check out", err))
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
	cmd := exec.CommandContext(e.ctx, python, filepath.Join(c.Root, "dse", "zoo", "oracle.py"), "--model", model,
		"--images", filepath.Join(c.Data, "t10k-images-idx3-ubyte.gz"), "--n", strconv.Itoa(n), "--out", out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return coded(codeTool, fmt.Errorf("run %s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(text))))
	}
	f, err := os.Open(out)
	if err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	defer f.Close()
	want, err := readOracle(f, n, len(p.graph.Exits))
	if err != nil {
		return coded(codeInput, fmt.Errorf("oracle's logits: %w", err))
	}
	same, right, rightWant := 0, 0, 0
	for i := range n {
		a, b := experiments.Taken(s.Exits[i], theta), experiments.Taken(want[i], theta)
		if a == b {
			same++
		}
		if s.Exits[i][a].Class == im.Labels[i] {
			right++
		}
		if want[i][b].Class == im.Labels[i] {
			rightWant++
		}
	}
	agreement, delta := float64(same)/float64(n), float64(right-rightWant)/float64(n)
	doc.ExitAgreement, doc.AccuracyDelta, doc.OracleImages = &agreement, &delta, n
	if agreement < minAgreement || math.Abs(delta) > maxDelta+1e-12 {
		doc.Problems = append(doc.Problems, fmt.Sprintf(
			"oracle: same exit on %.2f %% of %d images, accuracy %+.2f points; expected at least %.1f %% and at most %.1f points",
			100*agreement, n, 100*delta, 100*minAgreement, 100*maxDelta))
	}
	return nil
}

// readOracle reads what dse/zoo/oracle.py writes, by image.
func readOracle(r io.Reader, images, exits int) ([][]device.ExitResult, error) {
	var head struct {
		Magic                  [4]byte
		Version, Images, Exits uint32
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, err
	}
	if string(head.Magic[:]) != "SLOR" || head.Version != 1 || int(head.Images) != images || int(head.Exits) != exits {
		return nil, fmt.Errorf("header %q, version %d, %d images, %d exits; expected \"SLOR\", 1, %d, %d",
			head.Magic[:], head.Version, head.Images, head.Exits, images, exits)
	}
	classes := make([]uint32, exits)
	if err := binary.Read(r, binary.LittleEndian, classes); err != nil {
		return nil, err
	}
	out := make([][]device.ExitResult, images)
	for x, n := range classes {
		if n < 1 || n > 1<<16 {
			return nil, fmt.Errorf("exit %d has %d classes", x, n)
		}
		logits := make([]float32, n)
		for i := range out {
			if err := binary.Read(r, binary.LittleEndian, logits); err != nil {
				return nil, fmt.Errorf("exit %d, image %d: %w", x, i, err)
			}
			class, conf := softmaxTop1(logits)
			out[i] = append(out[i], device.ExitResult{Exit: x, Class: class, Confidence: conf})
		}
	}
	return out, nil
}

func (d *verifyDoc) print(w io.Writer) error {
	row := func(check, count, found string) { fmt.Fprintf(w, "%-22s %6s  %s\n", check, count, found) }
	if d.Images > 0 || d.Coverage.Images.Launches > 0 {
		x := &d.Coverage.Images
		row("images = golden", strconv.Itoa(d.Images), fmt.Sprintf("%d starts, batches %v, exits %v, %d preemptions, %d merges, %s compared (%d halted slots)",
			x.Launches, x.Batches, x.Exits, x.Preemptions, x.Merges, report.Bytes(x.Bytes), x.Halted))
	}
	if d.Coverage.Layers.Ops != nil {
		x := &d.Coverage.Layers
		row("layers = golden", strconv.Itoa(d.Layers), fmt.Sprintf("%d networks, %v, batches %v, %s compared", x.Networks, x.Ops, x.Batches, report.Bytes(x.Bytes)))
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
	_, err := fmt.Fprintf(w, "\n%d mismatches, seed %d\n", d.Mismatches, d.Seed)
	return err
}
