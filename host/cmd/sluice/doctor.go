// sluice doctor checks whether tools and data are installed.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/configs"
)

type doctorCmd struct {
	what
	Device string `enum:",cosim,cuda,hip,soft,gpu-sim" default:"" help:"Fail only if this device cannot serve; other missing things are reported without an error."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (*doctorCmd) Help() string {
	return `Looks for what the commands need: what serving on soft needs, what simulation, synthesis and the checks need
beside it. What is missing names its package and what it is for. make setup installs all of it.

Example:
  sluice doctor --config run
  sluice doctor --device cuda`
}

type check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	For  string `json:"for"`  // commands or tests with this requirement
	Hint string `json:"hint"` // the finding, or instructions for the user
	// Optional means that a failure of this check is accepted.
	Optional bool `json:"optional,omitempty"`
}

type checksDoc struct {
	cli.Header
	Checks []check `json:"checks"`
}

// tools lists the programs that commands and scripts call, each with its Debian package.
var tools = []struct{ name, pkg, version, purpose string }{
	{"go", "golang (or go.dev)", "version", "building Sluice"},
	{"make", "make", "--version", "the Makefile, sim/build.sh"},
	{"g++", "g++", "--version", "sim/build.sh: the simulator"},
	{"verilator", "verilator", "--version", "sim/build.sh: the simulator"},
	{"yosys", "yosys", "-V", "hw/syn, dse check: synthesis"},
	{"git", "git", "--version", "hw/syn: which sources a run is of"},
	{"python3", "python3-venv", "--version", "make setup: onnxruntime"},
	{"chromium", "chromium", "--version", "the test of dse report's page"},
}

func (c *doctorCmd) checks(ctx context.Context) (checks []check) {
	for _, t := range tools {
		checks = append(checks, tool(ctx, t.name, t.pkg, t.version, t.purpose))
	}
	add := func(name, purpose, found string, err error) {
		k := check{Name: name, OK: err == nil, For: purpose, Hint: found}
		if err != nil {
			k.Hint = err.Error()
		}
		checks = append(checks, k)
	}
	dir := cmp.Or(c.Data, zoo.DefaultData)
	_, err := zoo.FashionMNIST(dir, false, 1)
	if errors.Is(err, zoo.ErrDataMissing) {
		err = errors.New("install the package dataset-fashion-mnist")
	}
	add("fashion-mnist", "serving the zoo's trained networks", dir, err)
	path, err := c.simulator(ctx)
	add("simulator", "--device cosim", path, err)
	python, err := zoo.Python()
	if err == nil {
		if k := tool(ctx, python, "", "-c", "", "import onnxruntime; print('onnxruntime', onnxruntime.__version__)"); !k.OK {
			err = errors.New(k.Hint)
		} else {
			python += ", " + k.Hint
		}
	}
	add("onnxruntime", "sluice verify --oracle, dse compile --evaluate", python, err)

	for _, name := range gpuDevices {
		found, err := readyGPUs(name)
		add("gpu", "--device "+name, found, err)
		checks[len(checks)-1].Optional = true
	}

	add("simulated gpus", "--device gpu-sim:NAME, or gpu-sim:FILE.yaml with parameters of one's own", strings.Join(params.Names(), ", "), nil)
	return checks
}

func (c *doctorCmd) Run(e *cli.Env) error {
	checks := c.checks(e.Ctx)
	missing := 0
	for i := range checks {
		k := &checks[i]
		if c.Device != "" { // a machine that only serves bundles needs no tools
			k.Optional = k.For != "--device "+c.Device
		}
		if !k.OK && !k.Optional {
			missing++
		}
	}
	doc := checksDoc{cli.NewHeader("sluice-doctor/2", 0, "looked up"), checks}
	if err := e.Print(doc, "", c.JSON, doc.print); err != nil {
		return err
	}
	if missing > 0 && c.Device != "" {
		return cli.Errorf(cli.Device, "--device %s cannot serve here", c.Device)
	}
	if missing > 0 {
		return cli.Errorf(cli.Tool, "%d of %d checks failed", missing, len(checks))
	}
	return nil
}

func (d checksDoc) print(w io.Writer) error {
	for _, k := range d.Checks {
		mark := "ok     "
		if !k.OK {
			mark = "MISSING"
			if k.Optional {
				mark = "none   "
			}
		}
		fmt.Fprintf(w, "%s  %-14s %s (%s)\n", mark, k.Name, k.Hint, k.For)
	}
	return nil
}

// simulator finds the configuration's simulator and checks that the simulator matches this program.
func (c *doctorCmd) simulator(ctx context.Context) (found string, err error) {
	d, err := configs.Load(c.Config)
	if err != nil {
		return "", err
	}
	path, err := npu.FindCosim(d.Name, c.Config)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	bus, err := openBus(ctx, d, d.Name, c.Config, npu.CosimOpts{})
	if err != nil {
		return "", err
	}
	return path, bus.Close()
}

// tool runs a program to check its version.
func tool(ctx context.Context, name, pkg, version, purpose string, more ...string) check {
	path, err := exec.LookPath(name)
	if err != nil {
		return check{Name: name, For: purpose, Hint: "install the package " + pkg}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, path, append([]string{version}, more...)...).Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err != nil {
		first = fmt.Sprintf("%s does not run: %v", path, err)
	}
	return check{Name: name, OK: err == nil, For: purpose, Hint: first}
}
