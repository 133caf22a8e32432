package images

// ycc converts a YCbCr colour to RGB as libjpeg does: with JFIF's factors, in 16 fractional bits.
func ycc(y, cb, cr byte) (r, g, b byte) {
	const half = 1 << 15
	l, u, v := int(y), int(cb)-128, int(cr)-128
	return clip(l + (91881*v+half)>>16), clip(l + (-22554*u-46802*v+half)>>16), clip(l + (116130*u+half)>>16)
}

// upsampled enlarges a component to the picture's size, as libjpeg-turbo does. It interpolates a component with half
// the resolution ("fancy upsampling"). For other ratios, it repeats pixels.
func upsampled(plane []byte, stride, across, down, w, h int) []byte {
	cw, ch := (w+across-1)/across, (h+down-1)/down
	out := make([]byte, w*h)
	fancy := across == 2 && cw > 2 && down <= 2 || across == 1 && down == 2
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
		// The nearer row has weight 3, and the farther row has weight 1. At an edge, the edge row is used twice.
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
		// Interpolate horizontally in the same way. Left and right are rounded differently, so that the errors cancel.
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
