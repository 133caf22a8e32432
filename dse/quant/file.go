package quant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Notes returns texts about maps that are rounded to 8 bits although the quantised file contains no scale, or several
// scales, for them. This rounding is not part of the file. For a file without codes, there are no notes.
func (n *Int8) Notes() []string {
	g := n.Graph
	coded := len(g.Scales) > 1 || len(g.Scales) == 1 && !g.Bytes
	makes := map[graph.TensorID]string{g.Input: "the input"}
	var read []graph.TensorID
	for i := range g.Nodes {
		node := &g.Nodes[i]
		makes[node.Output] = node.Name
		read = append(read, node.Reads()...)
		coded = coded || node.Steps != nil
	}
	slices.Sort(read)
	var rounded []string
	for _, t := range slices.Compact(read) {
		if _, ok := g.Scales[t]; !ok && coded && !n.Maps[t].Wide {
			rounded = append(rounded, makes[t])
		}
	}
	const shown = 8
	more := ""
	if len(rounded) > shown {
		more = fmt.Sprintf(" and %d more", len(rounded)-shown)
	} else if len(rounded) == 0 {
		return nil
	}
	return []string{"int8 rounds maps to calibrated steps that the file does not round, or rounds by several scales: " + strings.Join(rounded[:min(len(rounded), shown)], ", ") + more}
}
