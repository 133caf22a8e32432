// sluice run --device gpu-sim:NAME --policy strait,... runs the user's workload under Strait and its baselines.

package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/report"
)

type straitFlags struct {
	GPUs  int    `serves:"gpu-sim" policy:"strait" name:"gpus" default:"1" help:"gpu-sim with Strait or its baselines: GPUs."`
	Begin string `serves:"gpu-sim" policy:"strait" placeholder:"FILE" help:"gpu-sim with Strait: predictor.json of an earlier run to begin with (default: a new model)."`
}

// mostGPUs is the maximum of --gpus.
const mostGPUs = 16

// policyKind returns "strait" for Strait and its baselines, which serve batches. It returns "kernels" for policies that
// launch kernels.
func policyKind(policies []string) (string, error) {
	n := 0
	for _, p := range policies {
		switch {
		case slices.Contains(strait.Systems(), p):
			n++
		case !slices.Contains(reef.Systems(), p):
			return "", cli.Errorf(cli.Usage, "--policy %s: expected %s; or, whose server makes batches, %s",
				p, strings.Join(reef.Systems(), ", "), strings.Join(strait.Systems(), ", "))
		}
	}
	switch n {
	case 0:
		return "kernels", nil
	case len(policies):
		return "strait", nil
	}
	return "", cli.Errorf(cli.Usage, "--policy %s: %s serve requests one by one, and %s in batches: a run each",
		strings.Join(policies, ","), strings.Join(reef.Systems(), ", "), strings.Join(strait.Systems(), ", "))
}

type straitClassDoc struct {
	Requests   int      `json:"requests"`
	OnTime     int      `json:"on_time"`
	Late       int      `json:"late"`
	Dropped    int      `json:"dropped"`
	Violations *float64 `json:"violation_rate"` // null: no request
	P50        *int64   `json:"p50_ns"`         // null: no request has a result
	P99        *int64   `json:"p99_ns"`
}

func straitClass(c *strait.Class) straitClassDoc {
	d := straitClassDoc{Requests: c.Requests, OnTime: c.OnTime, Late: c.Late, Dropped: c.Dropped}
	d.Violations = some(c.Requests > 0, c.Violations())
	quantile := func(q float64) *int64 {
		v := c.Latency(q)
		if math.IsNaN(v) {
			return nil
		}
		return some(true, int64(v))
	}
	d.P50, d.P99 = quantile(0.5), quantile(0.99)
	return d
}

type straitClientDoc struct {
	Client   string `json:"client"`
	Network  string `json:"network"`
	Priority string `json:"priority"` // high | low
	Deadline int64  `json:"deadline_ns"`
	Alone    int64  `json:"alone_ns"` // time of a request that uses the GPU and its link alone
	straitClassDoc
}

type straitPolicyDoc struct {
	engine.Summary
	High    straitClassDoc    `json:"high"`
	Low     straitClassDoc    `json:"low"`
	Errors  *straitErrorsDoc  `json:"prediction_error"` // null: the policy predicts nothing
	Clients []straitClientDoc `json:"clients"`
}

