package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is its content, alone and in a list; one whose name the list cannot have is refused, not taken by its name.
func TestInputs(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"a.yaml": "input:", "a b.yaml": "input:", "c,d/e=f/a.yaml": "input:", "a,b.yaml": "", "a=b.yaml": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := inputs("", path)
		if (err == nil) != (want != "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if want == "" || strings.Contains(name, ",") {
			continue
		}
		if got, err = inputs("", "mid,"+path+"=0.5"); err != nil || !strings.HasPrefix(got, "mid,input:") || !strings.HasSuffix(got, "/"+name+"=0.5") {
			t.Errorf("%s in a list: %q, %v", name, got, err)
		}
	}
}
