// Products of a convolution: exact sums of int16 x int16.

package golden

// A block is blockW adjacent output positions by blockC channels: the sums that one call of madd updates.
const (
	blockW = 4
	blockC = 8
	// blockPairs limits the pairs of one call: 64 x 2 products of a lower byte (255) and an int16 fit 32 bits.
	blockPairs = 64
)

// block arranges the weights as [OUT_C / blockC][K_H][pairs of K_W x IN_C][blockC][2], with zeros if a row is odd or
// channels are missing.
func (l *layer) block() {
	outC, kh, kwc := int(l.d.OutC), int(l.d.KH), int(l.d.KWC)
	pairs := (kwc + 1) / 2
	groups := (outC + blockC - 1) / blockC
	l.blocked = make([]int16, groups*kh*pairs*blockC*2)
	for o := range outC {
		for y := range kh {
			row := l.weights[(o*kh+y)*kwc:][:kwc]
			to := l.blocked[((o/blockC*kh+y)*pairs*blockC+o%blockC)*2:]
			for i, w := range row {
				to[i/2*blockC*2+i%2] = w
			}
		}
	}
	l.weights = nil
}

// split writes the upper and the lower byte of each padded input element into two buffers. These are longer than the
// input, because the last block of a row reads beyond it.
func (s *buffers) split(beyond int) {
	n := len(s.in)
	s.hi, s.lo = resize(s.hi, n+beyond), resize(s.lo, n+beyond)
	hi, lo := s.hi[:n], s.lo[:n]
	for i, v := range s.in {
		hi[i], lo[i] = v>>8, v&0xff
	}
	clear(s.hi[n:])
	clear(s.lo[n:])
}

// gemmBlocked is gemm in blocks. Results beyond the last position of a row are computed but not used.
func (l *layer) gemmBlocked(s *buffers, slot []byte) error {
	d := &l.d
	width := l.load(s, slot, l.fill)
	c, kh, pairs := int(d.InC), int(d.KH), (int(d.KWC)+1)/2
	stride := int(d.SW) * c
	s.split((blockW-1)*stride + 2)
	var sums [blockW][blockC]int64
	for o := 0; o < int(d.OutC); o += blockC {
		weights := l.blocked[o/blockC*kh*pairs*blockC*2:]
		channels := min(blockC, int(d.OutC)-o)
		for oh := range int(d.OutH) {
			for ow := 0; ow < int(d.OutW); ow += blockW {
				clear(sums[:])
				for y := range kh {
					first := (oh*int(d.SH)+y)*width*c + ow*stride
					for at := 0; at < pairs; at += blockPairs {
						n := min(blockPairs, pairs-at)
						last := first + (blockW-1)*stride + 2*(at+n)
						hi, lo := s.hi[first+2*at:last], s.lo[first+2*at:last]
						madd(&sums, weights[(y*pairs+at)*blockC*2:][:n*blockC*2], hi, lo, stride)
					}
				}
				for x := range min(blockW, int(d.OutW)-ow) {
					if err := l.emit(slot, oh, ow+x, o, sums[x][:channels]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// multiply sets acc[o] to the exact product of x with row o of w. Four rows share each load of x.
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
