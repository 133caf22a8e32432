package images

import "image"

// fromYCbCr converts a JPEG's picture as libjpeg-turbo does, so that pixels are those of PIL, torchvision, OpenCV
// and TensorFlow: halved chroma is interpolated (its "fancy upsampling"), other chroma repeated.
func fromYCbCr(m *image.YCbCr) *raster {
	b := m.Bounds()
	r := newRaster(b.Dx(), b.Dy(), 3)
	cb, cr := m.Cb[m.COffset(b.Min.X, b.Min.Y):], m.Cr[m.COffset(b.Min.X, b.Min.Y):]
	blue, red := upsampled(cb, m.CStride, m.SubsampleRatio, r.w, r.h), upsampled(cr, m.CStride, m.SubsampleRatio, r.w, r.h)
	for y := range r.h {
		luma := m.Y[m.YOffset(b.Min.X, b.Min.Y+y):][:r.w]
		for x, v := range luma {
			at := y*r.w + x
			r.pix[3*at], r.pix[3*at+1], r.pix[3*at+2] = ycc(v, blue[at], red[at])
		}
	}
	return r
}

// ycc is libjpeg's conversion: JFIF's factors with 16 bits behind the point.
func ycc(y, cb, cr byte) (r, g, b byte) {
	const half = 1 << 15
	l, u, v := int(y), int(cb)-128, int(cr)-128
	return clip(l + (91881*v+half)>>16), clip(l + (-22554*u-46802*v+half)>>16), clip(l + (116130*u+half)>>16)
}

// upsampled brings a plane of chroma to the picture's size.
func upsampled(plane []byte, stride int, ratio image.YCbCrSubsampleRatio, w, h int) []byte {
	across, down := 1, 1 // pixels of the picture to one of the plane
	switch ratio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	cw, ch := (w+across-1)/across, (h+down-1)/down
	out := make([]byte, w*h)
	fancy := across == 2 && cw > 2 || across == 1 && down == 2
	sums := make([]int, cw)
	for y := range h {
		row := out[y*w:][:w]
		near := plane[y/down*stride:][:cw]
		if !fancy {
			for x := range row {
				row[x] = near[x/across]
			}
			continue
		}
		// The nearer row of the plane counts three times, the farther once; beyond the edges stands the edge.
		weight := 1
		for i, v := range near {
			sums[i] = int(v)
		}
		if down == 2 {
			weight = 4
			beyond := max(0, min(ch-1, y/2-1+y%2*2))
			for i, v := range plane[beyond*stride:][:cw] {
				sums[i] = 3*sums[i] + int(v)
			}
		}
		if across == 1 {
			for x, v := range sums {
				row[x] = byte((v + 1 + y%2) >> 2)
			}
			continue
		}
		// The same across. The two roundings differ, so that their errors cancel.
		left, right := weight*2, weight*2-1
		if down == 1 {
			left, right = 1, 2
		}
		for x := range row {
			i := x / 2
			other, bias := max(i-1, 0), left
			if x%2 == 1 {
				other, bias = min(i+1, cw-1), right
			}
			row[x] = byte((3*sums[i] + sums[other] + bias) / (4 * weight))
		}
	}
	return out
}
