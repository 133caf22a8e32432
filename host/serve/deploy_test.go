package serve_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnit: systemd accepts the unit without warnings, and rates its exposure as low (from 0 to 10).
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatalf("%v: install the package systemd", err)
	}
	text, err := os.ReadFile("deploy/sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	const program = "ExecStart=/usr/local/bin/sluice "
	if strings.Count(string(text), "\n"+program) != 1 {
		t.Fatalf("expected one line that begins with %q", program)
	}
	unit := filepath.Join(t.TempDir(), "sluice.service")
	there := strings.Replace(string(text), "\n"+program, "\nExecStart=/bin/true ", 1) // verify looks whether the program is there
	if err := os.WriteFile(unit, []byte(there), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=true", "--no-pager", "--threshold=15", unit}} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
}

// files returns the files of a tar archive.
func files(t *testing.T, archive io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for in := tar.NewReader(archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			out[strings.TrimPrefix(h.Name, "./")] = data
		}
	}
}

// TestImage: every part of the OCI image in SLUICE_OCI (make oci) matches its digest and size, and its program runs from
// an empty root.
func TestImage(t *testing.T) {
	path := os.Getenv("SLUICE_OCI")
	if path == "" {
		t.Skip("SLUICE_OCI names no image: make oci makes one")
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	layout := files(t, bytes.NewReader(archive))
	type part struct {
		MediaType, Digest string
		Size              int
	}
	blob := func(p part, v any) []byte {
		t.Helper()
		b := layout["blobs/"+strings.Replace(p.Digest, ":", "/", 1)]
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(b)); got != p.Digest || len(b) != p.Size || p.MediaType == "" {
			t.Fatalf("%+v has %d bytes and the digest %s", p, len(b), got)
		}
		if v != nil {
			if err := json.Unmarshal(b, v); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	var (
		index    struct{ Manifests []part }
		manifest struct {
			Config part
			Layers []part
		}
		config struct {
			OS     string
			Config struct{ Entrypoint, Cmd []string }
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
	)
	if err := json.Unmarshal(layout["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index %s: %v", layout["index.json"], err)
	}
	blob(index.Manifests[0], &manifest)
	blob(manifest.Config, &config)
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.OS != "linux" {
		t.Fatalf("%+v, %+v: expected one layer", manifest, config)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); got != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s unpacked, its configuration says %s", got, config.RootFS.DiffIDs[0])
	}
	program := files(t, bytes.NewReader(layer))[strings.TrimPrefix(config.Config.Entrypoint[0], "/")]
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "sluice"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{root, "/sluice"}, config.Config.Cmd...)
	out, err := exec.CommandContext(t.Context(), "chroot", args...).CombinedOutput()
	if !strings.Contains(string(out), "/models: no such file") { // it runs until it misses the repository
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}
