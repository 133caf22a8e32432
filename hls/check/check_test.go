package check

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lanes is a kernel with eight memories; each row depends on an earlier row of the same memory, at a given distance.
func lanes(before string) string {
	return `
extern "C" int top(int n) {
  int bank[8][64];
#pragma HLS array_partition variable=bank complete dim=1
clear:
  for (int i = 0; i < 64; i++) {
#pragma HLS pipeline II=1
  lanes:
    for (int lane = 0; lane < 8; lane++) {
#pragma HLS unroll
      bank[lane][i] = n;
    }
  }
rows:
  for (int i = 2; i < 64; i++) {
#pragma HLS pipeline II=1
  lanes_of_row:
    for (int lane = 0; lane < 8; lane++) {
#pragma HLS unroll
      bank[lane][i] = bank[lane][i - (` + before + `)] + lane;
    }
  }
  return bank[n & 7][n & 63];
}`
}

// cases are small kernels that must be rejected, with the expected message, and some that must pass.
var cases = []struct {
	name, code, want string
}{
	{"plain", `
extern "C" void top(int *a, int n) {
sum:
  for (int i = 1; i < n; i++) {
#pragma HLS pipeline II=2
#pragma HLS loop_tripcount max=64
    a[i] += a[i - 1];
  }
}`, ""},
	{"external call", `
extern "C" int outside(int);
extern "C" int top(int x) { return outside(x); }`, "external call of outside"},
	{"a loop that nothing leaves", `
extern "C" void top(volatile int *a) {
ever:
  while (true) {
#pragma HLS loop_tripcount max=64
    *a = 1;
  }
}`, "kernel.cpp:3 (ever): no bound: nothing leaves the loop"},
	{"a loop in a macro, inside one with a bound", `
#define SPIN(x) w\
hile (x) n++
extern "C" int top(volatile int *a, int m) {
  int n = 0;
outer:
  for (int i = 0; i < m; i++) {
#pragma HLS loop_tripcount max=64
    SPIN(*a);
  }
  return n;
}`, "has no place in the source (near kernel.cpp:"},
	{"indirect call", `
extern "C" int top(int (*f)(int), int x) { return f(x); }`, "indirect call"},
	{"recursion", `
extern "C" int down(int n) { return n <= 0 ? 0 : 1 + down(n - 1); }
extern "C" int top(int n) { return down(n); }`, "recursion: down -> down"},
	{"recursion over two", `
extern "C" int odd(int n);
extern "C" int even(int n) { return n == 0 ? 1 : odd(n - 1); }
extern "C" int odd(int n) { return n == 0 ? 0 : even(n - 1); }
extern "C" int top(int n) { return even(n); }`, "recursion: "},
	{"new", `
extern "C" int top(int n) { int *p = new int(n); int v = *p; delete p; return v; }`, "allocates memory (_Znwm)"},
	{"malloc", `
extern "C" void *malloc(unsigned long);
extern "C" void *top(int n) { return malloc(n); }`, "allocates memory (malloc)"},
	{"variable array", `
extern "C" int top(int n) { int a[n]; a[0] = n; return a[n / 2]; }`, "memory of variable size"},
	{"double", `
extern "C" int top(int n) { double x = n; return (int)(x * 0.5); }`, "floating point (double)"},
	{"float", `
extern "C" int top(int n) { float x = n; return (int)(x * 0.5f); }`, "floating point (float)"},
	{"loop without a bound", `
extern "C" int top(volatile int *a) {
  int n = 0;
wait:
  while (*a) n++;
  return n;
}`, "kernel.cpp:4 (wait): no bound"},
	{"loop bounded by its counter's width only", `
extern "C" int top(const int *a, int n) {
  int s = 0;
sum:
  for (int i = 0; i < n; i++) s ^= a[i];
  return s;
}`, "no bound"},
	{"loop with a stated bound", `
extern "C" int top(const int *a, int n) {
  int s = 0;
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS loop_tripcount max=64
    s ^= a[i];
  }
  return s;
}`, ""},
	{"unrolling without a constant", `
extern "C" int top(const int *a, int n) {
  int s = 0;
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS unroll
#pragma HLS loop_tripcount max=64
    s ^= a[i];
  }
  return s;
}`, "cannot be unrolled"},
	{"loop inside a pipelined one", `
extern "C" int top(const int *a, int n) {
  int s = 0;
outer:
  for (int i = 0; i < 16; i++) {
#pragma HLS pipeline II=1
  inner:
    for (int j = 0; j < n; j++) {
#pragma HLS loop_tripcount max=64
      s ^= a[16 * j + i];
    }
  }
  return s;
}`, "with a loop inside"},
	{"II below a dependence", `
extern "C" void top(int *a, int n, int m) {
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    a[m] += i & a[i];
  }
}`, "II=1, but a is read 1 trip(s) after it is written: II=2 at least"},
	{"the II that it asks for", `
extern "C" void top(int *a, int n, int m) {
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=2
#pragma HLS loop_tripcount max=64
    a[m] += i & a[i];
  }
}`, ""},
	{"more unrolled than clang unrolls by itself", `
extern "C" int top(int x) {
mix:
  for (int i = 0; i < 2048; i++) {
#pragma HLS unroll
    x ^= (i * i ^ i << 3) + (i * 5 ^ i >> 2) + (i ^ 77) * (i & 31);
  }
  return x;
}`, ""},
	{"the same with trips that are not constant", `
extern "C" void top(int *a, int x, int n) {
copies:
  for (int p = 0; p < 2; p++) {
#pragma HLS unroll
    int v = x + p;
  steps:
    for (int j = 0; j < n; j++) {
#pragma HLS unroll
#pragma HLS loop_tripcount max=64
      v = v * 3 ^ j;
      v ^= v >> 3;
    }
    a[p] = v;
  }
}`, "(steps): cannot be unrolled"},
	{"a dependence in one memory of many", lanes("lane == 5 ? 1 : 2"), "(rows): II=1, but bank is read 1 trip(s) after it is written: II=2 at least"},
	{"in none of many", lanes("2"), ""},
	{"in any of many", `
extern "C" int top(const int *which, int n) {
  int bank[8][64];
#pragma HLS array_partition variable=bank complete dim=1
rows:
  for (int i = 2; i < 64; i++) {
#pragma HLS pipeline II=1
    bank[3][i] = bank[which[i] & 7][i - 1] + n;
  }
  return bank[n & 7][n & 63];
}`, "(rows): II=1, but bank is read 1 trip(s) after it is written"},
	{"II at a distance", `
extern "C" void top(int *a, int n) {
sum:
  for (int i = 2; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    a[i] += a[i - 2];
  }
}`, ""},
	{"accumulators at any row", `
extern "C" void top(int *acc, const int *row, int n) {
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    acc[row[i]] += i;
  }
}`, "but acc is read"},
	{"accumulators whose dependence is said to be false", `
extern "C" void top(int *acc, const int *row, int n) {
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
#pragma HLS dependence variable=acc type=inter false
    acc[row[i]] += i;
  }
}`, ""},
}

