package check

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/configs"
)

// replaced is one edit of the kernel.
type replaced struct{ file, old, new string }

// edit applies edits to a copy of the kernel and returns the folder.
func edit(t *testing.T, places ...replaced) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../src")); err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		p.in(t, dir)
	}
	return dir
}

func (p replaced) in(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, p.file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), p.old); n != 1 {
		t.Fatalf("%s: %q is there %d times", p.file, p.old, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), p.old, p.new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	drainStage  = "  SLUICE_STAGE(drain(l, banks, pooled, sums));\n"
	writeStage  = "  SLUICE_STAGE(write_out(l, gmem_o, packed));\n"
	fetchStage  = "  SLUICE_STAGE(fetch_residual(l, gmem_r, fetched));\n"
	readBanks   = "    hls::read_lock<bank_t> bank(banks);\n"
	writtenBeat = "      gmem.write(beat, strobe);\n"
)

// Errors in a dataflow region, its channels and its pragmas: one edit of the kernel for each.
var regionBreaks = []struct{ name, file, old, new, want string }{
	{"a stream with two consumers", "npu.cpp", writeStage, writeStage + "  SLUICE_STAGE(cut_residual(l, packed, residuals));\n", "packed: expected one stage that writes it and one that reads it, found pack_out and write_out, cut_residual"},
	{"and two producers", "npu.cpp", writeStage, writeStage + "  SLUICE_STAGE(cut_residual(l, packed, residuals));\n", "residuals: expected one stage that writes it and one that reads it, found cut_residual, cut_residual and finish"},
	{"blocks with two readers", "npu.cpp", drainStage, drainStage + drainStage, "banks: expected one stage that writes it and one that reads it, found multiply and drain, drain"},
	{"no reader", "npu.cpp", writeStage, "", "packed: expected one stage that writes it and one that reads it, found pack_out and none"},
	{"no writer", "npu.cpp", "  SLUICE_STAGE(pack_out(l, local, packed));\n", "", "packed: expected one stage that writes it and one that reads it, found none and write_out"},
	{"a reader before its writer", "npu.cpp", "  SLUICE_STAGE(pack_out(l, local, packed));\n" + writeStage, writeStage + "  SLUICE_STAGE(pack_out(l, local, packed));\n", "packed: write_out reads before pack_out writes"},
	{"a stage under a condition", "npu.cpp", fetchStage, "  if (l.residual) SLUICE_STAGE(fetch_residual(l, gmem_r, fetched));\n", "without a condition or a loop around them: if (l.residual) SLUICE_STAGE"},
	{"stages in a block", "npu.cpp", fetchStage, "  if (l.residual) {\n  SLUICE_STAGE(fetch_residual(l, gmem_r, fetched));\n  }\n", "a block in the dataflow region run_layer"},
	{"a port for two stages", "npu.cpp", "fetch_residual(l, gmem_r,", "fetch_residual(l, gmem_a,", "gmem_a (const beat_t *gmem_a) is used by more than one stage of the region: load_rows, fetch_residual"},
	{"a port for two, by its call", "npu.cpp", "run_layer(l, gmem_a, gmem_w, gmem_r,", "run_layer(l, gmem_a, gmem_w, gmem_a,", "gmem_a is handed to run_layer twice"},
	{"a bundle for two ports", "npu.cpp", "port=gmem_r bundle=r", "port=gmem_r bundle=a", "the bundle a is that of gmem_a too"},
	{"a memory for two stages", "npu.cpp", "load_rows(l, gmem_a, kept_in,", "load_rows(l, gmem_a, kept_out,", "is used by more than one stage of the region: load_rows, keep_out"},
	{"a loop between stages", "npu.cpp", fetchStage, "  for (int i = 0; i < 4; i++) kept_out[i][0] = kept_in[i][0];\n" + fetchStage, "in the dataflow region run_layer: expected declarations"},
	{"an expression as a stage's argument", "npu.cpp", fetchStage, "  SLUICE_STAGE(fetch_residual(l, gmem_r + 1, fetched));\n", "in the dataflow region run_layer: expected declarations"},
	{"a second lock inside the first", "compute.hpp", readBanks, readBanks + "    hls::read_lock<bank_t> bank2(banks);\n", "banks is locked a second time in drain"},
	{"a misspelt variable", "npu.cpp", "bind_storage variable=tiles type", "bind_storage variable=tlies type", "pragma bind_storage: run_layer has no tlies"},
	{"a misspelt product", "compute.hpp", "bind_op variable=product ", "bind_op variable=prodcut ", "pragma bind_op: step has no prodcut"},
	{"a variable of another function", "compute.hpp", "bind_op variable=product ", "bind_op variable=pes_t ", "pragma bind_op: step has no pes_t"},
	{"a misspelt port", "npu.cpp", "mode=ap_none port=n_slot", "mode=ap_none port=n_slots", "sluice_npu has no n_slots"},
	{"a misspelt stream", "npu.cpp", "stream variable=weights depth=BEATS_DEPTH", "stream variable=wieghts depth=BEATS_DEPTH", "run_layer has no wieghts"},
	{"a stream without its depth", "npu.cpp", "#pragma HLS stream variable=weights depth=BEATS_DEPTH\n", "", `weights is as deep as BEATS_DEPTH in C-simulation and as "" in synthesis`},
	{"a stream of two depths", "npu.cpp", "stream variable=weights depth=BEATS_DEPTH", "stream variable=weights depth=1", `weights is as deep as BEATS_DEPTH in C-simulation and as "1" in synthesis`},
	{"a dataflow region in the top", "npu.cpp", "  using namespace npu;\n", "  using namespace npu;\n#pragma HLS dataflow\n", "pragma dataflow in sluice_npu, which is no dataflow region"},
	{"a dataflow region in a stage", "write.hpp", "inline void write_out(const layer_t l, hls::burst_maxi<beat_t> gmem, hls::stream<beat_t> &packed) {\n", "inline void write_out(const layer_t l, hls::burst_maxi<beat_t> gmem, hls::stream<beat_t> &packed) {\n#pragma HLS dataflow\n", "pragma dataflow in write_out"},
	{"a stage inlined", "write.hpp", "inline void write_out(const layer_t l, hls::burst_maxi<beat_t> gmem, hls::stream<beat_t> &packed) {\n", "inline void write_out(const layer_t l, hls::burst_maxi<beat_t> gmem, hls::stream<beat_t> &packed) {\n#pragma HLS inline\n", "pragma inline in write_out"},
	{"no control", "npu.cpp", "#pragma HLS interface mode=ap_ctrl_hs port=return\n", "", "expected one pragma interface for return, found 0"},
	{"a register without its interface", "npu.cpp", "#pragma HLS interface mode=ap_none port=weight_base\n", "", "expected one pragma interface for weight_base, found 0"},
	{"a port with two", "npu.cpp", "#pragma HLS interface mode=ap_none port=weight_base\n", "#pragma HLS interface mode=ap_none port=weight_base\n#pragma HLS interface mode=ap_vld port=weight_base\n", "for weight_base, found 2"},
	{"a stream of memory", "npu.cpp", "variable=rows type=fifo impl=srl", "variable=rows type=ram_2p impl=uram", "expected type=fifo of a stream"},
	{"a memory that is a stream", "npu.cpp", "variable=kept_in type=ram_s2p impl=bram", "variable=kept_in type=fifo impl=bram", "expected type=fifo of a stream"},
	{"another operator", "compute.hpp", "bind_op variable=product op=mul", "bind_op variable=product op=add", "product is made by no add"},
	{"an array of a partitioned one's name", "write.hpp", "  item_t at = {0, 0, 0, 0};\n  bool more = true;\nitems:\n  while (more) {\n#pragma HLS loop_tripcount max=MAX_TRIPS\n    const int nch = channels_of(l, at);\n", "  int desc[64];\n  desc[0] = desc[1] + desc[2];\n  item_t at = {0, 0, 0, 0};\n  bool more = true;\nitems:\n  while (more) {\n#pragma HLS loop_tripcount max=MAX_TRIPS\n    const int nch = channels_of(l, at);\n", "finish has a desc of its own"},
	{"a burst that is not pipelined", "write.hpp", "// one beat per cycle, as many as requested\n#pragma HLS pipeline II=1\n", "", "expected the loop behind gmem.write_request(from, n) to be pipelined"},
	{"stable outside a region", "npu.cpp", "  using namespace npu;\n", "  using namespace npu;\n#pragma HLS stable variable=first\n", "pragma stable in sluice_npu has no effect"},
	{"a request of another length", "write.hpp", "gmem.write_request(first, beats);", "gmem.write_request(first, words);", "expected behind gmem.write_request(from, n) a loop"},
	{"a beat under a condition", "write.hpp", writtenBeat, "      if (strobe != 0) gmem.write(beat, strobe);\n", "expected the loop to write one beat of gmem a trip"},
	{"two beats a trip", "write.hpp", writtenBeat, writtenBeat + writtenBeat, "expected the loop to write one beat of gmem a trip"},
	{"a beat beside its burst", "write.hpp", "    if (open == OPEN_WRITES) {\n", "    gmem.write(0, 0);\n    if (open == OPEN_WRITES) {\n", "gmem is written beside the loops behind its requests"},
}

