package images

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Limits for an array's header.
const (
	maxItems  = 1 << 21
	maxItem   = 1 << 26 // elements of one item
	maxHeader = 1 << 16 // bytes of a .npy header
	maxIDX    = 1 << 30 // bytes of items in an IDX file, which is read as a whole because it may be compressed
	ubyte     = 0x08
)

// array is a file of items that all have the same size.
type array struct {
	dims  []int // sizes; the first size is the number of items
	width int   // number of bytes per element
	kind  byte  // type of the elements: u (unsigned), f (float) or i (signed)
	item  int   // number of elements per item
	read  func(i int, data []byte) error
}

// openNPY opens an array that numpy.save wrote. Bytes are pixels, and floats are the network's input.
func openNPY(path string, in Shape, p Preprocess) (*Set, error) {
	a, err := npy(path)
	if err != nil {
		return nil, err
	}
	return a.set(path, in, p)
}

// openIDX reads images in the IDX format, which LeCun's MNIST uses.
func openIDX(path string, in Shape, p Preprocess) (*Set, error) {
	a, err := idx(path)
	if err != nil {
		return nil, err
	}
	return a.set(path, in, p)
}

// set interprets items as images: [N][H][W], [N][H][W][C] or [N][C][H][W]. It uses [N][C][H][W] if the array matches
// the network's input in both of the last two forms.
func (a *array) set(path string, in Shape, p Preprocess) (*Set, error) {
	if a.dims[0] < 1 {
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	shape, first := Shape{}, false
	switch d := a.dims; {
	case len(d) == 3:
		shape = Shape{d[1], d[2], 1}
	case len(d) == 4 && (d[1] == in.C || d[1] == 1 || d[1] == 3) && (d[3] != in.C || d[2] == in.H && d[3] == in.W):
		shape, first = Shape{d[2], d[3], d[1]}, true
	case len(d) == 4:
		shape = Shape{d[1], d[2], d[3]}
	default:
		return nil, fmt.Errorf("%s: %w: an array of rank %d, expected images x height x width (x channels)", path, ErrShape, len(a.dims))
	}
	floats := a.kind == 'f'
	if a.kind == 'i' || floats && shape != in || !floats && shape.C != 1 && shape.C != 3 && shape != in {
		return nil, fmt.Errorf("%s: %w: %v of %s%d, the network takes %v; bytes are resized, floats are not",
			path, ErrShape, shape, string(a.kind), 8*a.width, in)
	}
	s := &Set{Floats: floats, notes: map[string]string{}}
	for i := range a.dims[0] {
		s.names = append(s.names, fmt.Sprintf("%s, image %d", path, i))
	}
	s.read = func(i int) ([]float32, error) {
		data := make([]byte, a.item*a.width)
		if err := a.read(i, data); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrFormat, err)
		}
		x := make([]float32, a.item)
		for k := range x {
			to := k
			if first {
				pixels := shape.H * shape.W
				to = k%pixels*shape.C + k/pixels
			}
			x[to] = a.number(data, k)
		}
		switch {
		case floats:
			return x, nil
		case shape == in:
			p.normalise(x, in.C)
			return x, nil
		}
		return pixels(x, shape).input(in, p)
	}
	return s, nil
}

// number returns element k. It maps bytes to 0..1.
func (a *array) number(data []byte, k int) float32 {
	switch {
	case a.kind == 'u':
		return float32(data[k]) / 255
	case a.width == 2:
		return half(binary.LittleEndian.Uint16(data[2*k:]))
	case a.width == 8:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*k:])))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*k:]))
}

// half converts an IEEE 754 half. It converts infinities to NaN.
func half(h uint16) float32 {
	const magnitude, infinite = 0x7fff, 0x7c00
	if h&infinite == infinite {
		return float32(math.NaN())
	}
	return math.Float32frombits(uint32(h&^magnitude)<<16|uint32(h&magnitude)<<13) * 0x1p112 // the exponents' biases differ by 112
}

