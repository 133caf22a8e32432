// Package names says which names out of files are taken: they go into tables, errors and file names, where a
// line break, an escape or half a character would say something else than they do.
package names

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is whether all of a text is characters that can be printed. Bytes that are no UTF-8 are none: ranged
// over, they would be replacement characters, which can be.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
