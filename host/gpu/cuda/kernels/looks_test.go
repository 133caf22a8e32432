package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Looks describes the polls of the epoch in one PTX entry, and the cost of a product between them.
type Looks struct {
	All     int // barriers after which all threads take the same branch, by the loaded epoch
	Loads   int // loads past the L1
	InSteps int // of these, loads in the loop over a product's steps, executed once in Poll steps
	Look    int // instructions of that look
	Product int // instructions between a step's two barriers, run once a step by every thread
	Tensor  int // of these, products on tensor cores
	Step    int // least number of instructions of a whole step that loads nothing for the next step
	Loaded  int // the same for a step that loads
	Atomics int // atomics of blocks that leave, of one that ends late, of one that is timed
}

// Share returns the largest share of looks in a product of some steps, in PTX instructions. The wait for memory in a look
// is not counted.
func (l Looks) Share(steps int) float64 {
	return float64((steps+Poll-1)/Poll*l.Look) / float64(steps*l.Loaded)
}

var (
	ptxLabel  = regexp.MustCompile(`^(\$\S+):`)
	ptxBranch = regexp.MustCompile(`\bbra(?:\.uni)?\s+(\$\S+);`)
	ptxLoad   = regexp.MustCompile(`^(?:@%\w+ |@p )?ld\.(volatile|relaxed\.\w+)\.global\.u32\s`)
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
	for _, x := range code {
		if ptxLoad.MatchString(x) {
			l.Loads++
		}
	}
	if l.Loads < l.All {
		return l, fmt.Errorf("kernels: %s: %d volatile loads for %d votes", entry, l.Loads, l.All)
	}
	first, second := 0, 0 // the barriers around a step's product
	for i := range syncs[:max(0, len(syncs)-1)] {
		n := 0
		for _, x := range code[syncs[i]+1 : syncs[i+1]] {
			if ptxBranch.MatchString(x) || ptxLabel.MatchString(x) {
				n = 0
				break
			}
			if strings.HasPrefix(x, "mma.sync.") {
				n++
			}
		}
		if n > 0 && l.Tensor == 0 {
			first, second, l.Tensor = syncs[i], syncs[i+1], n
		}
	}
	if l.Tensor == 0 {
		return l, fmt.Errorf("kernels: %s: no two of %d barriers are those of a product's step", entry, len(syncs))
	}
	l.Product = second - first - 1
	away := func(bad func(x string) bool) func(i int) bool { return func(i int) bool { return bad(code[i]) } }
	vote := func(x string) bool { return strings.HasPrefix(x, "bar.red") }
	next := func(i int) (to []int) { // after an instruction
		m := ptxBranch.FindStringSubmatch(code[i])
		if m != nil {
			to = append(to, labels[m[1]])
		}
		if code[i] != "ret;" && (m == nil || strings.HasPrefix(code[i], "@")) {
			to = append(to, i+1)
		}
		return to
	}
	// Wide layers load no single elements.
	narrow := func(x string) bool { return vote(x) || strings.HasPrefix(x, "ld.global.u16") }
	if l.Step = shortest(code, next, second, first, away(narrow)); l.Step == 0 {
		return l, fmt.Errorf("kernels: %s: no step follows another without a look", entry)
	}
	l.Step += l.Product + 2
	// The loads of the next step: the shortest path through each.
	for i, x := range code {
		if !strings.HasPrefix(x, "ld.global.v4.u32") {
			continue
		}
		to, from := shortest(code, next, second, i, away(narrow)), shortest(code, next, i, first, away(narrow))
		if to > 0 && from > 0 {
			l.Loaded = max(l.Loaded, to+from+l.Product+2)
		}
	}
	for _, v := range votes {
		to, from := shortest(code, next, second, v, away(narrow)), shortest(code, next, v, first, away(narrow))
		if to > 0 && from > 0 {
			l.InSteps++
			if n := to + from + l.Product + 2 - l.Step; l.Look == 0 || n < l.Look {
				l.Look = n
			}
		}
	}
	return l, nil
}

// shortest returns the least number of instructions from one to another, without the first and with the second, on a
// path that avoids some; 0: there is no path.
func shortest(code []string, next func(int) []int, from, to int, avoid func(int) bool) int {
	far := map[int]int{from: 0}
	for at := []int{from}; len(at) > 0; { // by distance: labels cost nothing
		i := slices.MinFunc(at, func(a, b int) int { return far[a] - far[b] })
		at = slices.DeleteFunc(at, func(k int) bool { return k == i })
		for _, n := range next(i) {
			if n >= len(code) || n != to && avoid(n) {
				continue
			}
			d := far[i] + 1
			if ptxLabel.MatchString(code[n]) {
				d--
			}
			if n == to {
				if i == from && d == 0 {
					continue
				}
				return d
			}
			if was, ok := far[n]; !ok || d < was {
				far[n] = d
				if !slices.Contains(at, n) {
					at = append(at, n)
				}
			}
		}
	}
	return 0
}