func TestRegionBreaks(t *testing.T) {
	for _, b := range regionBreaks {
		t.Run(b.name, func(t *testing.T) {
			s, err := read(edit(t, replaced{b.file, b.old, b.new}), t.TempDir(), "npu.cpp")
			if err != nil {
				t.Fatal(err)
			}
			var r Report
			structure(s, &r)
			if got := strings.Join(r.Problems, "\n"); !strings.Contains(got, b.want) {
				t.Errorf("problems:\n%s\nwant: %q", got, b.want)
			}
		})
	}
	byReference := func(stage string) replaced {
		return replaced{"read.hpp", "inline void " + stage + "(const layer_t l,", "inline void " + stage + "(const layer_t &l,"}
	}
	s, err := read(edit(t, byReference("form_rows"), byReference("feed_weights")), t.TempDir(), "npu.cpp")
	if err != nil {
		t.Fatal(err)
	}
	var two Report
	if structure(s, &two); !strings.Contains(strings.Join(two.Problems, "\n"), "l (const layer_t l) is used by more than one stage of the region: form_rows, feed_weights") {
		t.Errorf("what is no scalar for two stages: %q", two.Problems)
	}
	s, err = read("../src", t.TempDir(), "npu.cpp")
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if structure(s, &r); len(r.Problems) != 0 || r.Bursts != 1 {
		t.Errorf("the kernel as it is: %+v", r)
	}
}

