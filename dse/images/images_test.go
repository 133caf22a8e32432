package images

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flat returns a picture of one colour.
func flat(w, h int, c color.Color) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, c)
		}
	}
	return m
}

func encode(t testing.TB, m image.Image, jpg bool) []byte {
	t.Helper()
	var b bytes.Buffer
	err := error(nil)
	if jpg {
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 100})
	} else {
		err = png.Encode(&b, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npyFile writes the format of numpy.save.
func npyFile(descr, shape string, data any) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	head += strings.Repeat(" ", 63-(len(head)+10)%64) + "\n"
	b := bytes.NewBufferString("\x93NUMPY\x01\x00")
	_ = binary.Write(b, binary.LittleEndian, uint16(len(head))) // writes to a buffer never fail
	b.WriteString(head)
	_ = binary.Write(b, binary.LittleEndian, data)
	return b.Bytes()
}

func idxFile(zip bool, dims []uint32, data []byte) []byte {
	content := []byte{0, 0, ubyte, byte(len(dims))}
	for _, d := range dims {
		content = binary.BigEndian.AppendUint32(content, d)
	}
	content = append(content, data...)
	if !zip {
		return content
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(content) // writes to a buffer never fail
	_ = z.Close()
	return b.Bytes()
}

func all(t *testing.T, s *Set) (out [][]float32) {
	t.Helper()
	for i := range s.Len() {
		x, err := s.Image(i)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func near(a, b []float32, by float64) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= by })
}

// The middle of a picture after scaling its shorter side, normalised channel by channel.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	// Left half red, right half blue: the middle square of 8 x 4 contains two columns of each.
	m := image.NewNRGBA(image.Rect(0, 0, 8, 4))
	for y := range 4 {
		for x := range 8 {
			c := color.NRGBA{R: 255, A: 255}
			if x >= 4 {
				c = color.NRGBA{B: 255, A: 255}
			}
			m.Set(x, y, c)
		}
	}
	write(t, filepath.Join(dir, "b", "two.png"), encode(t, m, false))
	write(t, filepath.Join(dir, "a", "one.JPG"), encode(t, flat(6, 9, color.NRGBA{51, 102, 204, 255}), true))
	write(t, filepath.Join(dir, "b", "notes.txt"), []byte("no picture"))
	p := Preprocess{Mean: []float64{0.5, 0, 0.25}, Std: []float64{0.5, 1, 0.25}}
	s, err := Open(dir, Shape{4, 4, 3}, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Labels, []int{0, 1}) || !slices.Equal(s.Classes, []string{"a", "b"}) || s.Floats {
		t.Errorf("labels %v, classes %v", s.Labels, s.Classes)
	}
	x := all(t, s)
	if want := []float32{(0.2 - 0.5) / 0.5, 0.4, (0.8 - 0.25) / 0.25}; !near(x[0][:3], want, 0.03) || !near(x[0][45:], want, 0.03) {
		t.Errorf("%v, want %v everywhere", x[0], want)
	}
	red, blue := []float32{1, 0, -1}, []float32{-1, 0, 3}
	if row := x[1][:12]; !near(row, slices.Concat(red, red, blue, blue), 1e-6) {
		t.Errorf("%v, want two red and two blue pixels", row)
	}
	if r := (Preprocess{Mean: p.Mean, Std: p.Std}).InputRange(3); r != 3 {
		t.Errorf("the input's range is %v, want 3", r)
	}

	// Stretched, the whole picture is visible; in grey, red is 0.299 and blue 0.114, blended where a pixel covers
	// both.
	s, err = Open(filepath.Join(dir, "b"), Shape{1, 4, 1}, Preprocess{Fit: FitStretch}, Options{Labels: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if x := all(t, s)[0]; !near(x, []float32{0.299, 0.276, 0.137, 0.114}, 1./255) || s.Labels != nil {
		t.Errorf("%v, labels %v", x, s.Labels)
	}
}

// A pixel keeps its colour whatever its transparency, as in other converters to RGB.
func TestTransparency(t *testing.T) {
	m := flat(3, 3, color.NRGBA{200, 100, 50, 0})
	x, err := toRaster(m).input(Shape{3, 3, 3}, Preprocess{Fit: FitCrop})
	if err != nil || !near(x[:3], []float32{200. / 255, 100. / 255, 50. / 255}, 1e-3) {
		t.Errorf("%v, %v", x[:3], err)
	}
}

// Resize first, then crop the middle; a picture smaller than the input gets a black border.
func TestResize(t *testing.T) {
	m := flat(10, 20, color.White)
	x, err := toRaster(m).input(Shape{8, 8, 1}, Preprocess{Fit: FitCrop, Resize: 4})
	if err != nil {
		t.Fatal(err)
	}
	var rows []float32
	for h := range 8 {
		rows = append(rows, x[h*8+1], x[h*8+4])
	}
	if want := slices.Repeat([]float32{0, 1}, 8); !near(rows, want, 1e-3) {
		t.Errorf("%v, want a white column of 4 in the middle", rows)
	}
}

func TestArrays(t *testing.T) {
	dir := t.TempDir()
	floats := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	bytes := []byte{0, 51, 102, 153, 204, 255}
	grey := [][]float32{{0, 0.2, 0.4}, {0.6, 0.8, 1}}
	for _, c := range []struct {
		name    string
		file    string
		content []byte
		in      Shape
		want    [][]float32
		floats  bool
	}{
		{"channels first", "a.npy", npyFile("<f4", "1, 3, 2, 2", floats), Shape{2, 2, 3}, [][]float32{{1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}}, true},
		{"channels last", "b.npy", npyFile("<f4", "1, 2, 2, 3", floats), Shape{2, 2, 3}, [][]float32{floats}, true},
		{"doubles", "c.npy", npyFile("<f8", "2, 1, 1", []float64{0.5, -3}), Shape{1, 1, 1}, [][]float32{{0.5}, {-3}}, true},
		{"halves", "h.npy", npyFile("<f2", "1, 2, 3", []uint16{0x3800, 0xc200, 0x7bff, 0x0001, 0x8000, 0x0400}), Shape{2, 3, 1}, [][]float32{{0.5, -3, 65504, 0x1p-24, 0, 0x1p-14}}, true},
		{"bytes", "d.npy", npyFile("|u1", "2, 1, 3", bytes), Shape{1, 3, 1}, grey, false},
		{"IDX", "e", idxFile(false, []uint32{2, 1, 3}, bytes), Shape{1, 3, 1}, grey, false},
		{"IDX compressed", "f.gz", idxFile(true, []uint32{2, 1, 3}, bytes), Shape{1, 3, 1}, grey, false},
		{"IDX of another shape", "g", idxFile(false, []uint32{1, 1, 2}, []byte{255, 255}), Shape{2, 2, 3}, [][]float32{slices.Repeat([]float32{1}, 12)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, filepath.Join(dir, c.file), c.content)
			s, err := Open(path, c.in, Preprocess{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, all(t, s)); d != "" || s.Floats != c.floats {
				t.Errorf("floats %v, %s", s.Floats, d)
			}
		})
	}
	// Floats are already the input: a mean is only for pixels.
	s, err := Open(filepath.Join(dir, "b.npy"), Shape{2, 2, 3}, Preprocess{Mean: []float64{0.5}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]float32{floats}, all(t, s)); d != "" {
		t.Error(d)
	}
}

// The digest depends on what a network sees, not on the path; another pixel changes it.
func TestDigest(t *testing.T) {
	open := func(value uint8) (string, float64) {
		path := write(t, filepath.Join(t.TempDir(), "x.png"), encode(t, flat(2, 2, color.Gray{value}), false))
		s, err := Open(path, Shape{2, 2, 1}, Preprocess{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, largest, err := s.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d, largest
	}
	a, most := open(51)
	b, _ := open(51)
	c, _ := open(52)
	if a != b || a == c || math.Abs(most-0.2) > 1e-4 {
		t.Errorf("%s, %s, %s, largest %v", a, b, c, most)
	}
}

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"cat/1.png", "cat/2.png", "dog/1.png", "10/a.png", "02/a.png", "loose/1.png"} {
		top, _, _ := strings.Cut(name, "/")
		set := map[string]string{"cat": "words", "dog": "words", "10": "numbers", "02": "numbers", "loose": "one"}[top]
		write(t, filepath.Join(dir, set, name), encode(t, flat(2, 2, color.Gray{uint8(i)}), false))
	}
	csv := write(t, filepath.Join(dir, "labels.csv"), []byte("source,label,file\nx,dog,cat/1.png\nx,cat,cat/2.png\nx,dog,dog/1.png\n"))
	excel := write(t, filepath.Join(dir, "excel.csv"), []byte("\ufefffile,label\ncat/1.png, dog\ncat/2.png ,cat \ndog/1.png,dog\n"))
	ints := write(t, filepath.Join(dir, "labels.npy"), npyFile("<i8", "3,", []int64{2, 0, 1}))
	short := write(t, filepath.Join(dir, "short"), idxFile(false, []uint32{2}, []byte{1, 2}))
	bad := map[string]string{}
	for name, text := range map[string]string{
		"header": "name,class\n", "semicolons": "file;label\ncat/1.png;cat\n", "twice": "file,label\ncat/1.png,a\n./cat/1.png,b\n", "empty": "file,label\ncat/1.png,\n", "few": "file,label\ncat/1.png,a\n", "decomposed": "file,label\ncat/1.png,a\ncat/e\u0301.png,a\n",
		"columns": "file,label,label\ncat/1.png,cat,dog\n", "wide": "\xff\xfef\x00i\x00", "below": "file,label\ncat/1.png,1\ncat/2.png,-1\ndog/1.png,0\n", "floats": "file,label\ncat/1.png,1.0\ncat/2.png,2.0\ndog/1.png,0.0\n",
	} {
		bad[name] = write(t, filepath.Join(dir, name+".csv"), []byte(text))
	}
	for _, c := range []struct {
		name, path string
		o          Options
		labels     []int
		classes    []string
		err        string
	}{
		{"folders", "words", Options{}, []int{0, 0, 1}, []string{"cat", "dog"}, ""},
		{"folders that are numbers, by name", "numbers", Options{}, []int{0, 1}, nil, ""},
		{"folders by number", "numbers", Options{Labels: "numbers"}, []int{2, 10}, nil, ""},
		{"a name is no number", "words", Options{Labels: "numbers"}, nil, nil, "its folder is \"cat\", expected a number"},
		{"one folder says nothing", "one", Options{}, nil, nil, ""},
		{"as many folders as logits", "words", Options{Logits: 2}, []int{0, 0, 1}, []string{"cat", "dog"}, ""},
		{"fewer than logits have no order", "words", Options{Logits: 3}, nil, nil, ""},
		{"nor where it is asked", "words", Options{Logits: 3, Labels: "folders"}, nil, nil, "2 folders of classes for the 3 of the network"},
		{"nor have numbers", "numbers", Options{Logits: 30}, nil, nil, ""},
		{"numbers where it is asked", "numbers", Options{Logits: 30, Labels: "numbers"}, []int{2, 10}, nil, ""},
		{"CSV of fewer than logits", "words", Options{Logits: 3, Labels: csv}, nil, nil, "labels.csv: the labels are wrong: 2 names of classes for the 3 of the network"},
		{"CSV by the order of the logits", "words", Options{Logits: 3, Labels: csv, Classes: []string{"dog", "x", "cat"}}, []int{0, 2, 0}, []string{"dog", "x", "cat"}, ""},
		{"CSV below zero", "words", Options{Labels: bad["below"]}, nil, nil, `below.csv: the labels are wrong: line 3: label "-1"`},
		{"CSV of floats", "words", Options{Labels: bad["floats"]}, nil, nil, `floats.csv: the labels are wrong: line 2: label "1.0"`},
		{"unless it is asked", "one", Options{Labels: "folders"}, []int{0}, []string{"loose"}, ""},
		{"order of the logits", "words", Options{Classes: []string{"dog", "cat"}}, []int{1, 1, 0}, []string{"dog", "cat"}, ""},
		{"CSV", "words", Options{Labels: csv}, []int{1, 0, 1}, []string{"cat", "dog"}, ""},
		{"CSV behind a byte order mark", "words", Options{Labels: excel}, []int{1, 0, 1}, []string{"cat", "dog"}, ""},
		{"CSV with a column twice", "words", Options{Labels: bad["columns"]}, nil, nil, "line 1: duplicate key: column \"label\""},
		{"CSV of UTF-16", "words", Options{Labels: bad["wide"]}, nil, nil, "UTF-16"},
		{"CSV of semicolons", "words", Options{Labels: bad["semicolons"]}, nil, nil, `line 1 is "file;label", expected the columns file and label, separated by commas`},
		{"vector", "words", Options{Labels: ints}, []int{2, 0, 1}, nil, ""},
		{"none", "words", Options{Labels: "none"}, nil, nil, ""},
		{"spread", "words", Options{Max: 2}, []int{0, 0}, []string{"cat", "dog"}, ""},
		{"another class", "words", Options{Classes: []string{"cat"}}, nil, nil, `class "dog" is none of the 1 named`},
		{"too few", "words", Options{Labels: short}, nil, nil, "2 labels for the 3 images"},
		{"CSV header", "words", Options{Labels: bad["header"]}, nil, nil, "expected the columns file and label"},
		{"CSV twice", "words", Options{Labels: bad["twice"]}, nil, nil, "line 3: ./cat/1.png is there twice"},
		{"CSV empty", "words", Options{Labels: bad["empty"]}, nil, nil, "line 2"},
		{"CSV lacks one", "words", Options{Labels: bad["few"]}, nil, nil, "no line for cat/2.png"},
		{"CSV has another spelling", "words", Options{Labels: bad["decomposed"]}, nil, nil, `no line for cat/2.png; line 3 is for "cat/e\u0301.png", which is none of the pictures read`},
		{"no such file", "words", Options{Labels: "nowhere.csv"}, nil, nil, "nowhere.csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(filepath.Join(dir, c.path), Shape{2, 2, 1}, Preprocess{}, c.o)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.Labels, c.labels) || !slices.Equal(s.Classes, c.classes) {
				t.Errorf("%v of %v, want %v of %v", s.Labels, s.Classes, c.labels, c.classes)
			}
		})
	}
}

