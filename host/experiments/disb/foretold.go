// This file reads the simulated GPU's predictions. disb.go explains them.

package disb

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/host/gpu/params"
)

//go:embed foretold.csv
var foretold []byte

// ErrForetold is the error of an invalid file of predictions.
var ErrForetold = errors.New("foretold.csv")

// foretoldSeed is the seed of the predicted runs.
const foretoldSeed = 1

// asked lists the workloads with predictions and the length of their runs, for each shrink.
var asked = []struct {
	shrink    int
	ns        int64
	workloads []string
}{{1, 10e6, []string{"A", "B", "C", "D", "E"}}, {32, 1e6, []string{"A", "B", "C", "D", "E"}}}

var columns = []string{"part", "key", "unit", "value", "gpu", "shrink", "ns", "seed", "label"}

// Told is a set of predictions with their conditions.
type Told struct {
	GPU    string             `json:"gpu"`
	Ns     int64              `json:"ns"` // length of a DISB run in ns; 0: no predictions for this shrink
	Seed   uint64             `json:"seed"`
	Values map[string]float64 `json:"values"` // by part and key
}

// Foretold returns the predictions for stand-ins with this shrink, and for measurements without stand-ins. name is the
// GPU's name from the driver. If there are no predictions for this GPU, the result is nil.
func Foretold(name string, shrink int) (*Told, error) {
	f, err := params.Find(name)
	if err != nil || f == nil {
		return nil, err
	}
	t := &Told{GPU: f.Name, Seed: foretoldSeed}
	for _, a := range asked {
		if a.shrink == shrink {
			t.Ns = a.ns
		}
	}
	t.Values, err = read(foretold, strings.ToLower(f.Name), shrink)
	if len(t.Values) == 0 {
		return nil, err
	}
	return t, err
}

func read(text []byte, gpu string, shrink int) (map[string]float64, error) {
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForetold, err)
	}
	out := map[string]float64{}
	for i, f := range lines {
		if i == 0 {
			if fmt.Sprint(f) != fmt.Sprint(columns) {
				return nil, fmt.Errorf("%w, line 1: %v, expected %v", ErrForetold, f, columns)
			}
			continue
		}
		v, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%w, line %d: value %q, expected a number", ErrForetold, i+1, f[3])
		}
		if f[4] == gpu && (f[5] == "0" || f[5] == strconv.Itoa(shrink)) {
			out[f[0]+" "+f[1]] = v
		}
	}
	return out, nil
}
