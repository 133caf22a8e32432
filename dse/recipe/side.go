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

// maxSide is what both may be at most.
const maxSide = 1 << 14

// UnmarshalText reads 224, or 224x320: height by width.
func (s *Side) UnmarshalText(text []byte) error {
	high, wide, two := strings.Cut(strings.ToLower(string(text)), "x")
	if !two {
		wide = high
	}
	h, err1 := strconv.Atoi(high)
	w, err2 := strconv.Atoi(wide)
	if err1 != nil || err2 != nil || min(h, w) < 1 || max(h, w) > maxSide {
		return fmt.Errorf("%w: a side of %q, expected pixels as in 224, or height x width as in 224x320, each from 1 to %d", ErrRecipe, text, maxSide)
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
