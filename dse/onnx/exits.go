package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/plaintext"
)

const maxExitsBytes = 1 << 20

// exitName is an entry of an exits file: the names of a tensor and of the exit's confidence measure.
type exitName struct{ Tensor, Confidence string }

// UnmarshalYAML reads a tensor's name, or a mapping with the keys tensor and confidence.
func (e *exitName) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&e.Tensor)
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if key := n.Content[i].Value; key != "tensor" && key != "confidence" {
				return fmt.Errorf("line %d: %q in an exit", n.Content[i].Line, key)
			}
		}
	}
	return n.Decode((*struct{ Tensor, Confidence string })(e))
}

// LoadExits reads the names of the tensors that are exits from a YAML file. An exit may have a confidence measure
// (graph.Confidences):
//
//	exits:
//	  - /layer2/relu_3
//	  - {tensor: logits, confidence: entropy}
func LoadExits(path string) (names []string, confidence map[string]string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("exits: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxExitsBytes+1))
	if err == nil {
		names, confidence, err = parseExits(content)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, confidence, nil
}

func parseExits(content []byte) (names []string, confidence map[string]string, err error) {
	if len(content) > maxExitsBytes {
		return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxExitsBytes)
	}
	var file struct {
		Exits []exitName `yaml:"exits"`
	}
	if content, err = plaintext.YAML(content); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrExits, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%w: expected a key \"exits\" with a list of tensor names, or of {tensor: NAME, confidence: %s}: %v",
			ErrExits, strings.Join(graph.Confidences, "|"), err)
	}
	if !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return nil, nil, fmt.Errorf("%w: expected one YAML document", ErrExits)
	}
	for _, e := range file.Exits {
		names = append(names, e.Tensor)
		if e.Confidence == "" {
			continue
		}
		if confidence == nil {
			confidence = map[string]string{}
		}
		confidence[e.Tensor] = e.Confidence
	}
	return names, confidence, checkExitNames(names)
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
