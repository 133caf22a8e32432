// Package boards describes each board with an embedded YAML file. The file has the part, its resources and clocks, the
// ports between processing system, design and DRAM, the DRAM bandwidths to evaluate designs with, and the board's rows
// from table I of the paper.
package boards

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

//go:embed */board.yaml
var files embed.FS

// maxFile limits the size of a board file.
const maxFile = 64 << 10

// ErrBoard is wrapped by every error about a board file.
var ErrBoard = errors.New("bad board")

// Families of devices, as yosys names them.
const (
	Series7        = "xc7"
	UltraScalePlus = "xcup"
)

// Protocols of memory ports. AXI3 limits bursts to 16 beats and has an ID for write data.
const (
	AXI3 = "axi3"
	AXI4 = "axi4"
)

// Board describes a board and its device.
type Board struct {
	Name       string `yaml:"name" json:"name"`
	Device     string `yaml:"device" json:"device"`
	Family     string `yaml:"family" json:"family"`                               // Series7 or UltraScalePlus
	Part       string `yaml:"part,omitempty" json:"part,omitempty"`               // as in Vivado, with package and speed grade
	SpeedGrade int    `yaml:"speed_grade,omitempty" json:"speed_grade,omitempty"` // -1, -2, -3
	BoardPart  string `yaml:"board_part,omitempty" json:"board_part,omitempty"`   // Vivado's board file, if there is one
	IDCode     uint32 `yaml:"idcode,omitempty" json:"idcode,omitempty"`           // JTAG IDCODE with zero in the four version bits

	DSP    int `yaml:"dsp" json:"dsp"`
	BRAM36 int `yaml:"bram36" json:"bram36"` // blocks of 36 Kibit
	URAM   int `yaml:"uram" json:"uram"`     // blocks of 288 Kibit
	LUT    int `yaml:"lut" json:"lut"`
	FF     int `yaml:"ff" json:"ff"`

	ClockMHz  float64   `yaml:"clock_mhz" json:"clock_mhz"` // clock of the design
	Clocks    Clocks    `yaml:"clocks,omitempty" json:"clocks,omitzero"`
	Ports     Ports     `yaml:"ports" json:"ports"`
	Registers Registers `yaml:"registers,omitempty" json:"registers,omitzero"`
	Interrupt Interrupt `yaml:"interrupt,omitempty" json:"interrupt,omitzero"`
	UIO       string    `yaml:"uio,omitempty" json:"uio,omitempty"` // name of the device under /sys/class/uio
	DDR       DDR       `yaml:"ddr,omitempty" json:"ddr,omitzero"`
	DRAM      DRAM      `yaml:"dram" json:"dram"`

	Published  []Published `yaml:"published,omitempty" json:"published,omitempty"`
	PaperMibit float64     `yaml:"paper_mibit,omitempty" json:"paper_mibit,omitempty"` // memory that the paper's law can fill, in Mibit; 0: the law does not cover this board
}

// Folds reports whether npu_top's activation buffer stores four words per memory row (parameter FOLD). This is the case
// if the device has URAM and a bank is too deep for block RAM. A URAM is always 72 bits wide, so a bank with only one
// 16-bit word per row would need four times as many URAMs.
func (b Board) Folds(bankWords int) bool { return b.URAM > 0 && bankWords > 8192 }

// Clocks contains the reference clock of the processing system and its fabric clock. An MMCM generates ClockMHz, the
// design's clock, from the fabric clock.
type Clocks struct {
	PSRefMHz float64 `yaml:"ps_ref_mhz" json:"ps_ref_mhz"`
	PLMHz    float64 `yaml:"pl_mhz" json:"pl_mhz"`
}

// Ports describes the AXI ports into the DRAM.
type Ports struct {
	NAXI     int      `yaml:"n_axi" json:"n_axi"` // default number of masters in a design search
	AXIBytes int      `yaml:"axi_bytes" json:"axi_bytes"`
	MaxBurst int      `yaml:"max_burst" json:"max_burst"`
	AXI      string   `yaml:"axi,omitempty" json:"axi,omitempty"`             // AXI3 or AXI4
	AddrBits int      `yaml:"addr_bits,omitempty" json:"addr_bits,omitempty"` // width of an address
	Names    []string `yaml:"names,omitempty" json:"names,omitempty"`         // ports of the processing system, in the order of masters
}

