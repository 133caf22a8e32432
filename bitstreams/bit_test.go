package bitstreams

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/boards"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compose builds a .bit file without Vivado: headers as described in FPGA-FAQ 0026 and by the tools'
// own output, packets as in UG470 and UG570.
func compose(design, part string, idcode uint32, frames int, family string) []byte {
	var out []byte
	out = append(out, preamble...)
	for i, text := range []string{design, part, "2024/03/01", "12:34:56"} {
		out = append(out, byte('a'+i))
		out = binary.BigEndian.AppendUint16(out, uint16(len(text)+1))
		out = append(append(out, text...), 0)
	}
	pad := 8
	if family == boards.UltraScalePlus {
		pad = 16
	}
	var words []uint32
	for range pad {
		words = append(words, 0xFFFFFFFF)
	}
	words = append(words, 0x000000BB, 0x11220044, 0xFFFFFFFF, 0xFFFFFFFF, syncWord, nopWord,
		0x30022001, 0, 0x30020001, 0, 0x30008001, 0, nopWord, 0x30008001, 7, nopWord, nopWord,
		0x30018001, idcode, 0x30004000, 0x50000000|uint32(frames))
	rng := rand.New(rand.NewPCG(1, uint64(frames)))
	for range frames {
		words = append(words, rng.Uint32())
	}
	words = append(words, 0x30008001, 0xD, nopWord, nopWord)
	out = append(out, 'e')
	out = binary.BigEndian.AppendUint32(out, uint32(4*len(words)))
	for _, w := range words {
		out = binary.BigEndian.AppendUint32(out, w)
	}
	return out
}

func z7045(frames int) []byte {
	return compose("npu_wrapper;UserID=0XFFFFFFFF;Version=2022.2", "7z045ffg900", 0x03731093, frames, boards.Series7)
}

func zu7ev(frames int) []byte {
	return compose("npu_wrapper;UserID=0XFFFFFFFF;Version=2022.2", "xczu7ev-ffvc1156-2-e", 0x04730093, frames, boards.UltraScalePlus)
}

