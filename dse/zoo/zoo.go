// Package zoo contains the networks that are shipped with Sluice, and a reader of their evaluation images. The Python
// programs in this folder train and export the networks. Networks from structure.py have no weights, so Load draws them
// from a seed.
package zoo

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
)

//go:embed *.onnx
var files embed.FS

const suffix = ".onnx"

// Names returns the names of the networks in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(path.Base(e.Name()), suffix))
	}
	slices.Sort(names)
	return names
}

// Load imports the network of this name. Missing weights are drawn from seed.
func Load(name string, seed uint64) (*graph.Graph, error) {
	return LoadWith(name, onnx.Options{WeightSeed: seed})
}

// LoadWith imports the network of this name, with options such as fewer exits or another input size.
func LoadWith(name string, o onnx.Options) (*graph.Graph, error) {
	if err := known(name); err != nil {
		return nil, err
	}
	f, err := files.Open(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	defer f.Close()
	o.Name = name
	return onnx.Import(f, o)
}

func known(name string) error {
	if !slices.Contains(Names(), name) {
		return fmt.Errorf("no network %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return nil
}