// Most returns the largest allowed number of masters in a design.
func (p Ports) Most() int { return max(p.NAXI, len(p.Names)) }

// Registers is the address of the register window in the processing system.
type Registers struct {
	Port  string `yaml:"port" json:"port"`
	Base  uint64 `yaml:"base" json:"base"`
	Bytes uint64 `yaml:"bytes" json:"bytes"`
}

// Interrupt is the fabric's interrupt line, and its number among the shared peripheral interrupts (device tree).
type Interrupt struct {
	Line int `yaml:"line" json:"line"`
	SPI  int `yaml:"spi" json:"spi"`
}

// DDR is the DRAM behind the ports. A range of this DRAM is reserved for the NPU.
type DDR struct {
	Base     uint64 `yaml:"base" json:"base"`
	Bytes    uint64 `yaml:"bytes" json:"bytes"`
	NPUBase  uint64 `yaml:"npu_base" json:"npu_base"`
	NPUBytes uint64 `yaml:"npu_bytes" json:"npu_bytes"`
}

// processor describes the processing system of a family.
type processor struct {
	axi        string
	addrBits   int
	burst      int                  // longest burst that the port does not split
	lines, spi int                  // number of consecutive fabric interrupts, and the SPI of the first
	clock      [2]float64           // range in MHz of MMCM and clock tree, for the slowest grade
	memory     map[string]int       // port of the DRAM controller, by port to the DRAM
	oneEach    bool                 // masters must not share a port of the DRAM controller
	control    map[string][2]uint64 // first and last byte below 4 GiB, by port into the fabric
	widths     []int                // port widths in bytes
}

// processors contains values from these chapters. UG585 (Zynq-7000): 5.1, 10.1 (HP ports), 4.1 (addresses), 7.2
// (interrupts). UG1085 (UltraScale+): 35 (ports of the DRAM controller), 10 (addresses), 13 (interrupts). DS187 and
// DS925 (clocks): the lowest clock of an MMCM is its lowest VCO frequency (600 or 800 MHz) divided by 128; the global
// buffers limit the highest clock.
var processors = map[string]processor{
	Series7: {
		axi: AXI3, addrBits: 32, burst: 16, lines: 8, spi: 29, clock: [2]float64{4.69, 464},
		memory:  map[string]int{"HP0": 3, "HP1": 3, "HP2": 2, "HP3": 2},
		control: map[string][2]uint64{"GP0": {0x40000000, 0x7FFFFFFF}, "GP1": {0x80000000, 0xBFFFFFFF}},
		widths:  []int{4, 8},
	},
	UltraScalePlus: {
		axi: AXI4, addrBits: 40, burst: 16, lines: 8, spi: 89, clock: [2]float64{6.25, 667},
		memory: map[string]int{"HP0": 3, "HP1": 4, "HP2": 4, "HP3": 5}, oneEach: true,
		control: map[string][2]uint64{
			"HPM0": {0xA0000000, 0xAFFFFFFF}, "HPM1": {0xB0000000, 0xBFFFFFFF}, "HPM0_LPD": {0x80000000, 0x9FFFFFFF},
		},
		widths: []int{4, 8, 16},
	},
}

// DRAM lists the bandwidths for the evaluation of a board. The first bandwidth is the default.
type DRAM struct {
	BytesPerCycle []float64 `yaml:"bytes_per_cycle" json:"bytes_per_cycle"`
	LatencyCycles int       `yaml:"latency_cycles" json:"latency_cycles"`
}

// Published is a row of the paper's table I.
type Published struct {
	Network     string  `yaml:"network" json:"network"`
	TR          int     `yaml:"TR" json:"TR"`
	TP          int     `yaml:"TP" json:"TP"`
	TC          int     `yaml:"TC" json:"TC"`
	DSPPercent  float64 `yaml:"dsp_percent" json:"dsp_percent"`
	BRAMPercent float64 `yaml:"bram_percent" json:"bram_percent"`
}