// Errors found in the compiler's code: streams used more than once in a trip, and calls from a trip.
var tripBreaks = []struct{ name, file, old, new, want string }{
	{"two writes of a stream", "read.hpp", "      fetched.write(beat);\n", "      fetched.write(beat);\n      fetched.write(beat);\n", "II=1, but fetched is written more than 1 time(s) a trip"},
	{"two reads of a stream", "compute.hpp", "      const row_t row = rows.read();\n", "      rows.read();\n      const row_t row = rows.read();\n", "II=1, but rows is read more than 1 time(s) a trip"},
	{
		"a loop in what is called", "write.hpp", "inline s64 rescale(s64 x, int shift) {\n#pragma HLS inline\n",
		"__attribute__((noinline)) static s64 rescale(s64 x, int shift) {\n  volatile int q = 0;\nhidden:\n  for (int i = 0; i < shift; i++) {\n#pragma HLS loop_tripcount max=48\n    q = q + 1;\n  }\n",
		"(steps): pipelined, and calls",
	},
	{
		"two reads in what is called", "compute.hpp", "            line[h][pe] = bank[h][pe][index];\n", "            line[h][pe] = peek(bank, index, index / 2);\n",
		"a memory of banks (",
	},
	{"a constant that is none", "read.hpp", "#pragma HLS loop_tripcount max=WRING_BEATS\n", "#pragma HLS loop_tripcount max=NOT_A_NAME\n", "read.hpp:"},
	{"a constant of zero", "params.hpp", "constexpr int SUMS_DEPTH = 16;", "constexpr int SUMS_DEPTH = 0;", "a pragma's SUMS_DEPTH: expected 1 or more"},
}

func TestTripBreaks(t *testing.T) {
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	include := t.TempDir()
	if err := os.WriteFile(filepath.Join(include, "sluice_design.hpp"), d.CPPHeader(1), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, b := range tripBreaks {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			places := []replaced{{b.file, b.old, b.new}}
			if strings.Contains(b.new, "peek(") {
				places = append(places, replaced{"compute.hpp", "typedef packed_t pes_t[CHAINS][T_P];\n", `typedef packed_t pes_t[CHAINS][T_P];
__attribute__((noinline)) static acc_t peek(const acc_t (&bank)[2][T_C][T_R / 2], int a, int b) {
  return acc_t(static_cast<s64>(bank[0][0][a]) + static_cast<s64>(bank[0][0][b]));
}
`})
			}
			dir := edit(t, places...)
			r, err := Run(context.Background(), Options{Source: dir, Include: []string{
				include, "../../sim/include", "../include", "../standin", "../standin/blocks",
			}})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(r.Problems, "\n")
			}
			if !strings.Contains(got, b.want) {
				t.Errorf("%s\nwant: %q", got, b.want)
			}
		})
	}
}