// port is the start of a kernel with one DRAM port.
const port = `
extern "C" void top(unsigned long *gmem, unsigned long *on_chip, long from, int n) {
#pragma HLS interface mode=m_axi port=gmem bundle=a offset=off depth=64
`

// burstCases are DRAM accesses that can become a burst, and others that cannot.
var burstCases = []struct {
	name, code, want string
}{
	{"read", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = gmem[from + i];
  }
}`, ""},
	{"written", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    gmem[from + i] = on_chip[i];
  }
}`, ""},
	{"under a condition", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    if (on_chip[i] & 1) on_chip[i] = gmem[from + i];
  }
}`, "kernel.cpp:5 (beats): no burst: DRAM (a) is reached under a condition"},
	{"every other beat", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = gmem[from + 2 * i];
  }
}`, "are not consecutive"},
	{"backwards", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = gmem[from - i];
  }
}`, "are not consecutive"},
	{"anywhere", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    gmem[on_chip[i]] = i;
  }
}`, "are not consecutive"},
	{"twice a trip", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = gmem[from + i] ^ gmem[i];
  }
}`, "reached twice a trip"},
	{"read and written", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    gmem[from + i] ^= on_chip[i];
  }
}`, "reached twice a trip"},
	{"two halves of a beat", strings.ReplaceAll(port, "long *gmem, unsigned long *on_chip", "__int128 *gmem, unsigned __int128 *on_chip") + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    gmem[from + i] = on_chip[i] >> 3;
  }
}`, ""},
	{"half of every beat", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = ((unsigned *)gmem)[2 * (from + i)];
  }
}`, "are not consecutive: "},
	{"as long as it says", port + `
beats:
  for (int i = 0; gmem[from + i] != 0; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    on_chip[i] = n;
  }
}`, "is not known when it begins how often"},
	{"a counter of its own", port + `
  int b = 0;
steps:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    if (on_chip[i] & 1) {
      on_chip[i] = gmem[from + b];
      b++;
    }
  }
}`, "reached under a condition"},
	{"no pipeline", port + `
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS loop_tripcount max=64
    on_chip[i] = gmem[from + i];
  }
}`, "kernel.cpp:7: DRAM (a) is reached beside a pipelined loop"},
	{"a single beat with its reason", port + `
  on_chip[0] = gmem[from];  // single beat: once a start
}`, ""},
	{"in a function", `
static void move(const unsigned long *memory, unsigned long *on_chip, int n) __attribute__((noinline));
static void move(const unsigned long *memory, unsigned long *on_chip, int n) {
beats:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
    if (on_chip[i] & 1) on_chip[i] = memory[i];
  }
}
extern "C" void top(unsigned long *on_chip, unsigned long *gmem, int n) {
#pragma HLS interface mode=m_axi port=gmem bundle=a offset=off depth=64
  move(gmem, on_chip, n);
}`, "(beats): no burst: DRAM (a) is reached under a condition"},
	{"handed away", `
extern "C" void top(unsigned long *on_chip, unsigned long *gmem, int n) {
#pragma HLS interface mode=m_axi port=gmem bundle=a offset=off depth=64
  *(unsigned long **)on_chip = gmem + n;
}`, "is stored"},
}