// keys are the keys that every file must have.
var keys = []string{
	"name", "device", "family", "dsp", "bram36", "uram", "lut", "ff", "clock_mhz",
	"ports", "ports.n_axi", "ports.axi_bytes", "ports.max_burst", "dram", "dram.bytes_per_cycle", "dram.latency_cycles",
}

// buildKeys are the keys that a block design, driver or image needs. A file must have all of them, or none if it is
// only for a design search.
var buildKeys = []string{
	"part", "speed_grade", "idcode", "clocks", "clocks.ps_ref_mhz", "clocks.pl_mhz", "ports.axi", "ports.addr_bits", "ports.names",
	"registers", "registers.port", "registers.base", "registers.bytes", "interrupt", "interrupt.line", "interrupt.spi",
	"uio", "ddr", "ddr.base", "ddr.bytes", "ddr.npu_base", "ddr.npu_bytes",
}

// Names lists the embedded boards, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // the embedded root can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// Load reads an embedded board by name, or a file if the argument contains a slash or ends in .yaml.
func Load(nameOrPath string) (Board, error) {
	if strings.ContainsRune(nameOrPath, '/') || strings.HasSuffix(nameOrPath, ".yaml") {
		f, err := os.Open(nameOrPath)
		if err != nil {
			return Board{}, fmt.Errorf("load board: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err != nil {
			return Board{}, fmt.Errorf("load board %s: %w", nameOrPath, err)
		}
		if len(text) > maxFile {
			return Board{}, fmt.Errorf("load board %s: %w: longer than %d bytes", nameOrPath, ErrBoard, maxFile)
		}
		return Parse(nameOrPath, text)
	}
	text, err := files.ReadFile(path.Join(nameOrPath, "board.yaml"))
	if err != nil {
		return Board{}, fmt.Errorf("load board: %w: there is no %q; there are %s (or give a path)", ErrBoard, nameOrPath, strings.Join(Names(), ", "))
	}
	return Parse(path.Join("boards", nameOrPath, "board.yaml"), text)
}

// Parse reads and validates a board. The file's name is used in messages only. The error lists all keys that are
// unknown, missing, of a wrong type or out of range.
func Parse(file string, text []byte) (Board, error) {
	var b Board
	var errs []error
	refuse := func(err error) { errs = append(errs, fmt.Errorf("%s: %w", file, err)) }
	text, err := plaintext.YAML(text)
	if err != nil {
		return Board{}, fmt.Errorf("%s: %w: %w", file, ErrBoard, err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var types *yaml.TypeError
	switch err := dec.Decode(&b); {
	case errors.As(err, &types):
		for _, e := range types.Errors { // the decoder skipped the faulty keys and read the other keys
			refuse(fmt.Errorf("%w: %s", ErrBoard, e))
		}
	case errors.Is(err, io.EOF):
		return Board{}, fmt.Errorf("%s: %w: expected a YAML document, found none", file, ErrBoard)
	case err != nil:
		return Board{}, fmt.Errorf("%s: %w: %w", file, ErrBoard, err)
	case !errors.Is(dec.Decode(new(yaml.Node)), io.EOF):
		return Board{}, fmt.Errorf("%s: %w: expected one YAML document", file, ErrBoard)
	}
	var found map[string]any
	if err := yaml.Unmarshal(text, &found); err != nil {
		if len(errs) == 0 { // otherwise the strict decoder has reported the error
			refuse(fmt.Errorf("%w: %w", ErrBoard, err))
		}
		return Board{}, errors.Join(errs...)
	}
	for _, key := range wholes(reflect.TypeFor[Board](), "") {
		in, k := found, key
		if g, rest, nested := strings.Cut(key, "."); nested {
			in, _ = found[g].(map[string]any)
			k = rest
		}
		if v, ok := in[k].(float64); ok && v != math.Trunc(v) { // the decoder would truncate the number
			refuse(fmt.Errorf("%w: %s: expected a whole number, found %v", ErrBoard, key, v))
		}
	}
	has := func(key string) (ok, group bool) {
		in := found
		if g, k, nested := strings.Cut(key, "."); nested {
			if _, ok := found[g]; !ok {
				return false, false
			}
			in, _ = found[g].(map[string]any)
			key = k
		}
		_, ok = in[key]
		return ok, true
	}
	need := keys
	if slices.ContainsFunc(buildKeys, func(k string) bool { ok, _ := has(k); return ok }) {
		need = slices.Concat(keys, buildKeys)
	}
	lacking := map[string]bool{} // groups with a reported key
	for _, k := range need {
		if ok, group := has(k); !ok && group {
			g, _, _ := strings.Cut(k, ".")
			lacking[g] = true
			refuse(fmt.Errorf("%w: key %q is missing", ErrBoard, k))
		}
	}
	for _, f := range b.findings() {
		if g, _, _ := strings.Cut(f.key, "."); !lacking[g] {
			refuse(fmt.Errorf("%w: %s", ErrBoard, f.text()))
		}
	}
	if len(errs) > 0 {
		return Board{}, errors.Join(errs...)
	}
	return b, nil
}

// wholes returns the keys whose values must be whole numbers, spelled group.key if they are in a group.
func wholes(t reflect.Type, group string) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, wholes(f.Type, key+".")...)
		case reflect.Zero(f.Type).CanInt() || reflect.Zero(f.Type).CanUint():
			keys = append(keys, group+key)
		}
	}
	return keys
}

