// Command boardblock writes the Tcl that builds a design for a board (hw/vivado/block), or the manifest of a finished
// build.
//
//	boardblock name BOARD CONFIG                         prints both names and checks that the design fits the board
//	boardblock tcl BOARD CONFIG > build.tcl
//	boardblock manifest BOARD CONFIG OUT > npu.yaml      OUT is the output folder of build.tcl
//
// Exit codes: 0 ok, 2 wrong usage, 3 bad input.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/block"
)

func main() {
	if words := map[string]int{"name": 4, "tcl": 4, "manifest": 5}; len(os.Args) < 2 || words[os.Args[1]] != len(os.Args) {
		fmt.Fprintln(os.Stderr, "usage: boardblock name|tcl BOARD CONFIG | boardblock manifest BOARD CONFIG OUT")
		os.Exit(2)
	}
	text, err := run(os.Args[1:], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "boardblock:", err)
		os.Exit(3)
	}
	os.Stdout.Write(text)
}

func run(args []string, stderr io.Writer) ([]byte, error) {
	b, err := boards.Load(args[1])
	if err != nil {
		return nil, err
	}
	d, err := configs.Load(args[2])
	if err != nil {
		return nil, err
	}
	if err := d.Built(); err != nil {
		return nil, fmt.Errorf("%s: %w", args[2], err)
	}
	if args[0] != "manifest" {
		// reject a design that cannot fit before Vivado spends hours on it
		e := resource.Of(b, d)
		if err := e.Least().Check(b); err != nil {
			return nil, fmt.Errorf("%s on %s: %w (estimated)", d.Name, b.Name, e.Check(b))
		}
		if err := e.Check(b); err != nil && args[0] == "tcl" {
			fmt.Fprintf(stderr, "boardblock: warning: %s on %s: %v (estimated: LUT %v, FF %v), so it may not fit\n", d.Name, b.Name, err, e.LUT, e.FF)
		}
		text, err := block.Generate(b, d)
		if err == nil && args[0] == "name" {
			text = []byte(b.Name + "-" + d.Name + "\n")
		}
		return text, err
	}
	return manifest(b, d, args[3])
}

// manifest returns the manifest of a build, from its reports.
func manifest(b boards.Board, d configs.Design, out string) ([]byte, error) {
	bit, err := os.ReadFile(filepath.Join(out, "npu.bit"))
	if err != nil {
		return nil, err
	}
	parsed, err := bitstreams.ParseBit(bit)
	if err != nil {
		return nil, err
	}
	slack, err := os.ReadFile(filepath.Join(out, "slack.txt"))
	if err != nil {
		return nil, err
	}
	clock, err := os.ReadFile(filepath.Join(out, "clock.txt"))
	if err != nil {
		return nil, err
	}
	timing, err := os.ReadFile(filepath.Join(out, "timing.rpt"))
	if err != nil {
		return nil, err
	}
	if err := pulses(string(timing)); err != nil {
		return nil, err
	}
	report, err := os.ReadFile(filepath.Join(out, "utilisation.rpt"))
	if err != nil {
		return nil, err
	}
	m := bitstreams.Manifest{
		Board: b.Name, Config: d.Name, Part: b.Part, DesignHash: fmt.Sprintf("%016x", d.Hash()), ABIHash: fmt.Sprintf("%016x", uint64(abi.Hash)),
		Tool: parsed.Tool, SHA256: fmt.Sprintf("%x", sha256.Sum256(bit)), Status: bitstreams.Built,
	}
	hz, err := strconv.ParseFloat(strings.TrimSpace(string(clock)), 64)
	if err != nil {
		return nil, fmt.Errorf("clock.txt: expected Hz: %w", err)
	}
	m.Timing.ClockMHz = hz / 1e6
	if _, err := fmt.Sscan(string(slack), &m.Timing.WNS, &m.Timing.WHS); err != nil {
		return nil, fmt.Errorf("slack.txt: expected two numbers: %w", err)
	}
	if m.Utilisation, err = utilisation(string(report)); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(&m)
	if err != nil {
		return nil, err
	}
	if _, err := bitstreams.ParseManifest(text); err != nil {
		return nil, err
	}
	return text, nil
}

var endpointsRE = regexp.MustCompile(`T[NHP]\w+ (Failing|Total) Endpoints`)

// pulses rejects a design with a clock that is too fast for a cell that it drives. The build script checks only the
// slack of paths, which does not show this error. WPWS(ns) in the summary of report_timing_summary shows it.
func pulses(report string) error {
	lines := strings.Split(report, "\n")
	for i, head := range lines {
		if !strings.Contains(head, "WNS(ns)") || !strings.Contains(head, "WPWS(ns)") || i+2 >= len(lines) {
			continue
		}
		values := strings.Fields(lines[i+2]) // lines[i+1] has dashes; the heading of an endpoint column has three words
		at := len(strings.Fields(endpointsRE.ReplaceAllString(head[:strings.Index(head, "WPWS(ns)")], "n")))
		if at >= len(values) {
			break
		}
		slack, err := strconv.ParseFloat(values[at], 64)
		switch {
		case err != nil:
			return fmt.Errorf("timing.rpt: WPWS: expected a number: %w", err)
		case slack < 0:
			return fmt.Errorf("timing.rpt: the worst slack of pulse widths is %g ns: a clock is faster than what it drives; see its Pulse Width Checks", slack)
		}
		return nil
	}
	return errors.New("timing.rpt: no summary with WPWS(ns)")
}

// utilisation parses rows of report_utilization: | CLB LUTs* | 12345 | ...
func utilisation(report string) (u bitstreams.Utilisation, err error) {
	row := func(names string, optional bool) float64 {
		f := regexp.MustCompile(`(?m)^\|\s*(?:` + names + `)\*?\s*\|\s*([0-9.]+)\s*\|`).FindStringSubmatch(report)
		if f == nil {
			if !optional {
				err = errors.Join(err, fmt.Errorf("utilisation.rpt: no row %s", strings.ReplaceAll(names, "|", " or ")))
			}
			return 0
		}
		v, bad := strconv.ParseFloat(f[1], 64)
		err = errors.Join(err, bad)
		return v
	}
	u = bitstreams.Utilisation{
		LUT: int(row("Slice LUTs|CLB LUTs", false)), FF: int(row("Slice Registers|CLB Registers", false)),
		BRAM36: row("Block RAM Tile", false), DSP: int(row("DSPs", false)), URAM: int(row("URAM", true)),
	}
	return u, err
}
