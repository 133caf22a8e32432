package estimate

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hls"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

var (
	streamRE  = regexp.MustCompile(`(?m)^\s*fifo<\w+, \w+> (\w+)\("(\w+)"\);`)
	blocksRE  = regexp.MustCompile(`(?m)^\s*hls::stream_of_blocks<\w+> (\w+);`)
	staticRE  = regexp.MustCompile(`(?m)^\s*kept_t (\w+), (\w+);`)
	arrayRE   = regexp.MustCompile(`(?m)^ +(?:static )?(?:[a-z_0-9:]+(?:<[^;=]*>)?) (\w+)\[[^;()=]*\];`)
	storageRE = regexp.MustCompile(`(?m)^#pragma HLS bind_storage variable=(\w+) type=\w+ impl=(\w+)`)
	splitRE   = regexp.MustCompile(`(?m)^#pragma HLS array_partition variable=(\w+) complete dim=0`)
	noteRE    = regexp.MustCompile(`//.*`)
)

// The memories in the estimate are those of the source, with the same kind of storage.
func TestMemories(t *testing.T) {
	declared, storage, split := map[string]bool{}, map[string][]string{}, map[string]bool{}
	src := hls.Source()
	files, err := fs.Glob(src, "*pp")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		raw, err := fs.ReadFile(src, f)
		if err != nil {
			t.Fatal(err)
		}
		text := noteRE.ReplaceAllString(string(raw), "")
		for _, re := range []*regexp.Regexp{streamRE, blocksRE, staticRE} {
			for _, g := range re.FindAllStringSubmatch(text, -1) {
				declared[g[1]] = true
				declared[g[len(g)-1]] = true
			}
		}
		for _, g := range storageRE.FindAllStringSubmatch(text, -1) {
			storage[g[1]] = append(storage[g[1]], g[2])
		}
		for _, g := range splitRE.FindAllStringSubmatch(text, -1) {
			split[g[1]] = true
		}
		if f != "params.hpp" { // elements of streams
			for _, g := range arrayRE.FindAllStringSubmatch(text, -1) {
				declared[g[1]] = true
			}
		}
	}
	for name := range split {
		delete(declared, name) // registers
	}
	tiny, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	zc706, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []configs.Design{tiny, zc706} {
		d.Post, d.Depthwise = true, true // otherwise some memories of the source have no reader
		var names []string
		for _, m := range Needs(d, boards.Series7).Memories {
			if m.Name == "m_axi" {
				continue
			}
			names = append(names, m.Name)
			if !slices.Contains(storage[m.Name], string(m.Storage)) {
				t.Errorf("%s: %s is estimated in %s, the source binds it to %v", d.Name, m.Name, m.Storage, storage[m.Name])
			}
		}
		slices.Sort(names)
		if want := slices.Sorted(maps.Keys(declared)); !slices.Equal(names, want) {
			t.Errorf("%s: estimated %v, the source has %v", d.Name, names, want)
		}
	}
}

