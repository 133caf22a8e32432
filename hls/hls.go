// Package hls embeds the NPU kernel's Vitis HLS C++ sources, and reads their pragmas.
package hls

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

//go:embed src/*
var files embed.FS

// Source returns the folder of the kernel's files.
func Source() fs.FS {
	sub, err := fs.Sub(files, "src")
	if err != nil {
		return files // the embedded folder always exists
	}
	return sub
}

var (
	functionRE = regexp.MustCompile(`^(?:static |inline )+[\w:<>,* ]+?[ *&](\w+)\(`)
	labelRE    = regexp.MustCompile(`^\s*([a-z_][a-z_0-9]*):(\s*//.*)?$`)
	pipelineRE = regexp.MustCompile(`^\s*#pragma HLS pipeline II=(\d+)\s*$`)
)

// Pipelines returns the II of each pipelined loop of the kernel, by function.label.
func Pipelines() (map[string]int, error) { return pipelines(Source()) }

func pipelines(src fs.FS) (map[string]int, error) {
	out := map[string]int{}
	err := fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".hpp" {
			return err
		}
		text, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		function, label := "", ""
		for i, line := range strings.Split(string(text), "\n") {
			if g := functionRE.FindStringSubmatch(line); g != nil {
				function = g[1]
			}
			if g := labelRE.FindStringSubmatch(line); g != nil {
				label = g[1]
			}
			if g := pipelineRE.FindStringSubmatch(line); g != nil {
				key := function + "." + label
				if _, dup := out[key]; dup {
					return fmt.Errorf("%s:%d: a second pipelined loop %s", name, i+1, key)
				}
				ii, err := strconv.Atoi(g[1])
				if err != nil || ii < 1 {
					return fmt.Errorf("%s:%d: II=%s", name, i+1, g[1])
				}
				out[key] = ii
			}
		}
		return nil
	})
	return out, err
}
