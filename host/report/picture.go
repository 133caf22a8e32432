// This file defines pictures. Other files draw them.

package report

// Series is a curve of Y over X. CI contains half widths of confidence intervals; it may be nil.
type Series struct {
	Name string
	X, Y []float64
	CI   []float64
	Hue  int  // number of the colour; curves of one family have the same number
	Dash int  // number of the line style: solid, dashed, dotted, or dashes and dots
	Bold bool // a main curve of the picture
	// Faint means that the curve is only for comparison: grey and without a name.
	Faint bool `json:",omitempty"`
}

// Picture is the content of a picture.
type Picture struct {
	Title, X, Y string
	Log         bool // logarithmic Y axis, for values that grow without limit above capacity
	Series      []Series
}
