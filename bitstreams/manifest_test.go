package bitstreams

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
)

func manifestText(file []byte) string {
	return fmt.Sprintf(`board: zc706
config: small
part: xc7z045ffg900-2
design_hash: 0123456789abcdef
abi_hash: fedcba9876543210
tool: "2022.2"
sha256: %x
timing: {clock_mhz: 150, wns_ns: 0.12, whs_ns: 0.03}
utilisation: {dsp: 64, bram36: 40.5, uram: 0, lut: 21000, ff: 18000}
status: built
`, sha256.Sum256(file))
}

func TestManifest(t *testing.T) {
	file := z7045(20)
	b, err := ParseBit(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest([]byte(manifestText(file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckFile(file, b); err != nil {
		t.Error(err)
	}
	if err := m.CheckHardware(0x0123456789ABCDEF, 0xFEDCBA9876543210); err != nil {
		t.Error(err)
	}
	if err := m.CheckHardware(0x0123456789ABCDEE, 0xFEDCBA9876543210); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "design") {
		t.Errorf("another design: %v", err)
	}
	if err := m.CheckHardware(0x0123456789ABCDEF, 1); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "ABI") {
		t.Errorf("another ABI: %v", err)
	}
	file[len(file)-1] ^= 1
	if err := m.CheckFile(file, b); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("a flipped bit: %v", err)
	}
	other := zu7ev(20)
	if b, err = ParseBit(other); err != nil {
		t.Fatal(err)
	}
	if err := m.CheckFile(other, b); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "xczu7ev") {
		t.Errorf("another device: %v", err)
	}
}

// TestCheckBoard: a bitstream for another speed grade or clock is rejected, even if its data fit the device.
func TestCheckBoard(t *testing.T) {
	b, err := boards.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"board: zc706", "board: zc706", ""},
		{"clock_mhz: 150", "clock_mhz: 149.9985", ""}, // as an MMCM produces it
		{"board: zc706", "board: zc702", "for the board zc702"},
		{"ffg900-2", "ffg900-3", "for the part xc7z045ffg900-3, zc706 has xc7z045ffg900-2"},
		{"clock_mhz: 150", "clock_mhz: 142.857", "its clock is 142.857 MHz, zc706 gives it 150"},
	} {
		m, err := ParseManifest([]byte(strings.Replace(manifestText(z7045(20)), c[0], c[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		err = m.CheckBoard(b)
		if (err == nil) != (c[2] == "") || err != nil && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c[2])) {
			t.Errorf("%s: %v, expected %q", c[1], err, c[2])
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	good := manifestText(z7045(20))
	for _, c := range [][3]string{
		{"board: zc706", "board: ''", "board"},
		{"config: small\n", "", "config"},
		{"design_hash: 0123456789abcdef", "design_hash: 0123", "design_hash"},
		{"abi_hash: fedcba9876543210", "abi_hash: fedcba987654321g", "abi_hash"},
		{"sha256: ", "sha256: 00", "sha256"},
		{"abi_hash: fedcba9876543210", "abi_hash: FEDCBA9876543210", "lower case"},
		{"wns_ns: 0.12", "wns_ns: -0.01", "misses its clock"},
		{"wns_ns: 0.12", "wns_ns: .nan", "wns_ns"},
		{"clock_mhz: 150", "clock_mhz: 0", "clock_mhz"},
		{"lut: 21000", "lut: 0", "utilisation"},
		{"status: built", "status: perfect", "status"},
		{"status: built", "status: built\nslack: 3", "slack"},
		{"status: built\n", "status: built\n---\nboard: x\n", "more than one"},
	} {
		if _, err := ParseManifest([]byte(strings.Replace(good, c[0], c[1], 1))); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %v, expected %q", c[1], err, c[2])
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(manifestText(z7045(20))))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		switch {
		case err != nil && !errors.Is(err, ErrManifest):
			t.Errorf("%v is no ErrManifest", err)
		case err == nil && (m.Timing.WNS < 0 || len(m.SHA256) != 64):
			t.Errorf("accepted %+v", m)
		}
	})
}
