// The golden executor is compared with onnxruntime in float.

package verify

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
)

// Bounds of the comparison.
const (
	minAgreement = 0.998
	maxDelta     = 0.001
)

// Oracle is the comparison of two executors on the same images.
type Oracle struct {
	Images    int
	Agreement float64 // share of images with the same exit
	Delta     float64 // our accuracy minus onnxruntime's
}

// CompareOracle compares the outputs of two executors at each exit, by image.
func CompareOracle(ours, theirs [][]device.ExitResult, labels []int, theta experiments.Theta) Oracle {
	same, right, rightTheirs := 0, 0, 0
	for i := range theirs {
		a, b := experiments.Taken(ours[i], theta), experiments.Taken(theirs[i], theta)
		if a == b {
			same++
		}
		if ours[i][a].Class == labels[i] {
			right++
		}
		if theirs[i][b].Class == labels[i] {
			rightTheirs++
		}
	}
	n := float64(len(theirs))
	return Oracle{Images: len(theirs), Agreement: float64(same) / n, Delta: float64(right-rightTheirs) / n}
}

// Problem describes the exceeded bounds, or returns "".
func (o Oracle) Problem() string {
	if o.Agreement >= minAgreement && math.Abs(o.Delta) <= maxDelta+1e-12 {
		return ""
	}
	return fmt.Sprintf("oracle: same exit on %.2f %% of %d images, accuracy %+.2f points; expected at least %.1f %% and at most %.1f points",
		100*o.Agreement, o.Images, 100*o.Delta, 100*minAgreement, 100*maxDelta)
}

// ReadOracle reads the output of dse/zoo/oracle.py, by image.
func ReadOracle(r io.Reader, images, exits int) ([][]device.ExitResult, error) {
	var head struct {
		Magic                  [4]byte
		Version, Images, Exits uint32
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, err
	}
	if string(head.Magic[:]) != "SLOR" || head.Version != 1 || int(head.Images) != images || int(head.Exits) != exits {
		return nil, fmt.Errorf("header %q, version %d, %d images, %d exits; expected \"SLOR\", 1, %d, %d",
			head.Magic[:], head.Version, head.Images, head.Exits, images, exits)
	}
	classes := make([]uint32, exits)
	if err := binary.Read(r, binary.LittleEndian, classes); err != nil {
		return nil, err
	}
	out := make([][]device.ExitResult, images)
	for x, n := range classes {
		if n < 1 || n > 1<<16 {
			return nil, fmt.Errorf("exit %d has %d classes", x, n)
		}
		logits := make([]float32, n)
		for i := range out {
			if err := binary.Read(r, binary.LittleEndian, logits); err != nil {
				return nil, fmt.Errorf("exit %d, image %d: %w", x, i, err)
			}
			class, conf := bundle.ConfidenceBy("", logits)
			out[i] = append(out[i], device.ExitResult{Exit: x, Class: class, Confidence: conf})
		}
	}
	return out, nil
}
