package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pragma lists the options of a pragma that the kernel uses (UG1399, Vitis High-Level Synthesis User Guide, HLS
// Pragmas). The list is needed because a compiler silently ignores unknown text after #pragma HLS, and the vendor's tool
// only warns.
type pragma struct {
	need []string // keys of the required options
	may  string   // pattern of an allowed option
}

// The listed kinds of memory are those that a pipelined loop can read and write in the same cycle.
var pragmas = map[string]pragma{
	"array_partition": {[]string{"variable"}, `variable=\w+|(?:type=)?(?:complete|cyclic|block)|factor=\w+|dim=[0-9]`},
	"bind_op":         {[]string{"variable", "op", "impl"}, `variable=\w+|op=(?:mul|add|sub)|impl=(?:dsp|fabric)|latency=[0-9]+`},
	"bind_storage":    {[]string{"variable", "type"}, `variable=\w+|type=(?:fifo|ram_2p|ram_s2p|ram_t2p)|impl=(?:bram|uram|lutram|srl)|latency=[0-9]+`},
	"dataflow":        {nil, ``},
	"dependence":      {[]string{"variable", "type"}, `variable=\w+|type=(?:inter|intra)|(?:dependent=)?(?:true|false)`},
	"inline":          {nil, ``},
	"interface": {[]string{"mode", "port"}, `mode=(?:ap_ctrl_hs|ap_none|ap_vld|ap_memory|m_axi)|port=\w+|bundle=\w+|offset=off|depth=\w+|latency=\w+|storage_type=ram_1p` +
		`|max_(?:read|write)_burst_length=\w+|num_(?:read|write)_outstanding=\w+`},
	"loop_tripcount": {nil, `(?:min|max|avg)=[\w:]+`},
	"pipeline":       {nil, `II=[0-9]+`},
	"stable":         {[]string{"variable"}, `variable=\w+`},
	"stream":         {[]string{"variable", "depth"}, `variable=\w+|depth=\w+`},
	"unroll":         {nil, ``},
}

var optionREs = func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for name, p := range pragmas {
		out[name] = regexp.MustCompile("^(?:" + p.may + ")$")
	}
	return out
}()

// known rejects a pragma or option that is not in the list, and duplicate options.
func known(name, text string) error {
	p, ok := pragmas[name]
	if !ok {
		return fmt.Errorf("there is no pragma HLS %s among those that the kernel may use (hls/check/pragmas.go)", name)
	}
	var keys []string
	for _, option := range strings.Fields(text) {
		if !optionREs[name].MatchString(option) {
			return fmt.Errorf("pragma %s: %q is no option, or no value of one, that the kernel may use (hls/check/pragmas.go)", name, option)
		}
		key, _, _ := strings.Cut(option, "=")
		if slices.Contains(keys, key) {
			return fmt.Errorf("pragma %s: %s is there twice", name, key)
		}
		keys = append(keys, key)
	}
	for _, key := range p.need {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("pragma %s without %s: %q", name, key, text)
		}
	}
	if name == "interface" && slices.Contains(strings.Fields(text), "mode=m_axi") {
		for _, key := range []string{"bundle", "offset", "depth"} { // the tool's defaults join ports and add registers
			if !slices.Contains(keys, key) {
				return fmt.Errorf("pragma interface mode=m_axi without %s: %q", key, text)
			}
		}
	}
	return nil
}
