package onnx

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// outsideModel is the good network with its first weights in a file, 8 bytes from its beginning.
func outsideModel(t *testing.T) (b *builder, data []byte) {
	t.Helper()
	b = good()
	w := b.m.Graph.Initializer[0]
	data = make([]byte, 8)
	for _, v := range w.FloatData {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	w.FloatData, w.DataLocation = nil, onnxpb.TensorProto_EXTERNAL.Enum()
	place(w, "location", "good.onnx.data", "offset", "8", "length", "216")
	return b, data
}

// place replaces where a tensor says that its data lies.
func place(w *onnxpb.TensorProto, pairs ...string) {
	w.ExternalData = nil
	for i := 0; i < len(pairs); i += 2 {
		w.ExternalData = append(w.ExternalData, &onnxpb.StringStringEntryProto{Key: proto.String(pairs[i]), Value: proto.String(pairs[i+1])})
	}
}

func TestDataOutside(t *testing.T) {
	want, err := good().load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		want   error // nil: the good network
		change func(w *onnxpb.TensorProto, o *Options)
	}{
		{"as PyTorch writes it", nil, func(*onnxpb.TensorProto, *Options) {}},
		{"to the end of the dimensions", nil, func(w *onnxpb.TensorProto, _ *Options) {
			place(w, "location", "./good.onnx.data", "offset", "8", "checksum", "of no interest")
		}},
		{"no bytes more", nil, func(_ *onnxpb.TensorProto, o *Options) { o.MaxBytes = 4096 }},
		{"no location", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "offset", "8") }},
		{"no such file", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "location", "other.data") }},
		{"above the folder", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "location", "../secret", "offset", "8") }},
		{"absolute", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "location", "/dev/zero") }},
		{"a link out of the folder", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "location", "link", "offset", "8") }},
		{"a folder", ErrExternal, func(w *onnxpb.TensorProto, _ *Options) { place(w, "location", ".") }},
		{"another length", ErrData, func(w *onnxpb.TensorProto, _ *Options) { w.ExternalData[2].Value = proto.String("212") }},
		{"behind the end", ErrData, func(w *onnxpb.TensorProto, _ *Options) { w.ExternalData[1].Value = proto.String("12") }},
		{"far behind the end", ErrData, func(w *onnxpb.TensorProto, _ *Options) { w.ExternalData[1].Value = proto.String("9223372036854775807") }},
		{"before the beginning", ErrFormat, func(w *onnxpb.TensorProto, _ *Options) { w.ExternalData[1].Value = proto.String("-8") }},
		{"no number", ErrFormat, func(w *onnxpb.TensorProto, _ *Options) { w.ExternalData[1].Value = proto.String("eight") }},
		{"more than is allowed", ErrTooLarge, func(w *onnxpb.TensorProto, o *Options) {
			w.Dims, w.ExternalData = []int64{1 << 10, 2, 3, 3}, w.ExternalData[:2]
			o.MaxBytes = 4096
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b, data := outsideModel(t)
			o := Options{Name: "built"}
			c.change(b.m.Graph.Initializer[0], &o)
			models := filepath.Join(dir, "models")
			if err := os.Mkdir(models, 0o700); err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string][]byte{
				filepath.Join(dir, "secret"): data, filepath.Join(models, "good.onnx.data"): data, filepath.Join(models, "good.onnx"): b.bytes(t),
			} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("../secret", filepath.Join(models, "link")); err != nil {
				t.Fatal(err)
			}
			g, err := ImportFile(filepath.Join(models, "good.onnx"), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			for n := range g.Nodes {
				for i, v := range g.Nodes[n].Weights {
					if v != want.Nodes[n].Weights[i] {
						t.Fatalf("node %d, weight %d: %v, want %v", n, i, v, want.Nodes[n].Weights[i])
					}
				}
			}
		})
	}
	// A reader has no folder.
	b, _ := outsideModel(t)
	if _, err := b.load(t, Options{}); !errors.Is(err, ErrExternal) {
		t.Errorf("without a folder: %v", err)
	}
}
