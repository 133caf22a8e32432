package reef

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// publicList contains the kernels that REEF's authors published, with their measured times. Its header states the
// source.
//
//go:embed testdata/reef-kernels.csv
var publicList string

// publicKernel is a line of the list.
type publicKernel struct {
	network, name           string
	blocks, threads, shared int
	us                      int   // time of the whole kernel alone
	per                     []int // by number of blocks on a unit, from one: time of a block in us
}

// publicKernels returns the lines of the list.
var publicKernels = sync.OnceValue(func() (out []publicKernel) {
	r := csv.NewReader(strings.NewReader(publicList))
	r.Comment = '#'
	lines, _ := r.ReadAll() // no error: the list is embedded, and a test reads it
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	for _, l := range lines[1:] {
		k := publicKernel{network: l[0], name: l[1], blocks: number(l[2]), threads: number(l[3]), shared: number(l[4]), us: number(l[5])}
		for _, s := range strings.Fields(l[6]) {
			k.per = append(k.per, number(s))
		}
		out = append(out, k)
	}
	return out
})

// public returns the programs of the list, by network. Issue, the share of issue slots that a block uses, follows from
// the block's time alone on a unit and its time with the most blocks on it. The list states no register counts or
// bytes.
func public() map[string]*kernel.Program {
	out := map[string]*kernel.Program{}
	for i := range publicKernels() {
		k := &publicKernels()[i]
		p := out[k.network]
		if p == nil {
			p = &kernel.Program{Name: k.network, Memory: 1 << 20}
			out[k.network] = p
		}
		n := float64(len(k.per))
		from := int64(len(p.Kernels)%2) << 19
		half := kernel.Span{From: from, To: from + 1<<19}
		p.Kernels = append(p.Kernels, kernel.Kernel{
			Name: k.name, Blocks: k.blocks, Threads: k.threads, Shared: k.shared, BlockNs: 1e3 * float64(k.per[0]),
			Issue: min(1, max(1, float64(k.per[len(k.per)-1])/float64(k.per[0]))/n),
			Reads: []kernel.Span{half}, Writes: []kernel.Span{{From: 1<<19 - from, To: 1<<20 - from}},
		})
	}
	for _, p := range out {
		p.Exits = []int{len(p.Kernels) - 1}
	}
	return out
}

// split returns a program with more kernels, like TVM's program for DistilBERT in the public list. A norm becomes five
// kernels, and a softmax four kernels. The sums and activations after a product become a separate kernel. The time of
// each kernel is at least 12 us, the time of the shortest kernel in the lists.
func split(p *kernel.Program) *kernel.Program {
	q := *p
	q.Kernels, q.Exits = nil, nil
	for i, k := range p.Kernels {
		n := 1
		switch k.Name {
		case "layernorm":
			n = 5
		case "softmax":
			n = 4
		case "dense_bias_add", "dense_gelu", "dense_tanh":
			n = 2
		}
		for part := range n {
			of := k
			if n == 2 && part == 1 {
				of.Blocks, of.BlockNs = 1, 1
			}
			of.BlockNs = max(of.BlockNs, 10e3) // 10 us, and 2 us to start the kernel
			q.Kernels = append(q.Kernels, of)
		}
		if slices.Contains(p.Exits, i) {
			q.Exits = append(q.Exits, len(q.Kernels)-1)
		}
	}
	return &q
}
