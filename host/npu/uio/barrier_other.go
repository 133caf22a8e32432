//go:build !arm && !arm64

package uio

// No board has the processor of this build. The build exists for the package's tests, in which memory is coherent.
func storeBarrier() {}

func loadBarrier() {}
