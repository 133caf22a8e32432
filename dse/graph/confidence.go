package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Measures of an exit's confidence, by name: a number from 0 to 1 that is compared with a threshold. An exit without
// a name uses Softmax, or Sigmoid if it has one logit.
const (
	Softmax = "softmax" // the probability of the likeliest class; needs two logits
	Sigmoid = "sigmoid" // max(p, 1 - p) of the least certain logit: for one yes-or-no question, or for labels that do not exclude each other
	Entropy = "entropy" // 1 - H / ln(classes) with the entropy H of the softmax; needs two logits (S. Teerapittayanon et al., "BranchyNet", ICPR 2016)
	Margin  = "margin"  // difference of the probabilities of the two most likely classes; needs two logits
	NoClass = "none"    // not a classifier, so never confident: a regression or a map
)

// Confidences lists the names.
var Confidences = []string{Softmax, Sigmoid, Entropy, Margin, NoClass}

// CheckConfidence rejects an unknown name, and a name that needs two logits. "" is allowed.
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

// CheckConfidence rejects a measure that is invalid for the exit's number of channels.
func (e *Exit) CheckConfidence(channels int) error {
	if e.Dims != nil && e.Confidence != "" && e.Confidence != NoClass {
		return fmt.Errorf("%w: confidence %s of a map, which has no class; expected none", ErrExits, e.Confidence)
	}
	return CheckConfidence(e.Confidence, channels)
}

// ConfidenceOf returns the measure of exit i: the one in its file of exits, otherwise the one for its kind; "" for the
// default.
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

// Classifies reports whether exit i is a classifier. A single logit without further information may be a regression.
func (g *Graph) Classifies(i int) bool {
	e := &g.Exits[i]
	return g.ConfidenceOf(i) != NoClass && (g.Tensors[e.Tensor].C > 1 || e.Activation != "" || e.Confidence != "")
}
