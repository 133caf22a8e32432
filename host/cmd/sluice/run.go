// sluice run serves requests for one network, a workload of kernels, or a zoo of networks.

package main

import (
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
)

type runCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to serve, as dse compile writes it, in place of --network and --config."`
	what
	Device   string    `serves:"bundle,gpu-sim" default:"cosim" help:"Where it runs: cosim (the Verilated RTL), hls (the HLS kernel's C-simulation, which has no clock), soft (golden numerics, the bundle's latency table), uio (the NPU of the board that this runs on), cuda or hip (a GPU of NVIDIA's or AMD's, the bundle's numbers to the bit), or gpu-sim:NAME or gpu-sim:FILE.yaml (a simulated GPU by name, or by a parameter file of your own, with --workload)."`
	Policy   []string  `default:"serial,fluid" help:"Policies, one run each; the last one's numbers also stand at the top of the summary. With a bundle: ${policies}. gpu-sim has its own: ${gpu_policies} (default: streams,reef), and Strait's: ${strait_policies}. --zoo: ${zoo_policies} (jellyfish,jellyfish+)."`
	Rate     rateFlag  `serves:"bundle,zoo" default:"1.0" help:"Arrival rate: a multiple of serial's capacity (0.9), or requests per second (250/s)."`
	SLO      sloFlag   `default:"5x" name:"slo" help:"Latency objective: a multiple of one request alone through the whole network (5x), or a time (20ms)."`
	Admit    bool      `serves:"bundle" default:"true" negatable:"" help:"Refuse requests that cannot meet the objective by the latency table, and stop running ones at their next exit when they no longer can. --no-admit serves everything."`
	Theta    thetaFlag `serves:"bundle" default:"0.8" help:"Exit threshold on the softmax top-1: one for all exits, or one an exit, by commas."`
	Seed     uint64    `default:"1" help:"Seed of the arrivals."`
	N        int       `serves:"bundle" default:"256" short:"n" help:"Requests; request i has test image i (modulo their number, 10,000)."`
	Arrivals string    `serves:"bundle" help:"File of arrival times (.csv or .json, see host/load) in place of --rate, --seed and --n."`
	GPU      int       `serves:"bundle" device:"cuda,hip" name:"gpu" default:"0" help:"cuda, hip: which GPU, counted from 0 as sluice doctor lists them."`
	Profile  string    `serves:"bundle" device:"cuda,hip,soft" placeholder:"FILE" help:"The summary.json of sluice profile: policies read its table in place of the bundle's."`
	Clock    string    `serves:"bundle" default:"auto" enum:"auto,table,measured,real" help:"Durations: the bundle's latency table, the device's cycles, or, on uio, real time by the NPU's TIME. auto: measured for cosim, cuda and hip, real for uio, table for all others."`
	Out      string    `default:"out/run" help:"Folder for summary.json, latency.svg and schedule.json."`
	Waves    string    `serves:"bundle" device:"cosim" placeholder:"FILE" help:"On cosim: also write an FST wave file (needs sim/build.sh CONFIG --trace)."`
	WavesGiB float64   `serves:"bundle" device:"cosim" name:"waves-gib" default:"1" help:"Limit of the expected size of the wave file; a run that would exceed it does not begin."`
	JSON     bool      `name:"json" help:"Print the summary as JSON."`
	uioFlags
	zooFlags
	straitFlags

	Workload string        `serves:"gpu-sim" placeholder:"FILE" help:"gpu-sim: workload file of DISB (JSON)."`
	Kernels  string        `serves:"gpu-sim" placeholder:"FILE" help:"gpu-sim: kernel list (CSV, see host/gpu) in place of the catalogue's programs."`
	Style    string        `serves:"gpu-sim" default:"tvm" help:"gpu-sim: framework of the catalogue's kernels: tvm, tensorrt, pytorch."`
	Time     time.Duration `serves:"gpu-sim,zoo" help:"gpu-sim: end the workload after this virtual time; --zoo: its length (default: 30s)."`
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

// maxRequests is the maximum number of requests in a run. It limits the memory: a run stores about 2 kB per request.
const maxRequests = 500_000

func (c *runCmd) Run(e *cli.Env) error {
	serves, err := c.check(e)
	if err != nil {
		return err
	}
	switch serves {
	case "zoo":
		return c.zoo(e)
	case "gpu-sim":
		return c.gpu(e)
	}
	return c.serve(e)
}

// check returns what is served (bundle, gpu-sim or zoo), and rejects flags that would be ignored.
func (c *runCmd) check(e *cli.Env) (serves string, err error) {
	serves, device := "bundle", c.Device
	if strings.HasPrefix(c.Device, gpuSim) {
		serves, device = "gpu-sim", "gpu-sim"
	}
	if c.Zoo != "" {
		serves = "zoo"
	}
	choices := []cli.Choice{{Tag: "serves", Chosen: serves, Text: map[string]string{
		"bundle": "a run of one network", "gpu-sim": "--device gpu-sim:NAME", "zoo": "--zoo",
	}}}
	if serves == "bundle" {
		if err := checkDevice(c.Device); err != nil {
			return "", err
		}
		choices = append(choices, cli.Choice{Tag: "device", Chosen: device})
	} else {
		choices = append(choices, cli.Choice{Tag: "from", Chosen: serves, Text: fromText()})
		if c.Bundle != "" {
			return "", cli.Errorf(cli.Usage, "%s: a bundle is an NPU's or a GPU's; --device %sNAME and --zoo serve the networks of their files", c.Bundle, gpuSim)
		}
	}
	return serves, e.Unread(choices...)
}
