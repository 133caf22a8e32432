package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the measures of an exit's confidence. A measure is a number from 0 to 1 that is compared with a threshold.
// The default is Softmax, or Sigmoid for an exit with one logit.
const (
	Softmax = "softmax" // probability of the most likely class; needs at least two logits
	Sigmoid = "sigmoid" // max(p, 1 - p) of the least certain logit, for two classes with one logit, or for labels that do not exclude each other
	Entropy = "entropy" // 1 - H / ln(classes) with the entropy H of the softmax; needs at least two logits (S. Teerapittayanon et al., "BranchyNet", ICPR 2016)
	Margin  = "margin"  // difference of the probabilities of the two most likely classes; needs at least two logits
	NoClass = "none"    // the exit is not a classifier but a regression or a map, so it is never confident
)

// Confidences lists the names of all measures.
var Confidences = []string{Softmax, Sigmoid, Entropy, Margin, NoClass}

// CheckConfidence returns an error for an unknown name, and for one logit if the measure needs two. "" is allowed.
func CheckConfidence(name string, logits int) error {
	switch {
	case name == "":
	case !slices.Contains(Confidences, name):
		return fmt.Errorf("%w: confidence %.40q, expected %s", ErrExits, name, strings.Join(Confidences, ", "))
	case logits == 1 && name != Sigmoid && name != NoClass:
		return fmt.Errorf("%w: confidence %s of one logit says nothing; expected sigmoid or none", ErrExits, name)
	}
	return nil
}

// CheckConfidence returns an error if the exit's measure is invalid for its number of channels.
func (e *Exit) CheckConfidence(channels int) error {
	if e.Dims != nil && e.Confidence != "" && e.Confidence != NoClass {
		return fmt.Errorf("%w: confidence %s of a map, which has no class; expected none", ErrExits, e.Confidence)
	}
	return CheckConfidence(e.Confidence, channels)
}

// ConfidenceOf returns the measure of exit i: the measure in the file of exits, or otherwise the measure for its kind
// of exit. "" means the default.
func (g *Graph) ConfidenceOf(i int) string {
	e := &g.Exits[i]
	switch {
	case e.Dims != nil:
		return NoClass
	case e.Confidence == Softmax, e.Confidence == Sigmoid && g.Tensors[e.Tensor].C == 1:
		return ""
	case e.Confidence == "" && strings.HasSuffix(e.Activation, "Sigmoid") && g.Tensors[e.Tensor].C > 1:
		return Sigmoid
	}
	return e.Confidence
}

// Classifies reports whether exit i is a classifier. It returns false for a single logit without further information,
// because the exit may be a regression.
func (g *Graph) Classifies(i int) bool {
	e := &g.Exits[i]
	return g.ConfidenceOf(i) != NoClass && (g.Tensors[e.Tensor].C > 1 || e.Activation != "" || e.Confidence != "")
}
