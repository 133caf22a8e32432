package syn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/hw/configs"
)

func TestParse(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "stat.txt"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := Resources{
		DSP: 36, BRAM18: 16, BRAM36: 4, LUT: 24150, FF: 12326, Carry: 1835, LUTRAM: 1264, SRL: 79, MuxF: 2461,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.LUTs() != want.LUT+want.LUTRAM+want.SRL || got.BRAM() != 12 {
		t.Errorf("%d LUTs, %g block RAMs", got.LUTs(), got.BRAM())
	}
}

const stat = `
=== npu_top ===

   Number of wires:                 10
   Number of cells:                  9
     DSP48E2                         1
     FDRE                            4
     LDCE                            1
     RAM64M8                         1
     URAM288                         2

   Estimated number of LCs:          1
`

func TestParseCells(t *testing.T) {
	got, err := Parse(stat)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Resources{DSP: 1, FF: 4, Latch: 1, LUTRAM: 8, URAM: 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLogicCells(t *testing.T) {
	if got := LogicCells(stat); got != 1 {
		t.Error(got)
	}
	if got := LogicCells("Estimated"); got != 0 {
		t.Error(got)
	}
}

func TestParseRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "no statistics"},
		"cut":           {stat[:strings.Index(stat, "     URAM288")], "add up"},
		"unknown cell":  {strings.Replace(stat, "URAM288", "URAM999", 1), "unknown cell URAM999"},
		"hierarchy":     {stat + stat, "more than one module"},
		"half a module": {"=== npu_top ===\n", "no statistics"},
		"huge":          {strings.Replace(stat, "URAM288                         2", "URAM288  99999999999999999999", 1), "URAM288"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			want := c.want
			if want == "add up" {
				want = "the total says 9"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, expected %q", err, want)
			}
		})
	}
}

const dump = `
  attribute \src "a.sv:1"
  cell $mem_v2 \u_core.u_ring.mem
    parameter \ABITS 9
    parameter \SIZE 512
    parameter signed \WIDTH 65
    connect \RD_ADDR \x
  end
  cell $mem_v2 \u_core.u_fifo.mem
    parameter \SIZE 4
    parameter \WIDTH 229
  end
`

const mapped = `mapping memory npu_top.u_core.u_ring.mem via $__XILINX_BLOCKRAM_SDP_
Extracted addr FF from read port 0 of npu_top.u_core.u_fifo.mem: $x
using FF mapping for memory npu_top.u_core.u_fifo.mem
`

