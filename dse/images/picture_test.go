package images

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// expectation is PIL's result for a picture; testdata/make.py writes them.
type expectation struct {
	File, Expected string
	Shape          []int
	Within         float64 // grey levels
	Fit, Filter    string
	Resize         int
	EXIF           string
	Orientation    int
}

// Pixels equal PIL's: decoders, filters, and torchvision's crops.
func TestAsPIL(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []expectation
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		in := Shape{c.Shape[0], c.Shape[1], c.Shape[2]}
		name := strings.Join([]string{c.File, c.Fit, c.Filter, c.EXIF, in.String()}, " ")
		want := first(t, filepath.Join("testdata", c.Expected), in, Preprocess{})
		path := filepath.Join("testdata", "pictures", c.File)
		got := first(t, path, in, Preprocess{Fit: c.Fit, Resize: c.Resize, Filter: c.Filter, EXIF: c.EXIF})
		worst := 0.
		for i := range want {
			worst = max(worst, math.Abs(float64(got[i])-float64(want[i]))*255)
		}
		if worst > c.Within+1e-3 {
			t.Errorf("%s: %.1f grey levels off, at most %v", name, worst, c.Within)
		}
	}
}

func first(t *testing.T, path string, in Shape, p Preprocess) []float32 {
	t.Helper()
	s, err := Open(path, in, p, Options{Labels: "none"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Image(0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A rotated picture yields a note, whether it is turned upright or not.
func TestTurnedIsSaid(t *testing.T) {
	for _, c := range []struct{ file, exif, says string }{
		{"orientation-1.jpg", "", ""},
		{"orientation-6.jpg", "", "1 of 1 pictures have an EXIF orientation other than 1 (testdata/pictures/orientation-6.jpg has 6): they are read as they are stored"},
		{"orientation-6.webp", EXIFTurn, "they are turned upright"},
		{"orientation-8.png", "", "has 8)"},
		{"progressive.jpg", "", ""},
	} {
		s, err := Open(filepath.Join("testdata", "pictures", c.file), Shape{4, 4, 3}, Preprocess{EXIF: c.exif}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // one note only
			if _, err := s.Image(0); err != nil {
				t.Fatal(err)
			}
		}
		if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
			t.Errorf("%s: %q, want %q", c.file, notes, c.says)
		}
	}
}

// A format that cannot be read is rejected, and the error has its name.
func TestRefusedByName(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"gif.png": "GIF89a..........", "tiff.jpg": "II*\x00........", "avif.jpg": "\x00\x00\x00\x1cftypavif....", "heic.jpg": "\x00\x00\x00\x18ftypheic....",
		"rle.bmp":   "BM\x36\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00\x01\x00\x08\x00\x01" + strings.Repeat("\x00", 23),
		"empty.png": "", "lfs.png": "version https://git-lfs.github.com/spec/v1\n", "page.jpg": "<!DOCTYPE html><p>not found",
	} {
		write(t, filepath.Join(dir, file), []byte(content))
	}
	const pictures = "testdata/pictures/"
	grey, err := os.ReadFile(pictures + "grey.jpg")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "arithmetic.jpg"), bytes.Replace(grey, []byte("\xff\xc0"), []byte("\xff\xc9"), 1))
	write(t, filepath.Join(dir, "twelve.jpg"), bytes.Replace(grey, []byte("\xff\xc0\x00\x0b\x08"), []byte("\xff\xc0\x00\x0b\x0c"), 1))
	write(t, filepath.Join(dir, "cut.jpg"), grey[:len(grey)-40])
	for path, says := range map[string]string{
		dir + "/gif.png": "it is a GIF file", dir + "/tiff.jpg": "it is a TIFF file", dir + "/avif.jpg": "it is an AVIF file", dir + "/heic.jpg": "it is a HEIC file",
		dir + "/rle.bmp":   "it is a BMP file of 16 bits",
		dir + "/empty.png": "it is an empty file", dir + "/lfs.png": "git lfs pull", dir + "/page.jpg": "HTML",
		dir + "/arithmetic.jpg": "frame 0xc9", dir + "/twelve.jpg": "12 bits a sample", dir + "/cut.jpg": "too early", pictures + "unfinished.jpg": "too early",
		pictures + "grey16.png": "grey of 16 bits", pictures + "animated.webp": "animated WebP",
	} {
		s, err := Open(path, Shape{4, 4, 3}, Preprocess{}, Options{})
		if err == nil {
			_, err = s.Image(0)
		}
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := Open(write(t, filepath.Join(dir, "x.gif"), []byte("GIF89a")), Shape{4, 4, 3}, Preprocess{}, Options{}); err == nil || !strings.Contains(err.Error(), "expected a "+pictureFiles) {
		t.Errorf("%v does not name what is read", err)
	}
}

// TestIndexBeyondThePalette: a pixel whose index is beyond the palette is black, as in PIL.
func TestIndexBeyondThePalette(t *testing.T) {
	short := color.Palette{color.White, color.NRGBA{R: 10, G: 8, B: 8, A: 255}}
	r := toRaster(&image.Paletted{Pix: []byte{0, 1, 2, 255}, Stride: 4, Rect: image.Rect(0, 0, 4, 1), Palette: short})
	if want := []byte{255, 255, 255, 10, 8, 8, 0, 0, 0, 0, 0, 0}; !bytes.Equal(r.pix, want) {
		t.Errorf("%v, expected %v", r.pix, want)
	}
}

// An orientation is used wherever PIL's exif_transpose finds it: as a long, in XMP, and in EXIF as written to PNG by
// ImageMagick.
func TestOrientationIsFound(t *testing.T) {
	join := func(parts ...string) []byte { return []byte(strings.Join(parts, "")) }
	jpeg := func(segments ...string) []byte {
		file := "\xff\xd8"
		for _, s := range segments {
			file += "\xff\xe1" + string(binary.BigEndian.AppendUint16(nil, uint16(len(s)+2))) + s
		}
		return append([]byte(file), "\xff\xda\x00\x02"...)
	}
	png := func(kind, content string) []byte {
		return join("\x89PNG\r\n\x1a\n", string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))), kind, content, "sum.")
	}
	const (
		exif   = "Exif\x00\x00"
		adobe  = "http://ns.adobe.com/xap/1.0/\x00"
		little = "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01"
		big    = "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12"
		short6 = little + "\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"
		raw    = "Raw profile type exif\x00\x00"
	)
	profile := func(block string) string {
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		digits := hex.EncodeToString([]byte(block))
		if _, err := fmt.Fprintf(w, "\nexif\n%8d\n%s\n%s\n", len(block), digits[:20], digits[20:]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return packed.String()
	}
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"a short", jpeg(exif + short6), 6},
		{"a long", jpeg(exif + little + "\x04\x00\x01\x00\x00\x00\x07\x00\x00\x00"), 7},
		{"a long, big end first", jpeg(exif + big + "\x00\x04\x00\x00\x00\x01\x00\x00\x00\x05"), 5},
		{"a long beyond 8", jpeg(exif + big + "\x00\x04\x00\x00\x00\x01\x00\x10\x00\x06"), 1},
		{"bytes", jpeg(exif + little + "\x01\x00\x01\x00\x00\x00\x06\x00\x00\x00"), 1},
		{"XMP before EXIF", jpeg(adobe+"<x/>", exif+short6), 6},
		{"XMP alone", jpeg(adobe + `<rdf:Description tiff:Orientation="8"/>`), 8},
		{"XMP, an element", jpeg(adobe + `<tiff:Orientation>3</tiff:Orientation>`), 3},
		{"EXIF wins", jpeg(adobe+`<x tiff:Orientation="8"/>`, exif+short6), 6},
		{"XMP of a PNG", png("iTXt", "XML:com.adobe.xmp\x00\x00\x00\x00\x00<x tiff:Orientation=\"4\"/>"), 4},
		{"ImageMagick's", png("zTXt", raw+profile(exif+short6)), 6},
		{"ImageMagick's, cut", png("zTXt", raw+profile(exif + short6)[:20]), 1},
		{"ImageMagick's, no digits", png("zTXt", raw+"text"), 1},
		{"another text", png("zTXt", "Comment\x00\x00"+profile(exif+short6)), 1},
	} {
		if got := orientation(c.data); got != c.want {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
	}
}