// pixels converts numbers between 0 and 1 to a picture.
func pixels(x []float32, s Shape) *raster {
	r := newRaster(s.W, s.H, s.C)
	for i, v := range x {
		r.pix[i] = uint8(math.Round(float64(v) * 255))
	}
	return r
}

func integers(path string) ([]int, error) {
	a, err := (*array)(nil), error(nil)
	if strings.HasSuffix(path, ".npy") {
		a, err = npy(path)
	} else {
		a, err = idx(path)
	}
	if err != nil {
		return nil, err
	}
	if len(a.dims) != 1 || a.kind == 'f' {
		return nil, fmt.Errorf("%s: %w: an array of rank %d of %s%d, expected a vector of integers", path, ErrLabels, len(a.dims), string(a.kind), 8*a.width)
	}
	labels := make([]int, a.dims[0])
	data := make([]byte, a.width)
	for i := range labels {
		if err := a.read(i, data); err != nil {
			return nil, fmt.Errorf("%s: %w: %v", path, ErrLabels, err)
		}
		switch a.width {
		case 1:
			labels[i] = int(data[0])
		case 4:
			labels[i] = int(int32(binary.LittleEndian.Uint32(data)))
		default:
			labels[i] = int(int64(binary.LittleEndian.Uint64(data)))
		}
	}
	return labels, nil
}

var (
	npyDescr   = regexp.MustCompile(`'descr':\s*'([^']*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape':\s*\(([0-9, ]*)\)`)
)

var npyTypes = map[string]struct {
	kind  byte
	width int
}{"|u1": {'u', 1}, "<f2": {'f', 2}, "<f4": {'f', 4}, "<f8": {'f', 8}, "<i4": {'i', 4}, "<i8": {'i', 8}}

// npy reads the header of NumPy's format 1, 2 or 3. The items are read from the file later.
func npy(path string) (*array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	defer f.Close()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %w", path, ErrFormat, fmt.Errorf(format, args...))
	}
	r := bufio.NewReader(f)
	head := make([]byte, 8)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:6]) != "\x93NUMPY" || head[6] < 1 || head[6] > 3 {
		return nil, bad("it does not begin as numpy.save begins a file")
	}
	size, begin := 2, int64(10)
	if head[6] > 1 {
		size, begin = 4, 12
	}
	field := make([]byte, 4)
	if _, err := io.ReadFull(r, field[:size]); err != nil {
		return nil, bad("the header's length: %v", err)
	}
	length := binary.LittleEndian.Uint32(field)
	if length > maxHeader {
		return nil, bad("a header of %d bytes, at most %d", length, maxHeader)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, bad("the header: %v", err)
	}
	descr, fortran, shape := npyDescr.FindSubmatch(header), npyFortran.FindSubmatch(header), npyShape.FindSubmatch(header)
	if descr == nil || fortran == nil || shape == nil {
		return nil, bad("the header is %.80q, expected descr, fortran_order and shape", header)
	}
	if string(fortran[1]) != "False" {
		return nil, bad("the array is in Fortran's order, expected C's (numpy.ascontiguousarray)")
	}
	kind, ok := npyTypes[string(descr[1])]
	if !ok {
		return nil, bad("elements are %q, expected uint8 (|u1), float16 (<f2), float32 (<f4) or float64 (<f8)", descr[1])
	}
	a := &array{kind: kind.kind, width: kind.width}
	for text := range strings.SplitSeq(string(shape[1]), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, bad("shape (%s)", shape[1])
		}
		a.dims = append(a.dims, n)
	}
	if err := a.check(); err != nil {
		return nil, bad("%w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	begin += int64(length)
	stride := int64(a.item) * int64(a.width)
	if want := begin + stride*int64(a.dims[0]); info.Size() != want {
		return nil, bad("%d bytes, shape (%s) of %s needs %d", info.Size(), shape[1], descr[1], want)
	}
	a.read = func(i int, data []byte) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.ReadAt(data, begin+stride*int64(i))
		return err
	}
	return a, nil
}

