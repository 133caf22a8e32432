// Command storerun stores the result of hw/syn/synth.sh as a run for the resource law. The run contains the values of
// the summary that the law reads. For a whole NPU it also contains the LUTs and registers of each unit of npu_core.
//
//	storerun -dir build/syn/small-xc7 -out dse/resource/runs/fit/small-xc7.json
//
// With -params MODULE -config CONFIG -family FAMILY it prints parameters of the module as --set options of synth.sh.
// These are the parameters that npu_core sets and, for the whole NPU, the parameters of memories in URAM. They are not
// in the configuration. With -stale it prints the stored runs whose RTL differs from that of the tree, one per line:
// fit/NAME or held/NAME. -root is the repository with the synthesised RTL, if this is not the current folder.
// Exit codes: 0 success; 2 wrong usage; 3 a file is missing or cannot be read.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "storerun:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(3)
	}
}

var errUsage = errors.New("usage: storerun -dir FOLDER -out FILE.json | -params MODULE -config CONFIG -family FAMILY | -stale")

func run(args []string) error {
	fs := flag.NewFlagSet("storerun", flag.ContinueOnError)
	dir := fs.String("dir", "", "folder with summary.json and netlist.json")
	out := fs.String("out", "", "file to write")
	root := fs.String("root", ".", "folder whose hw/rtl was synthesised")
	module := fs.String("params", "", "module whose parameters to print")
	config := fs.String("config", "", "its configuration")
	family := fs.String("family", "", "the family of parts: xc7, xcup")
	fs.Bool("stale", false, "print the stored runs of other RTL")
	if err := fs.Parse(args); err != nil || fs.NArg() != 0 {
		return errUsage
	}
	var given []string
	fs.Visit(func(f *flag.Flag) {
		if f.Name != "root" {
			given = append(given, f.Name)
		}
	})
	switch strings.Join(given, " ") {
	case "dir out":
	case "config family params":
		d, err := configs.Load(*config)
		if err == nil {
			fmt.Println(strings.Join(params(*module, *family, d), " "))
		}
		return err
	case "stale":
		names, err := resource.Stale(*root)
		for _, n := range names {
			fmt.Println(n)
		}
		return err
	default:
		return errUsage
	}
	s, err := syn.LoadRun(filepath.Join(*dir, "summary.json"))
	if err != nil {
		return err
	}
	r := resource.Run{
		Config: s.Config, Design: s.Design, Family: s.Family, Top: s.Top, Tool: s.Tool, Sources: s.Sources,
		Used: resource.Used{
			DSP: s.Resources.DSP, BRAM18: s.Resources.BRAM18, BRAM36: s.Resources.BRAM36, URAM: s.Resources.URAM,
			LUT: s.Resources.LUT, LUTRAM: s.Resources.LUTRAM, SRL: s.Resources.SRL, FF: s.Resources.FF,
		},
	}
	if r.Top == "npu_top" {
		if err := addUnits(&r, *dir, *root); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// addUnits adds the number of cells of each unit, from the netlist in dir. The sums must match the summary.
func addUnits(r *resource.Run, dir, root string) error {
	f, err := os.Open(filepath.Join(dir, "netlist.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := read(bufio.NewReader(f), root)
	if err != nil {
		return err
	}
	if r.Units, err = n.units(); err != nil {
		return err
	}
	hash, err := syn.SourcesIn(root, r.Top)
	if err != nil || hash != r.Sources {
		return fmt.Errorf("%s is of other RTL than lies in %s: %w", dir, root, err)
	}
	var sum resource.Cells
	for name, u := range r.Units {
		sum.LUT, sum.FF, sum.SRL = sum.LUT+u.LUT, sum.FF+u.FF, sum.SRL+u.SRL
		if u.Sources, err = resource.UnitSources(root, name); err != nil {
			return err
		}
		r.Units[name] = u
	}
	if want := (resource.Cells{LUT: r.Used.LUT, SRL: r.Used.SRL, FF: r.Used.FF}); sum != want {
		return fmt.Errorf("%s: the netlist has %+v, its summary says %+v", dir, sum, want)
	}
	return nil
}

// params returns the parameters that npu_core computes for a module. For the whole NPU, it returns FOLD.
func params(module, family string, d configs.Design) []string {
	wide := d.WideBytes()
	lanes := wide / d.AXIBytes
	set := func(name string, value int) string { return fmt.Sprintf("--set %s=%d", name, value) }
	switch module {
	case "npu_top":
		if resource.Folds(family, d) {
			return []string{set("FOLD", 1)}
		}
	case "read_ports", "write_ports":
		stripe := 1
		for stripe < 16 && 2*stripe <= d.MaxBurst {
			stripe *= 2
		}
		return []string{set("LANES", lanes), set("STRIPE", stripe)}
	case "act_loader":
		return []string{set("NB", d.NB()), set("AXI_BYTES", wide)}
	case "depthwise":
		return []string{set("NB", d.NB()), set("LANES", d.Drain), set("AXI_BYTES", wide)}
	case "post":
		return []string{set("LANES", d.Drain)}
	case "weight_fetch":
		return []string{set("AXI_BYTES", wide), set("WRING_BEATS", d.WRingBeats/lanes)}
	}
	return nil
}

// cell is a cell of the netlist from yosys.
type cell struct {
	Type       string
	Attributes struct{ Src string }
	Directions map[string]string `json:"port_directions"`
	Bits       map[string][]any  `json:"connections"` // a number is a bit of a net; a text is a constant
	out        []int
	unit       string
	visiting   bool
}

// netlist is the module npu_top of the netlist, with the names of each net and the cells that the net drives.
type netlist struct {
	Cells map[string]*cell
	Nets  map[string]struct{ Bits []any } `json:"netnames"`
	names map[int][]string
	sinks map[int][]*cell
	at    map[string]string // instances, by "file.sv:line"
}

var (
	instance = regexp.MustCompile(`\bu_(\w+) \($`)
	written  = regexp.MustCompile(`(npu_(?:core|top)\.sv:\d+)\.`)
)

// read reads a netlist that was synthesised from the RTL at root.
func read(r io.Reader, root string) (*netlist, error) {
	var file struct{ Modules map[string]*netlist }
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("netlist: %w", err)
	}
	n := file.Modules["npu_top"]
	if n == nil {
		return nil, errors.New("netlist: it has no module npu_top")
	}
	n.names, n.sinks, n.at = map[int][]string{}, map[int][]*cell{}, map[string]string{}
	for _, name := range []string{"npu_core.sv", "npu_top.sv"} {
		text, err := os.ReadFile(filepath.Join(root, "hw", "rtl", name))
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := instance.FindStringSubmatch(line); m != nil {
				n.at[fmt.Sprintf("%s:%d", name, i+1)] = m[1]
			}
		}
	}
	for name, net := range n.Nets {
		for _, b := range net.Bits {
			if bit, ok := b.(float64); ok {
				n.names[int(bit)] = append(n.names[int(bit)], name)
			}
		}
	}
	for name, c := range n.Cells {
		for port, bits := range c.Bits {
			for _, b := range bits {
				bit, ok := b.(float64)
				switch {
				case !ok:
				case c.Directions[port] == "output":
					c.out = append(c.out, int(bit))
				default:
					n.sinks[int(bit)] = append(n.sinks[int(bit)], c)
				}
			}
		}
		if len(c.out) > 0 && !c.logic() { // the output of a memory has the name of the memory
			n.names[c.out[0]] = append(n.names[c.out[0]], name)
		}
	}
	return n, nil
}

// units assigns LUTs, shift registers and registers to the units of npu_core. A register has a location in the RTL or a
// name. A LUT has neither, so the LUT is assigned to the unit with most of the cells that it drives.
func (n *netlist) units() (map[string]resource.Cells, error) {
	all := map[string]resource.Cells{}
	for _, c := range n.Cells {
		u := all[n.unit(c)]
		switch {
		case strings.HasPrefix(c.Type, "LUT"), c.Type == "INV":
			u.LUT++
		case strings.HasPrefix(c.Type, "FD"):
			u.FF++
		case strings.HasPrefix(c.Type, "SRL"):
			u.SRL++
		}
		all[c.unit] = u
	}
	for name, u := range all {
		if u == (resource.Cells{}) {
			delete(all, name)
		} else if _, err := resource.UnitOf(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *cell) logic() bool {
	return strings.HasPrefix(c.Type, "LUT") || strings.HasPrefix(c.Type, "MUXF") || strings.HasPrefix(c.Type, "CARRY") || c.Type == "INV"
}

// unit returns the unit of a cell: by location or name if the cell stores state, otherwise by the cells that it drives.
func (n *netlist) unit(c *cell) string {
	if c.unit != "" || c.visiting {
		return c.unit
	}
	c.visiting = true
	if !c.logic() {
		for _, m := range written.FindAllStringSubmatch(c.Attributes.Src, -1) {
			if u := n.at[m[1]]; u != "" && u != "core" {
				if known, err := resource.UnitOf(u); err == nil {
					u = known
				}
				c.unit = u
				return u
			}
		}
	}
	votes := map[string]int{}
	named := func() {
		for _, bit := range c.out {
			for _, net := range n.names[bit] {
				if u := unitOf(net); u != "" {
					votes[u]++
				}
			}
		}
	}
	if !c.logic() {
		named()
	}
	if len(votes) == 0 {
		for _, bit := range c.out {
			for _, s := range n.sinks[bit] {
				if u := n.unit(s); u != "" {
					votes[u]++
				}
			}
		}
	}
	if c.logic() && len(votes) == 0 {
		named()
	}
	c.unit = "core"
	var names []string
	for u := range votes {
		names = append(names, u)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(votes[b]-votes[a], strings.Compare(a, b)) })
	if len(names) > 0 {
		c.unit = names[0]
	}
	return c.unit
}

// unitOf extracts the unit from the name of a net in the flat netlist, for example u_core.u_pool.acc_q[3]. If the law
// has no such unit, the result is the name of the instance. Names that yosys created ($) contain no unit.
func unitOf(net string) string {
	parts := strings.Split(net, ".")
	if len(parts) < 2 || net[0] == '$' {
		return ""
	}
	name := parts[0]
	if name == "u_core" {
		if len(parts) == 2 {
			return "core"
		}
		name = parts[1]
	}
	name = strings.TrimPrefix(name, "u_")
	if u, err := resource.UnitOf(name); err == nil {
		return u
	}
	return name
}
