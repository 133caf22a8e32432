package shard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func question(shards int) Question {
	q := NewQuestion("test", "1")
	q.Args, q.Shards = []string{"run", "--seed=1"}, shards
	return q
}

// fold runs 7 and 4 units and returns their sum, as a command does; ok is false for a shard.
func fold(t *testing.T, r *Run) (sum int, ok bool) {
	t.Helper()
	for stage, n := range map[string]int{"a": 7} {
		for v, err := range Units(r, stage, n, func(u int) (int, error) { return 10 * u, nil }) {
			if err != nil {
				t.Fatal(err)
			}
			sum = 3*sum + v
		}
	}
	for v, err := range Units(r, "b", 4, func(u int) (int, error) { return u, nil }) {
		if err != nil {
			t.Fatal(err)
		}
		sum = 3*sum + v
	}
	over, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return sum, !over
}

// do runs a range of shards into a folder and says whether it had anything to do.
func do(t *testing.T, dir, text string) bool {
	t.Helper()
	g, err := ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	r, done, err := Begin(dir, question(g.N), g)
	if err != nil {
		t.Fatal(err)
	}
	if !done {
		r.Made("sim", func() string { return "one" })
		if _, ok := fold(t, r); ok {
			t.Fatal("a shard goes on as merge does")
		}
	}
	return !done
}

// Any split of the shards over processes, in any order, gives what one process gives; what is there is not done again.
func TestMerge(t *testing.T) {
	want, _ := fold(t, nil)
	for _, parts := range [][]string{{"1/1"}, {"1-3/3"}, {"3/3", "1-2/3"}, {"5-20/20", "1-4/20"}} {
		dir := t.TempDir()
		for _, p := range parts {
			if !do(t, dir, p) {
				t.Errorf("%s: nothing to do", p)
			}
		}
		if do(t, dir, parts[0]) {
			t.Errorf("%s is done again", parts[0])
		}
		g, _ := ParseRange(parts[0])
		r, err := Merge(dir, question(g.N))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := fold(t, r); got != want || !ok {
			t.Errorf("%v: %d, expected %d", parts, got, want)
		}
	}
	all, _, err := Begin("", question(5), Range{1, 5, 5})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := fold(t, all); got != want || !ok {
		t.Errorf("all shards in one process: %d, expected %d", got, want)
	}
}

