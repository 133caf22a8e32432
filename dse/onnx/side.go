package onnx

import (
	"fmt"
	"strconv"
	"strings"
)

// Side is a height and width that replace the model's input size. The zero value means that the size does not change.
type Side struct{ H, W int }

// Square returns a Side of n by n.
func Square(n int) Side { return Side{n, n} }

// UnmarshalText reads "224" (square) or "480x640" (height first).
func (s *Side) UnmarshalText(text []byte) error {
	h, w, both := strings.Cut(string(text), "x")
	if !both {
		w = h
	}
	var err [2]error
	s.H, err[0] = strconv.Atoi(h)
	s.W, err[1] = strconv.Atoi(w)
	if err[0] != nil || err[1] != nil || s.H < 0 || s.W < 0 || (s.H == 0) != (s.W == 0) {
		return fmt.Errorf("%q is no size; expected PIXELS or HEIGHTxWIDTH, as 224 or 480x640", text)
	}
	return nil
}

// String returns the form that UnmarshalText reads.
func (s Side) String() string {
	if s.H == s.W {
		return strconv.Itoa(s.H)
	}
	return fmt.Sprintf("%dx%d", s.H, s.W)
}

// MarshalJSON writes a square as a number, and another Side as the text of String.
func (s Side) MarshalJSON() ([]byte, error) {
	if s.H == s.W {
		return []byte(s.String()), nil
	}
	return []byte(strconv.Quote(s.String())), nil
}
