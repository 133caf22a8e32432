// Package configs contains the named configurations of the NPU, in one embedded YAML file each. A Design has the
// parameters of npu_top, and the clock and DRAM for its evaluation. Hash covers the hardware parameters; hardware
// reports this hash in the DESIGN_HASH registers.
package configs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/hw/abi"
)

//go:embed *.yaml
var files embed.FS

// maxFile limits the size of a user's file.
const maxFile = 64 << 10

// Design is one configuration of the hardware, in the paper's symbols: TC processing elements (PEs) with MAC trees of
// width TP and accumulators of TR rows.
type Design struct {
	Name   string `yaml:"name" json:"name"`
	Reason string `yaml:"reason" json:"reason"` // purpose of this configuration
	Board  string `yaml:"board" json:"board"`   // name of the board; empty: the design is only simulated

	TR int `yaml:"TR" json:"TR"` // rows of an accumulator bank
	TP int `yaml:"TP" json:"TP"` // width of a PE's MAC tree
	TC int `yaml:"TC" json:"TC"` // processing elements

	NAXI     int `yaml:"n_axi" json:"n_axi"`         // AXI masters
	AXIBytes int `yaml:"axi_bytes" json:"axi_bytes"` // bytes of a beat
	MaxBurst int `yaml:"max_burst" json:"max_burst"` // beats of the longest burst

	WLoad      int `yaml:"w_load" json:"w_load"`           // PEs that receive weights in a cycle
	Drain      int `yaml:"drain" json:"drain"`             // words that are post-processed in a cycle
	ABufWords  int `yaml:"abuf_words" json:"abuf_words"`   // words per bank in one half of the activation buffer
	WRingBeats int `yaml:"wring_beats" json:"wring_beats"` // size of the weight ring, in beats
	CMax       int `yaml:"c_max" json:"c_max"`             // largest number of output channels of a layer

	Stack bool `yaml:"stack" json:"stack"` // with Stackable PEs: k = 1/2 and k = 2
	Fluid bool `yaml:"fluid" json:"fluid"` // with two sample groups: s = 2
	Stub  bool `yaml:"stub" json:"stub"`   // without MACs, but with all control logic

	Post      bool `yaml:"post" json:"post,omitzero"`           // with curves and products after the shift
	Depthwise bool `yaml:"depthwise" json:"depthwise,omitzero"` // with the depthwise unit

	Type string `yaml:"type,omitempty" json:"type,omitzero"` // element type of maps and weights: TypeInt8; empty for int16

	ClockMHz float64 `yaml:"clock_mhz" json:"clock_mhz"`
	DRAM     DRAM    `yaml:"dram" json:"dram"`
}

// Element types of maps and weights: 8 bits, with two MACs per DSP, or 16 bits. Design.Type is empty for 16 bits.
const (
	TypeInt8  = "int8"
	TypeInt16 = "int16"
)

// Int8 reports whether the elements of maps and weights have 8 bits.
func (d Design) Int8() bool { return d.Type == TypeInt8 }

// ElemBytes returns the size of an element of maps and weights, in bytes.
func (d Design) ElemBytes() int {
	if d.Int8() {
		return 1
	}
	return 2
}

// Typed returns the design with element type TypeInt16 or TypeInt8. If the type changes, the suffix of the name becomes
// -int8 or -int16. The name of an embedded configuration of int16 has no suffix.
func (d Design) Typed(name string) Design {
	if name == TypeInt16 {
		name = ""
	}
	if base := strings.TrimSuffix(d.Name, "-"+TypeInt8); d.Type != name {
		if d.Type, d.Name = name, base; name != "" || !slices.Contains(Names(), base) {
			d.Name += "-" + cmp.Or(name, TypeInt16)
		}
	}
	return d
}

// DRAM describes the memory in the evaluation of a design.
type DRAM struct {
	BytesPerCycle float64 `yaml:"bytes_per_cycle" json:"bytes_per_cycle"`
	LatencyCycles int     `yaml:"latency_cycles" json:"latency_cycles"`
}

