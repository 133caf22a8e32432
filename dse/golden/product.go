// This file computes the products of a convolution: exact sums of int16 x int16.

package golden

import "slices"

const (
	// A block consists of blockW adjacent output positions and blockC channels.
	blockW = 4
	blockC = 8
	// blockPairs is the number of pairs of weights and inputs in a kernel row that are multiplied together. Their
	// weights have 4 KiB, which remain in the cache for a row of blocks.
	blockPairs = 128
	// windowBias is the start value of a window's sum. A window of pairs is summed in 32 bits. Then this sum, as an
	// unsigned number, is added to a 64-bit sum. If the sum of the weights' magnitudes is at most windowMost, the 32 bits
	// are enough for any inputs. A single pair always fits.
	windowBias = 1<<31 - 1
	windowMost = 1<<16 - 1
	maxWindow  = 16
)

// lane returns the position of a block's channel among the weights of a pair. Even lanes contain the first half of the
// channels, and odd lanes contain the second half.
func lane(channel int) int { return channel%(blockC/2)*2 + channel/(blockC/2) }

// group contains the weights of blockC channels.
type group struct {
	weights []int16 // [K_H][pairs of K_W x IN_C][lanes][2], with zeros if a row is odd or channels are missing
	windows []int   // number of pairs per window, by kernel row and part of blockPairs
	bias    int64   // sum of windowBias over all windows
}

// block arranges the weights in groups.
func (l *layer) block() {
	outC, kh, kwc := int(l.d.OutC), int(l.d.KH), int(l.d.KWC)
	size := (kwc + 1) / 2 * blockC * 2 // number of weights of a kernel row
	l.groups = make([]group, (outC+blockC-1)/blockC)
	for i := range l.groups {
		g := &l.groups[i]
		g.weights = make([]int16, kh*size)
		for o := range min(blockC, outC-i*blockC) {
			for y := range kh {
				row := l.weights[((i*blockC+o)*kh+y)*kwc:][:kwc]
				to := g.weights[y*size+2*lane(o):]
				for i, w := range row {
					to[i/2*blockC*2+i%2] = w
				}
			}
		}
		for row := range slices.Chunk(g.weights, size) {
			for part := range slices.Chunk(row, blockPairs*blockC*2) {
				n := window(part)
				g.windows = append(g.windows, n)
				g.bias += int64((len(part)/(blockC*2)+n-1)/n) * windowBias
			}
		}
	}
	l.weights = nil
}

// window returns the number of pairs of weights that may be summed in 32 bits.
func window(weights []int16) int {
	var all [blockPairs][blockC]int32 // sums of the weights' magnitudes over windows of n pairs
	sums := all[:len(weights)/(2*blockC)]
	for i := range sums {
		for o := range blockC {
			w := weights[2*(blockC*i+o):][:2]
			sums[i][o] = magnitude(w[0]) + magnitude(w[1])
		}
	}
	n := 1
	for ; n < maxWindow && len(sums) > 1; n *= 2 {
		for i := range len(sums) / 2 {
			for o := range blockC {
				sums[i][o] = sums[2*i][o] + sums[2*i+1][o]
				if sums[i][o] > windowMost {
					return n
				}
			}
		}
		if odd := len(sums) % 2; odd > 0 {
			sums[len(sums)/2] = sums[len(sums)-1]
		}
		sums = sums[:(len(sums)+1)/2]
	}
	return n
}

func magnitude(x int16) int32 { return max(int32(x), -int32(x)) }

// gemmBlocked computes gemm in blocks. It computes results beyond the last position of a row, but does not use them.
func (l *layer) gemmBlocked(s *buffers, slot []byte) error {
	d := &l.d
	width := l.load(s, slot, l.fill)
	c, pairs := int(d.InC), (int(d.KWC)+1)/2
	stride := int(d.SW) * c
	s.in = append(s.in, make([]int16, blockW*stride+1)...) // because the last block and an odd row read beyond the input
	s.sums = resize(s.sums, (int(d.OutW)+blockW-1)/blockW)
	for i := range l.groups {
		g, first := &l.groups[i], i*blockC
		channels := min(blockC, int(d.OutC)-first)
		var begin [blockW][blockC]int64
		for x := range begin {
			for o := range begin[x] {
				begin[x][o] = -g.bias
			}
		}
		for oh := range int(d.OutH) {
			for i := range s.sums {
				s.sums[i] = begin
			}
			weights, windows := g.weights, g.windows
			for y := range int(d.KH) {
				row := s.in[(oh*int(d.SH)+y)*width*c:]
				for left := pairs; left > 0; {
					n := min(blockPairs, left)
					madd(s.sums, weights[:n*blockC*2], row, stride, windows[0])
					weights, windows, row, left = weights[n*blockC*2:], windows[1:], row[2*n:], left-n
				}
			}
			for ow := range int(d.OutW) {
				if err := l.emit(slot, oh, ow, first, s.sums[ow/blockW][ow%blockW][:channels]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// multiply sets acc[o] to the exact product of x with row o of w. It reads each x once for four rows.
func multiply(acc []int64, x, w []int16) {
	n := len(x)
	for len(acc) >= 4 {
		w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
		var a0, a1, a2, a3 int64
		for i, v := range x {
			v := int64(v)
			a0 += v * int64(w0[i])
			a1 += v * int64(w1[i])
			a2 += v * int64(w2[i])
			a3 += v * int64(w3[i])
		}
		acc[0], acc[1], acc[2], acc[3] = a0, a1, a2, a3
		acc, w = acc[4:], w[4*n:]
	}
	for o := range acc {
		row := w[:n]
		var a int64
		for i, v := range x {
			a += int64(v) * int64(row[i])
		}
		acc[o], w = a, w[n:]
	}
}
