package bitstreams

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/boards"
)

// Errors of manifests.
var (
	ErrManifest = errors.New("bad manifest")
	ErrMismatch = errors.New("the bitstream is a different one")
)

// Status is the last step that a bitstream has passed.
type Status string

// Statuses, in order.
const (
	Built    Status = "built"    // Vivado wrote the bitstream and timing is met
	Loaded   Status = "loaded"   // a board loaded the bitstream, and the design's registers answered
	Measured Status = "measured" // the design served on a board, with published figures
)

// Manifest describes the bitstream in the same folder. The build script writes the manifest.
type Manifest struct {
	Board      string `yaml:"board" json:"board"`
	Config     string `yaml:"config" json:"config"`           // name in hw/configs, or of an exported configuration
	Part       string `yaml:"part" json:"part"`               // as given to Vivado: xc7z045ffg900-2
	DesignHash string `yaml:"design_hash" json:"design_hash"` // 16 hexadecimal digits
	ABIHash    string `yaml:"abi_hash" json:"abi_hash"`
	Tool       string `yaml:"tool" json:"tool"`     // Vivado's version
	SHA256     string `yaml:"sha256" json:"sha256"` // hash of the .bit file

	Timing      Timing      `yaml:"timing" json:"timing"`
	Utilisation Utilisation `yaml:"utilisation" json:"utilisation"`
	Status      Status      `yaml:"status" json:"status"`
}

// Timing is the timing after routing.
type Timing struct {
	ClockMHz float64 `yaml:"clock_mhz" json:"clock_mhz"` // clock from the MMCM, not the requested clock
	WNS      float64 `yaml:"wns_ns" json:"wns_ns"`       // worst negative slack, ns; 0 or more
	WHS      float64 `yaml:"whs_ns" json:"whs_ns"`       // worst hold slack, ns
}

// Utilisation counts the used resources after routing.
type Utilisation struct {
	DSP    int     `yaml:"dsp" json:"dsp"`
	BRAM36 float64 `yaml:"bram36" json:"bram36"` // a half is one block of 18 Kibit
	URAM   int     `yaml:"uram" json:"uram"`
	LUT    int     `yaml:"lut" json:"lut"`
	FF     int     `yaml:"ff" json:"ff"`
}

const maxManifest = 64 << 10

// ReadManifest reads and checks a manifest file.
func ReadManifest(path string) (*Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", path, err)
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ParseManifest parses and validates a manifest. Unknown keys are errors.
func ParseManifest(text []byte) (*Manifest, error) {
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrManifest, maxManifest)
	}
	var m Manifest
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrManifest)
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

func (m *Manifest) validate() error {
	var errs []error
	want := func(ok bool, key string, v any, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %s: expected %s, found %v", ErrManifest, key, what, v))
		}
	}
	hash := func(key, v string, digits int) {
		raw, err := hex.DecodeString(v)
		want(err == nil && 2*len(raw) == digits && v == strings.ToLower(v), key, strconv.Quote(v), fmt.Sprintf("%d hexadecimal digits, lower case", digits))
	}
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	want(m.Board != "", "board", `""`, "a board's name")
	want(m.Config != "", "config", `""`, "a configuration's name")
	want(m.Part != "", "part", `""`, "a part")
	want(m.Tool != "", "tool", `""`, "the version of Vivado")
	hash("design_hash", m.DesignHash, 16)
	hash("abi_hash", m.ABIHash, 16)
	hash("sha256", m.SHA256, 64)
	want(finite(m.Timing.ClockMHz) && m.Timing.ClockMHz > 0, "timing.clock_mhz", m.Timing.ClockMHz, "more than 0")
	want(finite(m.Timing.WNS) && m.Timing.WNS >= 0, "timing.wns_ns", m.Timing.WNS, "0 or more: a design that misses its clock has no manifest")
	want(finite(m.Timing.WHS) && m.Timing.WHS >= 0, "timing.whs_ns", m.Timing.WHS, "0 or more")
	u := m.Utilisation
	want(u.DSP > 0 && u.LUT > 0 && u.FF > 0, "utilisation", u, "more than 0 DSP, LUT and FF")
	want(finite(u.BRAM36) && u.BRAM36 >= 0 && u.URAM >= 0, "utilisation", u, "0 or more BRAM36 and URAM")
	want(m.Status == Built || m.Status == Loaded || m.Status == Measured, "status", m.Status, "built, loaded or measured")
	return errors.Join(errs...)
}

// CheckFile compares hash, part and tool of the manifest with the .bit file.
func (m *Manifest) CheckFile(file []byte, b *Bit) error {
	var errs []error
	if sum := fmt.Sprintf("%x", sha256.Sum256(file)); sum != m.SHA256 {
		errs = append(errs, fmt.Errorf("%w: its sha256 is %s, the manifest's %s", ErrMismatch, sum, m.SHA256))
	}
	if err := b.CheckPart(m.Part); err != nil {
		errs = append(errs, fmt.Errorf("manifest: %w", err))
	}
	if b.Tool != "" && b.Tool != m.Tool {
		errs = append(errs, fmt.Errorf("%w: Vivado %s wrote it, the manifest says %s", ErrMismatch, b.Tool, m.Tool))
	}
	return errors.Join(errs...)
}

// CheckBoard compares the manifest with a board: name, part with speed grade, and clock. The clock of an MMCM can
// differ from the requested clock by a thousandth.
func (m *Manifest) CheckBoard(b boards.Board) error {
	var errs []error
	if m.Board != b.Name {
		errs = append(errs, fmt.Errorf("%w: it is for the board %s, not %s", ErrMismatch, m.Board, b.Name))
	}
	if m.Part != b.Part {
		errs = append(errs, fmt.Errorf("%w: it was built for the part %s, %s has %s", ErrMismatch, m.Part, b.Name, b.Part))
	}
	if math.Abs(m.Timing.ClockMHz/b.ClockMHz-1) > 0.001 {
		errs = append(errs, fmt.Errorf("%w: its clock is %g MHz, %s gives it %g", ErrMismatch, m.Timing.ClockMHz, b.Name, b.ClockMHz))
	}
	return errors.Join(errs...)
}

// CheckHardware compares the manifest with the hashes that hardware or a bundle reports.
func (m *Manifest) CheckHardware(design, abi uint64) error {
	var errs []error
	if h := fmt.Sprintf("%016x", design); h != m.DesignHash {
		errs = append(errs, fmt.Errorf("%w: design hash %s, the manifest's is %s", ErrMismatch, h, m.DesignHash))
	}
	if h := fmt.Sprintf("%016x", abi); h != m.ABIHash {
		errs = append(errs, fmt.Errorf("%w: ABI hash %s, the manifest's is %s", ErrMismatch, h, m.ABIHash))
	}
	return errors.Join(errs...)
}
