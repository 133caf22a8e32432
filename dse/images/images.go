// Package images reads images as inputs of a network: H x W x C float32, resized and normalised as in the network's
// training. It also reads the classes of the images if they are known.
//
// A source is one of these: a folder of JPEG, PNG, WebP and BMP files, at any depth; a .npy array of bytes or of
// floats; an IDX file of bytes, which may be gzip-compressed. Bytes are pixels p, and become x = (p/255 - mean) / std.
// Floats are not changed.
//
// Files are untrusted: sizes are checked before memory is allocated. Errors wrap a sentinel below and name the file.
// Images are read on demand, so a set may be larger than memory. Several goroutines may read from a set.
package images

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Errors of Open and Image.
var (
	ErrFormat     = errors.New("not a readable image or array")
	ErrEmpty      = errors.New("there are no images")
	ErrShape      = errors.New("images of another shape than the network's input")
	ErrLabels     = errors.New("the labels are wrong")
	ErrPreprocess = errors.New("the preprocessing is wrong")
)

// Shape is the shape of a network's input.
type Shape struct{ H, W, C int }

// Elems returns the number of elements of an input.
func (s Shape) Elems() int { return s.H * s.W * s.C }

func (s Shape) String() string { return fmt.Sprintf("%d x %d x %d (H x W x C)", s.H, s.W, s.C) }

// Options select the source of the images' classes, and limit the number of images.
type Options struct {
	// Labels selects the source of classes: "none", "folders", "numbers" (the folders' names are numbers of classes), or a
	// file. A CSV file has a header with the columns file and label. A .npy or IDX file has one label per image, in the
	// order of the images. With "", the source is class folders if the images are in folders. Otherwise it is the file of
	// labels of an IDX data set, if that exists.
	Labels string
	// Classes are the names of the classes in the order of the network's logits. If Classes is nil, class folders are
	// numbered in the order of their names.
	Classes []string
	// Logits is the number of classes of the network, or 0 if unknown. If the number of folders differs, their order
	// cannot be the order of the logits. Then the folders are an error if Labels is "folders", and ignored if it is "".
	Logits int
	// Max is the maximum number of images, drawn from all parts of the list; 0: all. The choice is always the same.
	Max int
}

// Set is a list of images.
type Set struct {
	Labels  []int    // class of each image; nil if unknown
	Classes []string // names of the classes; nil if the classes have no names
	Floats  bool     // the file contains the network's input instead of pixels

	names []string // name of each image, for messages
	order []int    // indices of images in the source, in the set's order
	left  []int    // indices of images that were not used because of Max
	read  func(i int) ([]float32, error)
	dirs  []string // subfolders of the folder of images, sorted by name

	channels int
	channel  func(c int) (mean, std float64) // mean and std that convert pixels of channel c to inputs; nil if the images are not colour pictures

	mu     sync.Mutex        // guards the fields below
	seen   map[uint64]bool   // hashes (values) of the images
	blank  int               // number of images with a single value throughout
	grey   int               // number of colour pictures without colours
	apart  float64           // largest mean difference between the first image and another image, as a share of the largest |x|
	turned []byte            // EXIF orientation of each picture that was read; 0 if the orientation is 1
	turns  int               // number of pictures with another orientation than 1
	first  int               // index of the first of these pictures
	notes  map[string]string // notes to the user, by kind
}

// note records a note to the user about the images. A note replaces an earlier one of the same kind.
func (s *Set) note(kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[kind] = text
}

// Notes returns notes to the user about unusual properties of the images that were read so far.
func (s *Set) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.notes))
}

// Len returns the number of images.
func (s *Set) Len() int { return len(s.order) }

// Name returns a name that identifies image i.
func (s *Set) Name(i int) string { return s.names[s.order[i]] }

// Image reads image i as H x W x C, channels innermost.
func (s *Set) Image(i int) ([]float32, error) {
	x, err := s.read(s.order[i])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(i), err)
	}
	for k, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%s: %w: element %d is %v", s.Name(i), ErrFormat, k, v)
		}
	}
	return x, nil
}

