// Package boards holds what each board offers a design: the device's resources, its clock, its ports
// and the DRAM that designs are judged with; one embedded YAML file a board. Beside it stands what
// the paper's table I prints for the board.
package boards

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

//go:embed */board.yaml
var files embed.FS

// maxFile bounds what is read from a file named by the user.
const maxFile = 64 << 10

// ErrBoard is wrapped by every refusal of a board's file.
var ErrBoard = errors.New("bad board")

// Families of devices, as yosys names them.
const (
	Series7        = "xc7"
	UltraScalePlus = "xcup"
)

// Board is a board and its device.
type Board struct {
	Name   string `yaml:"name" json:"name"`
	Device string `yaml:"device" json:"device"`
	Family string `yaml:"family" json:"family"` // Series7 or UltraScalePlus

	DSP    int `yaml:"dsp" json:"dsp"`
	BRAM36 int `yaml:"bram36" json:"bram36"` // blocks of 36 Kibit
	URAM   int `yaml:"uram" json:"uram"`     // blocks of 288 Kibit
	LUT    int `yaml:"lut" json:"lut"`
	FF     int `yaml:"ff" json:"ff"`

	ClockMHz float64 `yaml:"clock_mhz" json:"clock_mhz"`
	Ports    Ports   `yaml:"ports" json:"ports"`
	DRAM     DRAM    `yaml:"dram" json:"dram"`

	// What the paper printed for the board, and only for such boards.
	Published  []Published `yaml:"published,omitempty" json:"published,omitempty"`
	PaperMibit float64     `yaml:"paper_mibit,omitempty" json:"paper_mibit,omitempty"` // 2^20 bits that the paper's memory law may fill
}

// Ports are the AXI masters into the DRAM.
type Ports struct {
	NAXI     int `yaml:"n_axi" json:"n_axi"`
	AXIBytes int `yaml:"axi_bytes" json:"axi_bytes"`
	MaxBurst int `yaml:"max_burst" json:"max_burst"`
}

// DRAM lists the bandwidths a board is judged at; the first is the default.
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

// keys that a file must have.
var keys = []string{"name", "device", "family", "dsp", "bram36", "uram", "lut", "ff", "clock_mhz", "ports", "dram"}

// nameRE is what may name a board: it becomes a part of file names and of a configuration.
var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Names lists the embedded boards, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // an embedded root can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// Load reads an embedded board by name, or a file where the argument holds a slash or ends in .yaml.
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

// Parse reads and validates a board; file is for messages. The error joins every key that is unknown, missing,
// of a wrong type or out of range.
func Parse(file string, text []byte) (Board, error) {
	var b Board
	var errs []error
	refuse := func(err error) { errs = append(errs, fmt.Errorf("%s: %w", file, err)) }
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var types *yaml.TypeError
	switch err := dec.Decode(&b); {
	case errors.As(err, &types):
		for _, e := range types.Errors { // what they are about has been left out, the rest read
			refuse(fmt.Errorf("%w: %s", ErrBoard, e))
		}
	case err != nil:
		return Board{}, fmt.Errorf("%s: %w: %w", file, ErrBoard, err)
	case !errors.Is(dec.Decode(new(yaml.Node)), io.EOF):
		return Board{}, fmt.Errorf("%s: %w: expected one YAML document", file, ErrBoard)
	}
	var found map[string]yaml.Node
	if err := yaml.Unmarshal(text, &found); err != nil {
		return Board{}, fmt.Errorf("%s: %w: %w", file, ErrBoard, errors.Join(append(errs, err)...))
	}
	missing := map[string]bool{}
	for _, k := range keys {
		if _, ok := found[k]; !ok {
			missing[k] = true
			refuse(fmt.Errorf("%w: key %q is missing", ErrBoard, k))
		}
	}
	for _, f := range b.findings() {
		if key, _, _ := strings.Cut(f.key, "."); missing[key] {
			continue
		}
		refuse(fmt.Errorf("%w: %s", ErrBoard, f.text()))
	}
	if len(errs) > 0 {
		return Board{}, errors.Join(errs...)
	}
	return b, nil
}

// finding is a value that is out of range.
type finding struct {
	key  string
	v    any
	what string // that was expected
}

func (f finding) text() string { return fmt.Sprintf("%s: expected %s, found %v", f.key, f.what, f.v) }

// Validate checks every number; the error joins all findings.
func (b Board) Validate() error {
	var errs []error
	for _, f := range b.findings() {
		errs = append(errs, fmt.Errorf("%w: %s", ErrBoard, f.text()))
	}
	return errors.Join(errs...)
}

func (b Board) findings() (all []finding) {
	want := func(ok bool, key string, v any, what string) {
		if !ok {
			all = append(all, finding{key, v, what})
		}
	}
	positive := func(key string, v int) { want(v > 0 && v < 1<<30, key, v, "more than 0") }
	finite := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) && !math.IsNaN(v) }

	want(nameRE.MatchString(b.Name), "name", fmt.Sprintf("%q", b.Name), "up to 64 of a-z 0-9 - _")
	want(b.Family == Series7 || b.Family == UltraScalePlus, "family", b.Family, Series7+" or "+UltraScalePlus)
	positive("dsp", b.DSP)
	positive("bram36", b.BRAM36)
	want(b.URAM >= 0 && b.URAM < 1<<30, "uram", b.URAM, "0 or more")
	positive("lut", b.LUT)
	positive("ff", b.FF)
	want(finite(b.ClockMHz), "clock_mhz", b.ClockMHz, "more than 0")
	want(b.Ports.NAXI >= 1 && b.Ports.NAXI <= 4, "ports.n_axi", b.Ports.NAXI, "1..4")
	want(b.Ports.AXIBytes == 8 || b.Ports.AXIBytes == 16, "ports.axi_bytes", b.Ports.AXIBytes, "8 or 16")
	want(b.Ports.MaxBurst >= 1 && b.Ports.MaxBurst <= 256, "ports.max_burst", b.Ports.MaxBurst, "1..256")
	want(len(b.DRAM.BytesPerCycle) > 0, "dram.bytes_per_cycle", b.DRAM.BytesPerCycle, "at least one")
	for _, v := range b.DRAM.BytesPerCycle {
		want(finite(v) && v <= 1024, "dram.bytes_per_cycle", v, "more than 0, at most 1024")
	}
	want(b.DRAM.LatencyCycles >= 0 && b.DRAM.LatencyCycles <= 1<<20, "dram.latency_cycles", b.DRAM.LatencyCycles, "0..1048576")
	want(b.PaperMibit == 0 && len(b.Published) == 0 || finite(b.PaperMibit), "paper_mibit", b.PaperMibit, "more than 0 (it goes with published)")
	for _, p := range b.Published {
		want(p.TR > 0 && p.TP > 0 && p.TC > 0, "published", p, "positive <T_R, T_P, T_C>")
	}
	return all
}
