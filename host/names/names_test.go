package names

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "resnet 152_be (à 15/s)": true, "日本": true, "\ufffd": true,
		"a\nb": false, "\x1b[31mred": false, "a\x7f": false, "a\u00a0b": false, "a\u2028b": false, "\u202ea": false, "\ufeffa": false, "\xffa": false, "a\xc3": false,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