// portCases are loops that access memories as often per trip as allowed, or more often.
var portCases = []struct {
	name, code, want string
}{
	{"one read, one write", memories + `
    out[i] = a[i];
  }
}`, ""},
	{"two reads", memories + `
    out[i] = a[i] + a[63 - i];
  }
}`, "kernel.cpp:8 (sum): II=1, but a memory of a is read 2 times a trip"},
	{"two reads in two cycles", strings.Replace(memories, "II=1", "II=2", 1) + `
    out[i] = a[i] + a[63 - i];
  }
}`, ""},
	{"two writes", memories + `
    out[i] = i;
    a[i] = i;
    a[63 - i] = 1;
  }
}`, "a memory of a is written 2 times a trip"},
	{"of two memories", memories + `
    out[i] = split[0][i] + split[1][63 - i];
  }
}`, ""},
	{"of the same of two memories", memories + `
    out[i] = split[1][i] + split[1][63 - i];
  }
}`, "a memory of split (1:1) is read 2 times a trip"},
	{"of any of two memories", memories + `
    out[i] = split[in[i] & 1][i] + split[in[i] >> 31][63 - i];
  }
}`, "a memory of split (1:*) is read 2 times a trip"},
	{"of any and of one", memories + `
    out[i] = split[in[i] & 1][i] + split[1][63 - i];
  }
}`, "a memory of split (1:"},
	{"registers", memories + `
    out[i] = few[in[i] & 3] + few[in[i] >> 30];
  }
}`, ""},
	{"through a pointer of either", memories + `
    int *p = in[i] & 1 ? a : split[0];
    out[i] = p[i];
  }
}`, "cannot be followed"},
}

// memories is the start of a loop over the declared memories.
const memories = `
static __attribute__((noinline)) void fill(int *a, int (*split)[64], int *few) { a[0] = 1; split[0][0] = split[1][0] = few[0] = 2; }
extern "C" void top(unsigned *in, unsigned *out, int n) {
  int a[64], split[2][64], few[4];
#pragma HLS array_partition variable=split complete dim=1
#pragma HLS array_partition variable=few complete dim=0
  fill(a, split, few);
sum:
  for (int i = 0; i < n; i++) {
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=64
`

func TestCases(t *testing.T) {
	for _, c := range slices.Concat(cases, burstCases, portCases) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "kernel.cpp"), []byte(c.code[1:]+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Run(context.Background(), Options{Source: dir, File: "kernel.cpp", Dependences: true})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.Problems, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("problems:\n%s\nwant: %q", got, c.want)
			}
		})
	}
}