// Digest returns a hash of the network's inputs for all images, independent of file names, and the largest |x|.
func (s *Set) Digest() (string, float64, error) {
	h, largest, seen, blank, grey := sha256.New(), 0.0, map[uint64]bool{}, 0, 0
	var first []float32
	apart := 0.0
	for i := range s.Len() {
		x, err := s.Image(i)
		if err != nil {
			return "", 0, err
		}
		if i == 0 {
			first = x
		}
		sum := 0.0
		for k, v := range x {
			sum += math.Abs(float64(v) - float64(first[k]))
		}
		apart = max(apart, sum/float64(len(x)))
		for _, v := range x {
			largest = max(largest, math.Abs(float64(v)))
		}
		if err := digest(h, x); err != nil {
			return "", 0, err
		}
		if seen[values(x)] = true; s.oneColour(x) {
			blank++
		}
		if s.colourless(x) {
			grey++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.blank, s.grey = seen, blank, grey
	if largest > 0 {
		s.apart = apart / largest
	}
	return hex.EncodeToString(h.Sum(nil)), largest, nil
}

// values returns a hash that does not depend on the order of an image's values. So a rotated or mirrored picture has
// the same hash.
func values(x []float32) (sum uint64) {
	for _, v := range x {
		h := uint64(math.Float32bits(v)) + 0x9e3779b97f4a7c15 // the finaliser of MurmurHash3
		h = (h ^ h>>33) * 0xff51afd7ed558ccd
		h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
		sum += h ^ h>>33
	}
	return sum
}

// oneColour reports whether an image has several pixels, and all of them have the same colour.
func (s *Set) oneColour(x []float32) bool {
	for i, v := range x {
		if v != x[i%max(s.channels, 1)] {
			return false
		}
	}
	return len(x) > s.channels
}

// colourless reports whether the three channels of each pixel differ by at most one grey level.
func (s *Set) colourless(x []float32) bool {
	const level = 1. / 255
	if s.channel == nil {
		return false
	}
	for i := 0; i < len(x); i += 3 {
		least, most := math.Inf(1), math.Inf(-1)
		for c, v := range x[i : i+3] {
			mean, std := s.channel(c)
			pixel := float64(v)*std + mean
			least, most = min(least, pixel), max(most, pixel)
		}
		if most-least > level {
			return false
		}
	}
	return true
}

// Dull returns the number of images with a single colour, such as black images. It also returns the number of RGB
// pictures that contain only grey. Both numbers are 0 before Digest is called.
func (s *Set) Dull() (blank, grey int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blank, s.grey
}

// Distinct returns the number of images with different values (in any order); 0 before Digest is called.
func (s *Set) Distinct() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// Saw reports whether an image of the set has the values of x in any order. It returns false before Digest is called.
func (s *Set) Saw(x []float32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[values(x)]
}

// Apart returns the largest difference between the first image and another image; 0 before Digest is called. A
// difference is averaged over the elements, and is a share of the largest element of all images.
func (s *Set) Apart() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apart
}

func digest(h hash.Hash, x []float32) error {
	if err := binary.Write(h, binary.LittleEndian, x); err != nil {
		return fmt.Errorf("hash images: %w", err)
	}
	return nil
}

// Open lists the images at path, a folder or a file. Pictures and the items of a .npy array are read later.
func Open(path string, in Shape, p Preprocess, o Options) (*Set, error) {
	if in.H < 1 || in.W < 1 || in.C < 1 {
		return nil, fmt.Errorf("%w: %v", ErrShape, in)
	}
	p, err := p.For(in.C)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var s *Set
	switch {
	case info.IsDir():
		s, err = openFolder(path, in, p)
	case isPicture(path):
		s, err = openFiles([]string{path}, in, p), nil
	case strings.HasSuffix(path, ".npy"):
		s, err = openNPY(path, in, p)
	case isOther(path):
		return nil, fmt.Errorf("%s: %w: expected a %s file, a .npy or an IDX file", path, ErrFormat, pictureFiles)
	default:
		s, err = openIDX(path, in, p)
	}
	if err != nil {
		return nil, err
	}
	if s.channels = in.C; in.C == 3 && !s.Floats {
		s.channel = p.channel
	}
	s.order = make([]int, len(s.names))
	for i := range s.order {
		s.order[i] = i
	}
	if err := s.label(path, info.IsDir(), o); err != nil {
		return nil, err
	}
	s.spread(o.Max)
	return s, nil
}

// OpenFiles opens single pictures, without classes.
func OpenFiles(paths []string, in Shape, p Preprocess) (*Set, error) {
	p, err := p.For(in.C)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, ErrEmpty
	}
	for _, path := range paths {
		if !isPicture(path) {
			if info, err := os.Stat(path); len(paths) > 1 && (err == nil && info.IsDir() || filepath.Ext(path) == ".npy") {
				return nil, fmt.Errorf("%s: %w: expected it alone, or %s files", path, ErrFormat, pictureFiles)
			}
			return nil, fmt.Errorf("%s: %w: expected a %s file", path, ErrFormat, pictureFiles)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	s := openFiles(paths, in, p)
	for i := range s.names {
		s.order = append(s.order, i)
	}
	return s, nil
}

// Of returns a set of inputs that are in memory.
func Of(name string, inputs [][]float32, labels []int) *Set {
	s := &Set{Labels: labels, notes: map[string]string{}, read: func(i int) ([]float32, error) { return inputs[i], nil }}
	for i := range inputs {
		s.names = append(s.names, fmt.Sprintf("%s, image %d", name, i))
		s.order = append(s.order, i)
	}
	return s
}

// spread selects n images: one random image from each of n equal parts of the list. So sorted class folders remain
// represented, and periodic patterns in the list have no effect.
func (s *Set) spread(n int) {
	have := len(s.order)
	if n < 1 || n >= have {
		return
	}
	rng, all, labels := rand.New(rand.NewPCG(uint64(have), uint64(n))), s.order, s.Labels
	s.order, s.Labels = nil, nil
	for i := range n {
		from, to := i*have/n, (i+1)*have/n
		at := from + rng.IntN(to-from)
		s.order = append(s.order, all[at])
		s.left = append(append(s.left, all[from:at]...), all[at+1:to]...)
		if labels != nil {
			s.Labels = append(s.Labels, labels[at])
		}
	}
}

// Left returns the images that were not used because of Options.Max, without classes; nil if all images were used.
func (s *Set) Left() *Set {
	if len(s.left) == 0 {
		return nil
	}
	return &Set{Floats: s.Floats, names: s.names, order: s.left, read: s.read, channels: s.channels, channel: s.channel, notes: map[string]string{}}
}
