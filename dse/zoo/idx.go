package zoo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/images"
)

// DefaultData is the folder of Debian's package dataset-fashion-mnist.
const DefaultData = "/usr/share/datasets/fashion-mnist"

// Errors of ReadIDX and FashionMNIST.
var (
	ErrIDX         = images.ErrFormat
	ErrDataMissing = errors.New("the data set is missing")
)

// Images are grey images with their classes.
type Images struct {
	H, W   int
	Pixels [][]float32 // pixels of each image, H x W x 1, from 0 to 1
	Labels []int
}

// FashionMNIST reads the first max images (0: all) from the folder dir ("": DefaultData). It reads the training set if
// train is set, and otherwise the test set.
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

// ReadIDX reads the first max images (0: all) and their labels from two gzip-compressed IDX files.
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

// readIDX reads the first max images or labels from an IDX file of the given rank. It also returns the header's sizes.
func readIDX(path string, rank, max int) ([]byte, []int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %s; install the package dataset-fashion-mnist", ErrDataMissing, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("images: %w", err)
	}
	defer f.Close()
	data, dims, err := images.ParseIDX(f, rank, max)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, dims, nil
}
