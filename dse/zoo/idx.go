package zoo

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// DefaultData is where Debian's package dataset-fashion-mnist puts the images.
const DefaultData = "/usr/share/datasets/fashion-mnist"

// What ReadIDX and FashionMNIST refuse.
var (
	ErrIDX         = errors.New("not a complete IDX file")
	ErrDataMissing = errors.New("the data set is missing")
)

// Bounds of an IDX file: far above Fashion-MNIST's 60,000 images of 28 x 28.
const (
	maxItems  = 1 << 20
	maxPixels = 1 << 20 // of one image
	maxBytes  = 1 << 30 // of what is read
	ubyte     = 0x08
)

// Images are grey images with their classes.
type Images struct {
	H, W   int
	Pixels [][]float32 // by image: H x W x 1, from 0 to 1
	Labels []int
}

// FashionMNIST reads the first max images (all where max is 0) of Fashion-MNIST's test set, or of
// its training set, from the folder dir (DefaultData where empty).
func FashionMNIST(dir string, train bool, max int) (*Images, error) {
	if dir == "" {
		dir = DefaultData
	}
	prefix := "t10k"
	if train {
		prefix = "train"
	}
	return ReadIDX(filepath.Join(dir, prefix+"-images-idx3-ubyte.gz"), filepath.Join(dir, prefix+"-labels-idx1-ubyte.gz"), max)
}

// ReadIDX reads the first max images (all where max is 0) and their labels from two
// gzip-compressed IDX files.
func ReadIDX(images, labels string, max int) (*Images, error) {
	pixels, dims, err := readIDX(images, 3, max)
	if err != nil {
		return nil, err
	}
	classes, n, err := readIDX(labels, 1, max)
	if err != nil {
		return nil, err
	}
	if dims[0] != n[0] {
		return nil, fmt.Errorf("%s: %w: %d labels for the %d images of %s", labels, ErrIDX, n[0], dims[0], images)
	}
	read := &Images{H: dims[1], W: dims[2], Labels: make([]int, len(classes))}
	size := read.H * read.W
	all := make([]float32, len(pixels))
	for i, p := range pixels {
		all[i] = float32(p) / 255
	}
	for i, c := range classes {
		read.Labels[i] = int(c)
		read.Pixels = append(read.Pixels, all[i*size:(i+1)*size:(i+1)*size])
	}
	return read, nil
}

// readIDX reads the first max items of a file whose header must have the given rank, and returns
// the header's sizes.
func readIDX(path string, rank, max int) ([]byte, []int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %s; install the package dataset-fashion-mnist", ErrDataMissing, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("images: %w", err)
	}
	defer f.Close()
	data, dims, err := parseIDX(f, rank, max)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, dims, nil
}

func parseIDX(r io.Reader, rank, max int) ([]byte, []int, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: not gzip: %v", ErrIDX, err)
	}
	header := make([]byte, 4+4*rank)
	if _, err := io.ReadFull(z, header); err != nil {
		return nil, nil, fmt.Errorf("%w: the header: %v", ErrIDX, err)
	}
	if header[0]|header[1] != 0 || header[2] != ubyte || int(header[3]) != rank {
		return nil, nil, fmt.Errorf("%w: it begins with % x, expected unsigned bytes of rank %d", ErrIDX, header[:4], rank)
	}
	dims, item := make([]int, rank), 1
	for i := range dims {
		v := binary.BigEndian.Uint32(header[4+4*i:])
		limit := uint32(maxItems)
		if i > 0 {
			limit = uint32(maxPixels / item)
		}
		if v < 1 || v > limit {
			return nil, nil, fmt.Errorf("%w: size %d is %d, expected 1 to %d", ErrIDX, i, v, limit)
		}
		dims[i] = int(v)
		if i > 0 {
			item *= int(v)
		}
	}
	n := dims[0]
	if max > 0 {
		n = min(n, max)
	}
	if n > maxBytes/item {
		return nil, nil, fmt.Errorf("%w: %d items of %d bytes, at most %d bytes are read", ErrIDX, n, item, maxBytes)
	}
	// Reading grows with what is there, so a header cannot ask for memory that the file does not fill.
	data, err := io.ReadAll(io.LimitReader(z, int64(n)*int64(item)))
	if err == nil && len(data) < n*item {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %d of %d bytes: %v", ErrIDX, len(data), n*item, err)
	}
	if n == dims[0] {
		// Reading on to the end also verifies the checksum.
		if extra, err := io.Copy(io.Discard, io.LimitReader(z, 1)); extra > 0 || err != nil {
			return nil, nil, fmt.Errorf("%w: more data than the header's %v says, or a wrong checksum: %v", ErrIDX, dims, err)
		}
	}
	return data, dims, nil
}
