package recipe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/images"
)

// Info is the information about the calibration images that a bundle records.
type Info struct {
	Preprocess images.Preprocess
	From       string   // source of the images: images, fashion-mnist or noise
	Images     int      // number of images
	Digest     string   // SHA-256 of the elements of the calibration inputs
	Floats     bool     // the files contained the network's input instead of pictures
	Bytes      bool     // the network's input is bytes, which the network itself normalises
	Missing    bool     // there were no images, so the ranges were determined from noise
	Classes    []string // names of the classes in the order of the logits; nil if unknown
	Logits     int      // number of classes of the last exit
}

// Keys of bundle.Meta.
const (
	keyFrom       = "calibration"
	keyImages     = "calibration_images"
	keyDigest     = "calibration_sha256"
	keyFloats     = "calibration_floats"
	keyBytes      = "input_bytes"
	keyPreprocess = "preprocess"
	keyClasses    = "classes" // with suffix .0, .1 ...: as many names as fit one value, one per line
)

// Warning is the warning in each output about a network without calibration images.
const Warning = "not calibrated: its ranges come from noise, so its results mean nothing; name images with --calibrate"

// Text returns a short description of the images from which the ranges were determined.
func (i *Info) Text() string {
	switch {
	case i.From == "":
		return "unknown"
	case i.Missing:
		return Warning
	}
	return fmt.Sprintf("%d images (%s), |input| up to %.4g", i.Images, i.From, i.Preprocess.Range)
}

// Fashion reports whether the images were from Fashion-MNIST. If so, its test set is the default for evaluation.
func (i *Info) Fashion() bool { return i.From == fashion }

func (i *Info) meta() (map[string]string, error) {
	text, err := i.Preprocess.Text()
	if err != nil {
		return nil, err
	}
	meta := map[string]string{
		keyFrom: i.From, keyImages: strconv.Itoa(i.Images), keyDigest: i.Digest, keyPreprocess: text,
	}
	if i.Floats {
		meta[keyFloats] = "true"
	}
	if i.Bytes {
		meta[keyBytes] = "true"
	}
	for n, chunk := range chunks(i.Classes) {
		meta[fmt.Sprintf("%s.%d", keyClasses, n)] = chunk
	}
	if len(meta) > bundle.MaxMeta-8 {
		return nil, fmt.Errorf("%w: the names of %d classes do not fit a bundle", ErrRecipe, len(i.Classes))
	}
	return meta, nil
}

// chunks joins names with line feeds to values. A value is not longer than the limit of bundle.Meta.
func chunks(names []string) []string {
	var out []string
	for _, name := range names {
		if last := len(out) - 1; last >= 0 && len(out[last])+1+len(name) <= classChunk {
			out[last] += "\n" + name
			continue
		}
		out = append(out, name)
	}
	return out
}

// Of reads the Info that a bundle records. From is empty for a bundle that this package did not create.
func Of(b *bundle.Bundle) (Info, error) {
	var i Info
	if n := len(b.Network.Exits); n > 0 {
		i.Logits = bundle.ClassesOf(b.Network.Exits[n-1].Classes)
	}
	if i.From = b.Meta[keyFrom]; b.Meta[keyPreprocess] == "" {
		i.From = ""
		return i, nil
	}
	i.Missing, i.Floats, i.Bytes, i.Digest = i.From == "noise", b.Meta[keyFloats] == "true", b.Meta[keyBytes] == "true", b.Meta[keyDigest]
	var err error
	if i.Images, err = strconv.Atoi(b.Meta[keyImages]); err != nil {
		return i, fmt.Errorf("%w: %s is %q", ErrRecipe, keyImages, b.Meta[keyImages])
	}
	if i.Preprocess, err = images.ParsePreprocess(b.Meta[keyPreprocess], b.Network.InC); err != nil {
		return i, err
	}
	for n := 0; ; n++ {
		chunk, ok := b.Meta[fmt.Sprintf("%s.%d", keyClasses, n)]
		if !ok {
			return i, nil
		}
		if i.Classes = append(i.Classes, strings.Split(chunk, "\n")...); len(i.Classes) > noClasses {
			return i, fmt.Errorf("%w: more than %d classes", ErrRecipe, noClasses)
		}
	}
}
