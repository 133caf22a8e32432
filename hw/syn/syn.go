// Package syn reads yosys 0.23's output for a synthesised design, counts resources, and checks the result: no
// construct that yosys silently misunderstands, no latch, no large memory in LUTs or registers, one DSP for each MAC.
//
// The figures are counted before placement. A tool that packs LUTs into slices needs fewer LUTs.
package syn

import (
	"bufio"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// MaxLUTWords is the deepest memory allowed in LUTs or registers.
const MaxLUTWords = 64

// Resources contains the numbers of primitives in a netlist. LUTs are counted as logic, memory and shift registers.
type Resources struct {
	DSP    int `json:"dsp"`
	BRAM18 int `json:"bram18"` // primitives of 18 Kibit
	BRAM36 int `json:"bram36"` // primitives of 36 Kibit
	URAM   int `json:"uram"`
	LUT    int `json:"lut"` // logic, including inverters
	FF     int `json:"ff"`
	Carry  int `json:"carry"`  // CARRY4 (series 7) or CARRY8
	LUTRAM int `json:"lutram"` // LUTs used as memory
	SRL    int `json:"srl"`    // LUTs used as shift registers
	MuxF   int `json:"muxf"`   // MUXF7, MUXF8, MUXF9
	Latch  int `json:"latch"`
}

// LUTs returns the number of LUTs for all three uses, which must not exceed the device's number of LUTs.
func (r Resources) LUTs() int { return r.LUT + r.LUTRAM + r.SRL }

// BRAM returns the block RAM in units of 36 Kibit, as in data sheets. The result can include half a unit.
func (r Resources) BRAM() float64 { return float64(r.BRAM36) + float64(r.BRAM18)/2 }

// cells holds the resources of one cell, by type.
var cells = map[string]Resources{
	"DSP48E1": {DSP: 1}, "DSP48E2": {DSP: 1},
	"RAMB18E1": {BRAM18: 1}, "RAMB18E2": {BRAM18: 1},
	"RAMB36E1": {BRAM36: 1}, "RAMB36E2": {BRAM36: 1},
	"URAM288": {URAM: 1}, "URAM288_BASE": {URAM: 1},
	"LUT1": {LUT: 1}, "LUT2": {LUT: 1}, "LUT3": {LUT: 1}, "LUT4": {LUT: 1}, "LUT5": {LUT: 1}, "LUT6": {LUT: 1},
	"INV":  {LUT: 1},
	"FDRE": {FF: 1}, "FDSE": {FF: 1}, "FDCE": {FF: 1}, "FDPE": {FF: 1},
	"FDRE_1": {FF: 1}, "FDSE_1": {FF: 1}, "FDCE_1": {FF: 1}, "FDPE_1": {FF: 1},
	"LDCE": {Latch: 1}, "LDPE": {Latch: 1},
	"CARRY4": {Carry: 1}, "CARRY8": {Carry: 1},
	"MUXF7": {MuxF: 1}, "MUXF8": {MuxF: 1}, "MUXF9": {MuxF: 1},
	"RAM32X1S": {LUTRAM: 1}, "RAM64X1S": {LUTRAM: 1}, "RAM128X1S": {LUTRAM: 2}, "RAM256X1S": {LUTRAM: 4},
	"RAM512X1S": {LUTRAM: 8}, "RAM32X1D": {LUTRAM: 2}, "RAM64X1D": {LUTRAM: 2}, "RAM128X1D": {LUTRAM: 4},
	"RAM256X1D": {LUTRAM: 8}, "RAM32M": {LUTRAM: 4}, "RAM64M": {LUTRAM: 4}, "RAM32M16": {LUTRAM: 8},
	"RAM64M8": {LUTRAM: 8}, "RAM32X16DR8": {LUTRAM: 8}, "RAM64X8SW": {LUTRAM: 8},
	"SRL16E": {SRL: 1}, "SRLC16E": {SRL: 1}, "SRLC32E": {SRL: 1},
	"BUFG": {}, "IBUF": {}, "OBUF": {}, "OBUFT": {}, "IOBUF": {},
}

func (r *Resources) add(c Resources, n int) {
	r.DSP += n * c.DSP
	r.BRAM18 += n * c.BRAM18
	r.BRAM36 += n * c.BRAM36
	r.URAM += n * c.URAM
	r.LUT += n * c.LUT
	r.FF += n * c.FF
	r.Carry += n * c.Carry
	r.LUTRAM += n * c.LUTRAM
	r.SRL += n * c.SRL
	r.MuxF += n * c.MuxF
	r.Latch += n * c.Latch
}

var (
	statModule = regexp.MustCompile(`^=== (\S.*) ===$`)
	statTotal  = regexp.MustCompile(`^ {3}Number of cells: +(\d+)$`)
	statCell   = regexp.MustCompile(`^ {5}(\S+) +(\d+)$`)
)

// Parse reads the text of yosys' `stat` for a flat design. An unknown cell, several modules, or inconsistent counts
// are errors, so that nothing is omitted silently.
func Parse(text string) (Resources, error) {
	var r Resources
	modules, total, sum := 0, -1, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if statModule.MatchString(line) {
			if modules++; modules > 1 {
				return Resources{}, errors.New("parse stat: more than one module: the design is not flat")
			}
			continue
		}
		if m := statTotal.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return Resources{}, fmt.Errorf("parse stat: number of cells: %w", err)
			}
			total = n
			continue
		}
		m := statCell.FindStringSubmatch(line)
		if m == nil || total < 0 {
			continue
		}
		c, ok := cells[m[1]]
		if !ok {
			return Resources{}, fmt.Errorf("parse stat: unknown cell %s", m[1])
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return Resources{}, fmt.Errorf("parse stat: cell %s: %w", m[1], err)
		}
		r.add(c, n)
		sum += n
	}
	if modules == 0 || total < 0 {
		return Resources{}, errors.New("parse stat: no statistics of a module")
	}
	if sum != total {
		return Resources{}, fmt.Errorf("parse stat: the cells listed are %d, the total says %d", sum, total)
	}
	return r, nil
}

