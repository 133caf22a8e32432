package kernels_test

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// The PTX is built from the present sources. A block looks at its epoch in each of its loops, past the L1. Looks are less
// than 2 % of a product's instructions with two tiles or more, and less than 3 % with one.
func TestPTX(t *testing.T) {
	if err := kernels.Check(kernels.PTX); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(kernels.PTX, "\n.version 8.0\n") {
		t.Error("drivers for CUDA 12.0 take PTX 8.0 at most: make it with NVRTC 12.0")
	}
	for _, entry := range []string{kernels.EntryLayer, kernels.EntryPadded} {
		l, err := kernels.LooksOf(kernels.PTX, entry)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v: %.2f %% of the instructions of a product of %d steps, %.2f %% of one step", entry, l, 100*l.Share(kernels.Poll), kernels.Poll, 100*l.Share(1))
		if l.All != 2 || l.InSteps != 1 || l.Loads < 2*l.All+2 {
			t.Errorf("%s: %+v, expected a vote in a product's loop and one in a pool's, and loads for both, before a product, where a block leaves and where it ends", entry, l)
		}
		if l.Atomics != 2*l.All+2 {
			t.Errorf("%s: %d atomics, expected two where a block leaves, one where it ends late and one where it is timed", entry, l.Atomics)
		}
		// A step of a whole warp: 16 by 8 outputs and 64 products of each, by 8 x 8 x 16 and four pairs of bytes.
		if l.Tensor != 2*4*4 || l.Loaded > kernels.StepCost {
			t.Errorf("%s: %+v, a step is foretold to take %d instructions", entry, l, kernels.StepCost)
		}
		if per := float64(l.Loaded) / (kernels.Depth * kernels.Pixels * kernels.Channels / kernels.Threads); per > 0.65 {
			t.Errorf("%s: %.2f instructions a product", entry, per)
		}
		if s := l.Share(kernels.Poll); s <= 0 || s > 0.03 {
			t.Errorf("%s: looks are %.4f of a product's instructions", entry, s)
		}
	}
	for name, change := range map[string]func(string) string{
		"a load that the L1 answers":  func(s string) string { return strings.ReplaceAll(s, "ld.volatile.global.u32", "ld.global.u32") },
		"no vote":                     func(s string) string { return strings.ReplaceAll(s, "bar.red.or.pred", "bar.sync ") },
		"another number":              func(s string) string { return strings.Replace(s, "mov.u32", "mov.b32", 1) },
		"sources that are not theirs": func(s string) string { return strings.Replace(s, "sources sha256 ", "sources sha256 0", 1) },
	} {
		bad := change(kernels.PTX)
		if bad == kernels.PTX || kernels.Check(bad) == nil {
			t.Errorf("%s: it passes", name)
		}
	}
	for _, to := range []string{"ld.global.u32", "ld.global.nc.u32"} {
		if _, err := kernels.LooksOf(strings.ReplaceAll(kernels.PTX, "ld.volatile.global.u32", to), kernels.EntryLayer); err == nil {
			t.Errorf("looks by %s pass", to)
		}
	}
}
