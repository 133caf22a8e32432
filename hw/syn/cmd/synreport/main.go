// Command synreport reads the files of one yosys run (hw/syn/synth.sh), checks them and writes
// summary.json to their folder. With -store, it also writes the summary to a folder of results,
// without the list of memories. -hash prints the hash of the top module's source files. -pack
// changes a netlist: it moves registers at the outputs of memories into the memories.
//
//	synreport -config small -family xc7 -top npu_top -tool "$(yosys -V)" -sources HASH -dir build/syn/small-xc7
//	synreport -hash -top pe_array hw/rtl/*.sv hw/xilinx/*.sv
//	synreport -pack build/syn/small-xc7/netlist.json -top npu_top
//
// Exit codes: 0 ok, 1 the netlist is rejected, 2 wrong usage, 3 a file is missing or malformed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
	"github.com/sluice-npu/sluice/hw/syn/timing"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	var r syn.Run
	t := cli.NewFlagTool("synreport", "Usage of synreport:\n", stderr)
	t.StringVar(&r.Config, "config", "", "`name` or file of the configuration")
	t.StringVar(&r.Family, "family", "xc7", "family of the device")
	t.StringVar(&r.Top, "top", "npu_top", "module that was synthesised")
	t.StringVar(&r.Tool, "tool", "", "version of yosys")
	t.StringVar(&r.Sources, "sources", "", "hash of the RTL")
	dir := t.String("dir", "", "folder with stat.txt, mem.txt, words.txt, packed.txt, netlist.json and log")
	store := t.String("store", "", "`folder` of results to store the summary in")
	hash := t.Bool("hash", false, "print the hash of the sources of -top among the files given")
	pack := t.String("pack", "", "yosys' JSON `file` in which registers behind memories become these' output registers")
	return t.Main(args, func() error {
		if *hash {
			_, sum, err := syn.Sources(t.Args(), r.Top)
			if err == nil {
				_, err = fmt.Fprintln(stdout, sum)
			}
			return err
		}
		if *pack != "" && t.NArg() == 0 {
			return packed(*pack, r.Top, stdout)
		}
		if t.NArg() != 0 || r.Config == "" || r.Tool == "" || r.Sources == "" || *dir == "" {
			return cli.Told(cli.Usage)
		}
		return report(r, *dir, *store, stdout, stderr)
	})
}

// packed moves registers into the memories of a netlist file (syn.PackOutputs).
func packed(path, top string, stdout io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	text, n, err := syn.PackOutputs(text, top)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", path, err)
	}
	_, err = fmt.Fprintf(stdout, "%d outputs of memories have their register\n", n)
	return err
}

// report checks a run and writes its summary.
func report(r syn.Run, dir, store string, stdout, stderr io.Writer) error {
	bad, err := read(dir, &r)
	if err != nil {
		return err
	}
	print(stdout, r)
	netlist, err := os.ReadFile(filepath.Join(dir, "netlist.json"))
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	// A netlist with other errors can contain cells that package timing does not support; this error is ignored then.
	if r.Registers, err = registers(netlist, r.Top); err != nil && len(bad) == 0 {
		return fmt.Errorf("read the run: %w", err)
	}
	if _, ok := syn.DeviceOf(r.Design.Board); !ok && r.Design.Board != "" {
		fmt.Fprintf(stderr, "synreport: board %s is not among boards: fit not checked\n", r.Design.Board)
	}
	if err := errors.Join(append(bad, r.Check(), syn.CheckLevels(r.Design, r.Family, r.Top, netlist))...); err != nil {
		return cli.Errorf(cli.Check, "the netlist of %s is refused:\n%w", r.Config, err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "summary.json"), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if store == "" {
		return nil
	}
	path, err := syn.Store(store, r)
	if err == nil {
		_, err = fmt.Fprintln(stdout, "  stored in", path)
	}
	return err
}

// index matches the part of a name that differs between copies of a cell: an index, or yosys' number of the cell.
var index = regexp.MustCompile(`\[\d+\]|\$\d+$`)

// registers counts the pipeline registers of a netlist's DSPs and memories.
func registers(netlist []byte, top string) ([]syn.Register, error) {
	n, err := timing.Read(bytes.NewReader(netlist), top)
	if err != nil {
		return nil, err
	}
	var all []syn.Register
	for _, r := range n.Registers() {
		s := syn.Register{Cell: r.Kind, Register: r.Register, Have: r.Have, Of: r.Of}
		for _, w := range r.Without {
			if s.Without == nil {
				s.Without = map[string]int{}
			}
			s.Without[index.ReplaceAllString(w, "[*]")]++
		}
		all = append(all, s)
	}
	return all, nil
}

// read fills the run from the files in dir. It also returns an error for each sign of a wrong netlist in these files.
func read(dir string, r *syn.Run) ([]error, error) {
	d, err := configs.Load(r.Config)
	if err != nil {
		return nil, err
	}
	r.Config, r.Design, r.DesignHash = d.Name, d, fmt.Sprintf("%016x", d.Hash())
	text := map[string]string{}
	for _, name := range []string{"stat.txt", "mem.txt", "words.txt", "packed.txt", "log"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read the run: %w", err)
		}
		text[name] = string(raw)
	}
	if r.Resources, err = syn.Parse(text["stat.txt"]); err != nil {
		return nil, err
	}
	r.LC = syn.LogicCells(text["stat.txt"])
	if r.Memories, err = syn.ParseMemories(r.Top, text["mem.txt"], text["log"]); err != nil {
		return nil, err
	}
	r.Memories = append(r.Memories, syn.MemoriesAsRegisters(text["words.txt"])...)
	packed, _, _ := strings.Cut(strings.TrimSpace(text["packed.txt"]), " ")
	if r.PackedDSP, err = strconv.Atoi(packed); err != nil {
		return nil, fmt.Errorf("read the run: packed.txt: %w", err)
	}
	r.CPUSeconds, r.PeakMB = syn.Cost(text["log"])
	return append(syn.BadLines(text["log"]), syn.Foreign(text["stat.txt"], r.Family)...), nil
}

func print(w io.Writer, r syn.Run) {
	u := r.Resources
	fmt.Fprintf(w, "%s %s %s: synthesised, %s\n", r.Config, r.Family, r.Top, strings.Join(strings.Fields(r.Tool)[:min(2, len(strings.Fields(r.Tool)))], " "))
	fmt.Fprintf(w, "  DSP %d (with PREG %d), BRAM36 %g (%d x 36K, %d x 18K), URAM %d\n", u.DSP, r.PackedDSP, u.BRAM(), u.BRAM36, u.BRAM18, u.URAM)
	fmt.Fprintf(w, "  LUT %d (estimated LCs %d; logic %d, memory %d, shift registers %d), FF %d, carry %d, mux %d\n", u.LUTs(), r.LC, u.LUT, u.LUTRAM, u.SRL, u.FF, u.Carry, u.MuxF)
	fmt.Fprintf(w, "  yosys took %.0f s of CPU, %.0f MB\n", r.CPUSeconds, r.PeakMB)
}
