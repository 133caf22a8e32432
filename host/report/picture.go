// The content of a picture, without drawing.

package report

// Series is a curve: Y over X, with half intervals if CI is not nil.
type Series struct {
	Name string
	X, Y []float64
	CI   []float64
	Hue  int  // colour: curves of a family share one
	Dash int  // solid, dashed, dotted, both
	Bold bool // a main curve of the picture
	// Faint is a curve for comparison, grey and without a name.
	Faint bool `json:",omitempty"`
}

// Picture is what is drawn.
type Picture struct {
	Title, X, Y string
	Log         bool // logarithmic Y axis, for values that grow without bound above capacity
	Series      []Series
}
