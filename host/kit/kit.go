// Package kit is a board's test data: a bundle, inputs, and the golden executor's result for each input at every exit.
// The command `sluice kit` creates it on a workstation, for use in a board's image.
package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
)

// ErrKit is wrapped by errors about a kit's content.
var ErrKit = errors.New("bad kit")

// Files of a kit's folder.
const (
	BundleFile = "bundle.sluice"
	ImagesFile = "images.json"
)

const (
	schema   = "sluice-kit/1"
	maxFile  = 256 << 20
	maxImage = 1 << 16
)

// Kit is a bundle and inputs with golden results.
type Kit struct {
	Bundle *bundle.Bundle
	Inputs [][]int16             // by input: elements in the device's format
	Exits  [][]device.ExitResult // by input and exit: golden result
	Labels []int                 // true classes; -1 if unknown
}

type document struct {
	Schema string  `json:"schema"`
	Bundle string  `json:"bundle_hash"`
	Images []image `json:"images"`
}

type image struct {
	Label  int       `json:"label"`
	Input  []int16   `json:"input"`
	Logits [][]int16 `json:"logits"` // logits by exit
}

// Write writes a kit's folder.
func Write(dir string, k *Kit) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write kit: %w", err)
	}
	hash, err := k.Bundle.Hash()
	if err != nil {
		return fmt.Errorf("write kit %s: %w", dir, err)
	}
	doc := document{Schema: schema, Bundle: fmt.Sprintf("%016x", hash)}
	for i, in := range k.Inputs {
		m := image{Label: k.Labels[i], Input: in}
		for _, e := range k.Exits[i] {
			m.Logits = append(m.Logits, e.Raw)
		}
		doc.Images = append(doc.Images, m)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write kit %s: %w", dir, err)
	}
	if err := bundle.WriteFile(filepath.Join(dir, BundleFile), k.Bundle); err != nil {
		return fmt.Errorf("write kit: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ImagesFile), append(text, '\n'), 0o666); err != nil {
		return fmt.Errorf("write kit: %w", err)
	}
	return nil
}

// Read reads a kit's folder and checks that the images fit the bundle.
func Read(dir string) (*Kit, error) {
	b, err := bundle.ReadFile(filepath.Join(dir, BundleFile))
	if err != nil {
		return nil, fmt.Errorf("read kit: %w", err)
	}
	path := filepath.Join(dir, ImagesFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read kit: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read kit %s: %w", path, err)
	}
	k, err := parse(b, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

func parse(b *bundle.Bundle, text []byte) (*Kit, error) {
	bad := func(format string, a ...any) error { return fmt.Errorf("%w: %s", ErrKit, fmt.Sprintf(format, a...)) }
	if len(text) > maxFile {
		return nil, bad("longer than %d bytes", maxFile)
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, bad("%v, after byte %d", err, d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("more follows the document, at byte %d", d.InputOffset())
	}
	hash, err := b.Hash()
	if err != nil {
		return nil, err
	}
	switch want := fmt.Sprintf("%016x", hash); {
	case doc.Schema != schema:
		return nil, bad("schema %q, expected %q", doc.Schema, schema)
	case doc.Bundle != want:
		return nil, bad("its images are for the bundle %q, the one beside them is %s", doc.Bundle, want)
	case len(doc.Images) < 1 || len(doc.Images) > maxImage:
		return nil, bad("%d images, expected 1..%d", len(doc.Images), maxImage)
	}
	net := &b.Network
	k := &Kit{Bundle: b}
	for i, m := range doc.Images {
		if want := net.InH * net.InW * net.InC; len(m.Input) != want {
			return nil, bad("image %d has %d elements, expected %d", i, len(m.Input), want)
		}
		if err := net.Holds(m.Input); err != nil {
			return nil, bad("image %d: %v", i, err)
		}
		if len(m.Logits) != len(net.Exits) {
			return nil, bad("image %d has logits of %d exits, expected %d", i, len(m.Logits), len(net.Exits))
		}
		if last := bundle.ClassesOf(net.Exits[len(net.Exits)-1].Classes); m.Label < -1 || m.Label >= last {
			return nil, bad("image %d has the class %d, expected -1 (unknown) to %d", i, m.Label, last-1)
		}
		exits := make([]device.ExitResult, len(net.Exits))
		for j, raw := range m.Logits {
			e := &net.Exits[j]
			if len(raw) != e.Classes {
				return nil, bad("image %d, exit %d: %d logits, expected %d", i, j, len(raw), e.Classes)
			}
			class, conf := bundle.ConfidenceAt(e, raw)
			exits[j] = device.ExitResult{Exit: j, Class: class, Confidence: conf, Logits: e.Logits(raw), Raw: raw}
		}
		k.Inputs, k.Exits, k.Labels = append(k.Inputs, m.Input), append(k.Exits, exits), append(k.Labels, m.Label)
	}
	return k, nil
}