// Pragmas in a place where they have no effect, or without content, are rejected; tools would silently ignore them.
func TestPragmas(t *testing.T) {
	for code, want := range map[string]string{
		"void f() {\n#pragma HLS pipeline II=1\n}\n":                                                            "not at the head of a loop",
		"void f() {\nfor (int i = 0; i < 2; i++) {\n#pragma HLS pipeline\n}\n}\n":                               "without an II",
		"void f() {\nfor (int i = 0; i < 2; i++) {\n#pragma HLS loop_tripcount min=1\n}\n}\n":                   "without max",
		"void f() {\nfor (int i = 0; i < 2; i++) {\n#pragma HLS dependence variable=a type=inter true\n}\n}\n":  "frees no variable",
		"void f() {\nfor (int i = 0; i < 2; i++) {\n  int x = i;\n#pragma HLS pipeline II=1\n}\n}\n":            "not at the head of a loop",
		"void f() {\nfor (int i = 0; i < 2; i++) {\n#pragma HLS dependence variable=a type=intra false\n}\n}\n": "expected type=inter",
		"void f(volatile int *a) {\n  do {\n  } while (*a);\n}\n":                                               "begins its line",
		"void f(volatile int *a) {\n  if (a) while (*a) {\n  }\n}\n":                                            "begins its line",
		"void f(volatile int *a) {\nagain:\n  if (*a) goto again;\n}\n":                                         "begins its line",
		"void f() {\n# pragma HLS stabel varible=l\n}\n":                                                        "there is no pragma HLS stabel",
		"void f() {\n#  pragma HSL stable\n}\n":                                                                 "expected #pragma HLS NAME",
		"void f() {\n  _Pragma(\"HLS inline\")\n}\n":                                                            "expected #pragma HLS NAME",
		"#pragma HLS interface mode=m_axi port=gmem_a offset=off depth=64\n":                                    "m_axi without bundle",
		"#pragma HLS interface mode=m_axi port=gmem_a bundle=a depth=64\n":                                      "m_axi without offset",
		"#pragma HLS interface mode=m_axi port=gmem_a bundle=a offset=off\n":                                    "m_axi without depth",
		"#pragma HLS bind_storage variable=tiles type=rom_1p impl=bram\n":                                       `"type=rom_1p" is no option`,
		"#pragma HLS bind_storage variable=ring type=ram_1p impl=bram\n":                                        `"type=ram_1p" is no option`,
		"void f() {\n#pragma HLS inline\n}\n":                                                                   "no inline function",
		"void f() {\n#pragma HLS datafow\n  SLUICE_REGION;\n}\n":                                                "there is no pragma HLS datafow",
		"void f() {\n#pragma HSL dataflow\n  SLUICE_REGION;\n}\n":                                               "expected #pragma HLS NAME",
		"void f() {\n#pragma HLS dataflow now\n  SLUICE_REGION;\n}\n":                                           `"now" is no option`,
		"void f() {\n#pragma HLS dataflow\n}\nvoid g() {\n  SLUICE_REGION;\n}\n":                                "stages without a pragma HLS dataflow",
		"#pragma HLS steam variable=rows depth=2\n":                                                             "there is no pragma HLS steam",
		"#pragma HLS stream variable=rows dept=2\n":                                                             `"dept=2" is no option`,
		"#pragma HLS stream variable=rows\n":                                                                    "stream without depth",
		"#pragma HLS stream variable=rows depth=2 depth=3\n":                                                    "depth is there twice",
		"#pragma HLS interface mode=m_axy port=gmem_a\n":                                                        `"mode=m_axy" is no option`,
		"#pragma HLS bind_storage variable=banks type=ram_s2q impl=bram\n":                                      `"type=ram_s2q" is no option`,
		"#pragma HLS array_partition variable=x compleet dim=0\n":                                               `"compleet" is no option`,
	} {
		s := newSource()
		if _, err := s.scan("kernel.cpp", strings.Split(code, "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", code, err, want)
		}
	}
}

// The kernel without its dataflow region is rejected, even if only the pragma is misspelt.
func TestRegion(t *testing.T) {
	for old, want := range map[string]string{
		"#pragma HLS dataflow\n": "stages without a pragma", "  SLUICE_REGION;\n": "0 dataflow regions",
		"#pragma HLS interface mode=m_axi port=gmem_a": "",
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("../src")); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "npu.cpp")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := ""
		if want == "" {
			to, want = "#pragma HLS interface mode=m_axy port=gmem_a", "m_axy"
		}
		if strings.Count(string(text), old) != 1 {
			t.Fatalf("%q is not in npu.cpp", old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(context.Background(), Options{Source: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", old, err, want)
		}
	}
}

// Any output of the tools is parsed without panic.
func FuzzParse(f *testing.F) {
	f.Add("define void @f(i32 %x) {\nentry:\n  %y = add i32 %x, 1, !dbg !3\n  call void @g(i32 %y)\n  ret void\n}\n!3 = !DILocation(line: 1, scope: !4)\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := parse(text)
		language(m)
		for id := range m.meta {
			m.place(id)
		}
		for _, g := range m.functions {
			for _, i := range g.defs {
				g.object(i, true)
				g.object(i, false)
			}
		}
	})
}

// FuzzScan: the same holds for any source.
func FuzzScan(f *testing.F) {
	f.Add("x:\n  for (;;) {\n#pragma HLS pipeline II=1\n  }\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := newSource()
		s.scan("f", strings.Split(text, "\n"))
	})
}