var statLC = regexp.MustCompile(`(?m)^ {3}Estimated number of LCs: +(\d+)\s*$`)

// LogicCells returns yosys' own estimate of the number of LUTs for logic after pairs of small LUTs are packed. It
// returns 0 if the text has no estimate.
func LogicCells(text string) int {
	m := statLC.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0 // too large for an int: no estimate
	}
	return n
}

// families contains a pattern for the cells that only one family has.
var families = map[string]*regexp.Regexp{
	"xc7":  regexp.MustCompile(`^(DSP48|RAMB18|RAMB36|FIFO18|FIFO36)E1$`),
	"xcup": regexp.MustCompile(`^((DSP48|RAMB18|RAMB36|FIFO18|FIFO36)E2|URAM288(_BASE)?)$`),
}

// Foreign returns an error for each cell in the text of `stat` that a family's parts do not have.
func Foreign(text, family string) []error {
	var errs []error
	for line := range strings.Lines(text) {
		m := statCell.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		for other, has := range families {
			if m != nil && other != family && has.MatchString(m[1]) {
				errs = append(errs, fmt.Errorf("%s cells %s in a netlist for %s: %s has them (CELLS, DSP48E2 of the module)", m[2], m[1], family, other))
			}
		}
	}
	return errs
}

// Kinds of storage for a memory.
const (
	InBRAM   = "bram"
	InURAM   = "uram"
	InLUTRAM = "lutram"
	InFF     = "ff"
)

// Memory is one memory of the RTL.
type Memory struct {
	Name  string `json:"name"`
	Words int    `json:"words"`
	Width int    `json:"width"` // 0 if yosys replaced the memory by registers before mapping
	In    string `json:"in"`    // InBRAM, InURAM, InLUTRAM or InFF
}

var (
	dumpCell  = regexp.MustCompile(`^ *cell \$mem_v2 (\S+)$`)
	dumpParam = regexp.MustCompile(`^ *parameter (?:signed )?\\(SIZE|WIDTH) (\d+)$`)
	logMapped = regexp.MustCompile(`^mapping memory (\S+) via (\S+)$`)
	logFF     = regexp.MustCompile(`^using FF mapping for memory (\S+)$`)
	wordWire  = regexp.MustCompile(`^(.*)\[(\d+)\]$`)
)

