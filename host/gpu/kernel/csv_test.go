package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

const header = "network,name,kind,blocks,threads,registers,shared,issue,block_ns,bytes,reads,writes,exit\n"

// write writes the format that ReadCSV reads.
func write(programs []*kernel.Program) string {
	var b strings.Builder
	b.WriteString(header)
	spans := func(all []kernel.Span) string {
		var out []string
		for _, s := range all {
			out = append(out, fmt.Sprintf("%d-%d", s.From, s.To))
		}
		return strings.Join(out, " ")
	}
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	for _, p := range programs {
		exits := map[int]int{}
		for _, x := range p.Exits {
			exits[x] = 1
		}
		for i := range p.Kernels {
			k := &p.Kernels[i]
			mid := ",,,,,"
			if k.Kind == kernel.Compute {
				mid = fmt.Sprintf("%d,%d,%d,%d,%v,%v", k.Blocks, k.Threads, k.Regs, k.Shared, k.Issue, k.BlockNs)
			}
			fmt.Fprintf(&b, "%s,%s,%s,%s,%d,%s,%s,%d\n", quote(p.Name), quote(k.Name),
				[]string{"kernel", "memcpy_up", "memcpy_down", "memset"}[k.Kind], mid, k.Bytes, spans(k.Reads), spans(k.Writes), exits[i])
		}
	}
	return b.String()
}

func TestReadCSV(t *testing.T) {
	text := header +
		"a,in,memcpy_up,,,,,,,602112,,0-602112,\n" +
		"a,conv,kernel,98,256,64,16384,1,12500.5,1234,0-602112,602112-700000 800000-800004,1\n" +
		"a,add,kernel,8,256,24,,0.25,700,0,602112-700000,602112-700000,0\n" +
		"b,clear,memset,,,,,,,64,,0-64,\n"
	got, err := kernel.ReadCSV("list.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []*kernel.Program{
		{Name: "a", Memory: 800004, Exits: []int{1, 2}, Kernels: []kernel.Kernel{
			{Name: "in", Kind: kernel.Upload, Bytes: 602112, Writes: []kernel.Span{{0, 602112}}},
			{Name: "conv", Blocks: 98, Threads: 256, Regs: 64, Shared: 16384, Issue: 1, BlockNs: 12500.5, Bytes: 1234, Reads: []kernel.Span{{0, 602112}}, Writes: []kernel.Span{{602112, 700000}, {800000, 800004}}},
			{Name: "add", Blocks: 8, Threads: 256, Regs: 24, Issue: 0.25, BlockNs: 700, Reads: []kernel.Span{{602112, 700000}}, Writes: []kernel.Span{{602112, 700000}}},
		}},
		{Name: "b", Memory: 64, Exits: []int{0}, Kernels: []kernel.Kernel{{Name: "clear", Kind: kernel.Memset, Bytes: 64, Writes: []kernel.Span{{0, 64}}}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for line, where := range map[string]string{
		"":                                 "there is no kernel",
		"network,kernel\na,b\n":            "list.csv:1: expected the header network,name,kind",
		"a,b,kernel,1":                     "list.csv:2: 4 columns",
		"a,b,warp,1,1,1,1,1,1,1,,,":        `list.csv:2: kind: expected kernel, memcpy_up`,
		"a,b,kernel,0,32,1,1,1,1,1,,,":     "a kernel of 0 blocks",
		"a\xff,b,kernel,1,32,1,1,1,1,1,,,": "list.csv: the text is not UTF-8: line 2",
		"a,b,kernel,1,32,1,1,2,1,1,,,":     "issue: expected a number above 0, at most 1",
		"a,b,kernel,1,32,1,1,1,NaN,1,,,":   "block_ns: expected",
		"a,b,kernel,1,32,1,1,1,1,-1,,,":    "bytes: expected a whole number",
		"a,b,kernel,1,32,1,1,1,1,1,4-4,,":  "reads: expected spans",
		"a,b,kernel,1,32,1,1,1,1,1,,x,":    "writes: expected spans",
		"a,b,kernel,1,32,1,1,1,1,1,,,yes":  "exit: expected 1",
		"a,b,memset,1,,,,,,1,,,":           "which are a kernel's",
		",b,memset,,,,,,,1,,,":             "no network",
		"a\x1b[2J,b,memset,,,,,,,1,,,":     `list.csv:2: network: "a\x1b[2J", expected characters that can be printed`,
		"a,\"b\nc\",memset,,,,,,,1,,,":     `name: "b\nc", expected characters`,
		"a,b,memset,,,,,,,1,,,\nb,b,memset,,,,,,,1,,,\na,b,memset,,,,,,,1,,,": "list.csv:4: network \"a\" goes on",
	} {
		text := header + line + "\n"
		if strings.HasPrefix(line, "network") {
			text = line
		}
		_, err := kernel.ReadCSV("list.csv", strings.NewReader(text))
		if err == nil || !errors.Is(err, kernel.ErrProgram) || !strings.Contains(err.Error(), where) {
			t.Errorf("%q: %v, expected %q", line, err, where)
		}
	}
}

// Whatever is read can be run, and reads the same when it is written.
func FuzzReadCSV(f *testing.F) {
	f.Add(header + "a,conv,kernel,98,256,64,16384,1,12500.5,1234,0-602112,602112-700000 800000-800004,1\n")
	f.Add(header + "a,in,memcpy_up,,,,,,,602112,,0-602112,\nb,clear,memset,,,,,,,64,,0-64,0\n")
	f.Add(header + "\"a,\"\"\",b,memcpy_down,,,,,,,1,,,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := kernel.ReadCSV("fuzz", strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, kernel.ErrProgram) {
				t.Fatal(err)
			}
			return
		}
		for _, p := range got {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
		again, err := kernel.ReadCSV("again", strings.NewReader(write(got)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Fatal(d)
		}
	})
}
