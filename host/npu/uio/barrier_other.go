//go:build !arm && !arm64

package uio

// Boards never have the processor of this build. It exists for the package's tests, whose memory is coherent.
func storeBarrier() {}

func loadBarrier() {}
