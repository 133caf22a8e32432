package load_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/load"
)

// Byte order marks and line ends do not change the arrivals; UTF-16 and bytes of a code page are rejected by name.
func TestTextsAsProgramsWriteThem(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]func(path string) (any, error){}
	content := map[string]string{"a.csv": "arrival_ns\n0\n1500\n", "a.json": "{\"unit\": \"s\",\n\"arrivals\": [0, 0.5]}\n"}
	for name := range content {
		texts[name] = func(path string) (any, error) { return load.File(path) }
	}
	for file, format := range map[string]string{
		"disb.json": "disb", "azure-functions.csv": "azure-functions", "azure-llm.csv": "azure-llm", "azure-minutes.csv": "azure-minutes", "alibaba-jobs.csv": "alibaba", "alibaba-pods.csv": "alibaba",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		content[file] = string(text)
		texts[file] = func(path string) (any, error) { return load.TraceFile(format, path, 1) }
	}
	for name, read := range texts {
		with := func(text string) (any, error) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return read(path)
		}
		want, err := with(content[name])
		if err != nil {
			t.Fatal(err)
		}
		crlf := strings.ReplaceAll(content[name], "\n", "\r\n")
		texts := map[string]string{"a mark": "\ufeff" + content[name], "CR LF": crlf, "both": "\ufeff" + crlf}
		if head, rest, _ := strings.Cut(content[name], "\n"); strings.HasSuffix(name, ".csv") {
			texts["quotes"] = `"` + strings.ReplaceAll(head, ",", `","`) + "\"\n" + rest
		}
		for how, text := range texts {
			if got, err := with(text); err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("%s, %s: %v %s", name, how, err, cmp.Diff(want, got))
			}
		}
		var wide bytes.Buffer
		wide.WriteString("\xff\xfe")
		for _, c := range utf16.Encode([]rune(content[name])) {
			wide.Write([]byte{byte(c), byte(c >> 8)})
		}
		for says, text := range map[string]string{"UTF-16": wide.String(), "Latin-1": content[name] + "\xe4"} {
			_, err := with(text)
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v, want %s", name, err, says)
			}
		}
	}
}

// A duplicate key has no clear meaning and is rejected.
func TestDISBKeyTwice(t *testing.T) {
	_, err := load.DISB("w", strings.NewReader(`{"time": 1, "tasks": [{"load": {"type": "periodic", "frequency": 1, "frequency": 2}}]}`), 1)
	if err == nil || !strings.Contains(err.Error(), plaintext.ErrTwice.Error()) {
		t.Errorf("%v, want %v", err, plaintext.ErrTwice)
	}
}

// Functions of two apps are different, even with the same name.
func TestAzureNamesWithinApps(t *testing.T) {
	names := func(tr *load.Trace, err error) (all []string) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range tr.Streams {
			all = append(all, tr.Streams[i].Name)
		}
		return
	}
	functions, err := load.AzureFunctions("f", strings.NewReader("app,func,end_timestamp,duration\na1,f,1,0.5\na2,f,2,0.5\na2,g,3,0.5\na1,f,4,0.5\n"))
	if d := cmp.Diff([]string{"a1/f", "a2/f", "g"}, names(functions, err)); d != "" {
		t.Error(d)
	}
	if n := len(functions.Streams[0].Times); n != 2 {
		t.Errorf("a1's function has %d requests, want 2", n)
	}
	minutes, err := load.AzureMinutes("m", strings.NewReader("HashOwner,HashApp,HashFunction,Trigger,1\no,a,f,http,1\no,b,f,http,1\no,b,h,http,1\n"), 1)
	if d := cmp.Diff([]string{"o/a/f", "o/b/f", "h"}, names(minutes, err)); d != "" {
		t.Error(d)
	}
}
