package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// UnsupportedOp is an operator that Import cannot map, and the nodes that use it.
type UnsupportedOp struct {
	Op    string
	Nodes []string
	Post  bool // designs with the post stage support it
	Fixed bool // all inputs of its nodes are constants
}

// UnsupportedError lists the operators of a network that Import cannot map. It lists each operator once.
type UnsupportedError struct {
	Ops  []UnsupportedOp
	post bool // the design has the post stage
}

// shownNodes is the maximum number of nodes per operator that the error's text names.
const shownNodes = 8

func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString("unsupported operators: ")
	var post, fixed []string
	for i, op := range e.Ops {
		if op.Post {
			post = append(post, op.Op)
		}
		if op.Fixed {
			fixed = append(fixed, op.Op)
		}
		if i > 0 {
			b.WriteString("; ")
		}
		shown := op.Nodes[:min(len(op.Nodes), shownNodes)]
		fmt.Fprintf(&b, "%s x%d (%s", op.Op, len(op.Nodes), strings.Join(shown, ", "))
		if more := len(op.Nodes) - len(shown); more > 0 {
			fmt.Fprintf(&b, ", and %d more", more)
		}
		b.WriteString(")")
	}
	if len(post) > 0 {
		fmt.Fprintf(&b, "; a design with post: true runs %s (`dse operators FILE` names one)", strings.Join(post, ", "))
	}
	if len(fixed) > 0 {
		fmt.Fprintf(&b, "; `onnxsim IN.onnx OUT.onnx` computes %s, as it reads constants alone", strings.Join(fixed, ", "))
	}
	for _, op := range e.Ops {
		if why := otherForm(op.Op); why != "" {
			fmt.Fprintf(&b, "; %s", why)
			break
		}
	}
	if len(post) < len(e.Ops) {
		fmt.Fprintf(&b, "; supported are %s", strings.Join(e.others(), ", "))
	}
	fmt.Fprintf(&b, "; --exits FILE names tensors before them, where the network is cut")
	return b.String()
}

// otherForm returns a text about an unsupported operator of a quantised file: the supported form of such files. It
// returns "" for other operators.
func otherForm(op string) string {
	name, contrib := strings.CutPrefix(op, "com.microsoft.")
	switch {
	case strings.HasPrefix(name, "QLinear") || name == "QGemm":
		return name + " is of the QOperator format: quantise to QDQ (QuantFormat.QDQ of onnxruntime's quantize_static)"
	case name == "ConvInteger" || name == "MatMulInteger" || name == "DynamicQuantizeLinear":
		return name + " is of a file quantised dynamically, without scales of its maps: quantise statically, to QDQ"
	case contrib && (name == "QuantizeLinear" || name == "DequantizeLinear"):
		return op + " is for 16 or 4 bits (or UseQDQContribOps): quantise to 8 bits, with ONNX's own " + name
	}
	return ""
}

// others lists the operators that Import supports on the design, except the operators of this error.
func (e *UnsupportedError) others() []string {
	return slices.DeleteFunc(Supported(), func(name string) bool {
		return NeedsPost(name) && !e.post || slices.ContainsFunc(e.Ops, func(op UnsupportedOp) bool { return op.Op == name })
	})
}

// Is reports whether target is ErrUnsupported, for errors.Is.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Supported lists the operators that Import maps, in alphabetical order.
func Supported() []string {
	names := make([]string, 0, len(lowerings))
	for name := range lowerings {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// known reports whether a node can be mapped, or can be computed at import because all its inputs are constants.
func (im *importer) known(n *onnxpb.NodeProto) bool {
	return im.mapped(n) || folds[opName(n)] != nil && im.fixed(n)
}

// mapped reports whether a node can be mapped. A function can be mapped if the design or the host computes it.
func (im *importer) mapped(n *onnxpb.NodeProto) bool {
	return lowerings[opName(n)] != nil && (im.options.Post || !im.curved(n))
}

// curved reports whether a node needs the post stage. A Sigmoid needs it only if another node computes with the result.
func (im *importer) curved(n *onnxpb.NodeProto) bool {
	return NeedsPost(opName(n)) || opName(n) == "Sigmoid" && im.computes(n)
}

// NeedsPost reports whether an operator always needs the post stage.
func NeedsPost(op string) bool { return curves[op] != nil || op == "Pow" || op == "LayerNormalization" }

// computes reports whether another node computes with a node's output.
func (im *importer) computes(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(n.GetOutput(), func(out string) bool { return im.inside[out] })
}

// unsupported returns an error for nodes that can neither be mapped nor be computed from constants. The nodes must be
// in topological order.
func (im *importer) unsupported(nodes []*onnxpb.NodeProto) error {
	e := UnsupportedError{post: im.options.Post}
	at := map[string]int{}
	fixed := map[string]bool{"": true}
	for _, t := range im.graph.GetInitializer() {
		fixed[t.GetName()] = true
	}
	for _, n := range nodes {
		op := opName(n)
		folded := op == "Shape" || !slices.ContainsFunc(valued(n), func(in string) bool { return !fixed[in] })
		for _, out := range n.GetOutput() {
			fixed[out] = folded
		}
		if im.mapped(n) || folded && folds[op] != nil {
			continue
		}
		i, seen := at[op]
		if !seen {
			i = len(e.Ops)
			at[op] = i
			e.Ops = append(e.Ops, UnsupportedOp{Op: op, Post: im.curved(n), Fixed: true})
		}
		e.Ops[i].Fixed = e.Ops[i].Fixed && folded && len(n.GetInput()) > 0
		e.Ops[i].Nodes = append(e.Ops[i].Nodes, fmt.Sprintf("%q", nodeName(n)))
	}
	if len(e.Ops) == 0 {
		return nil
	}
	return &e
}
