package zoo

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
)

// TestNetworks: every network has the MACs that its own export program counted.
func TestNetworks(t *testing.T) {
	type figures struct {
		Segments []int64 `json:"macs_by_segment"`
	}
	want := map[string]figures{}
	for _, file := range []string{"figures.json", "structures.json"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var some map[string]json.RawMessage
		if err := json.Unmarshal(content, &some); err != nil {
			t.Fatal(err)
		}
		for name, raw := range some {
			var f figures
			if err := json.Unmarshal(raw, &f); err == nil && f.Segments != nil {
				want[name] = f
			}
		}
	}
	if len(want) != len(Names()) {
		t.Errorf("there are %v, and figures of %d", Names(), len(want))
	}
	inputs := map[string]graph.Tensor{
		"fashion": {H: 28, W: 28, C: 1}, "mobile": {H: 28, W: 28, C: 1}, "tiny": {H: 28, W: 28, C: 1},
		"resnet50": {H: 224, W: 224, C: 3}, "mobilenetv2": {H: 224, W: 224, C: 3}, "inceptionv3": {H: 299, W: 299, C: 3},
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			g, err := Load(name, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want[name].Segments, g.SegmentMACs()); d != "" {
				t.Errorf("MACs by segment: %s", d)
			}
			in := g.Tensors[g.Input]
			in.Name = ""
			if d := cmp.Diff(inputs[name], in); d != "" {
				t.Error(d)
			}
			for i, e := range g.Exits {
				if e.Name != "exit"+string(rune('1'+i)) {
					t.Errorf("exit %d is %q", i, e.Name)
				}
			}
			// Batch normalisation, ReLU, ReLU6 and every Add are fused into other layers.
			for _, n := range g.Nodes {
				if n.Op == graph.Add {
					t.Errorf("node %q is an addition of its own", n.Name)
				}
			}
		})
	}
}

func TestLoadUnknown(t *testing.T) {
	for _, name := range []string{"", "alexnet", "../zoo/tiny", "tiny.onnx"} {
		if _, err := Load(name, 1); err == nil || !strings.Contains(err.Error(), "fashion, inceptionv3") {
			t.Errorf("%q gives %v", name, err)
		}
	}
}

func TestFashionMNIST(t *testing.T) {
	for _, c := range []struct {
		train bool
		max   int
		want  int
		first int // class of the first image
	}{
		{false, 0, 10000, 9},
		{false, 17, 17, 9},
		{true, 100, 100, 9},
	} {
		d, err := FashionMNIST("", c.train, c.max)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Pixels) != c.want || len(d.Labels) != c.want || d.H != 28 || d.W != 28 || d.Labels[0] != c.first {
			t.Errorf("%+v: %d images of %d x %d, %d labels, the first is %d", c, len(d.Pixels), d.H, d.W, len(d.Labels), d.Labels[0])
		}
		largest := float32(0)
		for _, image := range d.Pixels {
			if len(image) != 28*28 {
				t.Fatalf("an image of %d pixels", len(image))
			}
			for _, p := range image {
				if p < 0 || p > 1 {
					t.Fatalf("a pixel is %v", p)
				}
				largest = max(largest, p)
			}
		}
		if largest != 1 {
			t.Errorf("the brightest pixel is %v", largest)
		}
	}
	_, err := FashionMNIST("/nowhere", false, 1)
	if !errors.Is(err, ErrDataMissing) || !strings.Contains(err.Error(), "dataset-fashion-mnist") {
		t.Errorf("a missing folder gives %v", err)
	}
}

const ubyte = 0x08

// idx builds a compressed file: type, sizes, data.
func idx(t *testing.T, kind byte, sizes []uint32, data []byte) []byte {
	t.Helper()
	content := []byte{0, 0, kind, byte(len(sizes))}
	for _, s := range sizes {
		content = binary.BigEndian.AppendUint32(content, s)
	}
	return compress(t, append(content, data...))
}

