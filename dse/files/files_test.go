package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Both ways of writing leave either the complete new file or the old one, and no other files.
func TestFiles(t *testing.T) {
	for name, begin := range map[string]func(string) (Pending, error){
		"here":    New,
		"Windows": func(path string) (Pending, error) { return create(path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			for _, text := range []string{"first", "second"} {
				f, err := begin(path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(path); text == "first" && !errors.Is(err, fs.ErrNotExist) || text == "second" && string(got) != "first" {
					t.Errorf("before it has its name: %q, %v", got, err)
				}
				if err := f.CloseAtomicallyReplace(); err != nil {
					t.Fatal(err)
				}
				if err := f.Cleanup(); err != nil {
					t.Error(err)
				}
			}
			f, err := begin(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("never")); err != nil {
				t.Fatal(err)
			}
			if err := f.Cleanup(); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(path); string(got) != "second" {
				t.Errorf("%q, %v", got, err)
			}
			if all, err := os.ReadDir(dir); len(all) != 1 {
				t.Errorf("%v, %v", all, err)
			}
			if _, err := begin(filepath.Join(dir, "none", "b")); err == nil {
				t.Error("a folder that is not there")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "c")
	if err := Write(path, []byte("all")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != "all" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Hash(path); got != "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Hash(filepath.Dir(path)); err == nil {
		t.Errorf("a folder has the hash %s", got)
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"my/mine-9.yaml": "my/mine-9.yaml", "my own/a.yaml": "'my own/a.yaml'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a;b": "'a;b'", "~/a": "'~/a'", "": "''",
	} {
		if got := Quoted(path); got != want {
			t.Errorf("%q: %s, expected %s", path, got, want)
		}
	}
}