// ParseMemories combines the dump of all memory cells before mapping (`dump t:$mem_v2`) with the log, which reports the
// mapping of each memory. top is the name of the flat module.
func ParseMemories(top, dump, log string) ([]Memory, error) {
	var list []Memory
	for line := range strings.Lines(dump) {
		line = strings.TrimRight(line, "\r\n")
		if m := dumpCell.FindStringSubmatch(line); m != nil {
			list = append(list, Memory{Name: strings.TrimPrefix(m[1], `\`)})
			continue
		}
		m := dumpParam.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if len(list) == 0 {
			return nil, errors.New("parse memories: a parameter without a cell")
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("parse memories: %s of %s: %w", m[1], list[len(list)-1].Name, err)
		}
		if m[1] == "SIZE" {
			list[len(list)-1].Words = n
		} else {
			list[len(list)-1].Width = n
		}
	}
	in := map[string]string{}
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := logFF.FindStringSubmatch(line); m != nil {
			in[strings.TrimPrefix(m[1], top+".")] = InFF
		}
		if m := logMapped.FindStringSubmatch(line); m != nil {
			var kind string
			switch {
			case strings.Contains(m[2], "_BLOCKRAM_"):
				kind = InBRAM
			case strings.Contains(m[2], "_URAM"):
				kind = InURAM
			case strings.Contains(m[2], "_LUTRAM_"):
				kind = InLUTRAM
			default:
				return nil, fmt.Errorf("parse memories: %s became the unknown %s", m[1], m[2])
			}
			in[strings.TrimPrefix(m[1], top+".")] = kind
		}
	}
	for i := range list {
		m := &list[i]
		if m.Words <= 0 || m.Width <= 0 {
			return nil, fmt.Errorf("parse memories: %s has no size", m.Name)
		}
		if m.In = in[m.Name]; m.In == "" {
			return nil, fmt.Errorf("parse memories: the log does not say what %s became", m.Name)
		}
	}
	return list, nil
}

// MemoriesAsRegisters finds memories that yosys replaced by one register per word before any mapping ("Replacing memory
// ... with list of registers"). The name of such a register's wire ends with the word's index. wires is the text of
// `select -list w:*`.
func MemoriesAsRegisters(wires string) []Memory {
	words := map[string]int{}
	sc := bufio.NewScanner(strings.NewReader(wires))
	for sc.Scan() {
		m := wordWire.FindStringSubmatch(strings.TrimSpace(sc.Text()))
		if m == nil || strings.Contains(m[1], "$") {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue // too large for the index of a word
		}
		name := m[1][strings.IndexByte(m[1], '/')+1:]
		words[name] = max(words[name], n+1)
	}
	var list []Memory
	for name, n := range words {
		list = append(list, Memory{Name: name, Words: n, In: InFF})
	}
	slices.SortFunc(list, func(a, b Memory) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// badText lists texts in yosys' log that indicate a wrong netlist, although yosys continues.
var badText = []struct{ text, why string }{
	{"implicitly declared", "a struct construct that yosys 0.23 reads as an undeclared wire"},
	{"Latch inferred for signal", "a latch"},
	{"out of bounds", "a select outside of its vector"},
	{"is used but has no driver", "a net without a driver"},
	{"multiple conflicting drivers", "a net with two drivers"},
	{"found logic loop", "a combinational loop"},
}

// BadLines returns the lines of a log that indicate a wrong netlist.
func BadLines(log string) []error {
	var errs []error
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		for _, b := range badText {
			if strings.Contains(line, b.text) && !seen[line] {
				seen[line] = true
				errs = append(errs, fmt.Errorf("%s: %s", b.why, line))
			}
		}
	}
	return errs
}

// Expect contains the numbers of DSPs that a design must use. Known is false for modules without a requirement.
type Expect struct {
	Array int // in the array: one per MAC in int16, one per two MACs in int8
	Other int
	Known bool
}

// ExpectFor returns the requirement for a module of a configuration.
func ExpectFor(d configs.Design, top string) Expect {
	e := Expect{Array: d.MACs() / d.PerDSP(), Known: true}
	if d.Stub {
		e.Array = 0
	}
	switch top {
	case "npu_top", "npu_core":
		if d.Depthwise {
			e.Other = d.DepthwiseMuls()
		}
		e.Other += d.PoolDSPs()
	case "pe_array", "pe_array_int8":
	default:
		return Expect{}
	}
	return e
}

// Run is a stored synthesis: input, result and tool.
type Run struct {
	Config     string         `json:"config"`
	Design     configs.Design `json:"design"`
	DesignHash string         `json:"design_hash"`
	Family     string         `json:"family"`
	Top        string         `json:"top"`
	Tool       string         `json:"tool"`
	Sources    string         `json:"sources_sha256"`
	Resources  Resources      `json:"resources"`
	LC         int            `json:"lc"`         // result of LogicCells
	PackedDSP  int            `json:"packed_dsp"` // DSPs that also contain the register of their sum
	Registers  []Register     `json:"registers,omitempty"`
	Memories   []Memory       `json:"memories,omitempty"`
	CPUSeconds float64        `json:"cpu_seconds,omitempty"` // CPU time of yosys
	PeakMB     float64        `json:"peak_mb,omitempty"`     // peak memory of yosys
}

// URAMs returns the number of URAMs for the run's memories at a fixed width of 72 bits, as other tools count them. yosys
// counts fewer URAMs, because it stores several rows of a narrow memory side by side.
func (r Run) URAMs() int {
	n := 0
	for _, m := range r.Memories {
		if m.In == InURAM {
			n += (m.Words + 4095) / 4096 * ((m.Width + 71) / 72)
		}
	}
	return n
}

// Check returns an error for every requirement that the run does not meet.
func (r Run) Check() error {
	var errs []error
	if r.Resources.Latch > 0 {
		errs = append(errs, fmt.Errorf("%d latches", r.Resources.Latch))
	}
	for _, m := range r.Memories {
		if m.Words > MaxLUTWords && (m.In == InLUTRAM || m.In == InFF) {
			errs = append(errs, fmt.Errorf("memory %s of %d words went to %s: more than %d words belong in block RAM",
				m.Name, m.Words, m.In, MaxLUTWords))
		}
	}
	if e := ExpectFor(r.Design, r.Top); e.Known {
		if want := e.Array + e.Other; r.Resources.DSP != want {
			errs = append(errs, fmt.Errorf("%d DSPs, expected %d (%d of the array, %d others)", r.Resources.DSP, want, e.Array, e.Other))
		}
		packed := e.Array
		if r.Family == "xc7" {
			packed += e.Other
		}
		if r.PackedDSP != packed { // on UltraScale+ the other DSPs contain only a multiplier
			errs = append(errs, fmt.Errorf("%d DSPs hold the register of their output, expected %d (the array's %d): adders went to LUTs", r.PackedDSP, packed, e.Array))
		}
	}
	errs = append(errs, r.CheckRegisters())
	if d, ok := DeviceOf(r.Design.Board); ok && d.Family == r.Family {
		have := r.Resources
		have.URAM = max(have.URAM, r.URAMs())
		errs = append(errs, d.Fits(have))
	}
	return errors.Join(errs...)
}

// Register counts the use of one kind of pipeline register in DSPs or memories. The field Of is the number of cells
// that could use the register, and the field Have is the number of cells that use it.
type Register struct {
	Cell     string         `json:"cell"`
	Register string         `json:"register"` // AREG, BREG, CREG, MREG, PREG; OUT: the output register of a memory's port
	Have     int            `json:"have"`
	Of       int            `json:"of"`
	Without  map[string]int `json:"without,omitempty"` // number of cells without the register, by the name of their output; * is any index
}

// exception describes a register that some cells are allowed to lack.
type exception struct {
	cell, register, at string
	most               func(d configs.Design) int
}

// without lists the registers that int16 designs are allowed to lack. An empty cell or register matches every cell or
// register. The field most limits the number of cells without the register; nil: no limit.
var without = []exception{
	{"", "CREG", "gen_lane[*].rest", func(d configs.Design) int { return 2 * d.TC }}, // heads of chains: a connection from P to C has no register
	{"", "OUT", "u_drain.gen_block[*].gen_lane[*].u_bias.", nil},
	{"", "OUT", "u_pool.u_table.", nil},
	{"", "OUT", "u_res.u_beats.", nil},
	{"", "OUT", "u_fbcb.", nil},
	{"DSP48E2", "", `u_pool.$mul$`, configs.Design.PoolDSPs}, // yosys 0.23 infers only the multiplier and leaves its registers outside
}

// CheckRegisters returns an error for each register that a DSP or memory lacks, except the registers in the list above.
// It does not check int8 designs, nor single modules other than the array.
func (r Run) CheckRegisters() error {
	if r.Design.Int8() || !ExpectFor(r.Design, r.Top).Known {
		return nil
	}
	var errs []error
	for _, reg := range r.Registers {
		lack := 0
		named := make([]int, len(without))
		for at, n := range reg.Without {
			lack += n
			i := slices.IndexFunc(without, func(w exception) bool {
				return (w.cell == "" || w.cell == reg.Cell) && (w.register == "" || w.register == reg.Register) && strings.Contains(at, w.at)
			})
			if i < 0 {
				errs = append(errs, fmt.Errorf("%d of %d %s lack %s: %s", n, reg.Of, reg.Cell, reg.Register, at))
			} else if named[i] += n; without[i].most != nil && named[i] > without[i].most(r.Design) {
				errs = append(errs, fmt.Errorf("%d of %d %s lack %s: %s: expected %d at most", named[i], reg.Of, reg.Cell, reg.Register, at, without[i].most(r.Design)))
			}
		}
		if lack != reg.Of-reg.Have {
			errs = append(errs, fmt.Errorf("%s %s: %d of %d, but %d are without", reg.Cell, reg.Register, reg.Have, reg.Of, lack))
		}
	}
	return errors.Join(errs...)
}

var cpuLine = regexp.MustCompile(`CPU: user ([0-9.]+)s system ([0-9.]+)s(?:, MEM: ([0-9.]+) MB peak)?`)

// Cost returns the CPU time and peak memory at the end of a log; 0 if they are missing.
func Cost(log string) (cpuSeconds, peakMB float64) {
	all := cpuLine.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return 0, 0
	}
	var v [3]float64
	for i, s := range all[len(all)-1][1:] {
		if s == "" {
			continue
		}
		var err error
		if v[i], err = strconv.ParseFloat(s, 64); err != nil {
			return 0, 0
		}
	}
	return v[0] + v[1], v[2]
}
