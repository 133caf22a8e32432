// Command synfigures prints the stored results of synthesis (hw/syn/results), whether they come from
// the present sources, and the cost of Stackable PEs and sample groups.
//
// Exit codes: 0 ok, 1 a result is stale (-current), 2 wrong usage, 3 a result is rejected.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/syn"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `synfigures prints the stored results of synthesis.

Example: go run ./hw/syn/cmd/synfigures -json

`

func run(args []string, stdout, stderr io.Writer) int {
	t := cli.NewFlagTool("synfigures", usage, stderr)
	root := t.String("root", ".", "root of the repository")
	dir := t.String("dir", "", "folder of results (default hw/syn/results of the root)")
	asJSON := t.Bool("json", false, "one JSON document")
	current := t.Bool("current", false, "fail where a result is stale")
	return t.Main(args, func() error {
		if t.NArg() != 0 {
			return cli.Told(cli.Usage)
		}
		runs, err := syn.Results(cmp.Or(*dir, filepath.Join(*root, "hw", "syn", "results")))
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return fmt.Errorf("no results in %s", cmp.Or(*dir, *root))
		}
		state := make([]bool, len(runs))
		stale := 0
		for i, r := range runs {
			if state[i], err = r.Current(*root); err != nil {
				return err
			}
			if !state[i] {
				stale++
			}
		}
		show := printTables
		if *asJSON {
			show = printJSON
		}
		if err := show(stdout, runs, state); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if *current && stale > 0 {
			return cli.Errorf(cli.Check, "%d of %d results are stale: hw/syn/overheads.sh --store renews them", stale, len(runs))
		}
		return nil
	})
}

func printJSON(w io.Writer, runs []syn.Run, state []bool) error {
	type row struct {
		syn.Run
		Current bool `json:"current"`
	}
	doc := struct {
		Schema    int            `json:"schema"`
		Label     string         `json:"label"`
		Resources []row          `json:"resources"`
		Overheads []syn.Overhead `json:"overheads"`
	}{Schema: 1, Label: "synthesised", Overheads: syn.Overheads(runs)}
	for i, r := range runs {
		doc.Resources = append(doc.Resources, row{r, state[i]})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func printTables(w io.Writer, runs []syn.Run, state []bool) error {
	fmt.Fprintln(w, "synthesised, yosys 0.23 (before placement)")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "configuration\tfamily\tmodule\tDSP\tBRAM36\tURAM\tLUT\tLC\tFF\tCPU s\tMB\tsources\t")
	for i, r := range runs {
		of := "stale"
		if state[i] {
			of = "current"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%g\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%s\t\n", r.Config, r.Family, r.Top, r.Resources.DSP,
			r.Resources.BRAM(), r.Resources.URAM, r.Resources.LUTs(), r.LC, r.Resources.FF, r.CPUSeconds, r.PeakMB, of)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	list := syn.Overheads(runs)
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nLUTs of sample groups (fluid) and Stackable PEs (stack): what leaving one out of both saves")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "configuration\tfamily\tmodule\tneither\tfluid\tstack\tboth\tof fluid\tof the part\tof neither\tof stack\tof the part\tof neither\tRTL of the four\t")
	for _, o := range list {
		of := "one"
		if o.Mixed {
			of = "several"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t\n", o.Config, o.Family, o.Top, o.Plain, o.Fluid,
			o.Stack, o.Both, o.FluidLUTs, share(o.FluidOfPart), share(o.FluidOfPlain), o.StackLUTs, share(o.StackOfPart), share(o.StackOfPlain), of)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "published (section IV): Fluid Batching Engine < 0.5 %, Stackable PEs < 6 % of the part's LUTs")
	return nil
}

func share(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}
