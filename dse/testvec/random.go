package testvec

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// File describes a file of test vectors.
type File struct {
	File    string `json:"file"`
	Seed    uint64 `json:"seed"`
	Batch   int    `json:"batch"`
	Layers  int    `json:"layers"`
	Records int    `json:"records"`
}

// Random writes test vectors of n random networks for a design, as dir/NAME-SEED.vec with consecutive seeds.
func Random(dir string, d configs.Design, o randnet.Options, at Layout, first uint64, n int) ([]File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	o.Spill = at.Apart // no tensor stays on chip between two starts
	var files []File
	for seed := first; seed < first+uint64(n); seed++ {
		net, err := randnet.New(seed, d, o)
		if err != nil {
			return nil, err
		}
		batch := 1 + int(seed%uint64(MaxBatch))
		records, err := FromBundle(net.Bundle, rand.New(rand.NewPCG(seed, 1)), batch, at)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.vec", d.Name, seed))
		if err := vectors.WriteFile(file, records); err != nil {
			return nil, err
		}
		files = append(files, File{file, seed, batch, len(net.Bundle.Layers), len(records)})
	}
	return files, nil
}
