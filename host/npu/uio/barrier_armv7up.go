//go:build arm || arm64

package uio

func storeBarrier()

func loadBarrier()
