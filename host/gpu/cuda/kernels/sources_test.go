package kernels

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed src/entries.cu
var entries string

// Sources returns the hash of the sources.
func Sources() string {
	sum := sha256.Sum256([]byte(cuda + bodies + entries))
	return hex.EncodeToString(sum[:])
}

// Check checks that a PTX is the output of ptx.py for the sources.
func Check(ptx string) error {
	line, body, _ := strings.Cut(ptx, "\n")
	var of, sum, arch string
	if _, err := fmt.Sscanf(line, "// sluice kernels, sources sha256 %64s, ptx sha256 %64s, %s", &of, &sum, &arch); err != nil {
		return fmt.Errorf("kernels: the PTX begins with %q, expected the hashes of its sources and of itself", line)
	}
	if of != Sources() {
		return fmt.Errorf("kernels: the PTX was made of %s, the sources are %s: run host/gpu/cuda/kernels/ptx.py", of, Sources())
	}
	if is := sha256.Sum256([]byte(body)); sum != hex.EncodeToString(is[:]) {
		return fmt.Errorf("kernels: the PTX is not what ptx.py made: it says %s, it is %x", sum, is)
	}
	return nil
}
