package graph

import (
	"fmt"
	"slices"
	"strings"
)

// How sure an exit is of its answer, by name: a number from 0 to 1 that a threshold is held to. An exit without a name
// has Softmax, or Sigmoid where it has one logit.
const (
	Softmax = "softmax" // the probability of the likeliest class; needs two logits
	Sigmoid = "sigmoid" // of the logit that is least sure, max(p, 1 - p): one yes-or-no question, or labels that are no alternatives
	Entropy = "entropy" // 1 - H / ln(classes), H that of the softmax; needs two logits (S. Teerapittayanon et al., "BranchyNet", ICPR 2016)
	Margin  = "margin"  // between the two likeliest classes' probabilities; needs two logits
	NoClass = "none"    // the exit is no classifier and never sure, as a regression or a map
)

// Confidences are the names.
var Confidences = []string{Softmax, Sigmoid, Entropy, Margin, NoClass}

// CheckConfidence refuses a name that there is none of, or that needs two logits. "" is allowed.
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

// CheckConfidence refuses one that the exit, of so many channels, cannot have.
func (e *Exit) CheckConfidence(channels int) error {
	if e.Dims != nil && e.Confidence != "" && e.Confidence != NoClass {
		return fmt.Errorf("%w: confidence %s of a map, which has no class; expected none", ErrExits, e.Confidence)
	}
	return CheckConfidence(e.Confidence, channels)
}

// ConfidenceOf is how sure exit i is: what its file of exits names; else that of what it is, "" where that goes without saying.
func (g *Graph) ConfidenceOf(i int) string {
	e := &g.Exits[i]
	switch {
	case e.Dims != nil:
		return NoClass
	case e.Confidence == Softmax, e.Confidence == Sigmoid && g.Tensors[e.Tensor].C == 1:
		return ""
	case e.Confidence == "" && e.Activation == "Sigmoid" && g.Tensors[e.Tensor].C > 1:
		return Sigmoid
	}
	return e.Confidence
}

// Classifies tells that exit i answers a class. One logit that nothing is said of may be a regression.
func (g *Graph) Classifies(i int) bool {
	e := &g.Exits[i]
	return g.ConfidenceOf(i) != NoClass && (g.Tensors[e.Tensor].C > 1 || e.Activation != "" || e.Confidence != "")
}
