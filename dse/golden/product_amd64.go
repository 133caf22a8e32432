package golden

import "golang.org/x/sys/cpu"

var hasVectors = cpu.X86.HasAVX2

// madd multiplies a part of a kernel row, and adds the products to the sums of a row of blocks. The inputs of the
// positions begin at multiples of stride. For each window of pairs, madd also adds windowBias.
func madd(sums [][blockW][blockC]int64, weights, inputs []int16, stride, window int) {
	pairs := len(weights) / (2 * blockC)
	_ = inputs[(blockW*len(sums)-1)*stride+2*pairs-1] // the last element that is read
	maddAVX2(&sums[0][0][0], &weights[0], &inputs[0], 2*stride, pairs, window, len(sums))
}

// maddAVX2 computes madd, with stride in bytes. No argument may be 0.
//
//go:noescape
func maddAVX2(sums *int64, weights, inputs *int16, stride, pairs, window, blocks int)