// straitErrorsDoc contains relative errors of predicted slowdowns.
type straitErrorsDoc struct {
	Batches int     `json:"batches"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
}

type straitRunDoc struct {
	cli.Header
	Device          string            `json:"device"`
	GPUs            int               `json:"gpus"`
	Kernels         string            `json:"kernels"` // file, or the catalogue's style
	Workload        string            `json:"workload"`
	Begin           string            `json:"begin"` // the checkpoint; empty: start without one
	Time            int64             `json:"time_ns"`
	straitPolicyDoc                   // values of the last policy
	Runs            []straitPolicyDoc `json:"runs"`
}

// strait serves a workload under Strait and its baselines.
func (c *runCmd) strait(e *cli.Env, f *params.File, kernels []*kernel.Program, trace *load.Trace) error {
	if c.GPUs < 1 || c.GPUs > mostGPUs {
		return cli.Errorf(cli.Usage, "--gpus %d: 1 to %d are expected", c.GPUs, mostGPUs)
	}
	var begin *predict.Model
	if c.Begin != "" {
		var err error
		if begin, err = learnt(c.Begin); err != nil {
			return err
		}
	}
	style := c.Style
	if !e.Has("style") {
		style = "tensorrt" // the kernel style that the publication uses
	}
	own, err := strait.NewOwn(f, style, kernels, trace, c.SLO.at)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	doc := straitRunDoc{
		Header: cli.NewHeader("sluice-run-strait/1", c.Seed, "simulated"), Device: c.Device, GPUs: c.GPUs, Kernels: c.kernelsFrom(style),
		Workload: c.Workload, Begin: c.Begin, Time: trace.Duration,
	}
	var model *predict.Model
	learner := ""
	for _, p := range c.Policy {
		_, done := e.Progress(p, 1)
		o, err := own.Run(e.Ctx, p, c.GPUs, begin)
		done()
		if err != nil {
			return cli.Coded(workloadCode(err), err)
		}
		doc.Runs = append(doc.Runs, straitPolicy(p, o))
		if o.Model != nil && learner != "strait" { // with several policies, report the model of the complete system
			model, learner = o.Model, p
		}
	}
	doc.straitPolicyDoc = doc.Runs[len(doc.Runs)-1]
	if model != nil {
		if err := cli.WriteFile(filepath.Join(c.Out, "predictor.json"), model.Save); err != nil {
			return err
		}
	}
	return e.Print(doc, c.Out, c.JSON, doc.print)
}

func straitPolicy(name string, o *strait.OwnOutcome) straitPolicyDoc {
	d := straitPolicyDoc{Summary: o.Summary, High: straitClass(&o.Class[1]), Low: straitClass(&o.Class[0])}
	d.Policy = name
	if n := len(o.Errors); n > 0 {
		at := func(q float64) float64 { return o.Errors[min(n-1, int(q*float64(n)))] / 100 }
		d.Errors = &straitErrorsDoc{n, at(0.5), at(0.95), at(0.99)}
	}
	for i := range o.Clients {
		k := &o.Clients[i]
		priority := "low"
		if k.Priority > 0 {
			priority = "high"
		}
		d.Clients = append(d.Clients, straitClientDoc{k.Name, k.Network, priority, k.DeadlineNs, k.Alone, straitClass(&k.Class)})
	}
	return d
}

func (d *straitRunDoc) print(w io.Writer) error {
	fmt.Fprintf(w, "%d x %s, %s of %s (simulated); kernels: %s\n\n", d.GPUs, d.Device, report.Ns(d.Time), d.Workload, d.Kernels)
	ns := func(v *int64) string { return orDash(v, report.Ns) }
	share := func(v *float64) string { return orDash(v, report.Percent) }
	for i := range d.Runs {
		r := &d.Runs[i]
		t := report.Table{Head: []string{r.Policy, "network", "priority", "alone", "deadline", "requests", "late", "dropped", "violations", "p50", "p99"}}
		for _, k := range r.Clients {
			t.Add(k.Client, k.Network, k.Priority, report.Ns(k.Alone), report.Ns(k.Deadline), fmt.Sprint(k.Requests), fmt.Sprint(k.Late), fmt.Sprint(k.Dropped), share(k.Violations), ns(k.P50), ns(k.P99))
		}
		if err := t.Write(w); err != nil {
			return err
		}
		fmt.Fprintf(w, "violations: high priority %s, low %s; mean batch %.2f", share(r.High.Violations), share(r.Low.Violations), r.MeanBatch)
		if p := r.Errors; p != nil {
			fmt.Fprintf(w, "; kernel times predicted within %s (p50), %s (p95), %s (p99)", report.Percent(p.P50), report.Percent(p.P95), report.Percent(p.P99))
		}
		fmt.Fprint(w, "\n\n")
	}
	return nil
}
