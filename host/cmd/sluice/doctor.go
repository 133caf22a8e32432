// sluice doctor: are tools and data there?

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/npu"
)

type doctorCmd struct {
	what
	JSON bool `name:"json" help:"Print JSON."`
}

func (*doctorCmd) Help() string {
	return `Example:
  sluice doctor --config run`
}

type check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Hint string `json:"hint"` // what was found, or what to do
}

// Run implements the command.
func (c *doctorCmd) Run(e *env) error {
	var checks []check
	tool := func(name, pkg string, args ...string) {
		path, err := exec.LookPath(name)
		if err != nil {
			checks = append(checks, check{name, false, "install the package " + pkg})
			return
		}
		ctx, cancel := context.WithTimeout(e.ctx, 20*time.Second)
		defer cancel()
		text, err := exec.CommandContext(ctx, path, args...).Output()
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if err != nil {
			first = fmt.Sprintf("%s does not run: %v", path, err)
		}
		checks = append(checks, check{name, err == nil, first})
	}
	tool("verilator", "verilator", "--version")
	tool("g++", "g++", "--version")
	tool("make", "make", "--version")
	file := func(name, path, hint string) {
		if _, err := os.Stat(path); err != nil {
			checks = append(checks, check{name, false, hint})
			return
		}
		checks = append(checks, check{name, true, path})
	}
	if _, err := zoo.FashionMNIST(c.Data, false, 1); err != nil {
		hint := err.Error()
		if errors.Is(err, zoo.ErrDataMissing) {
			hint = "install the package dataset-fashion-mnist"
		}
		checks = append(checks, check{"fashion-mnist", false, hint})
	} else {
		checks = append(checks, check{"fashion-mnist", true, c.Data})
	}
	if path, err := npu.FindCosim(c.Config); err != nil {
		checks = append(checks, check{"simulator", false, err.Error()})
	} else {
		checks = append(checks, check{"simulator", true, path})
	}
	file("python", filepath.Join(c.Build, "venv", "bin", "python"), "make setup (onnxruntime, for sluice verify)")

	missing := 0
	for _, k := range checks {
		if !k.OK {
			missing++
		}
	}
	if c.JSON {
		if err := e.output(struct {
			header
			Checks []check `json:"checks"`
		}{header{"sluice-doctor/1", version, 0, "measured"}, checks}, "", true); err != nil {
			return err
		}
	} else {
		for _, k := range checks {
			mark := "ok     "
			if !k.OK {
				mark = "MISSING"
			}
			fmt.Fprintf(e.stdout, "%s  %-14s %s\n", mark, k.Name, k.Hint)
		}
	}
	if missing > 0 {
		return coded(codeTool, fmt.Errorf("%d of %d checks failed", missing, len(checks)))
	}
	return nil
}