func TestParseMemories(t *testing.T) {
	got, err := ParseMemories("npu_top", dump, mapped)
	if err != nil {
		t.Fatal(err)
	}
	want := []Memory{
		{Name: "u_core.u_ring.mem", Words: 512, Width: 65, In: InBRAM},
		{Name: "u_core.u_fifo.mem", Words: 4, Width: 229, In: InFF},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ dump, log, want string }{
		{dump, "", "does not say what u_core.u_ring.mem became"},
		{dump, strings.Replace(mapped, "_BLOCKRAM_SDP_", "_NEW_", 1), "unknown"},
		{strings.Replace(dump, `\SIZE 4`, `\ZISE 4`, 1), mapped, "no size"},
		{"  parameter \\SIZE 4\n", "", "without a cell"},
	} {
		if _, err := ParseMemories("npu_top", c.dump, c.log); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
}

func TestTornMemories(t *testing.T) {
	got := MemoriesAsRegisters("npu_top/u_a.addr_q[0]\nnpu_top/u_a.addr_q[64]\nnpu_top/u_b.x\n" +
		"npu_top/$auto$opt[7]\nnpu_top/gen[99].y\n")
	want := []Memory{{Name: "u_a.addr_q", Words: 65, In: InFF}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadLines(t *testing.T) {
	log := "Warning: Identifier `\\d.x' is implicitly declared.\n" +
		"No latch inferred for signal `\\a' from process.\n" +
		"Latch inferred for signal `\\b' from process.\n" +
		"Warning: Replacing memory \\x with list of registers.\n" +
		"Latch inferred for signal `\\b' from process.\n"
	errs := BadLines(log)
	if len(errs) != 2 || !strings.Contains(errs[0].Error(), "implicitly declared") || !strings.HasPrefix(errs[1].Error(), "a latch") {
		t.Errorf("%v", errs)
	}
}

func TestCheck(t *testing.T) {
	d, err := configs.Load("small")
	if err != nil {
		t.Fatal(err)
	}
	good := Run{Design: d, Family: "xc7", Top: "npu_top", Resources: Resources{DSP: 36}, PackedDSP: 36, Memories: []Memory{
		{Name: "ring", Words: 512, Width: 65, In: InBRAM}, {Name: "fifo", Words: 64, Width: 8, In: InLUTRAM},
	}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"latch":        {func(r *Run) { r.Resources.Latch = 2 }, "2 latches"},
		"dsp":          {func(r *Run) { r.Resources.DSP = 35 }, "35 DSPs, expected 36"},
		"unpacked":     {func(r *Run) { r.PackedDSP = 28 }, "adders went to LUTs"},
		"array alone":  {func(r *Run) { r.Top = "pe_array" }, "36 DSPs, expected 32"},
		"stub":         {func(r *Run) { r.Design.Stub = true }, "expected 4"},
		"lutram":       {func(r *Run) { r.Memories[0].In = InLUTRAM }, "memory ring of 512 words went to lutram"},
		"flip-flops":   {func(r *Run) { r.Memories[1].In, r.Memories[1].Words = InFF, 65 }, "memory fifo of 65 words went to ff"},
		"int8":         {func(r *Run) { r.Design = r.Design.Typed(configs.TypeInt8) }, "36 DSPs, expected 16 (16 of the array, 0 others)"},
		"int8 array":   {func(r *Run) { r.Design, r.Top = r.Design.Typed(configs.TypeInt8), "pe_array_int8" }, "36 DSPs, expected 16"},
		"another part": {func(r *Run) { r.Family, r.PackedDSP, r.Resources.DSP = "xcup", 0, 40 }, "40 DSPs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			r.Memories = append([]Memory(nil), good.Memories...)
			c.change(&r)
			if err := r.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
	// yosys counts a bank as one URAM; with words of 72 bits it is four, and one if folded
	z, err := configs.Load("zcu104")
	if err != nil {
		t.Fatal(err)
	}
	banks := Run{Design: z, Family: "xcup", Top: "act_buffer", Resources: Resources{URAM: 64}}
	for range 64 {
		banks.Memories = append(banks.Memories, Memory{Name: "bank", Words: 4096, Width: 64, In: InURAM})
	}
	if err := banks.Check(); err != nil || banks.URAMs() != 64 {
		t.Errorf("folded: %d URAMs, %v", banks.URAMs(), err)
	}
	for i := range banks.Memories {
		banks.Memories[i].Words, banks.Memories[i].Width = 16384, 16
	}
	if err := banks.Check(); err == nil || !strings.Contains(err.Error(), "256 URAMs") {
		t.Errorf("256 URAMs on a part of 96: %v", err)
	}
	other := good
	other.Top, other.Resources.DSP, other.PackedDSP = "pool", 4, 0
	if err := other.Check(); err != nil {
		t.Errorf("nothing is demanded of the DSPs of pool: %v", err)
	}
}

func TestCost(t *testing.T) {
	log := "CPU: user 1.00s system 0.00s\nEnd of script. Logfile hash: 6, CPU: user 108.38s system 1.80s, MEM: 1067.58 MB peak\n"
	if cpu, mb := Cost(log); cpu < 110.17 || cpu > 110.19 || mb != 1067.58 {
		t.Errorf("%g s, %g MB", cpu, mb)
	}
	if cpu, mb := Cost("none"); cpu != 0 || mb != 0 {
		t.Errorf("%g s, %g MB of nothing", cpu, mb)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(stat)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Parse(text); err != nil && r != (Resources{}) {
			t.Error("an error comes with figures")
		}
	})
}
