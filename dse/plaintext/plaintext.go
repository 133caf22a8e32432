// Package plaintext cleans texts that people write, before a parser reads them: labels, arrivals, traces, links,
// clients, boards, configurations. Editors and spreadsheets may add a byte order mark, CR LF line ends or UTF-16. Files
// may contain duplicate keys, or numbers with leading zeros that YAML reads as octal. Package plaintext accepts text
// that has only one meaning. Any other text is an error, and all readers report the same error.
package plaintext

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Errors of this package.
var (
	ErrEncoding = errors.New("the text is not UTF-8")
	ErrTwice    = errors.New("duplicate key")
	ErrNumber   = errors.New("a number is ambiguous: octal or decimal")
)

// mark is the byte order mark of UTF-8.
const mark = "\ufeff"

// ctrlZ fills the end of a text that a DOS program wrote.
const ctrlZ = 0x1a

// reader removes byte order marks, and converts line ends to LF.
type reader struct {
	from   *bufio.Reader
	line   int
	within bool  // the current line contains a character
	inner  int   // number of the next Ctrl-Z that are followed by other text
	err    error // error that Read returns after the text before it
}

// ends reports whether the text ends here, after any number of further Ctrl-Z. If not, it counts them.
func (t *reader) ends() bool {
	for t.inner = 0; ; t.inner++ {
		next, err := t.from.Peek(t.inner + 1)
		if err != nil {
			return !errors.Is(err, bufio.ErrBufferFull)
		}
		if next[t.inner] != ctrlZ {
			return false
		}
	}
}

// NewReader returns a reader of the text r in UTF-8. It removes byte order marks at the start of lines, and Ctrl-Z at
// the end. It converts CR LF and a single CR to LF. Other encodings are errors.
func NewReader(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	t := &reader{from: b, line: 1}
	head, _ := b.Peek(4) // Read reports an error if the text is unreadable
	zero := func(i int) bool { return i < len(head) && head[i] == 0 }
	switch {
	case bytes.HasPrefix(head, []byte(mark)):
		_, _ = b.Discard(len(mark)) // no error, because Peek has read the mark
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		t.err = fmt.Errorf("%w: it is UTF-32; save it as UTF-8", ErrEncoding)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")), zero(1) && !zero(0), zero(0) && len(head) > 1 && !zero(1):
		t.err = fmt.Errorf("%w: it is UTF-16, as some programs export; save it as UTF-8", ErrEncoding)
	case bytes.HasPrefix(head, []byte("{\\rt")), bytes.HasPrefix(head, []byte("%PDF")):
		t.err = fmt.Errorf("%w: it is formatted text (RTF, PDF), as word processors save it; save it as plain text", ErrEncoding)
	case bytes.HasPrefix(head, []byte("\x1f\x8b")), bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")),
		bytes.HasPrefix(head, []byte("\xfd7zX")), bytes.HasPrefix(head, []byte("BZh9")), bytes.HasPrefix(head, []byte("7z\xbc\xaf")):
		t.err = fmt.Errorf("%w: it is compressed, or a spreadsheet's own file; unpack it, or export text", ErrEncoding)
	}
	return t
}

