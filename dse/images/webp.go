package images

import "image"

// fromWebP converts a WebP picture as libwebp does. The colours in the file have a smaller range than in a JPEG file.
// Chroma is interpolated with weights of 9, 3, 3 and 1.
func fromWebP(m image.Image) *raster {
	var y *image.YCbCr
	switch m := m.(type) {
	case *image.YCbCr:
		y = m
	case *image.NYCbCrA:
		y = &m.YCbCr
	default:
		return toRaster(m) // a lossless picture
	}
	b := y.Bounds()
	r := newRaster(b.Dx(), b.Dy(), 3)
	cw, ch := (r.w+1)/2, (r.h+1)/2
	for py := range r.h {
		near := py / 2
		far := max(0, min(ch-1, near-1+py%2*2))
		for px := range r.w {
			nx := px / 2
			fx := max(0, min(cw-1, nx-1+px%2*2))
			of := func(plane []byte) int {
				at := func(x, row int) int { return int(plane[row*y.CStride+x]) }
				n, side, over, across := at(nx, near), at(fx, near), at(nx, far), at(fx, far)
				if nx == fx { // libwebp interpolates only vertically at the left and right edges
					return (3*n + over + 2) >> 2
				}
				// The weighted mean is rounded in two steps, as in libwebp.
				diagonal := (n + side + over + across + 8 + 2*(side+over)) >> 3
				return (diagonal + n) >> 1
			}
			at := 3 * (py*r.w + px)
			r.pix[at], r.pix[at+1], r.pix[at+2] = video(int(y.Y[py*y.YStride+px]), of(y.Cb), of(y.Cr))
		}
	}
	return r
}

// video converts a colour in the BT.601 video range (16 to 235) to RGB, with libwebp's factors.
func video(y, u, v int) (r, g, b byte) {
	high := func(v, factor int) int { return v * factor >> 8 }
	l := high(y, 19077)
	return clip((l + high(v, 26149) - 14234) >> 6),
		clip((l - high(u, 6419) - high(v, 13320) + 8708) >> 6),
		clip((l + high(u, 33050) - 17685) >> 6)
}
