// Command storerun stores a synthesis of hw/syn/synth.sh as a run of the resource law: its summary without the values
// that the law does not read, and for a whole NPU also the LUTs and registers of each unit of npu_core.
//
//	storerun -dir build/syn/small-xc7 -out dse/resource/runs/fit/small-xc7.json
//
// With -params MODULE -config CONFIG -family FAMILY it prints the module's parameters that do not come from the
// configuration, as --set options of synth.sh: those that npu_core sets, and for the whole NPU those of memories in
// URAM. With -stale it prints the stored runs of RTL other than the tree's, one per line: fit/NAME or held/NAME.
// -root is the repository whose RTL was synthesised, if it is not the current folder.
// Exit codes: 0 ok, 2 usage, 3 a file is missing or not understood.
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
	dir := fs.String("dir", "", "folder with summary.json and netlist.v")
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
		f, err := os.Open(filepath.Join(*dir, "netlist.v"))
		if err != nil {
			return err
		}
		defer f.Close()
		if r.Units, err = units(f); err != nil {
			return err
		}
		hash, err := syn.SourcesIn(*root, r.Top)
		if err != nil || hash != r.Sources {
			return fmt.Errorf("%s is of other RTL than lies in %s: %w", *dir, *root, err)
		}
		var sum resource.Cells
		for name, u := range r.Units {
			sum.LUT, sum.FF, sum.SRL = sum.LUT+u.LUT, sum.FF+u.FF, sum.SRL+u.SRL
			if u.Sources, err = resource.UnitSources(*root, name); err != nil {
				return err
			}
			r.Units[name] = u
		}
		if want := (resource.Cells{LUT: r.Used.LUT, SRL: r.Used.SRL, FF: r.Used.FF}); sum != want {
			return fmt.Errorf("%s: the netlist has %+v, its summary says %+v", *dir, sum, want)
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// params returns the parameters that npu_core computes for a module; for the whole NPU, those of memories that the
// law folds into URAM.
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

// cell is a cell of the netlist that is counted or driven by LUTs.
type cell struct {
	kind     string
	name     string
	in, out  []string
	unit     string
	visiting bool
}

var (
	cellBegins = regexp.MustCompile(`^  (FD[RSCP]E|LUT[1-6]|INV|SRL\w+|RAM\w+|CARRY\d|MUXF\d|DSP48E\d|URAM288\w*) `)
	pin        = regexp.MustCompile(`^    \.(\w+)\((.*)\),?$`)
	output     = regexp.MustCompile(`^(O|Q|Q15|Q31|CO|P|PCOUT|D[A-H]?O|DPO|SPO|DO[A-H]|DO[AB]DO|DOP[AB]DOP|DOUT\w*)$`)
	instance   = regexp.MustCompile(`(\S+) +\($`)
	constant   = regexp.MustCompile(`^\d*'`)
)

// units attributes LUTs, shift registers and registers to the units of npu_core. A register keeps its name through
// synthesis. A LUT does not, so it is assigned to the unit with most of the cells that it drives.
func units(netlist io.Reader) (map[string]resource.Cells, error) {
	var list []*cell
	var c *cell
	sc := bufio.NewScanner(netlist)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		line := sc.Text()
		if m := cellBegins.FindStringSubmatch(line); m != nil {
			c = &cell{kind: m[1]}
			if n := instance.FindStringSubmatch(line); n != nil {
				c.name = n[1]
			}
			list = append(list, c)
			continue
		}
		m := pin.FindStringSubmatch(line)
		if c == nil || m == nil {
			if n := instance.FindStringSubmatch(line); n != nil && c != nil && c.name == "" {
				c.name = n[1]
			}
			if line == "  );" {
				c = nil
			}
			continue
		}
		for _, net := range strings.Split(strings.Trim(m[2], "{} "), ",") {
			net = strings.TrimSpace(net)
			switch {
			case net == "" || constant.MatchString(net):
			case output.MatchString(m[1]):
				c.out = append(c.out, net)
			default:
				c.in = append(c.in, net)
			}
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	sinks := map[string][]*cell{}
	for _, c := range list {
		for _, net := range c.in {
			sinks[net] = append(sinks[net], c)
		}
	}
	all := map[string]resource.Cells{}
	for _, c := range list {
		u := all[c.of(sinks)]
		switch {
		case strings.HasPrefix(c.kind, "LUT"), c.kind == "INV":
			u.LUT++
		case strings.HasPrefix(c.kind, "FD"):
			u.FF++
		case strings.HasPrefix(c.kind, "SRL"):
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

// of returns the unit of a cell: by name if the cell holds state and has a name, otherwise by the cells that it drives.
func (c *cell) of(sinks map[string][]*cell) string {
	if c.unit != "" || c.visiting {
		return c.unit
	}
	c.visiting = true
	votes := map[string]int{}
	named := func() {
		for _, net := range append(c.out, c.name) {
			if u := unitOf(net); u != "" {
				votes[u]++
			}
		}
	}
	logic := strings.HasPrefix(c.kind, "LUT") || strings.HasPrefix(c.kind, "MUXF") || strings.HasPrefix(c.kind, "CARRY") || c.kind == "INV"
	if !logic {
		named()
	}
	if len(votes) == 0 {
		for _, net := range c.out {
			for _, s := range sinks[net] {
				if u := s.of(sinks); u != "" {
					votes[u]++
				}
			}
		}
	}
	if logic && len(votes) == 0 {
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

// unitOf extracts the unit from a net's name in the flat netlist: u_core.u_pool.acc_q[3]. A unit that the law does
// not know keeps its own name.
func unitOf(net string) string {
	parts := strings.Split(strings.TrimPrefix(net, `\`), ".")
	if len(parts) < 2 {
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
