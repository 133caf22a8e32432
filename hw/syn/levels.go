package syn

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// groupPEs is the PEs of a pe_group, each with a copy of what all read.
const groupPEs = 16

// LevelBits is the flip-flops of level in int16's top: the two levels before the array have operands, swaps, weights with their
// loads, and tokens, once in pe_array and once in each group; of npu_top the drain's token and the turn of a window too.
func LevelBits(d configs.Design, top string) int {
	loads := func(from, to int) int { return (to-1)/d.WLoad - from/d.WLoad + 1 }
	copied := 2*d.TP*17 + d.WLoad*d.TP*16 + 4*(bits.Len(uint(d.TR-1))+1) + 8
	n := copied + loads(0, d.TC)
	for p := 0; p < d.TC; p += groupPEs {
		n += copied + loads(p, min(d.TC, p+groupPEs))
	}
	if top != "npu_top" {
		return n
	}
	token := 6 + bits.Len(uint(d.Drain)) + bits.Len(uint(2*(d.CMax/d.Drain)-1))
	return n + token + bits.Len(uint(d.NB()-1)) + 1
}

// CheckLevels returns an error where the netlist (yosys' JSON) has another number of them than the design, as where equal
// copies were made one.
func CheckLevels(d configs.Design, top string, netlist []byte) error {
	if d.Int8() || !ExpectFor(d, top).Known {
		return nil
	}
	var file struct {
		Modules map[string]struct {
			Cells map[string]struct {
				Type       string
				Attributes map[string]any
			}
		}
	}
	if err := json.Unmarshal(netlist, &file); err != nil {
		return fmt.Errorf("read the netlist: %w", err)
	}
	n := 0
	for _, c := range file.Modules[top].Cells {
		if src, _ := c.Attributes["src"].(string); strings.HasPrefix(c.Type, "FD") && strings.Contains(src, "/level.sv:") {
			n++
		}
	}
	if want := LevelBits(d, top); n != want {
		return fmt.Errorf("%d flip-flops in level.sv, expected %d: copies were merged, or went into shift registers", n, want)
	}
	return nil
}
