//go:build !arm && !arm64

package uio

// Boards have other processors than this one. It builds for the package's tests, whose memory is coherent.
func storeBarrier() {}

func loadBarrier() {}
