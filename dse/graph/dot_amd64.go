package graph

import "golang.org/x/sys/cpu"

var hasVectors = cpu.X86.HasAVX2

// dot4 computes dot for several positions. Their inputs have n elements each, and begin at multiples of stride.
func dot4(acc *[positions][lanes]float32, x, w []float32, n, stride int) {
	_, _ = x[(positions-1)*stride+n-1], w[n*lanes-1]
	dot4AVX2(&acc[0][0], &x[0], &w[0], n, 4*stride)
}

// dot4AVX2 computes dot4. n must be at least 1, and stride is in bytes.
//
//go:noescape
func dot4AVX2(acc, x, w *float32, n, stride int)
