// Package prefix copies the NPU's RTL and adds a prefix to every module and package name. Projects that use the sources
// instead of packaged IP need such a copy if they have modules with the same names.
package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw"
)

// List is the name of the file list. It lists packages first, with paths relative to its folder (-F).
const List = "files.f"

// Errors of a copy.
var (
	ErrPrefix = errors.New("not a prefix")
	ErrFile   = errors.New("not a file to copy along")
)

var legal = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// ListHead is the start of a List, before the prefix. No other file starts with this text.
const ListHead = "// The NPU's sources with the prefix "

// top is the only module that the user's files instantiate.
const top = "npu_top"

// Files returns the copies by name: the files of hw/rtl/files.f and hw/xilinx, which are renamed like their modules,
// the List of these files, and the user's files. In the user's files, npu_top, the packages, and targets of bind that
// no user file defines receive the prefix. Other modules belong to the project.
func Files(prefix string, more map[string][]byte) (map[string][]byte, error) {
	if !legal.MatchString(prefix) {
		return nil, fmt.Errorf("%w: %q: expected a letter, then letters, digits and _", ErrPrefix, prefix)
	}
	rtl, err := hw.Files(hw.RTL)
	if err != nil {
		return nil, fmt.Errorf("prefix: %w", err)
	}
	ours, offered := map[string]bool{}, map[string]bool{top: true}
	taken, bound := map[string]bool{top: true}, map[string]bool{} // names that user files must not define; targets of bind
	for _, name := range rtl {
		m := module(name)
		ours[m], bound[m], taken[prefix+m] = true, true, true
		if strings.HasSuffix(m, "_pkg") {
			offered[m], taken[m] = true, true
		}
	}
	given := slices.Sorted(maps.Keys(more))
	for _, name := range given {
		for _, m := range defined(more[name]) {
			if taken[m] {
				return nil, fmt.Errorf("%w: %s: it defines %s, as the NPU does", ErrFile, name, m)
			}
			delete(bound, m)
		}
	}
	out := map[string][]byte{}
	var list strings.Builder
	fmt.Fprintf(&list, ListHead+"%s, packages first; paths count from this folder (-F).\n", prefix)
	for _, name := range rtl {
		text, err := fs.ReadFile(hw.RTL, name)
		if err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
		copied := prefix + path.Base(name)
		out[copied] = Rename(text, prefix, ours, ours)
		fmt.Fprintln(&list, copied)
	}
	for _, name := range given {
		if _, there := out[name]; there || name == List {
			return nil, fmt.Errorf("%w: %s: the NPU has a file of that name", ErrFile, name)
		}
		out[name] = Rename(more[name], prefix, offered, bound)
		fmt.Fprintln(&list, name)
	}
	out[List] = []byte(list.String())
	return out, nil
}

func module(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

// token matches a word, or text that Rename does not change: a comment, a string, or a name after ., $ or a backtick.
var token = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|[.$` + "`" + `]\s*[A-Za-z_]\w*|[A-Za-z_]\w*|\d[\w']*|::|\S`)

// Rename adds the prefix to the names in the map ours where they are defined, instantiated or referenced: after the
// words module, package and import; after "endmodule :" and "endpackage :"; before #( or the name of an instance;
// before ::. After the word bind, it adds the prefix to the names in the map bound. It does not rename signals, ports
// and instances with the name of a module, and does not change comments, strings and macros.
func Rename(text []byte, prefix string, ours, bound map[string]bool) []byte {
	words := words(text)
	near := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return words[i].text
	}
	var out []byte
	from := 0
	for i, w := range words {
		before, next, after := near(i-1), near(i+1), near(i+2)
		defined := slices.Contains([]string{"module", "package", "import"}, before) ||
			before == ":" && slices.Contains([]string{"endmodule", "endpackage"}, near(i-2))
		instance := next == "#" && after == "(" || legal.MatchString(next) && (after == "(" || after == "[")
		if before == "bind" {
			if !bound[w.text] {
				continue
			}
		} else if !ours[w.text] || !defined && !instance && next != "::" {
			continue
		}
		out = append(append(out, text[from:w.at]...), prefix...)
		from = w.at
	}
	return append(out, text[from:]...)
}

type word struct {
	at   int
	text string
}

// words returns the words of a text without its comments.
func words(text []byte) []word {
	var list []word
	for _, m := range token.FindAllIndex(text, -1) {
		t := string(text[m[0]:m[1]])
		if !strings.HasPrefix(t, "//") && !strings.HasPrefix(t, "/*") {
			list = append(list, word{m[0], t})
		}
	}
	return list
}

// defined lists the modules and packages that a text defines.
func defined(text []byte) []string {
	var names []string
	before := ""
	for _, w := range words(text) {
		if w.text == "automatic" || w.text == "static" {
			continue // these words can precede the name
		}
		if before == "module" || before == "macromodule" || before == "package" {
			names = append(names, w.text)
		}
		before = w.text
	}
	return names
}
