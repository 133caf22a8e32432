package images

import (
	"image"
	"image/color"
	"math"
)

// raster is a picture of bytes with channels innermost: one channel (grey) or three channels (red, green, blue).
type raster struct {
	w, h, c int
	pix     []byte
}

func newRaster(w, h, c int) *raster { return &raster{w, h, c, make([]byte, w*h*c)} }

// toRaster converts a decoded picture to grey or RGB, as PIL does for its modes L and RGB. It ignores transparency, so
// the colour of a transparent pixel does not change.
func toRaster(m image.Image) *raster {
	b := m.Bounds()
	switch m := m.(type) {
	case *image.Gray:
		r := newRaster(b.Dx(), b.Dy(), 1)
		for y := range r.h {
			copy(r.pix[y*r.w:], m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):][:r.w])
		}
		return r
	case *image.Paletted:
		for len(m.Palette) <= math.MaxUint8 { // an index beyond the file's palette is black, as in PIL
			m.Palette = append(m.Palette, color.NRGBA{A: math.MaxUint8})
		}
	}
	r := newRaster(b.Dx(), b.Dy(), 3)
	at := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r.pix[at], r.pix[at+1], r.pix[at+2] = rgb(m.At(x, y))
			at += 3
		}
	}
	return r
}

// rgb returns a colour without alpha. If a channel has 16 bits, rgb uses the upper 8 bits.
func rgb(c color.Color) (r, g, b byte) {
	switch c := c.(type) {
	case color.NRGBA: // color.Model would multiply by alpha, and the colour would be lost if alpha is 0
		return c.R, c.G, c.B
	case color.NRGBA64:
		return byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8)
	case color.NYCbCrA:
		return ycc(c.Y, c.Cb, c.Cr)
	case color.CMYK:
		// (255 - C) * (255 - K) / 255, rounded as in PIL.
		white := int(math.MaxUint8 - c.K)
		of := func(ink uint8) byte {
			t := int(ink)*white + 128
			return clip(white - (t>>8+t)>>8)
		}
		return of(c.C), of(c.M), of(c.Y)
	}
	n := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	return byte(n.R >> 8), byte(n.G >> 8), byte(n.B >> 8)
}

func clip(v int) byte { return byte(max(0, min(math.MaxUint8, v))) }

// channels returns the picture with c channels. It computes grey as ITU-R 601-2 luma, rounded as in PIL.
func (r *raster) channels(c int) *raster {
	if r.c == c {
		return r
	}
	out := newRaster(r.w, r.h, c)
	for i := range r.w * r.h {
		if c == 3 {
			out.pix[3*i], out.pix[3*i+1], out.pix[3*i+2] = r.pix[i], r.pix[i], r.pix[i]
			continue
		}
		p := r.pix[3*i:]
		out.pix[i] = byte((int(p[0])*19595 + int(p[1])*38470 + int(p[2])*7471 + 0x8000) >> 16)
	}
	return out
}

// turned returns the picture turned upright according to its EXIF orientation.
func (r *raster) turned(orientation int) *raster {
	if orientation < 2 || orientation > 8 {
		return r
	}
	w, h := r.w, r.h
	if orientation > 4 {
		w, h = h, w
	}
	out := newRaster(w, h, r.c)
	for y := range h {
		for x := range w {
			fx, fy := x, y
			if orientation > 4 {
				fx, fy = y, x
			}
			switch orientation { // mirror the coordinates in the stored picture
			case 2, 8:
				fx = r.w - 1 - fx
			case 3, 7:
				fx, fy = r.w-1-fx, r.h-1-fy
			case 4, 6:
				fy = r.h - 1 - fy
			}
			copy(out.pix[(y*w+x)*r.c:][:r.c], r.pix[(fy*r.w+fx)*r.c:])
		}
	}
	return out
}

// fit scales and crops a picture to the network's height and width.
func (r *raster) fit(in Shape, p Preprocess) *raster {
	if p.Fit != FitCrop {
		return r.resize(in.W, in.H, p.Filter)
	}
	w, h := in.W, in.H
	switch {
	case p.Resize > 0 && r.w <= r.h:
		w, h = p.Resize, p.Resize*r.h/r.w // torchvision's Resize rounds the longer side down
	case p.Resize > 0:
		w, h = p.Resize*r.w/r.h, p.Resize
	case in.W*r.h >= in.H*r.w:
		h = in.W * r.h / r.w
	default:
		w = in.H * r.w / r.h
	}
	return r.resize(w, h, p.Filter).centre(in.W, in.H)
}

