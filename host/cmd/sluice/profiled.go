// sluice run --profile replaces the bundle's table with a table from `sluice profile`.

package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/hw/abi"
)

// maxProfile is the maximum size of a profile in bytes. It is sufficient for bundle.MaxLatency entries with quantiles.
const maxProfile = 64 << 20

// readProfile returns the bundle with the table of a profile, and the profile's label. The profile must be for the same
// bundle and the serving device. The device soft accepts profiles of any device. Batch sizes above the limit of a
// bundle's table are omitted.
func readProfile(file string, b *bundle.Bundle, hash, device string) (*bundle.Bundle, string, error) {
	fail := func(format string, a ...any) (*bundle.Bundle, string, error) {
		return nil, "", cli.Errorf(cli.Input, "--profile %s: "+format, append([]any{file}, a...)...)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", cli.Errorf(cli.Input, "--profile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err != nil {
		return fail("%w", err)
	}
	if len(data) > maxProfile {
		return fail("more than %d bytes", maxProfile)
	}
	var doc profileDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return fail("%w; the summary.json of sluice profile is expected", err)
	}
	switch {
	case doc.Schema != profileSchema:
		return fail("schema %q, expected %s", doc.Schema, profileSchema)
	case doc.Bundle != hash:
		return fail("it is of bundle %q, the one that is served is %s", doc.Bundle, hash)
	}
	out := *b
	out.Latency = nil
	for i, x := range doc.Entries {
		if x.Device != device && device != "soft" {
			return fail("entry %d was measured on device %q, the one that serves is %s", i, x.Device, device)
		}
		if x.Network != b.Network.Name {
			return fail("entry %d is of network %q, expected %s", i, x.Network, b.Network.Name)
		}
		if x.Batch <= abi.BMax {
			out.Latency = append(out.Latency, x)
		}
	}
	if err := out.Validate(); err != nil {
		return fail("%w", err)
	}
	t, err := sched.NewTable(out.Latency, b.Network.Name)
	if err != nil {
		return fail("%w", err)
	}
	own, err := sched.NewTable(b.Latency, b.Network.Name)
	if err != nil {
		return nil, "", cli.Coded(cli.Input, err)
	}
	if t.Segments() != own.Segments() || t.MaxBatch() != own.MaxBatch() {
		return fail("it has %d segments and batches up to %d, expected %d and %d (sluice profile without --max-batch)", t.Segments(), t.MaxBatch(), own.Segments(), own.MaxBatch())
	}
	for batch := 1; batch <= t.MaxBatch(); batch++ {
		for first := range t.Segments() {
			for last := first + 1; last < t.Segments(); last++ {
				// A span includes its parts. Small differences are noise, but a span's time cannot be less than half
				// the time of a part.
				for _, part := range [][2]int{{first, last - 1}, {first + 1, last}} {
					if whole, of := t.At(first, last, batch), t.At(part[0], part[1], batch); whole < of/2 {
						return fail("segments %d..%d at batch %d take %d ns, and %d..%d alone %d ns: it cannot be", first, last, batch, whole, part[0], part[1], of)
					}
				}
			}
		}
	}
	return &out, doc.Label, nil
}
