package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// maxExitsBytes bounds a file of exits.
const maxExitsBytes = 1 << 20

// LoadExits reads the names of the tensors that are exits from a YAML file:
//
//	exits:
//	  - /layer2/relu_3
//	  - logits
func LoadExits(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("exits: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxExitsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	names, err := parseExits(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

func parseExits(content []byte) ([]string, error) {
	if len(content) > maxExitsBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxExitsBytes)
	}
	var file struct {
		Exits []string `yaml:"exits"`
	}
	content, err := plaintext.YAML(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExits, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: expected a key \"exits\" with a list of tensor names: %v", ErrExits, err)
	}
	return file.Exits, checkExitNames(file.Exits)
}

func checkExitNames(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: none is named", ErrExits)
	}
	if len(names) > maxExits {
		return fmt.Errorf("%w: %d, at most %d are supported", ErrExits, len(names), maxExits)
	}
	seen := map[string]bool{}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("%w: exit %d has no name", ErrExits, i)
		}
		if seen[name] {
			return fmt.Errorf("%w: %q is named twice", ErrExits, name)
		}
		seen[name] = true
	}
	return nil
}
