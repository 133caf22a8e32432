package hw

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFiles(t *testing.T) {
	const rtl, cell = "hw/rtl/a.sv", "hw/xilinx/c.sv"
	tree := func(text string) fstest.MapFS {
		return fstest.MapFS{list: {Data: []byte(text)}, rtl: {}, cell: {}}
	}
	for _, text := range []string{"// sources\n\n" + rtl + "\n", rtl + "\r\n"} {
		if got, err := Files(tree(text)); err != nil || !slices.Equal(got, []string{rtl, cell}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                        "names no file",
		"// none\n":               "names no file",
		rtl + "\n" + rtl:          "files.f:2: duplicate hw/rtl/a.sv",
		"hw/rtl/b.sv":             "hw/rtl/b.sv",
		"+incdir+hw/rtl\n":        "expected a comment",
		"rtl/a.sv":                "expected a comment",
		rtl + "\nhw/rtl/a.sv.old": "files.f:2",
	} {
		if got, err := Files(tree(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; expected %q", text, got, err, want)
		}
	}
}

// Paths in RTL are those of the repository, also in errors.
func TestRTL(t *testing.T) {
	files, err := Files(RTL)
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	seen := 0
	if err := fs.WalkDir(RTL, "hw", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".sv") {
			seen++
			if !slices.Contains(files, path) {
				t.Errorf("%s is in no list", path)
			}
		}
		return err
	}); err != nil || seen != len(files) {
		t.Errorf("%d of %d, %v", seen, len(files), err)
	}
	for _, name := range []string{"rtl/fifo.sv", "hw/rtl/none.sv"} {
		var at *fs.PathError
		if _, err := RTL.Open(name); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &at) || at.Path != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
