package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
)

type served struct {
	UIO      string  `name:"uio" default:"sluice-npu" help:"Name of the UIO device; its memory is NAME-memory."`
	Label    string  `required:"" enum:"simulated,measured" help:"What figures are: measured (a board) or simulated (QEMU)."`
	ClockMHz float64 `name:"clock-mhz" required:"" help:"The NPU's clock, as it is: an MMCM's, read back, not what was asked for."`
	Kit      string  `default:"/kit" help:"Folder of the kit (sluice kit)."`
}

type serveCmd struct {
	served
	Policy   string        `default:"fluid" help:"Policy."`
	N        int           `default:"32" short:"n" help:"Requests; request i brings image i modulo their number."`
	Rate     float64       `default:"1.2" help:"Arrival rate, as a multiple of serial's capacity by the table."`
	SLO      float64       `default:"20" name:"slo" help:"Latency objective, as a multiple of one request alone."`
	Theta    float32       `default:"0.8" help:"Exit threshold on the confidence (softmax top-1; of one logit its sigmoid)."`
	Seed     uint64        `default:"1" help:"Seed of the arrivals."`
	Watchdog time.Duration `default:"20s" help:"After so long without an end (in the NPU's own time, and of wall time where its clock stands still) a start counts as hung."`
	Real     bool          `help:"In real time: arrivals, deadlines and timers on the NPU's TIME. Else in virtual time, by the cycles of its starts."`
	DieAt    int           `name:"die-at" help:"For tests: the process kills itself right after the start of that number, the NPU running."`
	JSON     bool          `name:"json" help:"Print one line of JSON."`
}

func (*serveCmd) Help() string {
	return `Serves images that arrive at random on the NPU, by the policy, and compares exit, class and logits of
every result with the golden executor's (exit code 1 where one differs).

Example:
  sluice board serve --label measured --clock-mhz 150 --policy fluid -n 64`
}

// dying kills this process during a start, without any cleanup. This start runs all layers with the largest batch, so
// that it is still running when the next process begins.
type dying struct {
	*uio.Bus
	left   int
	layers uint32
}

// WriteReg implements npu.Bus.
func (d *dying) WriteReg(off, v uint32) error {
	if off != abi.RegCtrl || v&abi.RegCtrlStartMask == 0 {
		return d.Bus.WriteReg(off, v)
	}
	if d.left--; d.left > 0 {
		return d.Bus.WriteReg(off, v)
	}
	err := errors.Join(d.Bus.WriteReg(abi.RegLayers, (d.layers-1)<<abi.RegLayersLastLSB), d.Bus.WriteReg(abi.RegBatch, abi.BMax))
	for i := range uint32(abi.BMax) {
		err = errors.Join(err, d.Bus.WriteReg(abi.RegSlotTable+4*i, i))
	}
	err = errors.Join(err, d.Bus.WriteReg(off, v))
	unix.Kill(unix.Getpid(), unix.SIGKILL)
	return err
}

type serveDoc struct {
	cli.Header
	Network string  `json:"network"`
	Bundle  string  `json:"bundle_hash"`
	Design  string  `json:"design_hash"`
	Clock   float64 `json:"clock_mhz"`
	Real    bool    `json:"real_time"`
	Rate    float64 `json:"rate"`
	SLO     int64   `json:"slo_ns"`
	engine.Summary
	Differ     int         `json:"results_differ"` // number of results that differ from the golden executor's
	Results    int         `json:"results"`
	Interrupts uint64      `json:"interrupts"` // number of interrupts by the kernel's count
	Stale      uint64      `json:"stale"`      // number of interrupts without a cause
	Starts     uint64      `json:"starts"`     // number of starts by the NPU's count
	Ended      uint64      `json:"ended"`      // number of completed starts by the NPU's count
	Abandoned  bool        `json:"abandoned"`  // a start of an earlier process was still running
	Ticks      uint64      `json:"ticks"`      // ticks of the NPU's TIME during the run
	Wall       int64       `json:"wall_ns"`
	Differing  []differing `json:"differing,omitempty"`
	Why        string      `json:"why,omitempty"` // first error
}

type differing struct {
	ID    device.RequestID `json:"id"`
	Exit  int              `json:"exit"`
	Class int              `json:"class"`
	Want  [2]int           `json:"want"` // exit and class
}

