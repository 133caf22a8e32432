package images

import (
	"bufio"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // decoders
	_ "image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/image/draw"
)

const (
	maxPixels = 64 << 20 // of one picture
	maxFiles  = 1 << 21  // of a folder
)

// openFolder lists the pictures below a folder in the order of their paths.
func openFolder(dir string, in Shape, p Preprocess) (*Set, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && isPicture(path) {
			paths = append(paths, path)
		}
		if len(paths) > maxFiles {
			return fmt.Errorf("%s: more than %d images", dir, maxFiles)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: %w: expected JPEG or PNG files in it or in its folders", dir, ErrEmpty)
	}
	slices.Sort(paths)
	return openFiles(paths, in, p), nil
}

func openFiles(paths []string, in Shape, p Preprocess) *Set {
	return &Set{names: paths, read: func(i int) ([]float32, error) { return readPicture(paths[i], in, p) }}
}

// readPicture decodes a file to the network's input.
func readPicture(path string, in Shape, p Preprocess) ([]float32, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, _, err := image.DecodeConfig(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	if head.Width < 1 || head.Height < 1 || head.Width > maxPixels/head.Height {
		return nil, fmt.Errorf("%w: %d x %d pixels, at most %d are read", ErrFormat, head.Width, head.Height, maxPixels)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	m, _, err := image.Decode(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return fromImage(m, in, p)
}

// fromImage brings a picture to the network's shape and numbers. Transparency is dropped, not blended.
func fromImage(m image.Image, in Shape, p Preprocess) ([]float32, error) {
	if in.C != 1 && in.C != 3 {
		return nil, fmt.Errorf("%w: a picture has one channel or three, the network takes %v", ErrShape, in)
	}
	m = resize(opaque(m), in, p)
	b := m.Bounds()
	x := make([]float32, in.Elems())
	for h := range in.H {
		for w := range in.W {
			r, g, bl, _ := m.At(b.Min.X+w, b.Min.Y+h).RGBA()
			at := (h*in.W + w) * in.C
			if in.C == 3 {
				x[at], x[at+1], x[at+2] = float32(r)/math.MaxUint16, float32(g)/math.MaxUint16, float32(bl)/math.MaxUint16
				continue
			}
			// ITU-R 601-2 luma, as PIL and torchvision have it.
			x[at] = float32((0.299*float64(r) + 0.587*float64(g) + 0.114*float64(bl)) / math.MaxUint16)
		}
	}
	p.normalise(x, in.C)
	return x, nil
}

// opaque copies a picture without its alpha channel.
func opaque(m image.Image) image.Image {
	if _, grey := m.(*image.Gray); grey {
		return m
	}
	if o, ok := m.(interface{ Opaque() bool }); ok && o.Opaque() {
		return m
	}
	b := m.Bounds()
	flat := image.NewNRGBA64(b)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			var c color.NRGBA64
			switch at := m.At(x, y).(type) {
			case color.NRGBA: // the model would multiply with alpha, and lose the colour where that is 0
				c = color.NRGBA64{R: 0x101 * uint16(at.R), G: 0x101 * uint16(at.G), B: 0x101 * uint16(at.B)}
			case color.NRGBA64:
				c = at
			default:
				c = color.NRGBA64Model.Convert(at).(color.NRGBA64)
			}
			c.A = math.MaxUint16
			flat.SetNRGBA64(x, y, c)
		}
	}
	return flat
}

// resize scales and cuts a picture to the network's height and width, bilinear and averaging where it
// shrinks (as PIL does).
func resize(m image.Image, in Shape, p Preprocess) image.Image {
	b := m.Bounds()
	from := b
	if p.Fit == FitCrop {
		// The part of the picture that the network sees: what the middle of H x W covers after the
		// shorter side has been scaled to Resize.
		side := p.Resize
		scale := 0.0
		if side > 0 {
			scale = float64(side) / float64(min(b.Dx(), b.Dy()))
		} else {
			scale = max(float64(in.W)/float64(b.Dx()), float64(in.H)/float64(b.Dy()))
		}
		w, h := int(math.Round(float64(b.Dx())*scale)), int(math.Round(float64(b.Dy())*scale))
		whole := image.NewRGBA64(image.Rect(0, 0, max(w, 1), max(h, 1)))
		if w == b.Dx() && h == b.Dy() {
			draw.Draw(whole, whole.Bounds(), m, b.Min, draw.Src)
		} else {
			draw.BiLinear.Scale(whole, whole.Bounds(), m, b, draw.Src, nil)
		}
		// Black where Resize is smaller than the network.
		out := image.NewRGBA64(image.Rect(0, 0, in.W, in.H))
		draw.Draw(out, out.Bounds(), image.NewUniform(color.Black), image.Point{}, draw.Src)
		at := image.Pt((in.W-w)/2, (in.H-h)/2)
		draw.Draw(out, whole.Bounds().Add(at), whole, image.Point{}, draw.Src)
		return out
	}
	if from.Dx() == in.W && from.Dy() == in.H {
		return m
	}
	out := image.NewRGBA64(image.Rect(0, 0, in.W, in.H))
	draw.BiLinear.Scale(out, out.Bounds(), m, from, draw.Src, nil)
	return out
}