// centre returns the middle part, as torchvision's CenterCrop does. A picture that is too small gets a black border.
func (r *raster) centre(w, h int) *raster {
	x, y := middle(r.w, w), middle(r.h, h)
	if x == 0 && y == 0 && r.w == w && r.h == h {
		return r
	}
	out := newRaster(w, h, r.c)
	for row := range h {
		from := row + y
		if from < 0 || from >= r.h {
			continue
		}
		first, last := max(0, -x), min(w, r.w-x)
		if first < last {
			copy(out.pix[(row*w+first)*r.c:(row*w+last)*r.c], r.pix[(from*r.w+first+x)*r.c:])
		}
	}
	return out
}

// middle returns the start of the middle part, which has `size` of `have` pixels. The start is negative if have < size.
func middle(have, size int) int {
	if have < size {
		return -((size - have) / 2)
	}
	return int(math.RoundToEven(float64(have-size) / 2)) // as Python's round
}

// resampling is a filter as in PIL. If the picture becomes smaller, the filter is widened by the scale.
type resampling struct {
	support float64
	weight  func(x float64) float64
}

var resamplings = map[string]resampling{
	Bilinear: {1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }},
	Bicubic: {2, func(x float64) float64 {
		const a = -0.5
		switch x = math.Abs(x); {
		case x < 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return (((x-5)*x+8)*x - 4) * a
		}
		return 0
	}},
}

// fraction is the number of fractional bits of a weight, as in PIL, so that results are rounded equally.
const fraction = 32 - 8 - 2

// span contains the weights for one pixel of the result. The field `from` is the index of the first source pixel.
type span struct {
	from    int
	weights []int32
}

// spans returns the weights for all pixels along one side. Its length is `from` before the scaling, and `to` after it.
func (s resampling) spans(from, to int) []span {
	scale := float64(from) / float64(to)
	wide := max(scale, 1)
	support := s.support * wide
	out := make([]span, to)
	for i := range out {
		centre := (float64(i) + 0.5) * scale
		first := max(0, int(centre-support+0.5))
		last := min(from, int(centre+support+0.5))
		weights, sum := make([]float64, last-first), 0.
		for k := range weights {
			weights[k] = s.weight((float64(k+first) - centre + 0.5) / wide)
			sum += weights[k]
		}
		out[i] = span{first, make([]int32, len(weights))}
		for k, v := range weights {
			if sum != 0 {
				v /= sum
			}
			out[i].weights[k] = int32(math.Round(v * (1 << fraction)))
		}
	}
	return out
}

// resize scales like PIL's Image.resize: first horizontally, then vertically. Both results are rounded to bytes.
func (r *raster) resize(w, h int, filter string) *raster {
	s := resamplings[filter]
	if s.weight == nil {
		s = resamplings[Bilinear]
	}
	if w = max(w, 1); w != r.w {
		r = r.along(s.spans(r.w, w), w, r.h, 1, 0)
	}
	if h = max(h, 1); h != r.h {
		r = r.along(s.spans(r.h, h), r.w, h, 0, 1)
	}
	return r
}

// along resamples a picture horizontally (dx is 1) or vertically (dy is 1).
func (r *raster) along(spans []span, w, h, dx, dy int) *raster {
	out := newRaster(w, h, r.c)
	step := (dx + dy*r.w) * r.c // distance in pix between the pixels of consecutive weights
	at := 0
	for y := range h {
		for x := range w {
			s := &spans[x*dx+y*dy]
			from := (x*dy + s.from*dx + (y*dx+s.from*dy)*r.w) * r.c
			for c := range r.c {
				sum, k := int32(1)<<(fraction-1), from+c
				for _, v := range s.weights {
					sum += int32(r.pix[k]) * v
					k += step
				}
				out.pix[at] = clip(int(sum >> fraction))
				at++
			}
		}
	}
	return out
}
