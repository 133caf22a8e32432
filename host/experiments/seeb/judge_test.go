package seeb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// host/gpu/seeb.txt is what was printed for the claims of today, and RESULTS.md shows its count.
func TestShown(t *testing.T) {
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("..", "..", "gpu", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	lines := strings.Split(strings.TrimSpace(read("seeb.txt")), "\n")
	if len(lines) != len(claims)+3 {
		t.Fatalf("seeb.txt has %d lines, %d claims, one of columns, a count and one of files are expected", len(lines), len(claims))
	}
	for i := range claims {
		if l := lines[i+1]; strings.Fields(l)[0] != claims[i].ID || strings.Contains(l, "  fitted") != claims[i].Fitted {
			t.Errorf("seeb.txt: %q is for %s, fitted: %v", l, claims[i].ID, claims[i].Fitted)
		}
	}
	if count := lines[len(lines)-2]; !strings.Contains(read("RESULTS.md"), "\n    "+count+"\n") {
		t.Errorf("RESULTS.md does not show %q", count)
	}
}
