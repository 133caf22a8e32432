package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// With --json there is one document on stdout; the error's document only if there is no other.
func TestFail(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		printed        string
		stdout, stderr bool // contain the error's document
	}{
		{"text", nil, "", false, false},
		{"json", []string{"run", "--json"}, "", true, false},
		{"json behind a document", []string{"--json"}, "{}\n", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, err bytes.Buffer
			s := New("dse", c.args, &out, &err)
			if _, e := s.Stdout.Write([]byte(c.printed)); e != nil {
				t.Fatal(e)
			}
			if code := s.Fail(3, errors.New("no such file"), "a hint"); code != 3 {
				t.Errorf("code %d", code)
			}
			is := func(text string) bool {
				var d ErrorDoc
				return json.Unmarshal([]byte(text), &d) == nil && d.Error == "no such file" && d.Code == 3 && d.Program == "dse"
			}
			if is(out.String()) != c.stdout || is(err.String()) != c.stderr {
				t.Errorf("stdout %q, stderr %q", out.String(), err.String())
			}
			if text := err.String(); c.args == nil && text != "dse: no such file\na hint\n" {
				t.Errorf("stderr %q", text)
			}
		})
	}
}

// Control characters are escaped in text, JSON and errors; the meaning of the JSON does not change.
func TestShown(t *testing.T) {
	const hostile = "a\x1b[2J\r\x07\x7f\u009b1m\u202eb\tβ\n"
	const shown = `a\u001b[2J\u000d\u0007\u007f\u009b1m\u202eb` + "\tβ\n"
	var out, err bytes.Buffer
	s := New("dse", nil, &out, &err)
	if n, e := io.WriteString(s.Stdout, hostile); e != nil || n != len(hostile) || out.String() != shown {
		t.Errorf("%d of %d bytes, %v: %q", n, len(hostile), e, out.String())
	}
	s.Fail(3, errors.New(hostile), "")
	if err.String() != "dse: "+shown+"\n" {
		t.Errorf("error %q", err.String())
	}
	out.Reset()
	if e := writeJSON(s.Stdout, hostile); e != nil {
		t.Fatal(e)
	}
	var back string
	if e := json.Unmarshal(out.Bytes(), &back); e != nil || back != hostile || strings.ContainsAny(out.String(), "\x1b\x7f\u009b\u202e") {
		t.Errorf("%q, %v: %q", back, e, out.String())
	}
}

// Without a terminal, a long task reports its progress from time to time; a short one prints nothing.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	l := &lines{w: &out, name: "evaluate", total: 100, now: func() time.Time { return now }, began: now, next: now.Add(firstLine)}
	for n := 1; n <= 100; n++ {
		now = now.Add(time.Second)
		l.set(n)
	}
	text := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(text) != 5 || text[0] != "evaluate: 5 of 100 after 5s, about 1m35s left" || text[1] != "evaluate: 25 of 100 after 25s, about 1m15s left" {
		t.Errorf("%d lines: %q", len(text), text)
	}
	out.Reset()
	l.next = now.Add(firstLine)
	for n := 1; n <= 100; n++ {
		l.set(n)
	}
	if out.Len() > 0 {
		t.Errorf("something quick says %q", out.String())
	}
}

func TestAbout(t *testing.T) {
	var out bytes.Buffer
	if err := About("dse").Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var d VersionDoc
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Version != Version() || len(d.ABI) != 16 || d.Go == "" {
		t.Errorf("%+v, %v", d, err)
	}
	built = "0123"
	defer func() { built = "" }()
	if d := About("dse"); d.Revision != built {
		t.Errorf("a linker that says %s gives %s", built, d.Revision)
	}
	out.Reset()
	if err := About("dse").Print(&out, false); err != nil || !strings.HasPrefix(out.String(), "dse "+Version()+" (") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A tag is the version; other descriptions give the fallback, so that documents do not change with every commit.
func TestVersionOf(t *testing.T) {
	for stamp, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3+dirty": "1.2.3", "v2.0.0-rc.1": "2.0.0-rc.1", "": released, "(devel)": released,
		"v0.0.0-20261125090000-0123456789ab": released, "v1.2.4-0.20261125090000-0123456789ab+dirty": released,
		"v1.2.3-rc.1.0.20261125090000-0123456789ab": released,
	} {
		if got := versionOf(stamp); got != want {
			t.Errorf("%q gives %q, want %q", stamp, got, want)
		}
	}
}
