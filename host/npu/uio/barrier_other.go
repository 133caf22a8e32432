//go:build !arm && !arm64

package uio

// No board here has another processor; the package builds elsewhere for its tests, whose memory is
// coherent.
func storeBarrier() {}

func loadBarrier() {}
