package golden

import "golang.org/x/sys/cpu"

var hasVectors = cpu.X86.HasAVX2

// madd adds the products of a part of a kernel row to the sums of a row of blocks, whose inputs begin at multiples of
// stride. Each window of pairs adds windowBias too much.
func madd(sums [][blockW][blockC]int64, weights, inputs []int16, stride, window int) {
	pairs := len(weights) / (2 * blockC)
	_ = inputs[(blockW*len(sums)-1)*stride+2*pairs-1] // the last element read
	maddAVX2(&sums[0][0][0], &weights[0], &inputs[0], 2*stride, pairs, window, len(sums))
}

// maddAVX2 is madd with stride in bytes; no argument may be 0.
//
//go:noescape
func maddAVX2(sums *int64, weights, inputs *int16, stride, pairs, window, blocks int)