// Read implements io.Reader.
func (t *reader) Read(p []byte) (int, error) {
	n := 0
	for t.err == nil && len(p)-n >= utf8.UTFMax {
		if _, err := t.from.Peek(1); err != nil {
			t.err = err
			break
		}
		have, _ := t.from.Peek(min(t.from.Buffered(), len(p)-n))
		plain := 0
		for plain < len(have) && have[plain] < utf8.RuneSelf && have[plain] != '\r' && have[plain] != 0 && have[plain] != ctrlZ {
			plain++
		}
		if plain > 0 {
			t.line += bytes.Count(have[:plain], []byte("\n"))
			t.within = have[plain-1] != '\n'
			n += copy(p[n:], have[:plain])
			_, _ = t.from.Discard(plain)
			continue
		}
		c, size, err := t.from.ReadRune()
		switch {
		case err != nil:
			t.err = err
		case c == utf8.RuneError && size == 1:
			t.err = fmt.Errorf("%w: line %d has a byte that is not UTF-8 (Latin-1, a code page?); save it as UTF-8", ErrEncoding, t.line)
		case c == 0:
			t.err = fmt.Errorf("%w: line %d holds a zero byte", ErrEncoding, t.line)
		case c == '\r':
			if next, _ := t.from.Peek(1); len(next) == 1 && next[0] == '\n' {
				continue
			}
			p[n], t.line, t.within = '\n', t.line+1, false
			n++
			continue
		case c == ctrlZ && t.inner > 0:
			t.inner, t.within = t.inner-1, true
			p[n] = ctrlZ
			n++
		case c == ctrlZ && t.ends():
			_, _ = t.from.Discard(t.inner)
			t.inner = 0
			continue
		case string(c) == mark && !t.within: // the mark of a file that was appended to another file
			continue
		default:
			t.within = true
			n += utf8.EncodeRune(p[n:], c)
		}
		if n > 0 && t.from.Buffered() == 0 {
			return n, nil // return the available text instead of waiting for more
		}
	}
	if n > 0 {
		return n, nil
	}
	if t.err == nil {
		return 0, io.ErrShortBuffer
	}
	return 0, t.err
}

// Clean converts a text in memory as NewReader does.
func Clean(data []byte) ([]byte, error) { return io.ReadAll(NewReader(bytes.NewReader(data))) }

// JSON converts a text as Clean does. Duplicate keys in an object are an error, because encoding/json would use the
// last one. Invalid JSON is not an error here, because the parser reports it.
func JSON(data []byte) ([]byte, error) {
	data, err := Clean(data)
	if err != nil {
		return nil, err
	}
	return data, checkJSON(data)
}

func checkJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type object struct {
		keys  map[string]bool // nil for an array
		value bool            // the next token is a value instead of a key
	}
	var open []object
	for {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		last := len(open) - 1
		if delim, ok := t.(json.Delim); ok && (delim == ']' || delim == '}') {
			open = open[:last]
			continue
		}
		if last >= 0 && open[last].keys != nil {
			if key, ok := t.(string); ok && !open[last].value {
				if open[last].keys[key] {
					return fmt.Errorf("line %d: %w: %q", 1+bytes.Count(data[:d.InputOffset()], []byte("\n")), ErrTwice, key)
				}
				open[last].keys[key], open[last].value = true, true
				continue
			}
			open[last].value = false
		}
		switch t {
		case json.Delim('{'):
			open = append(open, object{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		}
	}
}

// octal matches a number that YAML 1.1 reads as octal, but people read as decimal.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// YAML converts a text as Clean does. Whole numbers with leading zeros are an error, but invalid YAML is not.
func YAML(data []byte) ([]byte, error) {
	data, err := Clean(data)
	if err != nil {
		return nil, err
	}
	return data, checkYAML(data)
}

func checkYAML(data []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		if d.Decode(&n) != nil {
			return nil
		}
		if err := checkNode(&n); err != nil {
			return err
		}
	}
}

func checkNode(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 && octal.MatchString(n.Value) {
		plain := strings.TrimLeft(strings.TrimLeft(n.Value, "+-"), "0_")
		return fmt.Errorf("line %d: %w: %s; write %s, or a text between quotes", n.Line, ErrNumber, n.Value, max(plain, "0"))
	}
	for _, c := range n.Content {
		if err := checkNode(c); err != nil {
			return err
		}
	}
	return nil
}

// Columns returns the index of each named column in the header of a CSV; -1: missing. A duplicate is an error.
func Columns(head []string, names ...string) ([]int, error) {
	at := make([]int, len(names))
	for k, name := range names {
		at[k] = -1
		for i, h := range head {
			if strings.TrimSpace(h) != name {
				continue
			}
			if at[k] >= 0 {
				return nil, fmt.Errorf("%w: column %q", ErrTwice, name)
			}
			at[k] = i
		}
	}
	return at, nil
}
