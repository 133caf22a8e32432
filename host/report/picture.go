// What a picture shows, apart from drawing it.

package report

// Series is a line: Y at X, with half of its interval where CI is not nil.
type Series struct {
	Name string
	X, Y []float64
	CI   []float64
	Hue  int  // colour: lines of a family share one
	Dash int  // solid, dashed, dotted, both
	Bold bool // what the picture is about
	// Faint is a line for comparison, grey and without a name.
	Faint bool `json:",omitempty"`
}

// Picture is what is drawn.
type Picture struct {
	Title, X, Y string
	Log         bool // Y on a logarithmic scale, for values that explode beyond capacity
	Series      []Series
}
