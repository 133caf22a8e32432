// Package ip writes the files of a packaged IP for a board and a design: a plain-Verilog top with one named AXI
// interface for each port, the Tcl that packages the top, and the out-of-context constraints. The Tcl has never run in
// Vivado. It must use only calls in vivado/allowed.txt, which cites Xilinx' guides.
package ip

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/template"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrFit indicates that a design does not fit a board's processing system.
var ErrFit = errors.New("no block design's module")

// Files maps a file name to the file's content.
type Files map[string][]byte

// Module returns the name of a design's top module on a board.
func Module(b boards.Board, d configs.Design) string {
	if d.Name == b.Name {
		return identifier("sluice_" + b.Name)
	}
	return identifier("sluice_" + b.Name + "_" + d.Name)
}

// TopFile returns the file name of a design's top module.
func TopFile(b boards.Board, d configs.Design) string { return Module(b, d) + ".v" }

// Names of the other files.
const (
	TclFile = "package_ip.tcl"
	XDCFile = "ooc.xdc"
)

func identifier(s string) string { return strings.ReplaceAll(s, "-", "_") }

// Check checks that the board's processing system can connect the design's masters directly. Each master needs its own
// port, which supports the master's width and bursts.
func Check(b boards.Board, d configs.Design) error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrFit}, args...)...))
		}
	}
	want(!d.Stub, "%s has no MACs (stub)", d.Name)
	want(d.NAXI <= len(b.Ports.Names), "%s has %d masters, %s %d ports", d.Name, d.NAXI, b.Name, len(b.Ports.Names))
	want(d.AXIBytes <= b.Ports.AXIBytes, "a beat of %s has %d bytes, a port of %s takes %d at most", d.Name, d.AXIBytes, b.Name, b.Ports.AXIBytes)
	want(d.MaxBurst <= b.Ports.MaxBurst, "bursts of %s have up to %d beats, those of %s %d", d.Name, d.MaxBurst, b.Name, b.Ports.MaxBurst)
	if b.Folds(d.ABufWords) {
		err := d.Folded()
		want(err == nil, "%w", err)
	}
	return errors.Join(errs...)
}

//go:embed top.v.tmpl
var topText string

//go:embed package_ip.tcl.tmpl
var tclText string

//go:embed ooc.xdc.tmpl
var xdcText string

var templates = map[string]*template.Template{
	"top": template.Must(template.New("top").Parse(topText)),
	"tcl": template.Must(template.New("tcl").Parse(tclText)),
	"xdc": template.Must(template.New("xdc").Parse(xdcText)),
}

// port describes a master for the templates.
type port struct {
	Bus string // M00_AXI
	To  string // port of the processing system
	P   int
}

type view struct {
	Module, Config, Board, Part, Vendor string
	DesignHash                          string
	Ports                               []port
	N, Bytes, Bits, Size                int
	AddrBits, LenBits, LockBits         int
	LenMSB, DataMSB, StrbMSB            int
	AXI3                                bool
	Protocol                            string
	Parameters                          [][2]string // names and values for npu_top
	Associated                          string
	PeriodNs                            string
	Taxonomy, Families                  string
}

// Generate returns the files. RTL paths are relative to the repository's root, which is the first argument of the Tcl.
func Generate(b boards.Board, d configs.Design) (Files, error) {
	if keys := b.Lacking(); keys != nil { // such a board cannot be checked further
		return nil, fmt.Errorf("%w: the file of %s lacks the keys %s", ErrFit, b.Name, strings.Join(keys, ", "))
	}
	if err := errors.Join(b.Validate(), d.Elaborates(), d.Built(), d.OwnName(), Check(b, d)); err != nil {
		return nil, err
	}
	v := view{
		Module: Module(b, d), Config: d.Name, Board: b.Name, Part: b.Part, Vendor: "sluice-npu",
		DesignHash: fmt.Sprintf("%016x", d.Hash()),
		N:          d.NAXI, Bytes: d.AXIBytes, Bits: 8 * d.AXIBytes, Size: int(math.Log2(float64(d.AXIBytes))),
		AddrBits: b.Ports.AddrBits, LenBits: 8, LockBits: 1, Protocol: "AXI4",
		PeriodNs: fmt.Sprintf("%.3f", math.Floor(1e6/b.ClockMHz)/1000), // the clock of hw/vivado/block
	}
	if b.Ports.AXI == boards.AXI3 {
		v.AXI3, v.LenBits, v.LockBits, v.Protocol = true, 4, 2, "AXI3"
	}
	v.LenMSB, v.DataMSB, v.StrbMSB = v.LenBits-1, v.Bits-1, v.Bytes-1
	v.Families = map[string]string{boards.Series7: "zynq", boards.UltraScalePlus: "zynquplus"}[b.Family]
	bus := []string{"S_AXI"}
	for p, to := range b.Ports.Names[:d.NAXI] {
		v.Ports = append(v.Ports, port{fmt.Sprintf("M%02d_AXI", p), to, p})
		bus = append(bus, v.Ports[p].Bus)
	}
	v.Associated = strings.Join(bus, ":")
	for _, p := range d.VerilatorParams() {
		name, value, _ := strings.Cut(strings.TrimPrefix(p, "-G"), "=")
		v.Parameters = append(v.Parameters, [2]string{name, value})
	}
	v.Parameters = append(v.Parameters, [2]string{"CELLS", map[string]string{boards.Series7: "1", boards.UltraScalePlus: "2"}[b.Family]})
	if b.Folds(d.ABufWords) {
		v.Parameters = append(v.Parameters, [2]string{"FOLD", "1"})
	}
	files := Files{}
	for name, t := range map[string]string{TopFile(b, d): "top", TclFile: "tcl", XDCFile: "xdc"} {
		var out bytes.Buffer
		if err := templates[t].Execute(&out, v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = out.Bytes()
	}
	return files, nil
}
