package syn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// RTL is what synth.sh synthesises, from the repository's root.
var RTL = []string{"hw/rtl/*.sv", "hw/xilinx/*.sv"}

var (
	svComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	svWord    = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// Sources are those of the files that module top is made of (one module or package a file, which
// carries its name) and a hash over them. Comments and spacing do not count.
func Sources(files []string, top string) (used []string, hash string, err error) {
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
		raw, err := os.ReadFile(byName[name])
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

// SourcesIn is Sources for the RTL of the repository at root.
func SourcesIn(root, top string) (string, error) {
	var files []string
	for _, pattern := range RTL {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", fmt.Errorf("sources: %w", err)
		}
		files = append(files, list...)
	}
	_, hash, err := Sources(files, top)
	return hash, err
}
