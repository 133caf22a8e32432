// sluice run --device gpu-sim:NAME|FILE.yaml: somebody's own kernels and workload on a simulated GPU.

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/report"
)

// gpuSim is what the device's name begins with.
const gpuSim = "gpu-sim:"

// others are the flags of run that say nothing to a simulated GPU, beside those that make a bundle.
var others = []string{"rate", "theta", "n", "arrivals", "clock", "waves", "waves-gib", "profile", "data", "labels", "noise", "build", "uio"}

// gpuDevices are devices that are a GPU.
var gpuDevices = []string{"cuda", "hip"}

// onGPU tells whether a device is one: then the bundle's table is another device's.
func onGPU(name string) bool { return slices.Contains(gpuDevices, name) }

// untold tells whether nothing is known of how long the device takes: the bundle's table is another's.
func (c *runCmd) untold() bool { return onGPU(c.Device) && c.Profile == "" }

// checkDevice refuses what is no device, and flags that it does not have.
func (c *runCmd) checkDevice(e *env) error {
	devices := []string{"cosim", "cuda", "hip", "hls", "soft", "uio"}
	gpu := strings.HasPrefix(c.Device, gpuSim)
	switch {
	case !gpu && !slices.Contains(devices, c.Device):
		return coded(codeUsage, fmt.Errorf("--device %s: expected %s, or %s and one of %s, or a parameter file, FILE.yaml", c.Device, strings.Join(devices, ", "), gpuSim, strings.Join(params.Names(), ", ")))
	case !gpu && (c.Kernels != "" || c.Workload != "" || c.Time != 0 || c.Style != "tvm"):
		return coded(codeUsage, fmt.Errorf("--kernels, --workload, --style and --time are for --device %sNAME, the device is %s", gpuSim, c.Device))
	case c.Device != "uio" && (c.Label != "" || c.ClockMHz != 0):
		return coded(codeUsage, fmt.Errorf("--label and --clock-mhz are for --device uio, the device is %s", c.Device))
	case !onGPU(c.Device) && c.Device != "soft" && c.Profile != "":
		return coded(codeUsage, fmt.Errorf("--profile is for --device cuda, hip or soft, the device is %s", c.Device))
	case !onGPU(c.Device) && slices.Contains(e.given, "gpu"):
		return coded(codeUsage, fmt.Errorf("--gpu is for --device cuda or hip, the device is %s", c.Device))
	case c.untold() && (!c.Rate.absolute || c.SLO.ns == 0):
		return coded(codeUsage, fmt.Errorf("--device %s: --rate N/s and --slo TIME are expected (250/s, 20ms): the bundle's table is the NPU's, and multiples would be of its figures; or --profile FILE, of sluice profile", c.Device))
	case gpu && c.Workload == "":
		return coded(codeUsage, fmt.Errorf("--device %s: --workload FILE is missing, a workload file of DISB", c.Device))
	case gpu && c.Bundle != "":
		return coded(codeUsage, fmt.Errorf("%s: a bundle is an NPU's, --device %s serves the networks of --workload", c.Bundle, c.Device))
	case gpu && c.Kernels != "" && slices.Contains(e.given, "style"):
		return coded(codeUsage, errors.New("--style is of the catalogue's kernels, --kernels is a list in their place: expected one of the two"))
	case gpu && c.Time < 0:
		return coded(codeUsage, fmt.Errorf("--time %s: expected more than 0", c.Time))
	}
	for _, name := range slices.Concat(others, makes) {
		if gpu && slices.Contains(e.given, name) {
			return coded(codeUsage, fmt.Errorf("--%s says nothing to --device %s: the workload has its loads, and the GPU its parameters", name, c.Device))
		}
	}
	return nil
}

type gpuClientDoc struct {
	Client     string           `json:"client"`
	Network    string           `json:"network"`
	RealTime   bool             `json:"real_time"`
	Alone      int64            `json:"alone_ns"`
	Requests   int              `json:"requests"`
	Ended      int              `json:"ended"` // by the workload's end
	Latency    engine.Latencies `json:"latency"`
	Throughput float64          `json:"throughput"` // of the network's alone
}

type gpuPolicyDoc struct {
	engine.Summary
	RealTime      *float64       `json:"real_time_latency"` // mean, of the network's time alone; null: no real-time request ended
	RealTimeP99   *float64       `json:"real_time_latency_p99"`
	Throughput    float64        `json:"throughput"` // sum over clients, of the networks' alone
	GPUPreempted  int            `json:"gpu_preemptions"`
	PreemptionNs  float64        `json:"gpu_preemption_ns"` // mean, best-effort work off the GPU
	PreemptionP99 float64        `json:"gpu_preemption_p99_ns"`
	Padded        float64        `json:"padded"` // share of kernels that ran beside a real-time one
	Again         float64        `json:"again"`  // share of kernels that were run again after a kill
	Clients       []gpuClientDoc `json:"clients"`
}

type gpuRunDoc struct {
	header
	Device       string         `json:"device"`
	Kernels      string         `json:"kernels"` // file, or the catalogue's style
	Workload     string         `json:"workload"`
	Time         int64          `json:"time_ns"`
	gpuPolicyDoc                // of the last policy
	Runs         []gpuPolicyDoc `json:"runs"`
}

