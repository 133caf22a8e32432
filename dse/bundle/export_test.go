package bundle

import (
	"bytes"
	"crypto/sha256"
)

// Encode writes a bundle's file, with its hash, without validation.
func Encode(b *Bundle) ([]byte, error) {
	var w bytes.Buffer
	if err := b.encode(&w); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(w.Bytes())
	return append(w.Bytes(), sum[:]...), nil
}
