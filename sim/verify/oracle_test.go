package verify

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestReadOracle(t *testing.T) {
	file := func(images, exits uint32) *bytes.Buffer {
		b := bytes.NewBufferString("SLOR")
		for _, v := range []any{uint32(1), images, exits, []uint32{2, 3}, []float32{0, 1, 5, 2}, []float32{0, 0, 9, 7, 0, 0}} {
			if err := binary.Write(b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	got, err := ReadOracle(file(2, 2), 2, 2)
	if err != nil || got[0][0].Class != 1 || got[1][0].Class != 0 || got[0][1].Class != 2 || got[1][1].Class != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if got[1][1].Confidence < 0.99 || got[0][0].Confidence > 0.74 {
		t.Errorf("confidences %v, %v", got[1][1].Confidence, got[0][0].Confidence)
	}
	cut := file(2, 2)
	cut.Truncate(cut.Len() - 1)
	for name, b := range map[string]*bytes.Buffer{"cut": cut, "images": file(3, 2), "exits": file(2, 1), "empty": {}} {
		if _, err := ReadOracle(b, 2, 2); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
