package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/host/shard"
)

// besideDoc compares all figures of two documents from the same command.
type besideDoc struct {
	Schema  string      `json:"schema"`
	Folders [2]string   `json:"folders"`
	Figures []bothTimes `json:"figures"` // sorted by name
}

// bothTimes is a figure with its values in both documents; null: missing in this document.
type bothTimes struct {
	Name   string `json:"name"`
	Values [2]any `json:"values"`
	Equal  bool   `json:"equal"`
}

// beside merges two folders and compares their questions and all their figures.
func (c *MergeCmd) beside(e *Env) error {
	if c.Out != "" {
		return Errorf(Usage, "--out does not go with --beside")
	}
	dirs, asJSON, stdout := [2]string{c.Dir, c.Beside}, e.JSON, e.Stdout
	defer func() { e.Stdout = stdout }()
	tmp, err := os.MkdirTemp("", "sluice-merge-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var found [2]map[string]any
	var commands [2]string
	var checks error // check errors of both folders
	for i, dir := range dirs {
		var doc bytes.Buffer
		e.Stdout = &doc
		q, err := e.merge(dir, filepath.Join(tmp, strconv.Itoa(i)), true)
		if err != nil && (q == nil || CodeOf(err) != Check) {
			return err
		}
		if err != nil {
			checks = errors.Join(checks, fmt.Errorf("%s: %w", dir, err))
		}
		var tree any
		if err := json.Unmarshal(doc.Bytes(), &tree); err != nil {
			return fmt.Errorf("%s: the document of %s: %w", dir, q.Args[0], err)
		}
		found[i], commands[i] = map[string]any{}, q.Args[0]
		for _, a := range q.Args[1:] {
			name, value, _ := strings.Cut(a, "=")
			found[i]["asked "+name] = value
		}
		flat(found[i], "", tree)
	}
	if commands[0] != commands[1] {
		return Errorf(Input, "%s: %w: %s, expected %s as in %s", c.Beside, shard.ErrQuestion, commands[1], commands[0], c.Dir)
	}
	both := besideDoc{Schema: "sluice-beside/1", Folders: dirs}
	all := maps.Clone(found[0])
	maps.Copy(all, found[1])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := [2]any{found[0][name], found[1][name]}
		both.Figures = append(both.Figures, bothTimes{name, values, values[0] == values[1]})
	}
	e.Stdout = stdout
	if asJSON {
		return errors.Join(e.Document(both, "", true), Coded(Check, checks))
	}
	return errors.Join(both.print(e), Coded(Check, checks))
}

// flat adds the figures of a document to a map. The keys are the figures' paths.
func flat(to map[string]any, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flat(to, at+"/"+k, x)
		}
	case []any:
		for i, x := range v {
			flat(to, at+"/"+strconv.Itoa(i), x)
		}
	default:
		to[at] = v
	}
}

// print prints the figures that differ and the figures at the top of the document. It only counts all other figures.
func (d *besideDoc) print(e *Env) error {
	t := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\t%s\t%s\n", d.Folders[0], d.Folders[1])
	equal := 0
	for _, f := range d.Figures {
		mark := "differ"
		if f.Equal {
			if filepath.Dir(f.Name) != "/" {
				equal++
				continue
			}
			mark = ""
		}
		text := [2]string{"-", "-"}
		for i, v := range f.Values {
			switch v := v.(type) {
			case nil:
			case float64:
				text[i] = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				text[i] = Shown(fmt.Sprint(v))
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", Shown(f.Name), text[0], text[1], mark)
	}
	fmt.Fprintf(t, "others\t%d\t%[1]d\tequal\n", equal)
	return t.Flush()
}