func TestBad(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		path string
		in   Shape
		p    Preprocess
		want error
	}{
		{"empty folder", empty, Shape{2, 2, 1}, Preprocess{}, ErrEmpty},
		{"nowhere", filepath.Join(dir, "nowhere"), Shape{2, 2, 1}, Preprocess{}, os.ErrNotExist},
		{"no picture", write(t, filepath.Join(dir, "a.png"), []byte("picture")), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"cut", write(t, filepath.Join(dir, "b.png"), encode(t, flat(9, 9, color.White), false)[:60]), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"no array", write(t, filepath.Join(dir, "c.npy"), []byte("array")), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"short array", write(t, filepath.Join(dir, "d.npy"), npyFile("<f4", "9, 2, 2", []float32{1})), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"huge array", write(t, filepath.Join(dir, "e.npy"), npyFile("<f4", "9, 2000000, 2000000", []float32{1})), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"complex", write(t, filepath.Join(dir, "f.npy"), npyFile("<c8", "1, 2, 2", []float32{1, 1, 1, 1, 1, 1, 1, 1})), Shape{2, 2, 1}, Preprocess{}, ErrFormat},
		{"NaN", write(t, filepath.Join(dir, "g.npy"), npyFile("<f4", "1, 1, 1", []float32{float32(math.NaN())})), Shape{1, 1, 1}, Preprocess{}, ErrFormat},
		{"infinite half", write(t, filepath.Join(dir, "n.npy"), npyFile("<f2", "1, 1, 1", []uint16{0xfc00})), Shape{1, 1, 1}, Preprocess{}, ErrFormat},
		{"floats of another shape", write(t, filepath.Join(dir, "h.npy"), npyFile("<f4", "1, 1, 2", []float32{1, 2})), Shape{1, 1, 1}, Preprocess{}, ErrShape},
		{"integers", write(t, filepath.Join(dir, "i.npy"), npyFile("<i8", "1, 1, 1", []int64{1})), Shape{1, 1, 1}, Preprocess{}, ErrShape},
		{"a vector", write(t, filepath.Join(dir, "j.npy"), npyFile("<f4", "1,", []float32{1})), Shape{1, 1, 1}, Preprocess{}, ErrShape},
		{"four channels", write(t, filepath.Join(dir, "k.png"), encode(t, flat(2, 2, color.White), false)), Shape{2, 2, 4}, Preprocess{}, ErrShape},
		{"means", dir, Shape{2, 2, 3}, Preprocess{Mean: []float64{1, 2}}, ErrPreprocess},
		{"deviation", dir, Shape{2, 2, 3}, Preprocess{Std: []float64{0}}, ErrPreprocess},
		{"mean of 0 to 255", dir, Shape{2, 2, 3}, Preprocess{Mean: []float64{123.675, 116.28, 103.53}}, ErrPreprocess},
		{"deviation of 0 to 255", dir, Shape{2, 2, 3}, Preprocess{Std: []float64{58.395}}, ErrPreprocess},
		{"range", dir, Shape{2, 2, 3}, Preprocess{Range: -1}, ErrPreprocess},
		{"fit", dir, Shape{2, 2, 3}, Preprocess{Fit: "squeeze"}, ErrPreprocess},
		{"resize", dir, Shape{2, 2, 3}, Preprocess{Fit: FitStretch, Resize: 3}, ErrPreprocess},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(c.path, c.in, c.p, Options{Labels: "none"})
			if err == nil {
				_, err = s.Image(0)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if strings.HasSuffix(c.name, "255") && !strings.Contains(err.Error(), "/255") {
				t.Errorf("%v does not name the scale", err)
			}
			if err != nil && c.path != dir && !strings.Contains(err.Error(), filepath.Base(c.path)) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

// A folder or an array among other files is rejected, with the hint to open it alone.
func TestOpenFilesAlone(t *testing.T) {
	dir := t.TempDir()
	picture := write(t, filepath.Join(dir, "a.png"), encode(t, flat(2, 2, color.White), false))
	array := write(t, filepath.Join(dir, "b.npy"), npyFile("<f4", "1, 2, 2", make([]float32, 4)))
	text := write(t, filepath.Join(dir, "c.txt"), []byte("text"))
	for other, says := range map[string]string{
		dir: "expected it alone, or JPEG, PNG, WebP or BMP files", array: "expected it alone, or JPEG, PNG, WebP or BMP files", text: "expected a JPEG, PNG, WebP or BMP file",
	} {
		if _, err := OpenFiles([]string{picture, other}, Shape{2, 2, 1}, Preprocess{}); !errors.Is(err, ErrFormat) || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Files are untrusted: any content yields an error or images of the network's shape.
func FuzzRead(f *testing.F) {
	f.Add(byte(0), npyFile("<f4", "1, 3, 2, 2", make([]float32, 12)))
	f.Add(byte(0), npyFile("|u1", "2, 2, 2", make([]byte, 8)))
	f.Add(byte(1), idxFile(false, []uint32{2, 2, 2}, make([]byte, 8)))
	f.Add(byte(1), idxFile(true, []uint32{2, 2, 2}, make([]byte, 8)))
	f.Add(byte(2), encode(f, flat(3, 2, color.NRGBA{1, 2, 3, 4}), false))
	f.Add(byte(3), encode(f, flat(3, 2, color.White), true))
	f.Add(byte(4), []byte("file,label\na,b\n"))
	f.Add(byte(5), []byte("cat\ndog\n"))
	for name, kind := range map[string]byte{
		"orientation-6.png": 2, "rgb16.png": 2, "420-37x29.jpg": 3, "440-6x1.jpg": 3, "411-3x2.jpg": 3, "cmyk.jpg": 3, "orientation-6.jpg": 3,
		"lossy-2x3.webp": 6, "lossy-alpha.webp": 6, "lossless.webp": 6, "orientation-6.webp": 6, "24.bmp": 7, "palette.bmp": 7,
	} {
		content, err := os.ReadFile(filepath.Join("testdata", "pictures", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, content)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, kind byte, content []byte) {
		switch kind %= 8; kind {
		case 4:
			_, _ = parseLabels(bytes.NewReader(content))
			return
		case 5:
			if names, err := parseClasses(bytes.NewReader(content)); err == nil && len(names) == 0 {
				t.Error("no names, and no error")
			}
			return
		}
		path := write(t, filepath.Join(dir, "f"+map[byte]string{0: ".npy", 2: ".png", 3: ".jpg", 6: ".webp", 7: ".bmp"}[kind]), content)
		for _, in := range []Shape{{2, 2, 3}, {2, 2, 1}} {
			s, err := Open(path, in, Preprocess{}, Options{Max: 4})
			if err != nil {
				continue
			}
			for i := range s.Len() {
				if x, err := s.Image(i); err == nil && len(x) != in.Elems() {
					t.Errorf("%d elements, expected %d", len(x), in.Elems())
				}
			}
		}
	})
}

// A smaller number of images is drawn from all parts of the list, with their classes, and not at a fixed stride: of two
// alternating kinds, both are drawn. Left has the others.
func TestSpread(t *testing.T) {
	const have = 1000
	inputs, labels := make([][]float32, have), make([]int, have)
	for i := range inputs {
		inputs[i], labels[i] = []float32{float32(i)}, i
	}
	for _, n := range []int{100, 250, 333, 500} {
		s := Of("x", inputs, labels)
		s.spread(n)
		odd := 0
		for i, x := range all(t, s) {
			at := int(x[0])
			if at < i*have/n || at >= (i+1)*have/n || s.Labels[i] != at {
				t.Errorf("%d of %d: image %d, label %d", i, n, at, s.Labels[i])
			}
			odd += at % 2
		}
		if odd < n*2/5 || odd > n*3/5 {
			t.Errorf("%d of %d images have odd numbers", odd, n)
		}
		found := map[float32]bool{}
		for _, x := range append(all(t, s), all(t, s.Left())...) {
			found[x[0]] = true
		}
		if _, _, err := s.Digest(); err != nil || !s.Saw(all(t, s)[n-1]) || s.Saw(all(t, s.Left())[0]) {
			t.Errorf("it saw what was left out, or not what it has: %v", err)
		}
		if len(found) != have || s.Left().Len() != have-n {
			t.Errorf("%d images, and %d left: %d of them differ", s.Len(), s.Left().Len(), len(found))
		}
	}
	s := Of("x", inputs, labels)
	if s.spread(have); s.Left() != nil || s.Len() != have {
		t.Errorf("all %d images: %d, and some left", have, s.Len())
	}
}

// Class names are the same with a byte order mark and with CR LF.
func TestClassesAsProgramsWriteThem(t *testing.T) {
	for text, says := range map[string]string{
		"cat\ndog\n": "", "\ufeffcat\r\ndog\r\n": "", "\ufeffcat\rdog": "", "cat\n dog\n\n \r\n": "", "cat\n\ndog\n": "line 2 is empty", "\ncat\ndog": "line 1",
		"\xff\xfec\x00": "UTF-16", "cat\nd\xf6g\n": "line 2 has a byte that is not UTF-8",
	} {
		names, err := LoadClasses(write(t, filepath.Join(t.TempDir(), "classes"), []byte(text)))
		if says == "" && (err != nil || !slices.Equal(names, []string{"cat", "dog"})) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %q, %v; want %q", text, names, err, says)
		}
	}
}