// TestGolden compares the parser's results with stored headers of both devices.
func TestGolden(t *testing.T) {
	for name, file := range map[string][]byte{"xc7z045": z7045(202), "xczu7ev": zu7ev(186)} {
		path := filepath.Join("testdata", name+".bit")
		if *update {
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := ReadBit(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestDocumentedOrder checks the .bin's byte order with documented values. UG470 (table 5-4 ff.) and UG570 give the
// bus width words 000000BB 11220044 and the synchronisation word AA995566 as they are in a .bit. The kernel's
// zynq-fpga.c takes a .bin "with every 32 bit quantity swapped" and looks for the bytes 66 55 99 aa at a multiple of
// 4.
func TestDocumentedOrder(t *testing.T) {
	for _, file := range [][]byte{z7045(9), zu7ev(9)} {
		b, err := ParseBit(file)
		if err != nil {
			t.Fatal(err)
		}
		bin := b.Bin()
		if got := b.Data[b.Sync:][:4]; !bytes.Equal(got, []byte{0xAA, 0x99, 0x55, 0x66}) {
			t.Errorf(".bit: % x", got)
		}
		if got := bin[b.Sync:][:4]; !bytes.Equal(got, []byte{0x66, 0x55, 0x99, 0xAA}) {
			t.Errorf(".bin: % x", got)
		}
		if got := bin[b.Sync-16:][:8]; !bytes.Equal(got, []byte{0xBB, 0, 0, 0, 0x44, 0, 0x22, 0x11}) {
			t.Errorf("bus width words in the .bin: % x", got)
		}
	}
}

// TestBootgen compares the .bin with that of Xilinx' own tool, byte for byte, for every length modulo the size of a
// DMA burst.
func TestBootgen(t *testing.T) {
	bootgen, err := exec.LookPath("bootgen")
	if err != nil {
		t.Fatal("bootgen is missing: install the package xilinx-bootgen")
	}
	dir := t.TempDir()
	for frames := 200; frames < 209; frames++ {
		for arch, file := range map[string][]byte{"zynq": z7045(frames), "zynqmp": zu7ev(frames)} {
			bit := filepath.Join(dir, fmt.Sprintf("%s-%d.bit", arch, frames))
			bif := filepath.Join(dir, "npu.bif")
			attribute := ""
			if arch == "zynqmp" {
				attribute = "[destination_device=pl] "
			}
			if err := errors.Join(os.WriteFile(bit, file, 0o600), os.WriteFile(bif, []byte("all: { "+attribute+bit+" }\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bootgen, "-arch", arch, "-image", bif, "-process_bitstream", "bin", "-w", "on")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want, err := os.ReadFile(bit + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			b, err := ParseBit(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bin(), want) {
				t.Errorf("%s, %d words of frames: %d bytes that are not the %d of bootgen", arch, frames, len(b.Bin()), len(want))
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	good := z7045(20)
	b, err := ParseBit(good)
	if err != nil {
		t.Fatal(err)
	}
	data := len(good) - len(b.Data)
	edit := func(at int, with ...byte) []byte {
		f := bytes.Clone(good)
		copy(f[at:], with)
		return f
	}
	idcode := bytes.Index(good, []byte{0x30, 0x01, 0x80, 0x01})
	fdri := bytes.Index(good, []byte{0x30, 0x00, 0x40, 0x00})
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "preamble"},
		"preamble":      {edit(3, 0xF1), "offset 0"},
		"cut in a text": {good[:20], "design of 45 bytes"},
		"no design":     {edit(13, 'z'), `expected key 'a'`},
		"text length":   {edit(14, 0xFF, 0xFF), "65535 bytes"},
		"no zero":       {edit(16+44, 'x'), "first zero byte"},
		"early zero":    {edit(20, 0), "first zero byte"},
		"not printable": {edit(20, 7), "not printable"},
		"data length":   {edit(data-1, 1), "are announced"},
		"cut data":      {good[:len(good)-4], "are announced"},
		"more data":     {append(bytes.Clone(good), 0), "are announced"},
		"no sync":       {edit(data+b.Sync, 0), "synchronisation"},
		"packet":        {edit(data+b.Sync+4, 0xE0), "type 1 or 2"},
		"a read":        {edit(idcode, 0x28), "expected a write"},
		"idcode":        {edit(idcode+5, 0x99), "no device"},
		"no idcode":     {edit(idcode, 0x20), "type 1 or 2"},
		"too many":      {edit(fdri+4, 0x57), "words of payload"},
		"a .bin":        {b.Bin(), "it begins as a .bin does"},
		"partial":       {compose("npu_wrapper;PARTIAL=TRUE;Version=2022.2", "7z045ffg900", 0x03731093, 20, boards.Series7), "expected the whole"},
	} {
		if _, err := ParseBit(c.file); !errors.Is(err, ErrBit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", what, err, c.want)
		}
	}
}

func TestCheckPart(t *testing.T) {
	for _, c := range []struct {
		file []byte
		part string
		ok   bool
	}{
		{z7045(4), "xc7z045ffg900-2", true},
		{z7045(4), "xc7z045-ffg900-2", true},
		{z7045(4), "xc7z045ffg676-2", false},
		{z7045(4), "xczu7ev-ffvc1156-2-e", false},
		{zu7ev(4), "xczu7ev-ffvc1156-2-e", true},
		{zu7ev(4), "xczu7ev-ffvc1156-1-e", false},
		{compose("x", "7z045ffg900", 0x03727093, 4, boards.Series7), "xc7z045ffg900-2", false}, // data of a 7z020
		{compose("x", "xczu11eg", 0x04711093, 4, boards.UltraScalePlus), "xczu11eg", false},    // data of a zu2
		{compose("x", "xczu19eg", 0x04740093, 4, boards.UltraScalePlus), "xczu19eg", false},
		{compose("x", "7", 0x03727093, 4, boards.Series7), "xc7z020clg400-1", false}, // no part
		{compose("x", "7z020clg40", 0x03727093, 4, boards.Series7), "xc7z020clg400-1", false},
		{compose("x", "7z020clg400", 0x03727093, 4, boards.Series7), "xa7z020clg400-1", true},
		{compose("x", "xa7z020clg400", 0x03727093, 4, boards.Series7), "xa7z020clg400-1", true},
		{compose("x", "7z007sclg225", 0x03723093, 4, boards.Series7), "xc7z007sclg225-1", true},
		{compose("x", "xczu1cg-sbva484-1-e", 0x04688093, 4, boards.UltraScalePlus), "xczu1cg-sbva484-1-e", true},
		{compose("x", "xqzu7ev-ffrc1156-1-m", 0x04730093, 4, boards.UltraScalePlus), "xqzu7ev-ffrc1156-1-m", true},
		{compose("x", "xck24-ubva530-2LV-c", 0x04714093, 4, boards.UltraScalePlus), "xck24-ubva530-2LV-c", true},
		{compose("x", "xck26-sfvc784", 0x04724093, 4, boards.UltraScalePlus), "xck26-sfvc784-2LV-c", true},
	} {
		b, err := ParseBit(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.CheckPart(c.part); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMismatch) {
			t.Errorf("%s, %s on %s: %v", b.Part, b.Device.Name, c.part, err)
		}
	}
}

func FuzzParseBit(f *testing.F) {
	f.Add(z7045(20))
	f.Add(zu7ev(20))
	f.Add(z7045(20)[:90])
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := ParseBit(file)
		if err != nil {
			if !errors.Is(err, ErrBit) {
				t.Errorf("%v is no ErrBit", err)
			}
			return
		}
		bin := b.Bin()
		if len(bin) < len(b.Data) || len(bin)-len(b.Data) >= 32 || b.Device.Name == "" || b.Frames == 0 {
			t.Errorf("%d bytes of .bin from %d, %+v", len(bin), len(b.Data), b.Device)
		}
		for at := 0; at+4 <= len(b.Data); at += 4 {
			if binary.LittleEndian.Uint32(bin[at:]) != binary.BigEndian.Uint32(b.Data[at:]) {
				t.Fatalf("word %d", at/4)
			}
		}
		if got := append(bytes.Clone(file[:len(file)-len(b.Data)]), b.Data...); !bytes.Equal(got, file) {
			t.Error("the data is not the file's end")
		}
	})
}
