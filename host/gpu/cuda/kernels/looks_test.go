package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Looks describes the looks at the epoch in one PTX entry.
type Looks struct {
	All     int // number of looks: a load past the L1, then a barrier that all threads leave alike
	InTiles int // of these, in the loop over a product's tiles, run once in Poll tiles
	Look    int // instructions of that look
	Product int // instructions between a tile's two barriers, run once a tile by every thread
	Atomics int // atomics of blocks that leave, of one that ends late, of one that is timed
}

// Share is the most that looks cost a product of some tiles, in PTX instructions. Only a tile's products count
// against them, not its loads. The wait for memory in a look is not counted.
func (l Looks) Share(tiles int) float64 {
	return float64((tiles+Poll-1)/Poll*l.Look) / float64(tiles*l.Product)
}

var (
	ptxLabel  = regexp.MustCompile(`^(\$\S+):`)
	ptxBranch = regexp.MustCompile(`\bbra(?:\.uni)?\s+(\$\S+);`)
	ptxLoad   = regexp.MustCompile(`^ld\.(volatile|relaxed\.\w+)\.global\.u32\s`)
)

// LooksOf analyses an entry of a PTX.
func LooksOf(ptx, entry string) (l Looks, err error) {
	_, body, ok := strings.Cut(ptx, ".entry "+entry+"(")
	if !ok {
		return l, fmt.Errorf("kernels: the PTX has no %s", entry)
	}
	body, _, _ = strings.Cut(body, "\n}\n")
	var code []string // labels and instructions
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if ptxLabel.MatchString(line) || strings.HasSuffix(line, ";") && !strings.HasPrefix(line, ".") {
			code = append(code, line)
		}
	}
	labels := map[string]int{}
	var votes, syncs []int
	for i, x := range code {
		switch {
		case ptxLabel.MatchString(x):
			labels[ptxLabel.FindStringSubmatch(x)[1]] = i
		case strings.HasPrefix(x, "bar.red.or.pred"):
			votes = append(votes, i)
		case strings.HasPrefix(x, "atom."), strings.HasPrefix(x, "red."):
			l.Atomics++
		case strings.HasPrefix(x, "bar.sync"):
			syncs = append(syncs, i)
		}
	}
	l.All = len(votes)
	for _, v := range votes {
		from := v
		for from > 0 && !ptxLoad.MatchString(code[from]) && v-from < 16 {
			from--
		}
		if !ptxLoad.MatchString(code[from]) {
			return l, fmt.Errorf("kernels: %s: no volatile load is before %q", entry, code[v])
		}
	}
	if len(syncs) != 2 {
		return l, fmt.Errorf("kernels: %s: %d barriers, expected those of a product's tile", entry, len(syncs))
	}
	first, last := 0, 0 // the loop: the smallest that contains both
	for i, x := range code {
		m := ptxBranch.FindStringSubmatch(x)
		if m == nil {
			continue
		}
		if to, ok := labels[m[1]]; ok && to < syncs[0] && i > syncs[1] && (last == 0 || i-to < last-first) {
			first, last = to, i
		}
	}
	for i := syncs[0] + 1; i < syncs[1]; i++ {
		// Skip what a thread below the first one would jump over.
		if m := ptxBranch.FindStringSubmatch(code[i]); m != nil && (labels[m[1]] < i || labels[m[1]] > syncs[1]) {
			return l, fmt.Errorf("kernels: %s: %q is between a tile's barriers", entry, code[i])
		}
	}
	l.Product = syncs[1] - syncs[0] - 1
	in := slices.DeleteFunc(slices.Clone(votes), func(v int) bool { return v < first || v > syncs[0] })
	if l.InTiles = len(in); l.InTiles == 1 { // from the loop's head on
		l.Look = in[0] - first
	}
	return l, nil
}