// Merge refuses by name what is not a result of this question; a truncated one is run again.
func TestRefused(t *testing.T) {
	names := func(dir string) []string {
		all, err := list(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	change := func(dir string, at int, how func([]byte) []byte) string {
		name := names(dir)[at]
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), how(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for what, c := range map[string]struct {
		spoil func(dir string) (name string)
		err   error
		want  string
	}{
		"truncated": {func(dir string) string { return change(dir, 1, func(b []byte) []byte { return b[:len(b)/2] }) }, ErrResult, "truncated or altered"},
		"altered": {func(dir string) string {
			return change(dir, 1, func(b []byte) []byte { return []byte(strings.Replace(string(b), "10", "11", 1)) })
		}, ErrResult, "truncated or altered"},
		"missing": {func(dir string) string {
			if err := os.Remove(filepath.Join(dir, names(dir)[2])); err != nil {
				t.Fatal(err)
			}
			return "shards 3"
		}, ErrMissing, "of 3"},
		"another seed": {func(dir string) string { return other(t, dir, func(r *Result) { r.Question.Args[1] = "--seed=2" }) }, ErrQuestion, "it has --seed=2; it lacks --seed=1"},
		"another RTL":  {func(dir string) string { return other(t, dir, func(r *Result) { r.Question.RTL = "x" }) }, ErrQuestion, `RTL "x", expected ""`},
		"another version": {func(dir string) string {
			return other(t, dir, func(r *Result) { r.Question.Version = "2" })
		}, ErrQuestion, `version "2", expected "1"`},
		"another simulator": {func(dir string) string { return other(t, dir, func(r *Result) { r.Made["sim"] = "two" }) }, ErrQuestion, "simulator of sim is"},
		"duplicate": {func(dir string) string {
			return other(t, dir, func(r *Result) { r.Units[0].Result = []byte("7") })
		}, ErrResult, "two of one shard"},
		"a unit in two": {func(dir string) string {
			return other(t, dir, func(r *Result) { r.Units = append(r.Units, Unit{Key{"a", 1}, []byte("7")}) })
		}, ErrResult, "unit a/1 is in another shard too"},
		"a stranger's file": {func(dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "00001-of-00003.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return "00001-of-00003.json"
		}, ErrResult, "expected IIIII-of-NNNNN.SHA256"},
		"a link": {func(dir string) string {
			name := names(dir)[0]
			if err := errors.Join(os.Rename(filepath.Join(dir, name), filepath.Join(dir, ".x")), os.Symlink(".x", filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
			return name
		}, ErrResult, "expected a file"},
	} {
		dir := t.TempDir()
		do(t, dir, "1-3/3")
		name := c.spoil(dir)
		_, err := Merge(dir, question(3))
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; expected %q and %q", what, err, name, c.want)
		}
		if what == "truncated" {
			if !do(t, dir, "1-3/3") || len(names(dir)) != 3 {
				t.Errorf("a truncated result is not run again: %v", names(dir))
			}
			if _, err := Merge(dir, question(3)); err != nil {
				t.Errorf("%s, then run again: %v", what, err)
			}
		}
	}
	dir := t.TempDir()
	do(t, dir, "1/3")
	if _, _, err := Begin(dir, question(4), Range{1, 1, 4}); !errors.Is(err, ErrQuestion) {
		t.Errorf("a folder of 3 shards, asked for 4: %v", err)
	}
}

// Merge names the file that lacks a unit.
func TestLacking(t *testing.T) {
	dir, q := t.TempDir(), question(2)
	var names [2]string
	for i := range names {
		var err error
		if names[i], err = (&Result{Question: q, Shard: i + 1, Units: []Unit{{Key{"a", i}, []byte("0")}}[:1-i]}).Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Merge(dir, q)
	if err != nil {
		t.Fatal(err)
	}
	lacks := false
	for v, err := range Units(r, "a", 2, func(int) (int, error) { return 1, nil }) {
		if v != 0 || err != nil && !strings.Contains(err.Error(), names[1]+": no valid result: unit a/1 is missing; delete the file and run shard 2 again") {
			t.Errorf("%d, %v", v, err)
		}
		lacks = lacks || err != nil
	}
	if !lacks {
		t.Error("no unit is missing")
	}
}

// A result that cannot be read now is kept.
func TestKept(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads all files")
	}
	dir := t.TempDir()
	do(t, dir, "1/3")
	names, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, names[0])
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Begin(dir, question(3), Range{1, 1, 3}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// other puts a changed copy of the first result beside it, or in its place if it is another question's.
func other(t *testing.T, dir string, change func(*Result)) string {
	t.Helper()
	all, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	q := question(3)
	r, err := Read(dir, all[0], &q)
	if err != nil {
		t.Fatal(err)
	}
	old := len(r.Units)
	change(r)
	if string(r.Units[0].Result) != "7" || old != len(r.Units) { // else a duplicate
		if err := os.Remove(filepath.Join(dir, all[0])); err != nil {
			t.Fatal(err)
		}
	}
	name, err := r.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	return name[5:15] // -of-00003.
}

func TestRange(t *testing.T) {
	for text, want := range map[string]Range{
		"1/1": {1, 1, 1}, "2-5/9": {2, 5, 9}, "100000/100000": {Most, Most, Most}, "0/7": {0, 0, 7},
		"": {}, "0-1/1": {}, "-1/1": {}, "+1/+1": {}, "1/+1": {}, "0/0": {}, "2/1": {}, "3-2/5": {}, "1/100001": {}, "1": {}, "a/b": {}, "1-/3": {}, "1/2/3": {},
	} {
		if got, err := ParseRange(text); got != want || (err == nil) != (want != Range{}) {
			t.Errorf("%q: %v, %v; expected %v", text, got, err, want)
		}
	}
}

// A reference stays in its folder.
func TestInput(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "a.onnx")
	for _, name := range []string{file, file + ".data"} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := Input(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"", ".data"} {
		if text, err := os.ReadFile(At(dir, ref) + end); err != nil || string(text) != "x" {
			t.Errorf("%s%s: %q, %v", ref, end, text, err)
		}
	}
	if err := os.WriteFile(file+".data", []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Input("", file); err != nil || again == ref {
		t.Errorf("other weights beside it: %s, %v", again, err)
	}
	for _, bad := range []string{"a,b", "a=b"} {
		path := filepath.Join(t.TempDir(), bad)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if ref, err := Input("", path); err == nil {
			t.Errorf("%s is %s", bad, ref)
		}
	}
	h := strings.Repeat("0", 64)
	for _, bad := range []string{"input:" + h + "/..", "input:" + h + "/.", "input:" + h[1:] + "/a", "input:../../etc/passwd"} {
		if got := At(dir, bad); got != bad {
			t.Errorf("%s becomes %s", bad, got)
		}
	}
}

// Whatever comes in place of a result is read or refused, and what is read is written the same.
func FuzzDecode(f *testing.F) {
	q := question(3)
	for _, r := range []Result{{Question: q, Shard: 2}, {Question: q, Shard: 1, Made: map[string]string{"sim": "one"}, Units: []Unit{{Key{"a", 0}, []byte("[1]")}}}} {
		_, text, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode("00002-of-00003."+sum(text), text, &q)
		if err != nil {
			if !errors.Is(err, ErrResult) && !errors.Is(err, ErrQuestion) {
				t.Fatalf("%v names no fault", err)
			}
			return
		}
		name, again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if two, err := Decode(name, again, &q); err != nil || len(two.Units) != len(r.Units) {
			t.Fatalf("%v, %v", two, err)
		}
	})
}
