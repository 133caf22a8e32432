package images

// ycc converts like libjpeg: with JFIF's factors, in 16 fractional bits.
func ycc(y, cb, cr byte) (r, g, b byte) {
	const half = 1 << 15
	l, u, v := int(y), int(cb)-128, int(cr)-128
	return clip(l + (91881*v+half)>>16), clip(l + (-22554*u-46802*v+half)>>16), clip(l + (116130*u+half)>>16)
}

// upsampled enlarges a component to the picture's size, as libjpeg-turbo does. A component with half the resolution
// is interpolated ("fancy upsampling"); for other ratios pixels are repeated.
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
		// The weight is 3 for the nearer row and 1 for the farther one; at the edges the edge row is repeated.
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
		// Interpolate horizontally in the same way. The two roundings differ, so that their errors cancel.
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