func (c *serveCmd) Run(e *env) error {
	k, err := kit.Read(c.Kit)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	doc, err := c.serve(e.ctx, k)
	if err != nil {
		return err
	}
	if c.JSON {
		text, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s\n", text)
	} else {
		fmt.Fprintf(e.out, "%s (%s, %g MHz), %s: %d requests, %d on time, %d late, %d errors; %d results, %d unlike golden\n",
			doc.Network, doc.Label, doc.Clock, doc.Policy, doc.Requests, doc.OnTime, doc.Late, doc.Errors, doc.Results, doc.Differ)
		fmt.Fprintf(e.out, "%d launches, %d preemptions, %d merges; %d starts, %d interrupts (%d without a cause); average latency %s\n",
			doc.Launches, doc.Preemptions, doc.Merges, doc.Starts, doc.Interrupts, doc.Stale, latency(doc))
	}
	switch {
	case doc.Differ > 0:
		return cli.Errorf(cli.Check, "%d of %d results are not golden's", doc.Differ, doc.Results)
	case doc.Errors > 0:
		return cli.Errorf(cli.Device, "%d of %d requests ended in an error; the first: %s", doc.Errors, doc.Requests, doc.Why)
	}
	return nil
}

// latency returns the average latency of requests with a result.
func latency(doc *serveDoc) string {
	if doc.Results == 0 {
		return "-"
	}
	return time.Duration(doc.Latency.Avg).String()
}

func (c *serveCmd) serve(ctx context.Context, k *kit.Kit) (_ *serveDoc, err error) {
	s, err := experiments.NewSetup(k.Bundle, k.Inputs, k.Exits)
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	t := Target{UIO: c.UIO, Label: c.Label, ClockMHz: c.ClockMHz}
	if c.DieAt > 0 {
		t.over = func(b *uio.Bus) npu.Bus { return &dying{b, c.DieAt, uint32(len(k.Bundle.Layers))} }
	}
	d, bus, err := t.Open(ctx, k.Bundle, npu.Opts{CycleLimit: uint64(c.Watchdog.Seconds() * c.ClockMHz * 1e6)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	theta := experiments.Theta{c.Theta}
	service := s.Service(theta)
	before := d.Counters()
	ticks, err := bus.Time()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	p := experiments.Point{
		Policy: c.Policy, Rate: c.Rate * 1e9 / service, SLO: int64(c.SLO * float64(s.Table.Alone())), Theta: theta,
		Seed: c.Seed, N: c.N, Clock: engine.Measured,
	}
	if c.Real {
		p.Now = t.Clock(bus)
		p.Watchdog = engine.Watchdog{Fixed: c.Watchdog.Nanoseconds(), Other: c.Watchdog.Nanoseconds()}
	}
	res, err := s.Run(ctx, d, p, nil)
	if err != nil {
		return nil, cli.Coded(cli.Device, err)
	}
	wall := time.Since(began)
	after := d.Counters()
	now, err := bus.Time()
	if err != nil {
		return nil, err
	}
	hash, err := k.Bundle.Hash()
	if err != nil {
		return nil, err
	}
	doc := &serveDoc{
		Header:  cli.NewHeader("sluice-board-serve/1", c.Seed, c.Label),
		Network: k.Bundle.Network.Name, Bundle: fmt.Sprintf("%016x", hash), Design: fmt.Sprintf("%016x", d.Build().DesignHash),
		Clock: c.ClockMHz, Real: c.Real, Rate: p.Rate, SLO: p.SLO, Summary: res.Summary(), Ticks: now - ticks, Wall: wall.Nanoseconds(),
		Starts: after[abi.CntStarts] - before[abi.CntStarts], Ended: after[abi.CntInterrupts] - before[abi.CntInterrupts],
	}
	doc.Interrupts, doc.Stale = bus.Interrupts()
	doc.Abandoned = bus.Abandoned()
	if doc.Errors > 0 {
		doc.Why = experiments.FirstWhy(res)
	}
	for i := range res.Records {
		r := &res.Records[i]
		if r.Exit < 0 {
			continue
		}
		doc.Results++
		exits := k.Exits[s.Image(r.ID)]
		want := exits[experiments.Taken(exits, theta)]
		if r.Exit != want.Exit || r.Class != want.Class || r.Logits != engine.HashLogits(want.Raw) {
			doc.Differ++
			doc.Differing = append(doc.Differing, differing{r.ID, r.Exit, r.Class, [2]int{want.Exit, want.Class}})
		}
	}
	return doc, nil
}
