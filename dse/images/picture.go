package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/png" // decoder for image.Decode
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

const (
	maxPixels  = 64 << 20  // pixels of one picture
	maxPicture = 256 << 20 // bytes of a picture's file
	maxFiles   = 1 << 21   // pictures in a folder
	maxDepth   = 32        // levels of nested folders
)

// File extensions of readable pictures, and of other common formats.
var (
	readable = []string{".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".bmp", ".webp"}
	others   = []string{".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".dng", ".cr2", ".nef"}
)

const pictureFiles = "JPEG, PNG, WebP or BMP"

func isPicture(path string) bool {
	return slices.Contains(readable, strings.ToLower(filepath.Ext(path)))
}

func isOther(path string) bool { return slices.Contains(others, strings.ToLower(filepath.Ext(path))) }

// hidden reports whether a file or folder does not belong to a set, for example .git, .ipynb_checkpoints or ._cat.jpg.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// folder lists the content of a folder of pictures.
type folder struct {
	files  []string // pictures of readable formats, sorted
	others []string // other pictures
	dirs   []string // names of the subfolders, sorted; they may be names of classes
}

// walk lists a folder and its subfolders. It follows links, because class folders are often links.
func (f *folder) walk(dir string, above []string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if slices.Contains(above, real) || len(above) > maxDepth {
		return fmt.Errorf("%s: a link leads back to a folder above, or folders lie more than %d deep", dir, maxDepth)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if hidden(e.Name()) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			if len(above) == 0 {
				f.dirs = append(f.dirs, e.Name())
			}
			if err := f.walk(path, append(above, real)); err != nil {
				return err
			}
		case isPicture(path):
			f.files = append(f.files, path)
		case isOther(path):
			f.others = append(f.others, path)
		}
		if len(f.files) > maxFiles {
			return fmt.Errorf("%s: more than %d images", dir, maxFiles)
		}
	}
	return nil
}

// openFolder lists the pictures below a folder, sorted by path.
func openFolder(dir string, in Shape, p Preprocess) (*Set, error) {
	var f folder
	if err := f.walk(dir, nil); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	if len(f.files) == 0 {
		var unread string
		if len(f.others) > 0 {
			unread = fmt.Sprintf("; %s and such are not read, convert them", filepath.Base(f.others[0]))
		}
		return nil, fmt.Errorf("%s: %w: expected %s files in it or in its folders%s", dir, ErrEmpty, pictureFiles, unread)
	}
	slices.Sort(f.files)
	s := openFiles(f.files, in, p)
	s.dirs = f.dirs
	if n := len(f.others); n > 0 {
		s.note("unread", fmt.Sprintf("%d of %d pictures are left out (%s is the first): only %s files are read; convert them", n, n+len(f.files), f.others[0], pictureFiles))
	}
	return s, nil
}

func openFiles(paths []string, in Shape, p Preprocess) *Set {
	s := &Set{names: paths, turned: make([]byte, len(paths)), notes: map[string]string{}}
	s.read = func(i int) ([]float32, error) {
		r, orientation, err := readPicture(paths[i])
		if err != nil {
			return nil, err
		}
		if s.turn(i, orientation, p.EXIF); p.EXIF == EXIFTurn {
			r = r.turned(orientation)
		}
		return r.input(in, p)
	}
	return s
}

// readPicture decodes a file. It also returns the EXIF orientation.
func readPicture(path string) (*raster, int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPicture+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxPicture {
		return nil, 0, fmt.Errorf("%w: more than %d bytes", ErrFormat, maxPicture)
	}
	r, err := decode(data)
	return r, orientation(data), err
}

// decode decodes a picture. The first bytes determine the format.
func decode(data []byte) (*raster, error) {
	if bytes.HasPrefix(data, []byte("\xff\xd8")) {
		r, err := decodeJPEG(data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return r, nil
	}
	head, kind, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; expected a %s file", ErrFormat, named(data, err), pictureFiles)
	}
	if err := checkSize(head.Width, head.Height); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if kind == "webp" {
		m, err := webp.Decode(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, named(data, err))
		}
		return fromWebP(m), nil
	}
	m, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, named(data, err))
	}
	if g, ok := m.(*image.Gray16); ok {
		return nil, fmt.Errorf("%w: grey of 16 bits, which loaders read differently (cut at 255, or scaled); convert it to 8 bits, or to a .npy file of floats: its size is %v", ErrFormat, g.Bounds().Size())
	}
	return toRaster(m), nil
}

func checkSize(w, h int) error {
	if w < 1 || h < 1 || w > maxPixels/h {
		return fmt.Errorf("%d x %d pixels, at most %d are read", w, h, maxPixels)
	}
	return nil
}

// named returns an error that names the format of an unsupported file. For an unknown format, it returns err.
func named(data []byte, err error) error {
	begins := func(at int, text string) bool {
		return len(data) >= at+len(text) && string(data[at:at+len(text)]) == text
	}
	kind := ""
	switch {
	case begins(0, "GIF8"):
		kind = "a GIF file"
	case begins(0, "II*\x00") || begins(0, "MM\x00*"):
		kind = "a TIFF file"
	case begins(4, "ftypavi"):
		kind = "an AVIF file"
	case begins(4, "ftyp"):
		kind = "a HEIC file or a video"
	case begins(0, "RIFF") && begins(8, "WEBP"):
		if len(data) > 20 && begins(12, "VP8X") && data[20]&2 != 0 {
			kind = "an animated WebP file"
		}
	case begins(0, "<svg") || begins(0, "<?xml") || begins(0, "<!DOC") || begins(0, "<html"):
		kind = "a text of XML or HTML (a download that failed?)"
	case begins(0, "version https://git-lfs"):
		kind = "a pointer of Git LFS, whose file is not here (git lfs pull)"
	case len(data) == 0:
		kind = "an empty file"
	case errors.Is(err, bmp.ErrUnsupported):
		return errors.New("it is a BMP file of 16 bits a pixel, with masks, compressed or of OS/2, which are not read; convert it to PNG")
	}
	if kind == "" || !errors.Is(err, image.ErrFormat) && !strings.HasPrefix(kind, "an animated") {
		return err
	}
	return errors.New("it is " + kind)
}

func (r *raster) input(in Shape, p Preprocess) ([]float32, error) {
	if in.C != 1 && in.C != 3 {
		return nil, fmt.Errorf("%w: a picture has one channel or three, the network takes %v", ErrShape, in)
	}
	r = r.channels(in.C).fit(in, p)
	x := make([]float32, in.Elems())
	for i, v := range r.pix {
		x[i] = float32(v) / 255
	}
	p.normalise(x, in.C)
	return x, nil
}
