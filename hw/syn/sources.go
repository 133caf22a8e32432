package syn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw"
)

var (
	svComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	// a parameter or a type: the name is the last word
	svDeclared = regexp.MustCompile(`(?s)^(?:localparam\b[^=]*\b(\w+) ?=.*|typedef\b.*\b(\w+))$`)
	svWord     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// Sources returns the files of module top, and a hash over these files. Each file contains one module or package with
// the name of the file. The hash ignores comments, spacing, and package declarations that no module uses. A new
// register address or ABI hash, for example, does not change the hash of the array.
func Sources(files []string, top string) (used []string, hash string, err error) {
	return sources(disk{}, files, top)
}

// disk reads files by any path.
type disk struct{}

// Open implements fs.FS.
func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

func sources(tree fs.FS, files []string, top string) (used []string, hash string, err error) {
	byName := map[string]string{}
	for _, f := range files {
		byName[strings.TrimSuffix(filepath.Base(f), ".sv")] = f
	}
	if byName[top] == "" {
		return nil, "", fmt.Errorf("sources: there is no module %s", top)
	}
	text := map[string]string{}
	todo := []string{top}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, done := text[name]; done {
			continue
		}
		raw, err := fs.ReadFile(tree, byName[name])
		if err != nil {
			return nil, "", fmt.Errorf("sources: %w", err)
		}
		text[name] = strings.Join(strings.Fields(svComment.ReplaceAllString(string(raw), " ")), " ")
		for _, word := range svWord.FindAllString(text[name], -1) {
			if byName[word] != "" {
				todo = append(todo, word)
			}
		}
	}
	for name, t := range text {
		if strings.HasSuffix(name, "_pkg") {
			text[name] = usedOf(name, t, text)
		}
	}
	sum := sha256.New()
	for name, t := range text {
		used = append(used, byName[name])
		text[name] = name + "\n" + t + "\n"
	}
	slices.SortFunc(used, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, f := range used {
		sum.Write([]byte(text[strings.TrimSuffix(filepath.Base(f), ".sv")]))
	}
	return used, hex.EncodeToString(sum.Sum(nil)), nil
}

// SourcesIn returns the hash of Sources for the RTL of the repository at root.
func SourcesIn(root, top string) (string, error) { return inTree(os.DirFS(root), top) }

// SourcesInt8 is SourcesIn for the int8 RTL, which hw/rtl/int8/files.sh generates.
func SourcesInt8(root, top string) (string, error) {
	dir, err := os.MkdirTemp("", "rtl-int8")
	if err != nil {
		return "", fmt.Errorf("sources of int8: %w", err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("hw/rtl/int8/files.sh", dir)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr = root, &stderr
	list, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("sources of int8: hw/rtl/int8/files.sh: %w: %s", err, stderr.String())
	}
	files, err := filepath.Glob(filepath.Join(root, "hw", "xilinx", "*.sv"))
	if err != nil {
		return "", fmt.Errorf("sources of int8: %w", err)
	}
	for _, f := range strings.Fields(string(list)) {
		if !filepath.IsAbs(f) {
			f = filepath.Join(root, f)
		}
		files = append(files, f)
	}
	_, hash, err := Sources(files, top)
	return hash, err
}

// Built returns the hash of Sources for the RTL that is embedded in this program.
func Built(top string) (string, error) { return inTree(hw.RTL, top) }

// BuiltAlone returns the hash of a module's own file only, for the RTL that is embedded in this program.
func BuiltAlone(module string) (string, error) {
	_, hash, err := sources(hw.RTL, []string{"hw/rtl/" + module + ".sv"}, module)
	return hash, err
}

func inTree(tree fs.FS, top string) (string, error) {
	files, err := hw.Files(tree)
	if err != nil {
		return "", fmt.Errorf("sources: %w", err)
	}
	_, hash, err := sources(tree, files, top)
	return hash, err
}

// usedOf removes a package's declarations that no module uses, directly or through another declaration. It does not
// change a package that declares anything other than parameters and types.
func usedOf(pkg, text string, modules map[string]string) string {
	head, body, found := strings.Cut(text, "package "+pkg+";")
	body, rest, ended := strings.Cut(body, "endpackage")
	if !found || !ended {
		return text
	}
	byName := map[string]int{}
	var decls []string
	depth, from := 0, 0
	for i, r := range body {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		case ';':
			if depth > 0 {
				continue
			}
			d := strings.TrimSpace(body[from:i])
			from = i + 1
			m := svDeclared.FindStringSubmatch(d)
			if m == nil {
				return text
			}
			byName[m[1]+m[2]] = len(decls)
			decls = append(decls, d)
		}
	}
	var todo []string
	for name, t := range modules {
		if name == pkg {
			continue
		}
		if strings.Contains(t, "import "+pkg) {
			return text
		}
		for _, m := range regexp.MustCompile(pkg+`::([A-Za-z_][A-Za-z0-9_]*)`).FindAllStringSubmatch(t, -1) {
			if _, ok := byName[m[1]]; !ok {
				return text // a member of an enumeration, or unknown syntax
			}
			todo = append(todo, m[1])
		}
	}
	kept := make([]bool, len(decls))
	for len(todo) > 0 {
		i := byName[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		if kept[i] {
			continue
		}
		kept[i] = true
		for _, word := range svWord.FindAllString(decls[i], -1) {
			if _, ok := byName[word]; ok {
				todo = append(todo, word)
			}
		}
	}
	out := []string{head + "package " + pkg + ";"}
	for i, d := range decls {
		if kept[i] {
			out = append(out, d+";")
		}
	}
	return strings.Join(append(out, "endpackage"+rest), " ")
}
