//go:build static

// The program on a board cannot draw, because the drawing library and its fonts would use 3.4 MB of the image's 16 MB.

package report

import (
	"errors"
	"io"

	"github.com/sluice-npu/sluice/host/engine"
)

// Draws is false because this build cannot draw.
const Draws = false

var errStatic = errors.New("this sluice was built without pictures (-tags static): draw from summary.json on a workstation")

// LinesSVG returns an error.
func LinesSVG(io.Writer, Picture) error { return errStatic }

// LatencySVG returns an error.
func LatencySVG(io.Writer, int64, ...*engine.Result) error { return errStatic }