func compress(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadIDX(t *testing.T) {
	pixels := []byte{0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6}
	images := idx(t, ubyte, []uint32{2, 2, 3}, pixels)
	labels := idx(t, ubyte, []uint32{2}, []byte{7, 3})
	broken := bytes.Clone(images)
	broken[len(broken)-6] ^= 1 // in the checksum
	cases := []struct {
		name           string
		images, labels []byte
		ok             bool
	}{
		{"good", images, labels, true},
		{"checksum", broken, labels, false},
		{"not gzip", []byte("images"), labels, false},
		{"empty", nil, labels, false},
		{"cut", images[:len(images)/2], labels, false},
		{"no header", compress(t, []byte{0, 0}), labels, false},
		{"not an IDX file", compress(t, []byte("once upon a time")), labels, false},
		{"another type", idx(t, 0x0D, []uint32{2, 2, 3}, pixels), labels, false},
		{"another rank", idx(t, ubyte, []uint32{2, 6}, pixels), labels, false},
		{"too little", idx(t, ubyte, []uint32{2, 2, 3}, pixels[:11]), labels, false},
		{"too much", idx(t, ubyte, []uint32{2, 2, 3}, append(pixels, 1)), labels, false},
		{"no images", idx(t, ubyte, []uint32{0, 2, 3}, nil), labels, false},
		{"huge", idx(t, ubyte, []uint32{1 << 31, 1 << 31, 1 << 31}, pixels), labels, false},
		{"large", idx(t, ubyte, []uint32{1 << 20, 1 << 10, 1 << 10}, pixels), labels, false},
		{"more labels", images, idx(t, ubyte, []uint32{3}, []byte{1, 2, 3}), false},
		{"labels cut", images, idx(t, ubyte, []uint32{2}, []byte{1}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			i, l := filepath.Join(dir, "images"), filepath.Join(dir, "labels")
			for path, content := range map[string][]byte{i: c.images, l: c.labels} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d, err := ReadIDX(i, l, 0)
			if !c.ok {
				if !errors.Is(err, ErrIDX) || !strings.Contains(err.Error(), dir) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &Images{H: 2, W: 3, Labels: []int{7, 3}, Pixels: [][]float32{
				{0, 51. / 255, 102. / 255, 153. / 255, 204. / 255, 1},
				{1. / 255, 2. / 255, 3. / 255, 4. / 255, 5. / 255, 6. / 255},
			}}
			if diff := cmp.Diff(want, d); diff != "" {
				t.Error(diff)
			}
			one, err := ReadIDX(i, l, 1)
			if err != nil || len(one.Pixels) != 1 || len(one.Labels) != 1 {
				t.Errorf("the first image alone: %+v, %v", one, err)
			}
		})
	}
}

// A network of convolutions and global pools accepts another input side: maps shrink with it, weights and exits stay,
// and removed exits take their layers with them.
func TestLoadWith(t *testing.T) {
	full, err := Load("resnet50", 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := LoadWith("resnet50", onnx.Options{WeightSeed: 1, InputSide: onnx.Square(64), Exits: []string{"exit1", "exit2"}})
	if err != nil {
		t.Fatal(err)
	}
	if in := g.Tensors[g.Input]; in.H != 64 || in.W != 64 || in.C != 3 {
		t.Errorf("an input of %d x %d x %d", in.H, in.W, in.C)
	}
	if len(g.Exits) != 2 || len(g.Nodes) >= len(full.Nodes) {
		t.Fatalf("%d exits, %d nodes of %d", len(g.Exits), len(g.Nodes), len(full.Nodes))
	}
	for i, n := range g.Nodes {
		f := full.Nodes[i]
		a, b := g.Tensors[n.Output], full.Tensors[f.Output]
		if n.Name != f.Name || !slices.Equal(n.Weights, f.Weights) || a.C != b.C {
			t.Fatalf("node %s is not %s", n.Name, f.Name)
		}
		if b.H > 1 && (a.H*7 != b.H*2 || a.W*7 != b.W*2) {
			t.Errorf("%s: %d x %d from %d x %d", n.Name, a.H, a.W, b.H, b.W)
		}
	}
	for _, o := range []onnx.Options{{InputSide: onnx.Square(-1)}, {InputSide: onnx.Square(1 << 20)}, {InputSide: onnx.Side{H: 64}}} {
		if _, err := LoadWith("resnet50", o); !errors.Is(err, onnx.ErrShape) {
			t.Errorf("a side of %v: %v", o.InputSide, err)
		}
	}
	if _, err := LoadWith("nonsense", onnx.Options{}); err == nil {
		t.Error("a network that is not there is loaded")
	}
}