var (
	// nameRE limits board names, because they become parts of file names and configurations.
	nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	partRE = regexp.MustCompile(`^x[a-z0-9]+(-[a-zA-Z0-9]+)+$`)
	// boardPartRE limits a board part, vendor:board:part0:version, because it becomes a word of Tcl.
	boardPartRE = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*:[A-Za-z0-9][A-Za-z0-9._-]*:part[0-9]+:[0-9]+(\.[0-9]+)*$`)
	gradeRE     = regexp.MustCompile(`^[1-3][A-Za-z]*$`)
)

// finding is one value out of range.
type finding struct {
	key  string
	v    any
	what string // the expected range
}

func (f finding) text() string { return fmt.Sprintf("%s: expected %s, found %v", f.key, f.what, f.v) }

// Validate checks every number. The error lists all findings.
func (b Board) Validate() error {
	var errs []error
	for _, f := range b.findings() {
		errs = append(errs, fmt.Errorf("%w: %s", ErrBoard, f.text()))
	}
	return errors.Join(errs...)
}

// Buildable reports whether the file has the keys for a block design, driver and image.
func (b Board) Buildable() bool {
	return b.Part != "" || b.SpeedGrade != 0 || b.IDCode != 0 || b.Clocks != Clocks{} || b.Ports.AXI != "" || b.Ports.AddrBits != 0 ||
		len(b.Ports.Names) > 0 || b.Registers != Registers{} || b.Interrupt != Interrupt{} || b.UIO != "" || b.DDR != DDR{}
}

// Lacking returns the keys that a build needs, or nil if Buildable. A group's name stands for all its keys.
func (b Board) Lacking() (keys []string) {
	if b.Buildable() {
		return nil // Parse rejects a file with only some of the keys
	}
	for _, k := range buildKeys {
		if g, _, nested := strings.Cut(k, "."); !nested || !slices.Contains(buildKeys, g) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (b Board) findings() (all []finding) {
	want := func(ok bool, key string, v any, what string, args ...any) {
		if !ok {
			all = append(all, finding{key, v, fmt.Sprintf(what, args...)})
		}
	}
	within := func(key string, v, least, most int) { want(v >= least && v <= most, key, v, "%d..%d", least, most) }
	upTo := func(key string, v, most float64) { want(v > 0 && v <= most, key, v, "more than 0, at most %g", most) }

	want(nameRE.MatchString(b.Name), "name", fmt.Sprintf("%q", b.Name), "up to 64 of a-z 0-9 - _")
	want(b.Family == Series7 || b.Family == UltraScalePlus, "family", b.Family, Series7+" or "+UltraScalePlus)
	within("dsp", b.DSP, 1, maxBlocks)
	within("bram36", b.BRAM36, 1, maxBlocks)
	within("uram", b.URAM, 0, maxBlocks)
	within("lut", b.LUT, 1, maxCells)
	within("ff", b.FF, 1, maxCells)
	upTo("clock_mhz", b.ClockMHz, maxMHz)
	want(b.Ports.NAXI >= 1 && b.Ports.NAXI <= 4, "ports.n_axi", b.Ports.NAXI, "1..4")
	want(b.Ports.AXIBytes == 8 || b.Ports.AXIBytes == 16, "ports.axi_bytes", b.Ports.AXIBytes, "8 or 16")
	want(b.Ports.MaxBurst >= 1 && b.Ports.MaxBurst <= 256, "ports.max_burst", b.Ports.MaxBurst, "1..256")
	want(b.BoardPart == "" || boardPartRE.MatchString(b.BoardPart), "board_part", strconv.Quote(b.BoardPart), "vendor:board:part0:version, as Vivado lists it")
	if b.Buildable() {
		b.build(want)
	}
	want(len(b.DRAM.BytesPerCycle) > 0, "dram.bytes_per_cycle", b.DRAM.BytesPerCycle, "at least one")
	// In a cycle each port can both read and write AXIBytes bytes.
	most := 2 * b.Ports.Most() * b.Ports.AXIBytes
	for _, v := range b.DRAM.BytesPerCycle {
		want(v > 0 && (v <= float64(most) || most <= 0), "dram.bytes_per_cycle", v, "more than 0, at most %d, what %d ports of %d bytes read and write in a cycle", most, b.Ports.Most(), b.Ports.AXIBytes)
	}
	want(b.DRAM.LatencyCycles >= 0 && b.DRAM.LatencyCycles <= 1<<20, "dram.latency_cycles", b.DRAM.LatencyCycles, "0..1048576")
	want(b.PaperMibit == 0 && len(b.Published) == 0 || b.PaperMibit > 0 && b.PaperMibit <= maxMibit, "paper_mibit", b.PaperMibit, "more than 0, at most %d (it goes with published)", maxMibit)
	for _, p := range b.Published {
		size := func(v int) bool { return v > 0 && v <= 1<<16 }
		share := func(v float64) bool { return v >= 0 && v <= 200 }
		want(size(p.TR) && size(p.TP) && size(p.TC) && share(p.DSPPercent) && share(p.BRAMPercent), "published", p, "<T_R, T_P, T_C> of 1..65536 and percentages of 0..200")
	}
	return all
}

// Upper limits that no device of these families reaches: a larger number is a typing error.
const (
	maxBlocks = 20_000 // DSPs, BRAM36, URAM
	maxCells  = 20_000_000
	maxMHz    = 1000
	maxMibit  = 10_000
)

// build checks the values of buildKeys.
func (b Board) build(want func(ok bool, key string, v any, what string, args ...any)) {
	if ps, ok := processors[b.Family]; ok {
		b.processor(&ps, want)
	}
	want(b.Clocks.PSRefMHz > 0 && b.Clocks.PSRefMHz <= 200, "clocks.ps_ref_mhz", b.Clocks.PSRefMHz, "more than 0, at most 200")
	want(nameRE.MatchString(b.UIO), "uio", fmt.Sprintf("%q", b.UIO), "up to 64 of a-z 0-9 - _")
	d := b.DDR
	found := fmt.Sprintf("base %#x of %#x bytes, npu_base %#x of %#x", d.Base, d.Bytes, d.NPUBase, d.NPUBytes)
	want(d.Bytes > 0 && d.Bytes <= 1<<40 && d.Base <= 1<<40, "ddr", found, "a range of at most 2^40 bytes")
	want(d.NPUBytes > 0 && d.NPUBase >= d.Base && d.NPUBytes <= d.Bytes && d.NPUBase-d.Base <= d.Bytes-d.NPUBytes &&
		d.NPUBase%4096 == 0 && d.NPUBytes%4096 == 0, "ddr.npu_base", found, "pages inside of the memory")
}

// processor checks the values that depend on the family's processing system.
func (b Board) processor(ps *processor, want func(ok bool, key string, v any, what string, args ...any)) {
	p := b.Ports
	dev, known := DeviceOf(b.Part)
	known = known && dev.Family == b.Family && partRE.MatchString(b.Part)
	want(known, "part", b.Part, "Vivado's name of a part (xc7z020clg400-1, xczu7ev-ffvc1156-2-e) of %s, one of the devices %s", b.Family, deviceNames(b.Family))
	if known { // an unknown part does not identify the device
		want(b.IDCode == dev.IDCode, "idcode", fmt.Sprintf("%#08x", b.IDCode), "%#08x, that of %s", dev.IDCode, dev.Name)
		grade := ""
		if i := slices.IndexFunc(strings.Split(b.Part, "-")[1:], gradeRE.MatchString); i >= 0 {
			grade = "-" + strings.Split(b.Part, "-")[i+1][:1]
		}
		want(fmt.Sprint(b.SpeedGrade) == grade, "speed_grade", b.SpeedGrade, "%s, as part %s has it", cmp.Or(grade, "-1, -2 or -3 within part"), b.Part)
		want(sameDevice(b.Device, b.Part), "device", b.Device, "the device of part %s, as data sheets write it", b.Part)
	}
	want(b.ClockMHz >= ps.clock[0] && b.ClockMHz <= ps.clock[1], "clock_mhz", b.ClockMHz, "%g..%g, which an MMCM of %s makes", ps.clock[0], ps.clock[1], b.Family)
	want(b.Clocks.PLMHz >= 10 && b.Clocks.PLMHz <= ps.clock[1], "clocks.pl_mhz", b.Clocks.PLMHz, "10..%g, which an MMCM of %s takes", ps.clock[1], b.Family)
	want(p.AXI == ps.axi, "ports.axi", p.AXI, "%s, as the ports of %s are", ps.axi, b.Family)
	want(p.MaxBurst <= ps.burst, "ports.max_burst", p.MaxBurst, "at most %d: longer ones are cut or illegal", ps.burst)
	want(p.AddrBits == ps.addrBits, "ports.addr_bits", p.AddrBits, "%d", ps.addrBits)
	want(slices.Contains(ps.widths, p.AXIBytes), "ports.axi_bytes", p.AXIBytes, "one of %v", ps.widths)
	want(len(p.Names) >= p.NAXI, "ports.names", p.Names, "at least %d names", p.NAXI)
	at := map[int]string{}
	seen := map[string]bool{}
	for _, n := range p.Names {
		ddr, ok := ps.memory[n]
		want(ok, "ports.names", n, "of %s", strings.Join(slices.Sorted(maps.Keys(ps.memory)), ", "))
		want(!seen[n], "ports.names", n, "each once")
		want(!ps.oneEach || !ok || at[ddr] == "", "ports.names", n, "one name a port of the DRAM controller, which it shares with %s", at[ddr])
		at[ddr], seen[n] = n, true
	}
	r := b.Registers
	window, ok := ps.control[r.Port]
	want(ok, "registers.port", r.Port, "one of %s", strings.Join(slices.Sorted(maps.Keys(ps.control)), ", "))
	if ok {
		want(r.Bytes >= 4096 && r.Bytes&(r.Bytes-1) == 0 && r.Base%max(r.Bytes, 1) == 0 &&
			r.Base >= window[0] && r.Base <= window[1] && r.Bytes-1 <= window[1]-r.Base,
			"registers.base", fmt.Sprintf("%#x, %#x bytes", r.Base, r.Bytes),
			"a power of two of at least 4096 bytes, on a multiple of it, within %#x..%#x", window[0], window[1])
	}
	want(b.Interrupt.Line >= 0 && b.Interrupt.Line < ps.lines, "interrupt.line", b.Interrupt.Line, "0..%d", ps.lines-1)
	want(b.Interrupt.SPI == ps.spi+b.Interrupt.Line, "interrupt.spi", b.Interrupt.SPI, "%d for that line", ps.spi+b.Interrupt.Line)
	want(b.DDR.Base <= 1<<ps.addrBits && b.DDR.Bytes <= 1<<ps.addrBits-min(b.DDR.Base, 1<<ps.addrBits), "ddr.bytes", b.DDR, "memory that %d bits address", ps.addrBits)
}
