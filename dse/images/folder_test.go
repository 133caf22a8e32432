package images

import (
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Class folders are numbered as in torchvision's ImageFolder: sorted(names), for any names; folders without pictures
// are included, hidden ones are not.
func TestFolderOrder(t *testing.T) {
	count := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, strconv.Itoa(i))
		}
		return
	}
	for _, c := range []struct {
		name    string
		folders []string // a name that ends in - has no picture
		logits  int
		want    map[string]int // Python's sorted(names).index(name)
		says    string
	}{
		{"numbers", count(0, 12), 12, map[string]int{"0": 0, "1": 1, "10": 2, "11": 3, "2": 4, "9": 11}, "10 is class 2"},
		{"numbers from 1", count(1, 12), 11, map[string]int{"1": 0, "10": 1, "11": 2, "2": 3}, "1 is class 0"},
		{"few numbers", count(0, 10), 10, map[string]int{"0": 0, "9": 9}, ""},
		{"leading zeros", []string{"00", "01", "02", "10-"}, 4, map[string]int{"01": 1}, "10 is class 3"},
		{"capitals", []string{"b", "a", "C", "éa"}, 0, map[string]int{"C": 0, "a": 1, "b": 2, "éa": 3}, ""},
		{"an empty folder", []string{"ant", "bee-", "cat"}, 3, map[string]int{"ant": 0, "cat": 2}, ""},
		{"hidden folders", []string{"ant", ".cache", "cat", "__MACOSX"}, 2, map[string]int{"ant": 0, "cat": 1}, ""},
		{"signs", []string{"-1", "+1"}, 2, map[string]int{"+1": 0, "-1": 1}, ""},
		{"a picture beside them", []string{"ant", "cat", ""}, 2, nil, "its 2 folders are not taken for classes, as 1.png lies beside them"},
		{"too few", count(0, 9), 10, nil, "its folders are not taken for classes: 9 folders of classes for the 10 of the network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.folders {
				name, empty := strings.CutSuffix(f, "-")
				if f == "-1" {
					name, empty = f, false
				}
				if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
				if !empty {
					write(t, filepath.Join(dir, name, "1.png"), encode(t, flat(2, 2, color.White), false))
				}
				write(t, filepath.Join(dir, name, "._1.png"), []byte("a resource fork"))
			}
			s, err := Open(dir, Shape{2, 2, 1}, Preprocess{}, Options{Logits: c.logits})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil != (s.Labels == nil) {
				t.Fatalf("labels %v, want %v", s.Labels, c.want)
			}
			got := map[string]int{}
			for i, l := range s.Labels {
				got[filepath.Base(filepath.Dir(s.Name(i)))] = l
			}
			for name, class := range c.want {
				if l, ok := got[name]; !ok || l != class {
					t.Errorf("%s is class %d (%v), want %d", name, l, ok, class)
				}
			}
			if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, c.says) || c.says == "" && notes != "" {
				t.Errorf("%q, want %q", notes, c.says)
			}
		})
	}
}

// A link to a folder is a folder; a link back to a parent is rejected instead of being followed forever.
func TestFolderLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(elsewhere, "1.png"), encode(t, flat(2, 2, color.White), false))
	write(t, filepath.Join(dir, "b", "1.png"), encode(t, flat(2, 2, color.White), false))
	write(t, filepath.Join(dir, "b", "2.tiff"), []byte("II*\x00"))
	if err := os.Symlink(elsewhere, filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Shape{2, 2, 1}, Preprocess{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Labels, []int{0, 1}) || !slices.Equal(s.Classes, []string{"a", "b"}) {
		t.Errorf("labels %v of %v", s.Labels, s.Classes)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "1 of 3 pictures are left out") {
		t.Errorf("%q does not say that a file is left out", notes)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "b", "back")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Shape{2, 2, 1}, Preprocess{}, Options{}); err == nil || !strings.Contains(err.Error(), "leads back") {
		t.Errorf("%v does not say that a link leads back", err)
	}
}

// Two folders cannot have the same number.
func TestFolderNumberTwice(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"2", "02"} {
		write(t, filepath.Join(dir, f, "1.png"), encode(t, flat(2, 2, color.White), false))
	}
	if _, err := Open(dir, Shape{2, 2, 1}, Preprocess{}, Options{Labels: "numbers"}); err == nil || !strings.Contains(err.Error(), "the folders 02 and 2 are one number") {
		t.Errorf("%v does not name the two", err)
	}
}
