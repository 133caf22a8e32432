package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

// made is a bundle; it is made once.
var made = sync.OnceValues(func() (*bundle.Bundle, error) {
	design, err := configs.Load("tiny")
	if err != nil {
		return nil, err
	}
	return (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
})

// newKit has two images with golden results.
func newKit(t testing.TB) *Kit {
	t.Helper()
	b, err := made()
	if err != nil {
		t.Fatal(err)
	}
	n := &b.Network
	in := make([][]int16, 2)
	for i := range in {
		in[i] = make([]int16, n.InH*n.InW*n.InC)
		for j := range in[i] {
			in[i][j] = int16((i+1)*j*37%512 - 256)
		}
	}
	exits, err := (&soft.Memo{}).Fill(t.Context(), b, in, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Kit{Bundle: b, Inputs: in, Exits: exits, Labels: []int{-1, 3}}
}

// folder returns a written kit and the text of its images.
func folder(t testing.TB) (dir, text string) {
	t.Helper()
	dir = t.TempDir()
	if err := Write(dir, newKit(t)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, ImagesFile))
	if err != nil {
		t.Fatal(err)
	}
	return dir, string(data)
}

// TestRoundTrip: a kit that is read equals the written one, including confidence and class, which the file does not
// contain; equal kits have equal bytes.
func TestRoundTrip(t *testing.T) {
	dir, text := folder(t)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := newKit(t)
	if d := cmp.Diff(want.Inputs, got.Inputs) + cmp.Diff(want.Exits, got.Exits) + cmp.Diff(want.Labels, got.Labels); d != "" {
		t.Error(d)
	}
	hash := func(k *Kit) string {
		h, err := k.Bundle.Hash()
		return fmt.Sprint(h, err)
	}
	if hash(got) != hash(want) {
		t.Errorf("bundle %s, expected %s", hash(got), hash(want))
	}
	if _, again := folder(t); again != text {
		t.Error("the same kit, other bytes")
	}
}

// TestRefusals: each possible error is named, with its place.
func TestRefusals(t *testing.T) {
	dir, text := folder(t)
	replace := func(old, with string) func(*testing.T) string {
		return func(t *testing.T) string {
			if !strings.Contains(text, old) {
				t.Fatalf("the text has no %s", old)
			}
			return strings.Replace(text, old, with, 1)
		}
	}
	edit := func(change func(*document)) func(*testing.T) string {
		return func(t *testing.T) string {
			var d document
			if err := json.Unmarshal([]byte(text), &d); err != nil {
				t.Fatal(err)
			}
			change(&d)
			out, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
	}
	for what, c := range map[string]struct {
		text func(*testing.T) string
		says string
	}{
		"nothing":             {func(*testing.T) string { return "" }, "EOF"},
		"half":                {func(*testing.T) string { return text[:len(text)/2] }, "unexpected EOF"},
		"more":                {func(*testing.T) string { return text + "{}" }, "more follows the document"},
		"another schema":      {replace("sluice-kit/1", "sluice-kit/2"), `schema "sluice-kit/2", expected "sluice-kit/1"`},
		"an unknown key":      {replace(`"label"`, `"lable"`), `unknown field "lable"`},
		"another bundle":      {edit(func(d *document) { d.Bundle = "0" }), `for the bundle "0", the one beside them is`},
		"no images":           {edit(func(d *document) { d.Images = nil }), "0 images, expected 1.."},
		"too many":            {edit(func(d *document) { d.Images = make([]image, maxImage+1) }), "65537 images, expected 1..65536"},
		"a short image":       {edit(func(d *document) { d.Images[1].Input = d.Images[1].Input[1:] }), "image 1 has 783 elements, expected 784"},
		"no input":            {edit(func(d *document) { d.Images[0].Input = nil }), "image 0 has 0 elements"},
		"a value of 17 bits":  {replace(`"input":[-256`, `"input":[-32769`), "cannot unmarshal number -32769"},
		"an exit missing":     {edit(func(d *document) { d.Images[1].Logits = d.Images[1].Logits[:1] }), "image 1 has logits of 1 exits, expected 2"},
		"a logit too many":    {edit(func(d *document) { d.Images[0].Logits[1] = append(d.Images[0].Logits[1], 0) }), "image 0, exit 1: 11 logits, expected 10"},
		"a class too high":    {edit(func(d *document) { d.Images[1].Label = 10 }), "image 1 has the class 10, expected -1 (unknown) to 9"},
		"a class below":       {edit(func(d *document) { d.Images[0].Label = -2 }), "image 0 has the class -2"},
		"more than is looked": {func(*testing.T) string { return strings.Repeat(" ", maxFile+1) }, "longer than"},
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, ImagesFile), []byte(c.text(t)), 0o644); err != nil {
				t.Fatal(err)
			}
			k, err := Read(dir)
			if !errors.Is(err, ErrKit) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), ImagesFile) || k != nil {
				t.Errorf("%v, %v, expected %q and the file", k, err, c.says)
			}
		})
	}
	if err := os.Remove(filepath.Join(dir, ImagesFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no images: %v", err)
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), BundleFile) {
		t.Errorf("an empty folder: %v", err)
	}
}

// FuzzParse: any accepted kit is complete for every image, and can be written again.
func FuzzParse(f *testing.F) {
	b, err := made()
	if err != nil {
		f.Fatal(err)
	}
	_, text := folder(f)
	f.Add([]byte(text))
	f.Add([]byte(text[:len(text)/2]))
	f.Add([]byte(`{"schema":"sluice-kit/1","bundle_hash":"","images":[{"label":0,"input":[1e400],"logits":null}]}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := parse(b, text)
		if err != nil {
			if k != nil || !errors.Is(err, ErrKit) {
				t.Fatalf("%v, %v", k, err)
			}
			return
		}
		n := &b.Network
		if len(k.Inputs) == 0 || len(k.Exits) != len(k.Inputs) || len(k.Labels) != len(k.Inputs) {
			t.Fatalf("%d inputs, %d results, %d classes", len(k.Inputs), len(k.Exits), len(k.Labels))
		}
		for i := range k.Inputs {
			if len(k.Inputs[i]) != n.InH*n.InW*n.InC || len(k.Exits[i]) != len(n.Exits) {
				t.Fatalf("image %d: %d elements, %d exits", i, len(k.Inputs[i]), len(k.Exits[i]))
			}
			for j, x := range k.Exits[i] {
				if len(x.Raw) != n.Exits[j].Classes || x.Class < 0 || x.Class >= n.Exits[j].Classes || !(x.Confidence > 0 && x.Confidence <= 1) {
					t.Fatalf("image %d, exit %d: %+v", i, j, x)
				}
			}
		}
		dir := t.TempDir()
		if err := Write(dir, k); err != nil {
			t.Fatal(err)
		}
		one, err := os.ReadFile(filepath.Join(dir, ImagesFile))
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(b, one)
		if err != nil {
			t.Fatalf("what was taken is refused when written: %v", err)
		}
		if err := Write(dir, again); err != nil {
			t.Fatal(err)
		}
		if two, err := os.ReadFile(filepath.Join(dir, ImagesFile)); err != nil || !bytes.Equal(one, two) {
			t.Fatalf("other bytes the second time, %v", err)
		}
	})
}
