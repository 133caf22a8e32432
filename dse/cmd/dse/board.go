package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/configs"
)

// templates maps a family to the template for boards without a reference design. A template is a configuration: a grid
// uses its loader, drain and ring.
var templates = map[string]string{boards.Series7: "zc706", boards.UltraScalePlus: "zcu104"}

const maxBytesPerCycle = 1024

// place contains the flags that select a board and its limits.
type place struct {
	Template      string  `placeholder:"NAME|FILE.yaml" help:"Configuration whose loader, drain and ring the grid takes over (default: the board's reference design, or that of a board of its family)."`
	BytesPerCycle float64 `placeholder:"N" help:"Bandwidth of the DRAM (default: the board's first)."`
}

// grid returns the grid of designs that fit a board.
func (p *place) grid(b boards.Board) (search.Grid, error) {
	if v := p.BytesPerCycle; v != 0 && !(v > 0 && v <= maxBytesPerCycle) {
		return search.Grid{}, usage("--bytes-per-cycle is %v, must be more than 0, at most %d", v, maxBytesPerCycle)
	}
	d, err := templateOf(b, p.Template)
	if err != nil {
		return search.Grid{}, err
	}
	d.Board, d.ClockMHz = b.Name, b.ClockMHz
	d.NAXI, d.AXIBytes, d.MaxBurst = b.Ports.NAXI, b.Ports.AXIBytes, b.Ports.MaxBurst
	d.DRAM = configs.DRAM{BytesPerCycle: b.DRAM.BytesPerCycle[0], LatencyCycles: b.DRAM.LatencyCycles}
	if p.BytesPerCycle != 0 {
		d.DRAM.BytesPerCycle = p.BytesPerCycle
	}
	d.WRingBeats = resource.Ring(b, d)
	return search.NewGrid(b, d)
}

// templateOf returns the configuration with the given name. Without a name, it returns the board's reference design, or
// the template of the board's family if the board has no reference design.
func templateOf(b boards.Board, name string) (configs.Design, error) {
	if name == "" {
		if slices.Contains(configs.Names(), b.Name) {
			d, err := configs.Load(b.Name)
			if err != nil || d.Board == b.Name {
				return d, err
			}
		}
		name = templates[b.Family]
	}
	d, err := configs.Load(name)
	if err != nil {
		return configs.Design{}, fmt.Errorf("template for board %s: %w", b.Name, err)
	}
	return d, nil
}

// boardOf returns the board of a configuration (a name or a file): the board that the flag names, the board file that
// dse export wrote beside the configuration, or the board with the same name. Designs for simulation have no board.
func boardOf(config string, d configs.Design, flag string) (*boards.Board, error) {
	name := flag
	beside := strings.TrimSuffix(config, ".yaml") + ".board.yaml"
	switch _, err := os.Stat(beside); {
	case name != "":
	case err == nil && beside != config:
		name = beside
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case d.Board == "":
		return nil, nil
	case !slices.Contains(boards.Names(), d.Board):
		return nil, fmt.Errorf("configuration %s is for the board %q, which is none of %s, and no %s lies beside it: name its file with --board",
			config, d.Board, strings.Join(boards.Names(), ", "), beside)
	default:
		name = d.Board
	}
	b, err := boards.Load(name)
	if err != nil {
		return nil, err
	}
	if d.Board != "" && b.Name != d.Board {
		return nil, fmt.Errorf("configuration %s is for the board %s, not for %s (%s)", config, d.Board, b.Name, name)
	}
	return &b, nil
}

// differences returns the keys whose values differ between two boards, with both values.
func differences(a, b boards.Board) []string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if u, v := x.Field(i).Interface(), y.Field(i).Interface(); !reflect.DeepEqual(u, v) {
			out = append(out, fmt.Sprintf("%s: %v and %v", x.Type().Field(i).Tag.Get("json"), u, v))
		}
	}
	return out
}
