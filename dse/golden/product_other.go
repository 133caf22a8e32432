//go:build !amd64

package golden

const hasVectors = false

func madd([][blockW][blockC]int64, []int16, []int16, int, int) {
	panic("golden: no vectors on this processor") // hasVectors is false
}
