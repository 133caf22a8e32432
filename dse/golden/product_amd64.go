package golden

import "golang.org/x/sys/cpu"

var hasVectors = cpu.X86.HasAVX2

// madd adds to sums[x][o] the products of len(weights)/16 pairs of weights of channel o with the
// inputs of position x, which begin at x*stride and whose upper bytes are hi, lower bytes lo.
func madd(sums *[blockW][blockC]int64, weights, hi, lo []int16, stride int) {
	maddAVX2(&sums[0][0], &weights[0], &hi[0], &lo[0], 2*stride, len(weights)/(2*blockC))
}

// maddAVX2 is madd; stride is in bytes, pairs at least 1 and at most blockPairs.
//
//go:noescape
func maddAVX2(sums *int64, weights, hi, lo *int16, stride, pairs int)
