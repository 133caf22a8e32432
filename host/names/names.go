// Package names checks names from files before they are used in tables, errors and file names. A name with a line
// break, an escape sequence or an incomplete character would make such text misleading.
package names

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable reports whether a text has only printable characters. Invalid UTF-8 is not printable. It is checked first,
// because a loop over the text would return replacement characters, which are printable.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
