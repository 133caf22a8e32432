package recipe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Side is an input's height and width in pixels; the zero value leaves them to the model.
type Side struct{ H, W int }

// Square is a side of both.
func Square(n int) Side { return Side{n, n} }

// UnmarshalText reads 224, or 224x320: height by width.
func (s *Side) UnmarshalText(text []byte) error {
	high, wide, two := strings.Cut(strings.ToLower(string(text)), "x")
	if !two {
		wide = high
	}
	h, err1 := strconv.Atoi(high)
	w, err2 := strconv.Atoi(wide)
	if err1 != nil || err2 != nil || two && min(h, w) < 1 { // what the importer refuses of a side, it refuses
		return fmt.Errorf("%w: a side of %q, expected pixels as in 224, or height x width as in 224x320", ErrRecipe, text)
	}
	*s = Side{h, w}
	return nil
}

func (s Side) String() string {
	if s.H == s.W {
		return strconv.Itoa(s.H)
	}
	return fmt.Sprintf("%dx%d", s.H, s.W)
}

// MarshalJSON writes a number for a square, a text otherwise.
func (s Side) MarshalJSON() ([]byte, error) {
	if s.H == s.W {
		return json.Marshal(s.H)
	}
	return json.Marshal(s.String())
}