// The sizes agree with the compiler's.
func TestSizes(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Fatal("g++ is missing: install the package g++")
	}
	for _, name := range []string{"tiny", "v13", "zc706", "../configs/zcu104-hls.yaml", "tinyx", "v13x", "v5-int8", "v13x-int8"} {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "sluice_design.hpp"), d.CPPHeader(1), 0o644); err != nil {
			t.Fatal(err)
		}
		m := map[string]Memory{}
		for _, x := range Needs(d, boards.Series7).Memories {
			m[x.Name] = x
		}
		var code strings.Builder
		code.WriteString("#include \"params.hpp\"\nusing namespace npu;\n")
		same := func(expr string, n int) {
			fmt.Fprintf(&code, "static_assert(%s == %d, %q);\n", expr, n, expr)
		}
		word := "WORD_BITS"
		same("2 * sizeof(tile_t) / sizeof(word_t)", m["tiles"].Count*m["tiles"].Words)
		same("sizeof(kept_t) / sizeof(word_t)", m["kept_in"].Count*m["kept_in"].Words)
		same("2 * sizeof(bank_t) / sizeof(acc_t)", m["banks"].Count*m["banks"].Words)
		same("T_R / 2", m["banks"].Words)
		same("WRING_BEATS", m["ring"].Words)
		same("BIAS_LANES", m["bias"].Count)
		same("BIAS_LINES", m["bias"].Words)
		same("hw::AVG_TABLE", m["table"].Words)
		same("ENTRY_BITS", m["table"].Bits)
		same("ROWS_DEPTH", m["rows"].Words)
		same("NB * "+word+" + 1", m["rows"].Bits)
		same("VECS_DEPTH", m["vecs"].Words)
		same("VEC * hw::DATA_BITS", m["vecs"].Bits)
		same("int(acc_t::width)", m["banks"].Bits)
		same("CHAINS * T_P", Needs(d, boards.Series7).DSP-d.NB()*m["held"].Words/abi.DwWords)
		if d.Depthwise {
			same("NB", m["held"].Count)
			same("hw::DW_WORDS", m["held"].Words)
		}
		if d.Post {
			same("DRAIN", m["pixel"].Count)
			same("C_MAX / DRAIN", m["pixel"].Words)
			same("hw::CURVE_SEGMENTS", m["slopes"].Words)
		}
		same("SUMS_DEPTH", m["sums"].Words)
		same("DRAIN * acc_t::width + GROUP_BITS + COUNT_BITS + TAPS_BITS", m["sums"].Bits)
		same("OUT_DEPTH", m["local"].Words)
		same("DRAIN * "+word+" + COUNT_BITS", m["local"].Bits)
		same("BEATS_DEPTH", m["packed"].Words)
		same("BIAS_DEPTH", m["biases"].Words)
		same("8 * AXI_BYTES", m["packed"].Bits)
		same("MAX_BURST * OPEN_WRITES", m["m_axi"].Words)
		if n := m["m_axi"].Count; n != 5 {
			t.Errorf("%s: %d buffers of m_axi ports: expected those of four that read and of one that writes", name, n)
		}
		file := filepath.Join(dir, "sizes.cpp")
		if err := os.WriteFile(file, []byte(code.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-std=c++14", "-fsyntax-only", "-Wno-unknown-pragmas", "-I" + dir}
		for _, i := range []string{"src", "include", "standin", "standin/blocks", "csim", "../sim/include"} {
			args = append(args, "-I../"+i)
		}
		if text, err := exec.Command("g++", append(args, file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	if d := abi.AvgTable; d&(d-1) != 0 {
		t.Errorf("AVG_TABLE is %d", d)
	}
}

// The configurations of hls/configs fit their boards; the configurations of hw/configs that they are derived from do
// not.
func TestFits(t *testing.T) {
	files, err := filepath.Glob("../configs/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, name := range append(files, "zc706", "zcu104") {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Elaborates(); err != nil {
			t.Error(err)
		}
		b, err := boards.Load(d.Board)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Needs(d, b.Family).Fits(b), strings.HasSuffix(d.Name, "-hls"); got != want {
			t.Errorf("%s on %s: fits: %t, expected %t: %+v", d.Name, b.Name, got, want, Needs(d, b.Family))
		}
	}
}

// Blocks and LUTs of memories, with the shapes in the guides.
func TestBlocks(t *testing.T) {
	for _, c := range []struct{ words, bits, want int }{
		{512, 36, 1}, {513, 36, 2}, {512, 72, 2}, {1024, 18, 1}, {7168, 16, 7}, {16384, 2, 2}, {1, 1, 1}, {16384, 64, 64},
	} {
		if got := blocks18(c.words, c.bits); got != c.want {
			t.Errorf("%d x %d: %d blocks of 18 Kibit, expected %d", c.words, c.bits, got, c.want)
		}
	}
	if a, b := lutRAM(boards.Series7, 64, 36), lutRAM(boards.UltraScalePlus, 128, 36); a != 48 || b != 96 {
		t.Errorf("%d and %d LUTs", a, b)
	}
}