// tags lists the YAML types of the keys, because the library would round 7.5 to 7 and accept null for every type.
var tags = []struct {
	key      string
	tags     []string
	optional bool
}{
	{key: "name", tags: []string{"!!str"}},
	{key: "reason", tags: []string{"!!str"}},
	{key: "board", tags: []string{"!!str"}},
	{key: "TR", tags: []string{"!!int"}},
	{key: "TP", tags: []string{"!!int"}},
	{key: "TC", tags: []string{"!!int"}},
	{key: "n_axi", tags: []string{"!!int"}},
	{key: "axi_bytes", tags: []string{"!!int"}},
	{key: "max_burst", tags: []string{"!!int"}},
	{key: "w_load", tags: []string{"!!int"}},
	{key: "drain", tags: []string{"!!int"}},
	{key: "abuf_words", tags: []string{"!!int"}},
	{key: "wring_beats", tags: []string{"!!int"}},
	{key: "c_max", tags: []string{"!!int"}},
	{key: "stack", tags: []string{"!!bool"}},
	{key: "fluid", tags: []string{"!!bool"}},
	{key: "stub", tags: []string{"!!bool"}, optional: true},
	{key: "post", tags: []string{"!!bool"}, optional: true},
	{key: "depthwise", tags: []string{"!!bool"}, optional: true},
	{key: "type", tags: []string{"!!str"}, optional: true},
	{key: "clock_mhz", tags: []string{"!!int", "!!float"}},
	{key: "dram", tags: []string{"!!map"}},
	{key: "dram.bytes_per_cycle", tags: []string{"!!int", "!!float"}},
	{key: "dram.latency_cycles", tags: []string{"!!int"}},
}

