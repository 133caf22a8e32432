// sluice run --device gpu-sim:NAME|FILE.yaml runs the user's kernels and workload on a simulated GPU.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
)

// gpuSim is the prefix of a simulated GPU's name: --device gpu-sim:NAME.
const gpuSim = "gpu-sim:"

// gpuDevices lists the devices that are real GPUs.
var gpuDevices = []string{"cuda", "hip"}

// onGPU reports whether a device is a GPU. The bundle's table does not apply to GPUs.
func onGPU(name string) bool { return slices.Contains(gpuDevices, name) }

// tableUnknown reports whether the device's times are unknown, because the bundle's table is for another device.
func (c *runCmd) tableUnknown() bool { return onGPU(c.Device) && c.Profile == "" }

type gpuClientDoc struct {
	Client     string           `json:"client"`
	Network    string           `json:"network"`
	RealTime   bool             `json:"real_time"`
	Alone      int64            `json:"alone_ns"`
	Requests   int              `json:"requests"`
	Ended      int              `json:"ended"` // number of requests that ended before the end of the workload
	Latency    engine.Latencies `json:"latency"`
	Throughput float64          `json:"throughput"` // throughput divided by the throughput of the network alone
}

type gpuPolicyDoc struct {
	engine.Summary
	RealTime      *float64       `json:"real_time_latency"` // mean latency divided by the network's time alone; null: no real-time request ended
	RealTimeP99   *float64       `json:"real_time_latency_p99"`
	Throughput    float64        `json:"throughput"` // sum over clients of the throughput divided by that of the client's network alone
	GPUPreempted  int            `json:"gpu_preemptions"`
	PreemptionNs  float64        `json:"gpu_preemption_ns"` // mean time until best-effort work has left the GPU
	PreemptionP99 float64        `json:"gpu_preemption_p99_ns"`
	Padded        float64        `json:"padded"` // share of kernels that ran beside a real-time kernel
	Again         float64        `json:"again"`  // share of kernels that ran again after a kill
	Clients       []gpuClientDoc `json:"clients"`
}

type gpuRunDoc struct {
	cli.Header
	Device       string         `json:"device"`
	Kernels      string         `json:"kernels"` // file, or the catalogue's style
	Workload     string         `json:"workload"`
	Time         int64          `json:"time_ns"`
	gpuPolicyDoc                // values of the last policy
	Runs         []gpuPolicyDoc `json:"runs"`
}

func (c *runCmd) gpu(e *cli.Env) error {
	switch {
	case c.Workload == "":
		return cli.Errorf(cli.Usage, "--device %s: --workload FILE is missing, a workload file of DISB", c.Device)
	case c.Kernels != "" && e.Has("style"):
		return cli.Errorf(cli.Usage, "--style is of the catalogue's kernels, --kernels is a list in their place: expected one of the two")
	case c.Time < 0:
		return cli.Errorf(cli.Usage, "--time %s: expected more than 0", c.Time)
	}
	f, err := params.Of(strings.TrimPrefix(c.Device, gpuSim))
	if err != nil {
		return cli.Coded(cli.Usage, err)
	}
	if !e.Has("policy") { // the default of --policy is for an NPU
		c.Policy = []string{"streams", "reef"}
	}
	kind, err := policyKind(c.Policy)
	if err != nil {
		return err
	}
	if err := e.Unread(cli.Choice{Tag: "policy", Chosen: kind, Text: map[string]string{
		"strait": "Strait and its baselines", "kernels": strings.Join(c.Policy, ", "),
	}}); err != nil {
		return err
	}
	if _, err := catalogue.StyleOf(c.Style); err != nil {
		return cli.Coded(cli.Usage, err)
	}
	trace, err := load.TraceFile("disb", c.Workload, c.Seed)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	if err := c.cut(trace); err != nil {
		return err
	}
	kernels, err := c.kernelList()
	if err != nil {
		return err
	}
	if kind == "strait" {
		return c.strait(e, f, kernels, trace)
	}
	return c.launchers(e, f, kernels, trace)
}

// kernelList reads the file of --kernels. It returns nil without the flag.
func (c *runCmd) kernelList() ([]*kernel.Program, error) {
	if c.Kernels == "" {
		return nil, nil
	}
	f, err := os.Open(c.Kernels)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "read kernels: %w", err)
	}
	defer f.Close()
	kernels, err := kernel.ReadCSV(c.Kernels, f)
	return kernels, cli.Coded(cli.Input, err)
}

// cut shortens the workload to the duration --time, and returns an error if too many requests remain.
func (c *runCmd) cut(trace *load.Trace) error {
	if c.Time > 0 {
		trace.Duration = min(trace.Duration, c.Time.Nanoseconds())
	}
	if n, _ := slices.BinarySearch(trace.Times(), trace.Duration); n > maxRequests {
		return cli.Errorf(cli.Input, "%s: %d requests, at most %d are served, as every one is kept; --time cuts", c.Workload, n, maxRequests)
	}
	return nil
}

