// The content of a picture. Another file draws it.

package report

// Series is a curve: Y over X, with halves of confidence intervals if CI is not nil.
type Series struct {
	Name string
	X, Y []float64
	CI   []float64
	Hue  int  // number of the colour; curves of a family have the same
	Dash int  // number of the line style: solid, dashed, dotted, or dashes and dots
	Bold bool // a main curve of the picture
	// Faint is a curve for comparison, grey and without a name.
	Faint bool `json:",omitempty"`
}

// Picture is the content of a picture.
type Picture struct {
	Title, X, Y string
	Log         bool // logarithmic Y axis, for values that grow without bound above capacity
	Series      []Series
}
