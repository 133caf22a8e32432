package plaintext

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		err           error
		says          string
	}{
		{"plain", "a\nb\n", "a\nb\n", nil, ""},
		{"nothing", "", "", nil, ""},
		{"a mark alone", "\ufeff", "", nil, ""},
		{"mark and CR LF", "\ufeffcat\r\ndög\r\n", "cat\ndög\n", nil, ""},
		{"CR alone", "a\rb\r", "a\nb\n", nil, ""},
		{"CR CR LF", "a\r\r\nb", "a\n\nb", nil, ""},
		{"a mark where two files were joined", "a\n\ufeffb\r\n\ufeffc\r\ufeffd", "a\nb\nc\nd", nil, ""},
		{"Ctrl-Z at the end", "cat\r\ndog\r\n\x1a", "cat\ndog\n", nil, ""},
		{"Ctrl-Z within", "a\x1ab\x1a", "a\x1ab", nil, ""},
		{"several Ctrl-Z", "\x1a\x1aa\x1a\x1a\x1ab\x1a\x1a", "\x1a\x1aa\x1a\x1a\x1ab", nil, ""},
		{"RTF", "{\\rtf1\\ansi cat\\par\n}", "", ErrEncoding, "formatted text"},
		{"xz", "\xfd7zXZ\x00", "", ErrEncoding, "compressed"},
		{"bzip2", "BZh91AY&SY", "", ErrEncoding, "compressed"},
		{"a mark within", "a\ufeffb", "a\ufeffb", nil, ""},
		{"a rune that is the replacement", "a\ufffdb", "a\ufffdb", nil, ""},
		{"UTF-16", "\xff\xfea\x00b\x00", "", ErrEncoding, "UTF-16"},
		{"UTF-16, big end first", "\xfe\xff\x00a", "", ErrEncoding, "UTF-16"},
		{"UTF-16 without a mark", "a\x00b\x00", "", ErrEncoding, "UTF-16"},
		{"UTF-16 without a mark, big end first", "\x00a\x00b", "", ErrEncoding, "UTF-16"},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "", ErrEncoding, "UTF-32"},
		{"Latin-1", "a\nM\xfcnchen\n", "a\nM", ErrEncoding, "line 2"},
		{"a zero byte", "a\r\n\nbcdef\x00", "a\n\nbcdef", ErrEncoding, "line 3"},
		{"compressed", "\x1f\x8b\x08\x00", "", ErrEncoding, "compressed"},
		{"a spreadsheet", "PK\x03\x04", "", ErrEncoding, "spreadsheet"},
	} {
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)), "data with the error": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, err := io.ReadAll(NewReader(r))
			if string(got) != c.out || !errors.Is(err, c.err) || c.err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %q, %v; want %q, %v with %q", c.name, how, got, err, c.out, c.err, c.says)
			}
		}
	}
}

func TestCheckJSON(t *testing.T) {
	for in, says := range map[string]string{
		`{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}`: "", `[1, "a", "a"]`: "", `{"a": "a", "b": "a"}`: "", `{`: "", `]`: "", ``: "",
		"{\"a\": 1,\n\"a\": 2}": `line 2: duplicate key: "a"`, `{"x": [{"k": [], "k": {}}]}`: `"k"`,
	} {
		err := checkJSON([]byte(in))
		if says == "" != (err == nil) || err != nil && (!errors.Is(err, ErrTwice) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", in, err, says)
		}
	}
}

func TestCheckYAML(t *testing.T) {
	for in, says := range map[string]string{
		"a: 10\nb: 0x10\nc: 0.5\nd: 0\ne: '010'\nf: 1_000\n": "", "a: [": "", "a: 2026-01-02": "",
		"a: 1\nb: 010\n": "line 2: a number is ambiguous: octal or decimal: 010; write 10", "a:\n  - {c: -007}\n": "write 7", "a: 00": "write 0", "a: 1\n---\nb: 01\n": "write 1",
	} {
		err := checkYAML([]byte(in))
		if says == "" != (err == nil) || err != nil && (!errors.Is(err, ErrNumber) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestColumns(t *testing.T) {
	at, err := Columns([]string{"x", " label", "file "}, "file", "label", "none")
	if err != nil || at[0] != 2 || at[1] != 1 || at[2] != -1 {
		t.Errorf("%v, %v", at, err)
	}
	if _, err := Columns([]string{"label", "file", "label"}, "file", "label"); !errors.Is(err, ErrTwice) {
		t.Errorf("%v, want %v", err, ErrTwice)
	}
}

// The text read has no CR and no mark at its start, and reading it again does not change it.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\ufeffa", "\xff\xfea\x00", "a\xfc", "{\"a\":1,\"a\":2}", "a: 010", "\x1a\x1a", "a\x1a\x1ab\x1a\x1a\x1a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = checkJSON(data), checkYAML(data)
		out, err := Clean(data)
		if err != nil {
			return
		}
		if bytes.ContainsRune(out, '\r') {
			t.Errorf("%q has a CR", out)
		}
		if again, err := Clean(out); !bytes.HasPrefix(out, []byte(mark)) && (err != nil || !bytes.Equal(again, out)) {
			t.Errorf("%q, then %q, %v", out, again, err)
		}
	})
}