// gpu serves a workload on a simulated GPU.
func (c *runCmd) gpu(e *env) error {
	f, err := params.Of(strings.TrimPrefix(c.Device, gpuSim))
	if err != nil {
		return coded(codeUsage, err)
	}
	policies := c.Policy
	if !slices.Contains(e.given, "policy") { // the default is an NPU's
		policies = []string{"streams", "reef"}
	}
	batches, err := straits(policies)
	if err != nil {
		return err
	}
	for _, f := range []string{"gpus", "begin"} {
		if !batches && slices.Contains(e.given, f) {
			return coded(codeUsage, fmt.Errorf("--%s is for Strait and its baselines, the policies are %s", f, strings.Join(policies, ", ")))
		}
	}
	if _, err := catalogue.StyleOf(c.Style); err != nil {
		return coded(codeUsage, err)
	}
	trace, err := load.TraceFile("disb", c.Workload, c.Seed)
	if err != nil {
		return coded(codeInput, err)
	}
	var kernels []*kernel.Program
	doc := gpuRunDoc{header: header{"sluice-run-gpu/1", version, c.Seed, "simulated"}, Device: c.Device, Kernels: "catalogue, " + c.Style, Workload: c.Workload}
	if c.Kernels != "" {
		doc.Kernels = c.Kernels + ", the catalogue (" + c.Style + ") for networks that it lacks"
		r, err := os.Open(c.Kernels)
		if err != nil {
			return coded(codeInput, fmt.Errorf("read kernels: %w", err))
		}
		defer r.Close()
		if kernels, err = kernel.ReadCSV(c.Kernels, r); err != nil {
			return coded(codeInput, err)
		}
	}
	if batches {
		return c.strait(e, f, policies, kernels, trace)
	}
	own, err := gpus.NewOwn(f, c.Style, kernels, trace, c.SLO.at)
	if err != nil {
		return coded(codeInput, err)
	}
	if c.Time > 0 {
		own.Cut(c.Time.Nanoseconds())
	}
	if n := own.Requests(); n > maxRequests {
		return coded(codeInput, fmt.Errorf("%s: %d requests, at most %d are served, as every one is kept; --time cuts", c.Workload, n, maxRequests))
	}
	doc.Time = own.Duration()
	var failed error
	for _, p := range policies {
		_, done := e.progress(p, 1)
		out, res, err := own.Run(e.ctx, p)
		done()
		switch {
		case errors.Is(err, gpus.ErrWorkload), errors.Is(err, engine.ErrConfig), errors.Is(err, kernel.ErrProgram):
			return coded(codeInput, err)
		case err != nil:
			return coded(runCode(err), err)
		}
		d := gpuPolicyDoc{
			Summary: res.Summary(), Throughput: out.Throughput, GPUPreempted: out.Preemptions,
			PreemptionNs: out.Preempt * 1e3, PreemptionP99: out.PreemptP99 * 1e3, Padded: out.Padded, Again: out.Again,
		}
		d.Policy = p
		if i := slices.IndexFunc(res.Records, func(r engine.Record) bool { return r.Ending == engine.Errored }); i >= 0 && failed == nil {
			failed = fmt.Errorf("%s: %d of %d requests ended in errors, the first: %s", p, d.Errors, d.Requests, res.Records[i].Why)
		}
		if out.RT > 0 {
			d.RealTime, d.RealTimeP99 = &out.RT, &out.RTP99
		}
		for i := range out.Clients {
			o, client := &out.Clients[i], &out.Served[i]
			alone, err := own.Alone(client.Network)
			if err != nil {
				return coded(codeDevice, err)
			}
			d.Clients = append(d.Clients, gpuClientDoc{
				Client: client.Name, Network: client.Network, RealTime: client.RealTime(), Alone: alone, Requests: o.Requests, Ended: o.Ended,
				Latency: o.Latency, Throughput: o.Throughput,
			})
		}
		doc.Runs = append(doc.Runs, d)
	}
	doc.gpuPolicyDoc = doc.Runs[len(doc.Runs)-1]
	if err := e.output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if c.JSON {
		return coded(codeDevice, failed)
	}
	fmt.Fprintf(e.stdout, "%s, %s of %s (simulated); kernels: %s\n\n", f.Name, report.Ns(doc.Time), doc.Workload, doc.Kernels)
	for i := range doc.Runs {
		r := &doc.Runs[i]
		t := report.Table{Head: []string{r.Policy, "network", "alone", "requests", "average", "p99", "throughput"}}
		for _, k := range r.Clients {
			name := k.Client
			if !k.RealTime {
				name += " (best effort)"
			}
			t.Add(name, k.Network, report.Ns(k.Alone), fmt.Sprint(k.Requests), report.Ns(k.Latency.Avg), report.Ns(k.Latency.P99), fmt.Sprintf("%.3f", k.Throughput))
		}
		if err := t.Write(e.stdout); err != nil {
			return err
		}
		rt, gone := "no real-time request ended", "no preemptions"
		if r.RealTime != nil {
			rt = fmt.Sprintf("real-time latency %.3f of alone (p99 %.3f)", *r.RealTime, *r.RealTimeP99)
		}
		if r.GPUPreempted > 0 {
			gone = fmt.Sprintf("%d preemptions of %.1f us", r.GPUPreempted, r.PreemptionNs/1e3)
		}
		fmt.Fprintf(e.stdout, "%s; throughput %.3f; %s\n\n", rt, r.Throughput, gone)
	}
	return coded(codeDevice, failed)
}