// Names lists the embedded configurations, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // the embedded root can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Load reads an embedded configuration by name, or a file if the argument contains a slash or ends in .yaml. NAME-int8
// selects the embedded configuration NAME with type int8.
func Load(nameOrPath string) (Design, error) {
	if base, ok := strings.CutSuffix(nameOrPath, "-"+TypeInt8); ok && slices.Contains(Names(), base) {
		d, err := Load(base)
		if d = d.Typed(TypeInt8); err == nil && d.Validate() != nil {
			err = fmt.Errorf("load configuration %s: %w", nameOrPath, d.Validate())
		}
		return d, err
	}
	if strings.ContainsRune(nameOrPath, '/') || strings.HasSuffix(nameOrPath, ".yaml") {
		f, err := os.Open(nameOrPath)
		if err != nil {
			return Design{}, fmt.Errorf("load configuration: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err != nil {
			return Design{}, fmt.Errorf("load configuration %s: %w", nameOrPath, err)
		}
		if len(text) > maxFile {
			return Design{}, fmt.Errorf("load configuration %s: longer than %d bytes", nameOrPath, maxFile)
		}
		return Parse(nameOrPath, text)
	}
	text, err := files.ReadFile(nameOrPath + ".yaml")
	if err != nil {
		return Design{}, fmt.Errorf("load configuration: there is no %q; there are %s, and as NAME-int8 those with a TP of 4 or more (or give a path, of a file that ends in .yaml, such as those in hw/configs/int8)",
			nameOrPath, strings.Join(Names(), ", "))
	}
	d, err := Parse(path.Join("hw/configs", nameOrPath+".yaml"), text)
	if err == nil && d.Name != nameOrPath {
		return Design{}, fmt.Errorf("hw/configs/%s.yaml: name: expected %q, found %q", nameOrPath, nameOrPath, d.Name)
	}
	return d, err
}

// Parse reads and validates a configuration. The file's name is used in messages only. Unknown, duplicate and missing
// keys are errors.
func Parse(file string, text []byte) (Design, error) {
	var d Design
	text, err := plaintext.YAML(text)
	if err != nil {
		return Design{}, fmt.Errorf("%s: %w", file, err)
	}
	// The types are checked first, because the library's errors do not name the key.
	var keys, dram map[string]yaml.Node
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return Design{}, fmt.Errorf("%s: %w", file, err)
	}
	if n, ok := keys["dram"]; ok && n.Tag == "!!map" {
		if err := n.Decode(&dram); err != nil {
			return Design{}, fmt.Errorf("%s: dram: %w", file, err)
		}
	}
	at := func(key string) (n yaml.Node, ok bool) {
		if sub, nested := strings.CutPrefix(key, "dram."); nested {
			n, ok = dram[sub]
			return n, ok
		}
		n, ok = keys[key]
		return n, ok
	}
	for _, k := range tags {
		if n, ok := at(k.key); ok && !slices.Contains(k.tags, n.Tag) {
			return Design{}, fmt.Errorf("%s:%d: %s: expected %s, found %s %q", file, n.Line, k.key, kinds(k.tags), strings.TrimPrefix(n.Tag, "!!"), n.Value)
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	switch err := dec.Decode(&d); {
	case errors.Is(err, io.EOF):
		return Design{}, fmt.Errorf("%s: expected a YAML document, found none", file)
	case err != nil:
		return Design{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Design{}, fmt.Errorf("%s: expected one YAML document", file)
	}
	for _, k := range tags {
		if _, ok := at(k.key); !ok && !k.optional {
			return Design{}, fmt.Errorf("%s: key %q is missing", file, k.key)
		}
	}
	if d.Type == TypeInt16 {
		d.Type = ""
	}
	if err := d.Validate(); err != nil {
		return Design{}, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// kinds describes the YAML types of a key in words.
func kinds(tags []string) string {
	words := map[string]string{"!!str": "text", "!!int": "a whole number", "!!float": "a number", "!!bool": "true or false", "!!map": "keys"}
	return words[tags[len(tags)-1]]
}

// FieldError names a parameter that is out of range.
type FieldError struct {
	Field string // the YAML key
	Value any
	Want  string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: expected %s, found %v", e.Field, e.Want, e.Value)
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// MaxTP and MaxTP8 are the largest chain lengths of the RTL in int16 and int8. In int8, two channels share the DSPs of
// a chain, so chains can be almost twice as long with the same number of DSPs. leastTP8 is the smallest chain length in
// int8. With a shorter chain, pe_array_int8's accumulators would be free later than gemm_seq expects.
const (
	MaxTP    = 16
	MaxTP8   = 30
	leastTP8 = 4
)

// Chains returns the smallest and the largest chain length for the design's type.
func (d Design) Chains() (least, most int) {
	if d.Int8() {
		return leastTP8, MaxTP8
	}
	return 2, MaxTP
}

// findings are *FieldErrors.
type findings []error

func (f *findings) want(ok bool, field string, value any, want string) {
	if !ok {
		*f = append(*f, &FieldError{field, value, want})
	}
}

// OwnName rejects names with which two builds would have the same path. These are the names of other build outputs, and
// the name of an embedded configuration with other hardware parameters than this design.
func (d Design) OwnName() error {
	for _, taken := range []string{"runtime", "hls-process"} {
		if d.Name == taken || strings.HasPrefix(d.Name, taken+"-") {
			return &FieldError{"name", d.Name, fmt.Sprintf("another: builds have a part that is called %s", taken)}
		}
	}
	for _, kind := range []string{"-stub", "-trace", "-fold", "-check", "-other", "-given"} {
		if strings.HasSuffix(d.Name, kind) {
			return &FieldError{"name", d.Name, fmt.Sprintf("one that does not end in %s, as a build of another design does", kind)}
		}
	}
	base := strings.TrimSuffix(d.Name, "-"+TypeInt8)
	if !slices.Contains(Names(), base) {
		return nil
	}
	if e, err := Load(d.Name); err != nil || e.Hash() == d.Hash() {
		return err
	}
	return &FieldError{"name", d.Name, fmt.Sprintf("one of its own, since hw/configs/%s.yaml has other parameters and both would be built in the same place", base)}
}

// Elaborates checks that the RTL of the whole NPU accepts the parameters. It calls Validate and checks the conditions
// of npu_top that relate parameters to each other. Single modules can be synthesised with other values.
func (d Design) Elaborates() error {
	if err := d.Validate(); err != nil {
		return err
	}
	var f findings
	least, most := d.Chains()
	f.want(d.TP <= most, "TP", d.TP, fmt.Sprintf("%d..%d", least, most))
	f.want(d.TC%4 == 0, "TC", d.TC, "a multiple of 4: drain is even and divides TC / 2")
	lanes := d.ElemBytes() * d.NB()
	f.want(d.AXIBytes <= lanes, "axi_bytes", d.AXIBytes, fmt.Sprintf("at most the %d bytes of the activation buffer's lanes", lanes))
	// BIAS_COUNT has 16 bits. It counts two words per channel, four words for a residual, and the words of a curve.
	channels := (1<<16 - 1 - abi.ResWords - abi.CurveWords) / 2
	f.want(!d.Int8() || d.CMax <= channels, "c_max", d.CMax, fmt.Sprintf("at most %d with type: int8", channels))
	f.want(d.WLoad%2 == 0, "w_load", d.WLoad, "an even number: both PEs of a pair load together")
	// If TC is not a multiple of 4, no drain is legal, and the error about TC suffices.
	f.want(d.Drain%2 == 0 && (d.TC%4 != 0 || d.TC/2%d.Drain == 0), "drain", d.Drain, d.drains())
	f.want(d.Drain <= d.NB(), "drain", d.Drain, fmt.Sprintf("at most the %d lanes of the activation buffer", d.NB()))
	f.want(d.CMax%d.Drain == 0, "c_max", d.CMax, fmt.Sprintf("a multiple of drain = %d", d.Drain))
	f.want(d.WRingBeats >= d.leastRing(), "wring_beats", d.WRingBeats, fmt.Sprintf("at least %d", d.leastRing()))
	return errors.Join(f...)
}

// drains describes the allowed values of drain.
func (d Design) drains() string {
	if d.TC < 4 || d.TC%4 != 0 {
		return "an even number that divides TC / 2"
	}
	return fmt.Sprintf("an even number that divides TC / 2 = %d", d.TC/2)
}

// Folded checks that the banks of the activation buffer consist of whole rows, because ram_fold requires them. Boards
// with URAM use folded banks (boards.Board.Folds).
func (d Design) Folded() error {
	var f findings
	f.want(d.ABufWords%4 == 0, "abuf_words", d.ABufWords, "a multiple of 4, as more than 8192 lie in the board's URAM, four to a row")
	return errors.Join(f...)
}

// Built rejects designs with an element type that estimates, synthesis and board files do not support.
func (d Design) Built() error {
	if d.Int8() {
		return &FieldError{"type", d.Type, "int16: of int8 there is no board, and only hw/syn/synth.sh synthesises it (hw/INT8.md)"}
	}
	return nil
}

// ForHLS checks the parameters for the HLS kernel. It calls Elaborates and checks the kernel's own conditions.
func (d Design) ForHLS() error {
	if err := d.Elaborates(); err != nil {
		return err
	}
	var f findings
	f.want(!d.Stub, "stub", d.Stub, "false: the kernel in HLS has its multipliers always")
	f.want(d.ABufWords%2 == 0, "abuf_words", d.ABufWords, "an even number for the kernel in HLS: two sample groups share a half equally")
	f.want(d.WRingBeats*d.AXIBytes > abi.RingSpare, "wring_beats", d.WRingBeats,
		fmt.Sprintf("more than %d for the kernel in HLS: replay cannot use %d bytes of the ring", abi.RingSpare/max(d.AXIBytes, 1), abi.RingSpare))
	return errors.Join(f...)
}

// Validate checks every parameter. The error joins a *FieldError for each wrong parameter. Validate accepts values of
// TP, TC, w_load and drain that only single modules support. Its messages state the values that the whole NPU supports.
func (d Design) Validate() error {
	var errs findings
	want := errs.want
	in := func(field string, v, lo, hi int) {
		want(v >= lo && v <= hi, field, v, fmt.Sprintf("%d..%d", lo, hi))
	}
	pow2 := func(v int) bool { return v > 0 && v&(v-1) == 0 }

	want(nameRE.MatchString(d.Name), "name", d.Name, "up to 64 of a-z 0-9 - _")
	want(d.Board == "" || nameRE.MatchString(d.Board), "board", d.Board, `"" or up to 64 of a-z 0-9 - _`)
	want(d.TR >= 16 && d.TR <= 1<<16 && pow2(d.TR), "TR", d.TR, "a power of two in 16..65536")
	least, most := d.Chains()
	want(d.TP >= least && d.TP <= 64, "TP", d.TP, fmt.Sprintf("%d..%d", least, most))
	want(d.TC >= 2 && d.TC <= 512, "TC", d.TC, "a multiple of 4 in 4..512")
	// A row of a layer has at most TR * TC words, one per sum, and the counter of these words has 24 bits.
	want(d.TC < 1 || d.TR <= 1<<23/d.TC, "TR", d.TR, fmt.Sprintf("with TC = %d no more than 2^23 sums", d.TC))
	in("n_axi", d.NAXI, 1, 4)
	want(d.AXIBytes == 8 || d.AXIBytes == 16, "axi_bytes", d.AXIBytes, "8 or 16")
	in("max_burst", d.MaxBurst, 1, 256)
	want(d.WLoad >= 1 && d.WLoad <= max(d.TC, 1), "w_load", d.WLoad, fmt.Sprintf("an even number in 2..%d", max(d.TC, 2)))
	want(d.Drain >= 1 && d.Drain <= max(d.TC, 1), "drain", d.Drain, d.drains())
	in("abuf_words", d.ABufWords, 16, 1<<16)
	want(pow2(d.WRingBeats) && d.WRingBeats >= 16 && d.WRingBeats <= 1<<16, "wring_beats", d.WRingBeats,
		"a power of two in 16..65536")
	// The end of the last channel tile is a number of 16 bits, and a tile has up to 2*TC channels.
	in("c_max", d.CMax, 16, 1<<16-2*d.TC)
	want(d.ClockMHz > 0 && d.ClockMHz <= 10000, "clock_mhz", d.ClockMHz, "more than 0, at most 10000")
	want(d.DRAM.BytesPerCycle > 0 && d.DRAM.BytesPerCycle <= 1024, "dram.bytes_per_cycle", d.DRAM.BytesPerCycle,
		"more than 0, at most 1024")
	in("dram.latency_cycles", d.DRAM.LatencyCycles, 0, 1<<20)
	want(d.Type == "" || d.Int8(), "type", d.Type, "int16 or int8")
	return errors.Join(errs...)
}

// NB returns the number of banks of the activation buffer: the smallest power of two >= 2*TP.
func (d Design) NB() int {
	if d.TP < 1 {
		return 0
	}
	return 1 << bits.Len(uint(2*d.TP-1))
}

// ABufElems returns the capacity of one half of the activation buffer, in elements.
func (d Design) ABufElems() int { return d.NB() * d.ABufWords }

// PerDSP returns the array's MACs per DSP: in int8, two channels share a DSP.
func (d Design) PerDSP() int {
	if d.Int8() {
		return 2
	}
	return 1
}

// PoolMuls returns the number of words that the pool unit multiplies in a cycle.
func (d Design) PoolMuls() int {
	if d.Drain >= 20 {
		return 8
	}
	return 4
}

// PoolDSPs returns the number of DSPs of the pool unit. DSPs of the array are not included. In int8, the multipliers of
// the pool unit and of the drain consist of LUTs.
func (d Design) PoolDSPs() int {
	if d.Int8() {
		return 0
	}
	return d.PoolMuls()
}

// DepthwiseMuls returns the number of 16 x 16 bit multipliers of the depthwise unit: three DSPs per lane.
func (d Design) DepthwiseMuls() int { return 3 * d.NB() }

// WideBytes returns the number of bytes that a memory client receives in a cycle, as in npu_core.sv. Each port delivers
// one beat. The limits are the input width of the activation buffer and the length of a burst.
func (d Design) WideBytes() int {
	lanes := 1
	for lanes < d.NAXI && 2*lanes <= min(d.MaxBurst, 16) && 2*lanes*d.AXIBytes <= d.ElemBytes()*d.NB() {
		lanes *= 2
	}
	return lanes * d.AXIBytes
}

// leastRing returns the size of the smallest weight ring, in beats. weight_fetch.sv requires a ring for two requests. A
// request has 16 wide beats, or 256 bytes if a wide beat has more than 16 bytes.
func (d Design) leastRing() int {
	wide := d.WideBytes()
	return 2 * min(16, 256/wide) * (wide / d.AXIBytes)
}

// MACs returns the array's multiplications per cycle.
func (d Design) MACs() int { return d.TP * d.TC }

type param struct {
	name  string
	value int
}

// params lists npu_top's parameters in a fixed order. Newer options are listed only for designs with these options, so
// that the hash of other designs does not change.
func (d Design) params() []param {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	all := []param{
		{"T_R", d.TR},
		{"T_P", d.TP},
		{"T_C", d.TC},
		{"N_AXI", d.NAXI},
		{"AXI_BYTES", d.AXIBytes},
		{"MAX_BURST", d.MaxBurst},
		{"W_LOAD", d.WLoad},
		{"DRAIN", d.Drain},
		{"ABUF_WORDS", d.ABufWords},
		{"WRING_BEATS", d.WRingBeats},
		{"C_MAX", d.CMax},
		{"STUB", flag(d.Stub)},
		{"STACK", flag(d.Stack)},
		{"FLUID", flag(d.Fluid)},
	}
	if d.Post {
		all = append(all, param{"POST", 1})
	}
	if d.Depthwise {
		all = append(all, param{"DEPTHWISE", 1})
	}
	if d.Int8() {
		all = append(all, param{"INT8", 1})
	}
	return all
}

// Hash returns the design hash: the first 64 bits of SHA-256 over the hardware parameters. It excludes name, reason,
// board, clock and DRAM, and includes stub.
func (d Design) Hash() uint64 {
	var b strings.Builder
	b.WriteString("sluice-design/1\n")
	for _, p := range d.params() {
		fmt.Fprintf(&b, "%s=%d\n", p.name, p.value)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return binary.BigEndian.Uint64(sum[:8])
}

// VerilatorParams returns the flags that set npu_top's parameters, one parameter per flag. In a shell, the apostrophe
// in the flag of DESIGN_HASH must be quoted.
func (d Design) VerilatorParams() []string {
	var out []string
	for _, p := range d.params() {
		out = append(out, fmt.Sprintf("-G%s=%d", p.name, p.value))
	}
	return append(out, fmt.Sprintf("-GDESIGN_HASH=64'h%016x", d.Hash()))
}

// LUTRAMBanks reports whether the HLS kernel stores its accumulators in LUTs, because in block RAM, each half of a PE's
// accumulators would fill at most a quarter of an 18-Kibit block.
func (d Design) LUTRAMBanks() bool { return d.TR/2 <= 128 }

// CPPHeader returns a C++14 header for the HLS kernel with this design's parameters as constants in namespace
// sluice_design. cosimBeats is the depth of a pointer in the vendor's co-simulation.
func (d Design) CPPHeader(cosimBeats int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by hwconfig -cpp from the configuration %s; DO NOT EDIT.\n", d.Name)
	b.WriteString("#ifndef SLUICE_DESIGN_HPP\n#define SLUICE_DESIGN_HPP\n\n#include <cstdint>\n\nnamespace sluice_design {\n\n")
	for _, p := range d.params() {
		fmt.Fprintf(&b, "constexpr int %s = %d;\n", p.name, p.value)
	}
	if !d.Post {
		fmt.Fprintf(&b, "constexpr int POST = 0;\n")
	}
	if !d.Depthwise {
		fmt.Fprintf(&b, "constexpr int DEPTHWISE = 0;\n")
	}
	if !d.Int8() {
		fmt.Fprintf(&b, "constexpr int INT8 = 0;\n")
	}
	fmt.Fprintf(&b, "constexpr int RES_WORDS = %d, FACTOR_BITS = %d, FACTOR_SHIFT = %d;  // int8: of a residual, and where a factor's word has what\n",
		abi.ResWords, abi.FactorBits, abi.FactorShift)
	fmt.Fprintf(&b, "constexpr int NB = %d;  // lanes of the activation buffer\n", d.NB())
	fmt.Fprintf(&b, "constexpr int WIDE_BYTES = %d;  // what the RTL's clients of memory take in a cycle\n", d.WideBytes())
	fmt.Fprintf(&b, "constexpr int DRAM_LATENCY = %d;  // cycles until a read is answered, 1 at least\n", max(d.DRAM.LatencyCycles, 1))
	fmt.Fprintf(&b, "constexpr std::uint64_t DESIGN_HASH = 0x%016xULL;\n", d.Hash())
	fmt.Fprintf(&b, "constexpr int COSIM_BEATS = %d;  // beats of memory in the vendor's co-simulation\n", cosimBeats)
	b.WriteString("\n}  // namespace sluice_design\n")
	if d.LUTRAMBanks() {
		b.WriteString("\n#define SLUICE_LUTRAM_BANKS 1  // accumulators lie in LUTs: they are too short for block RAM\n")
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}
