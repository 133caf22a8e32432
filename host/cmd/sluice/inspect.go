// sluice inspect shows the content of a bundle.

package main

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/report"
)

type inspectCmd struct {
	File string `arg:"" help:"Bundle file."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (*inspectCmd) Help() string {
	return `Example:
  sluice inspect build/bundles/fashion-run-*.sluice`
}

func (c *inspectCmd) Run(e *cli.Env) error {
	b, err := bundle.ReadFile(c.File)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	s, err := b.Summarize()
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	info, err := recipe.Of(b)
	if err != nil {
		return cli.Errorf(cli.Input, "%s: %w", c.File, err)
	}
	if c.JSON {
		return e.Output(struct {
			cli.Header
			Calibrated  bool   `json:"calibrated"`
			Calibration string `json:"calibration"`
			bundle.Summary
		}{cli.NewHeader("sluice-inspect/1", 0, "estimated"), !info.Missing, info.Text(), s}, "", true)
	}
	w := e.Stdout
	fmt.Fprintf(w, "network    %s, input %d x %d x %d, %d layers, %.2f MMAC\n", s.Network, s.Input[0], s.Input[1], s.Input[2], s.Layers, float64(s.MACs)/1e6)
	fmt.Fprintf(w, "design     %s <T_R %d, T_P %d, T_C %d>, hash %s\n", s.Design, s.TR, s.TP, s.TC, s.DesignHash)
	fmt.Fprintf(w, "ABI        %s\nbundle     %s\n", s.ABIHash, s.BundleHash)
	fmt.Fprintf(w, "weights    %s, slot %s, %d tensors\n", report.Bytes(uint64(s.WeightBytes)), report.Bytes(uint64(s.SlotBytes)), s.Tensors)
	fmt.Fprintf(w, "ranges     %s\n", info.Text())
	if len(info.Classes) > 0 {
		fmt.Fprintf(w, "classes    %d named, from %s to %s\n", len(info.Classes), info.Classes[0], info.Classes[len(info.Classes)-1])
	}
	fmt.Fprintln(w)
	t := report.Table{Head: []string{"exit", "layers", "MMAC", "to here, B = 1", "B = B_max", "gain"}}
	for _, x := range s.Exits {
		one, all := int64(-1), int64(-1)
		gain := "-"
		if n := len(x.LatencyNS); n > 0 {
			one, all = int64(x.LatencyNS[0]), int64(x.LatencyNS[n-1])
			if all > 0 {
				gain = fmt.Sprintf("%.2f x", float64(n)*float64(one)/float64(all))
			}
		}
		t.Add(x.Name, fmt.Sprintf("%d..%d", x.First, x.Last), fmt.Sprintf("%.2f", float64(x.MACs)/1e6), report.Ns(one), report.Ns(all), gain)
	}
	return t.Write(w)
}
