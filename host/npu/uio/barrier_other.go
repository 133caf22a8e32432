//go:build !arm && !arm64

package uio

// Boards do not have this processor. Only the package's tests run on it, and their memory is coherent.
func storeBarrier() {}

func loadBarrier() {}
