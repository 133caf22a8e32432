//go:build !amd64

package graph

const hasVectors = false

func dot4(acc *[positions][lanes]float32, x, w []float32, n, stride int) {
	for i := range acc {
		dot(&acc[i], x[i*stride:][:n], w)
	}
}
