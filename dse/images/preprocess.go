package images

import (
	"encoding/json"
	"fmt"
	"math"
)

// Ways to fit an image to the network's input size.
const (
	FitCrop    = "crop"    // scale the shorter side to Resize and crop to the middle part, as in torchvision's evaluation
	FitStretch = "stretch" // scale both sides independently
)

// Filters for scaling, as in PIL: they are widened if the picture becomes smaller (antialiasing).
const (
	Bilinear = "bilinear"
	Bicubic  = "bicubic"
)

// Ways to handle a picture that is rotated or mirrored according to its EXIF data.
const (
	EXIFIgnore = "ignore" // use the stored pixels, as PIL and torchvision do
	EXIFTurn   = "turn"   // turn the picture upright, as OpenCV does
)

// maxResize limits Preprocess.Resize, in pixels.
const maxResize = 1 << 13

// Preprocess defines how pixels become a network's input. The zero value divides pixels by 255.
type Preprocess struct {
	Fit    string    `json:"fit,omitempty"`    // default: FitCrop
	Resize int       `json:"resize,omitempty"` // for FitCrop: length of the shorter side before cropping; 0: as small as the network's input allows
	Filter string    `json:"filter,omitempty"` // default: Bilinear
	EXIF   string    `json:"exif,omitempty"`   // default: EXIFIgnore
	Mean   []float64 `json:"mean,omitempty"`   // one number per channel, or one for all channels; for pixels from 0 to 1
	Std    []float64 `json:"std,omitempty"`
	Range  float64   `json:"range,omitempty"` // largest |x| of the input; 0: computed from Mean and Std
}

// For checks p for a network with c channels. It returns p with the defaults of missing fields.
func (p Preprocess) For(c int) (Preprocess, error) {
	if p.Fit == "" {
		p.Fit = FitCrop
	}
	if p.Fit != FitCrop && p.Fit != FitStretch {
		return p, fmt.Errorf("%w: fit is %q, expected %q or %q", ErrPreprocess, p.Fit, FitCrop, FitStretch)
	}
	switch p.Filter {
	case Bilinear:
		p.Filter = "" // so that Text returns the same text as for the default
	case "", Bicubic:
	default:
		return p, fmt.Errorf("%w: filter is %q, expected %q or %q", ErrPreprocess, p.Filter, Bilinear, Bicubic)
	}
	switch p.EXIF {
	case EXIFIgnore:
		p.EXIF = ""
	case "", EXIFTurn:
	default:
		return p, fmt.Errorf("%w: EXIF is %q, expected %q or %q", ErrPreprocess, p.EXIF, EXIFIgnore, EXIFTurn)
	}
	if p.Resize < 0 || p.Resize > maxResize || p.Resize > 0 && p.Fit != FitCrop {
		return p, fmt.Errorf("%w: resize is %d with fit %q, expected 1 to %d with %q", ErrPreprocess, p.Resize, p.Fit, maxResize, FitCrop)
	}
	if !(p.Range >= 0) || math.IsInf(p.Range, 0) {
		return p, fmt.Errorf("%w: the input's range is %v, expected a positive number", ErrPreprocess, p.Range)
	}
	for _, v := range []struct {
		name string
		list []float64
		most float64
	}{{"mean", p.Mean, 1}, {"std", p.Std, 2}} {
		if n := len(v.list); n > 1 && n != c {
			return p, fmt.Errorf("%w: %s has %d values, the network's input %d channels", ErrPreprocess, v.name, n, c)
		}
		for _, x := range v.list {
			switch {
			case math.IsNaN(x) || math.IsInf(x, 0) || v.name == "std" && x < 1e-6:
				return p, fmt.Errorf("%w: %s is %v, for pixels from 0 to 1", ErrPreprocess, v.name, x)
			case math.Abs(x) > v.most:
				return p, fmt.Errorf("%w: %s is %v, at most %v for pixels from 0 to 1; of pixels from 0 to 255 it is %.4g, which is that /255", ErrPreprocess, v.name, x, v.most, x/255)
			}
		}
	}
	return p, nil
}

// plain reports whether normalise leaves pixels unchanged.
func (p Preprocess) plain() bool { return len(p.Mean) == 0 && len(p.Std) == 0 }

func (p Preprocess) channel(c int) (mean, std float64) {
	of := func(list []float64, absent float64) float64 {
		switch len(list) {
		case 0:
			return absent
		case 1:
			return list[0]
		}
		return list[c]
	}
	return of(p.Mean, 0), of(p.Std, 1)
}

// InputRange returns Range if it is set. Otherwise it returns the largest |x| that a pixel can result in.
func (p Preprocess) InputRange(channels int) float64 {
	if p.Range > 0 {
		return p.Range
	}
	largest := 0.0
	for c := range channels {
		ends := []float32{0, 1}
		for i := range ends {
			ends[i] = p.one(ends[i], c) // with the same rounding as for pixels
		}
		largest = max(largest, math.Abs(float64(ends[0])), math.Abs(float64(ends[1])))
	}
	return largest
}

// normalise converts pixels between 0 and 1 to the network's input, in place. The channels are innermost.
func (p Preprocess) normalise(x []float32, channels int) {
	if p.plain() {
		return
	}
	for c := range channels {
		for i := c; i < len(x); i += channels {
			x[i] = p.one(x[i], c)
		}
	}
}

// Pixel returns the input value for a byte of channel c.
func (p Preprocess) Pixel(v uint8, c int) float32 {
	x := float32(v) / 255
	if p.plain() {
		return x
	}
	return p.one(x, c)
}

func (p Preprocess) one(x float32, c int) float32 {
	mean, std := p.channel(c)
	return float32((float64(x) - mean) / std)
}

// Text returns p as a text that ParsePreprocess can read.
func (p Preprocess) Text() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("preprocessing: %w", err)
	}
	return string(text), nil
}

// ParsePreprocess reads the output of Text, for a network with c channels.
func ParsePreprocess(text string, c int) (Preprocess, error) {
	var p Preprocess
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%w: %v", ErrPreprocess, err)
	}
	return p.For(c)
}