// kernelsFrom describes the origin of the kernels: the file, or the catalogue's style.
func (c *runCmd) kernelsFrom(style string) string {
	if c.Kernels != "" {
		return c.Kernels + ", the catalogue (" + style + ") for networks that it lacks"
	}
	return "catalogue, " + style
}

// workloadCode returns the exit code for a failed workload.
func workloadCode(err error) int {
	if errors.Is(err, reef.ErrWorkload) || errors.Is(err, engine.ErrConfig) || errors.Is(err, kernel.ErrProgram) {
		return cli.Input
	}
	return runCode(err)
}

// launchers serves the workload with policies that launch the kernels of each request separately.
func (c *runCmd) launchers(e *cli.Env, f *params.File, kernels []*kernel.Program, trace *load.Trace) error {
	own, err := reef.NewOwn(f, c.Style, kernels, trace, c.SLO.at)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	doc := gpuRunDoc{
		Header: cli.NewHeader("sluice-run-gpu/1", c.Seed, "simulated"), Device: c.Device, Kernels: c.kernelsFrom(c.Style), Workload: c.Workload, Time: trace.Duration,
	}
	var failed error
	for _, p := range c.Policy {
		_, done := e.Progress(p, 1)
		out, res, err := own.Run(e.Ctx, p)
		done()
		if err != nil {
			return cli.Coded(workloadCode(err), err)
		}
		d, err := gpuPolicy(p, own, out, res)
		if err != nil {
			return cli.Coded(cli.Device, err)
		}
		doc.Runs = append(doc.Runs, d)
		if d.Errors > 0 && failed == nil {
			failed = cli.Errorf(cli.Device, "%s: %d of %d requests ended in errors, the first: %s", p, d.Errors, d.Requests, experiments.FirstWhy(res))
		}
	}
	doc.gpuPolicyDoc = doc.Runs[len(doc.Runs)-1]
	if err := e.Print(doc, c.Out, c.JSON, func(w io.Writer) error { return doc.print(w, f.Name) }); err != nil {
		return err
	}
	return failed
}

func gpuPolicy(name string, own *reef.Own, out *reef.Outcome, res *engine.Result) (gpuPolicyDoc, error) {
	d := gpuPolicyDoc{
		Summary: res.Summary(), Throughput: out.Throughput, GPUPreempted: out.Preemptions,
		PreemptionNs: out.Preempt * 1e3, PreemptionP99: out.PreemptP99 * 1e3, Padded: out.Padded, Again: out.Again,
	}
	d.Policy = name
	if out.RT > 0 {
		d.RealTime, d.RealTimeP99 = &out.RT, &out.RTP99
	}
	for i := range out.Clients {
		o, client := &out.Clients[i], &out.Served[i]
		alone, err := own.Alone(client.Network)
		if err != nil {
			return d, err
		}
		d.Clients = append(d.Clients, gpuClientDoc{
			Client: client.Name, Network: client.Network, RealTime: client.RealTime(), Alone: alone, Requests: o.Requests, Ended: o.Ended,
			Latency: o.Latency, Throughput: o.Throughput,
		})
	}
	return d, nil
}

func (d *gpuRunDoc) print(w io.Writer, gpu string) error {
	fmt.Fprintf(w, "%s, %s of %s (simulated); kernels: %s\n\n", gpu, report.Ns(d.Time), d.Workload, d.Kernels)
	for i := range d.Runs {
		r := &d.Runs[i]
		t := report.Table{Head: []string{r.Policy, "network", "alone", "requests", "average", "p99", "throughput"}}
		for _, k := range r.Clients {
			name := k.Client
			if !k.RealTime {
				name += " (best effort)"
			}
			t.Add(name, k.Network, report.Ns(k.Alone), fmt.Sprint(k.Requests), report.Ns(k.Latency.Avg), report.Ns(k.Latency.P99), fmt.Sprintf("%.3f", k.Throughput))
		}
		if err := t.Write(w); err != nil {
			return err
		}
		rt, gone := "no real-time request ended", "no preemptions"
		if r.RealTime != nil {
			rt = fmt.Sprintf("real-time latency %.3f of alone (p99 %.3f)", *r.RealTime, *r.RealTimeP99)
		}
		if r.GPUPreempted > 0 {
			gone = fmt.Sprintf("%d preemptions of %.1f us", r.GPUPreempted, r.PreemptionNs/1e3)
		}
		fmt.Fprintf(w, "%s; throughput %.3f; %s\n\n", rt, r.Throughput, gone)
	}
	return nil
}
