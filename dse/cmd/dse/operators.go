package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/abi"
)

type operatorsCmd struct {
	Networks []string `arg:"" optional:"" placeholder:"NAME|FILE.onnx|DIR" help:"Networks to look through, of a folder all .onnx files at any depth; none: list the operators."`
	recipe.Import
}

func (*operatorsCmd) Help() string {
	return `Says of each network what stands between it and a bundle: operators that are not known, and known ones
that are used in a way that is not. Without a network, lists the operators that are. Of a folder, files that leave
the input's height and width open are looked through at 224 x 224, as their rows say.

Example:
  dse operators
  dse operators my.onnx
  dse operators models/`
}

type operatorsDoc struct {
	cli.Header
	Supported []string       `json:"supported"`
	Networks  []networkNeeds `json:"networks"`
}

// openSide is the assumed input height and width if a file in a folder does not specify the size of its input.
const openSide = 224

type networkNeeds struct {
	File  string `json:"file"`
	Side  int    `json:"input_side,omitempty"` // assumed side, if a file in a folder does not specify it
	Error string `json:"error,omitempty"`      // reason why the file could not be examined
	*onnx.Survey
}

func (c *operatorsCmd) Run(e *cli.Env) error {
	doc := operatorsDoc{Header: newHeader("operators", 0), Supported: onnx.Supported(), Networks: []networkNeeds{}}
	networks, err := models(c.Networks)
	if err != nil {
		return err
	}
	missing, unread := false, error(nil)
	for _, file := range networks {
		s, err := c.Survey(file)
		side := 0
		if errors.Is(err, onnx.ErrOpenSide) && !slices.Contains(c.Networks, file) { // --input-side does not apply to folders
			at := c.Import
			side, at.InputSide = openSide, onnx.Square(openSide)
			s, err = at.Survey(file)
		}
		if err != nil { // continue with the other files
			unread = errors.Join(unread, err)
			doc.Networks = append(doc.Networks, networkNeeds{File: file, Error: err.Error(), Survey: &onnx.Survey{}})
			continue
		}
		missing = missing || len(s.Needs) > 0
		doc.Networks = append(doc.Networks, networkNeeds{File: file, Side: side, Survey: s})
	}
	if len(networks) == 1 && unread != nil {
		return unread
	}
	if err := e.Document(doc, "", e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		if err := doc.print(e.Stdout); err != nil {
			return err
		}
		if len(networks) > len(c.Networks) {
			whole := 0
			for _, n := range doc.Networks {
				if n.Error == "" && len(n.Needs) == 0 {
					whole++
				}
			}
			fmt.Fprintf(e.Stdout, "%d of %d networks consist of supported operators\n", whole, len(networks))
			doc.missing(e.Stdout)
		}
	}
	if unread != nil {
		return unread
	}
	if missing {
		return cli.Told(cli.Check)
	}
	return nil
}

// missing prints, for each missing operator, the number of networks that need it and the number that lack only it.
func (doc *operatorsDoc) missing(to io.Writer) {
	need, alone, seen := map[string]int{}, map[string]int{}, map[string]int{}
	for _, n := range doc.Networks {
		ops := map[string]bool{}
		for _, x := range n.Needs {
			ops[x.Op] = true
		}
		for op := range ops {
			switch need[op]++; {
			case len(ops) == 1 && n.Whole:
				alone[op]++
			case len(ops) == 1:
				seen[op]++
			}
		}
	}
	for _, op := range slices.SortedFunc(maps.Keys(need), func(a, b string) int { return cmp.Or(need[b]-need[a], strings.Compare(a, b)) }) {
		fmt.Fprintf(to, "  %s: %d need it, %d of them nothing else", op, need[op], alone[op])
		if seen[op] > 0 {
			fmt.Fprintf(to, ", %d nothing else that could be looked at", seen[op])
		}
		fmt.Fprintln(to)
	}
}

func (doc *operatorsDoc) print(to io.Writer) error {
	if len(doc.Networks) == 0 {
		for _, op := range doc.Supported {
			if onnx.NeedsPost(op) {
				op += " (designs with post: true)"
			}
			fmt.Fprintln(to, op)
		}
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, n := range doc.Networks {
		if n.Error != "" {
			fmt.Fprintf(w, "%s: could not be looked through\n", n.File)
			continue
		}
		name := n.File
		if n.Side != 0 {
			name += fmt.Sprintf(" at %d x %d", n.Side, n.Side)
		}
		if len(n.Needs) == 0 {
			fmt.Fprintf(w, "%s: all of its operators are supported:", name)
			for _, op := range slices.Sorted(maps.Keys(n.Ops)) {
				fmt.Fprintf(w, " %s x%d", op, n.Ops[op])
			}
			fmt.Fprintln(w)
			if n.Layers > 0 {
				fmt.Fprintf(w, "  layers on %s: at least %d, of at most %d\n", n.LayersOn, n.Layers, abi.LMax)
			}
			n.post(w)
			continue
		}
		fmt.Fprintf(w, "%s: not supported", name)
		if !n.Whole {
			fmt.Fprint(w, " (nodes behind some of these could not be looked at)")
		}
		fmt.Fprintln(w)
		for _, x := range n.Needs {
			fmt.Fprintf(w, "  %s\tx%d\t%s\n", x.Op, x.Nodes, cmp.Or(x.Why, "is not among the operators that are known"))
		}
		n.post(w)
	}
	return w.Flush()
}

// post prints the operators that need a design with post.
func (n *networkNeeds) post(to io.Writer) {
	if len(n.Post) == 0 {
		return
	}
	fmt.Fprint(to, "  a design with post: true runs")
	for _, op := range slices.Sorted(maps.Keys(n.Post)) {
		fmt.Fprintf(to, " %s x%d", op, n.Post[op])
	}
	fmt.Fprintln(to)
}

// models replaces each folder in names by the .onnx files of the folder.
func models(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if i, err := os.Stat(name); err != nil || !i.IsDir() {
			all = append(all, name)
			continue
		}
		before := len(all)
		err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.EqualFold(filepath.Ext(path), ".onnx") {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("networks: %w", err)
		}
		if len(all) == before {
			return nil, usage("%s: a folder without .onnx files", name)
		}
	}
	return all, nil
}
