package onnx

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// PyTorch's exporter writes the weights to a separate file beside the model (NAME.onnx.data). A tensor names a file and
// a position, which are untrusted. The file must be in the model's folder, even after links are followed. The size
// limit of the model includes the bytes that are read from this file.

// Outside returns the data files that a model names, each once, as paths relative to the model's folder.
func Outside(file string) (names []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := read(f, &Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tensors(m.ProtoReflect(), func(t *onnxpb.TensorProto) {
		for _, x := range t.GetExternalData() {
			if name := path.Clean(x.GetValue()); x.GetKey() == "location" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	for _, name := range names {
		if _, err := root.Stat(name); err != nil { // the file may be outside the folder
			return nil, fmt.Errorf("%s: %w: %w", file, ErrExternal, err)
		}
	}
	return names, nil
}

// tensors calls the function see for each tensor of a message, including tensors in nested graphs.
func tensors(m protoreflect.Message, see func(*onnxpb.TensorProto)) {
	if t, ok := m.Interface().(*onnxpb.TensorProto); ok {
		see(t)
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.Message() == nil || f.IsMap() || !m.Has(f):
		case f.IsList():
			for l, k := m.Get(f).List(), 0; k < l.Len(); k++ {
				tensors(l.Get(k).Message(), see)
			}
		default:
			tensors(m.Get(f).Message(), see)
		}
	}
}

// outside opens the files with tensor data. It opens each file once.
type outside struct {
	dir   fs.FS // folder of the files; nil: files outside the model are not allowed
	files map[string]fs.File
	left  int64 // bytes that may still be read
}

func (o *outside) close() {
	for _, f := range o.files {
		f.Close() // an error does not matter, because the file was only read
	}
}

// read returns the data of a tensor, which must have size bytes.
func (o *outside) read(t *onnxpb.TensorProto, size int64) ([]byte, error) {
	var location string
	offset, length := int64(0), size
	for _, p := range t.GetExternalData() {
		var err error
		switch p.GetKey() {
		case "location":
			location = p.GetValue()
		case "offset":
			offset, err = strconv.ParseInt(p.GetValue(), 10, 64)
		case "length":
			length, err = strconv.ParseInt(p.GetValue(), 10, 64)
		}
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("%w: external_data has %s = %q, expected a number", ErrFormat, p.GetKey(), p.GetValue())
		}
	}
	switch {
	case o.dir == nil:
		return nil, fmt.Errorf("%w: in %q", ErrExternal, location)
	case length != size:
		return nil, fmt.Errorf("%w: %d bytes of %q, its dimensions need %d", ErrData, length, location, size)
	}
	name := path.Clean(location)
	if o.left -= size; o.left < 0 {
		return nil, fmt.Errorf("%w: data outside the file goes beyond the bytes allowed", ErrTooLarge)
	}
	f := o.files[name]
	if f == nil {
		var err error
		if f, err = o.dir.Open(name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExternal, err)
		}
		o.files[name] = f
	}
	// The size is checked before memory is allocated.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExternal, err)
	}
	at, ok := f.(io.ReaderAt)
	if !info.Mode().IsRegular() || !ok {
		return nil, fmt.Errorf("%w: %q is no plain file", ErrExternal, location)
	}
	if offset > info.Size()-size {
		return nil, fmt.Errorf("%w: bytes %d to %d of %q, which has %d", ErrData, offset, offset+size, location, info.Size())
	}
	data := make([]byte, size)
	if _, err := at.ReadAt(data, offset); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExternal, err)
	}
	return data, nil
}