// check limits the dimensions and computes the number of elements of an item.
func (a *array) check() error {
	if len(a.dims) < 1 || len(a.dims) > 4 {
		return fmt.Errorf("rank %d, expected 1 to 4", len(a.dims))
	}
	if a.dims[0] > maxItems {
		return fmt.Errorf("%d items, at most %d", a.dims[0], maxItems)
	}
	a.item = 1
	for i, d := range a.dims[1:] {
		if d < 1 || d > maxItem/a.item {
			return fmt.Errorf("dimension %d of %v: expected 1 or more and at most %d elements an item", i+1, a.dims, maxItem)
		}
		a.item *= d
	}
	return nil
}

// idx reads a whole IDX file of bytes.
func idx(path string) (*array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	defer f.Close()
	data, dims, err := ParseIDX(f, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &array{dims: dims, kind: 'u', width: 1}
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	a.read = func(i int, to []byte) error {
		copy(to, data[i*a.item:])
		return nil
	}
	return a, nil
}

// ParseIDX reads the first max items (max 0: all) of an IDX file of unsigned bytes, which may be gzip-compressed. It
// also returns the sizes in the header. The file must have the given rank; 0 allows ranks from 1 to 4.
func ParseIDX(r io.Reader, rank, max int) ([]byte, []int, error) {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(2) // a shorter file causes an error below
	var z io.Reader = b
	if string(magic) == "\x1f\x8b" {
		gz, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: not gzip: %v", ErrFormat, err)
		}
		z = gz
	}
	header := make([]byte, 4, 20)
	if _, err := io.ReadFull(z, header); err != nil {
		return nil, nil, fmt.Errorf("%w: the header of an IDX file: %v", ErrFormat, err)
	}
	if header[0]|header[1] != 0 || header[2] != ubyte || rank > 0 && int(header[3]) != rank || header[3] < 1 || header[3] > 4 {
		want := "1 to 4"
		if rank > 0 {
			want = strconv.Itoa(rank)
		}
		return nil, nil, fmt.Errorf("%w: it begins with % x, expected an IDX file of unsigned bytes of rank %s", ErrFormat, header[:4], want)
	}
	rank = int(header[3])
	header = header[:4+4*rank]
	if _, err := io.ReadFull(z, header[4:]); err != nil {
		return nil, nil, fmt.Errorf("%w: the header of an IDX file: %v", ErrFormat, err)
	}
	dims, item := make([]int, rank), 1
	for i := range dims {
		v, limit := binary.BigEndian.Uint32(header[4+4*i:]), uint32(maxItems)
		if i > 0 {
			limit = uint32(maxItem / item)
		}
		if v < 1 || v > limit {
			return nil, nil, fmt.Errorf("%w: size %d is %d, expected 1 to %d", ErrFormat, i, v, limit)
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
	if n > maxIDX/item {
		return nil, nil, fmt.Errorf("%w: %d items of %d bytes, at most %d bytes are read", ErrFormat, n, item, maxIDX)
	}
	// The memory grows with the data that are read, so a header cannot request more memory than the file's data need.
	data, err := io.ReadAll(io.LimitReader(z, int64(n)*int64(item)))
	if err == nil && len(data) < n*item {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %d of %d bytes: %v", ErrFormat, len(data), n*item, err)
	}
	if n == dims[0] {
		// Reading to the end also verifies the checksum.
		if extra, err := io.Copy(io.Discard, io.LimitReader(z, 1)); extra > 0 || err != nil {
			return nil, nil, fmt.Errorf("%w: more data than the header's %v says, or a wrong checksum: %v", ErrFormat, dims, err)
		}
	}
	return data, dims, nil
}

// labelsBeside returns the path of the labels for an IDX file of images. It uses the file names of the MNIST sets. It
// returns "" if there is no such file.
func labelsBeside(path string) string {
	name := filepath.Base(path)
	beside := strings.NewReplacer("-images-idx3-", "-labels-idx1-", "-images.idx3-", "-labels.idx1-").Replace(name)
	if beside == name {
		return ""
	}
	beside = filepath.Join(filepath.Dir(path), beside)
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}
