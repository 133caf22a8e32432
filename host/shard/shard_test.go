package shard

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

func question(shards int) Question {
	q := NewQuestion("test", "1")
	q.Args, q.Shards = []string{"run", "--seed=1"}, shards
	return q
}

// fold runs two stages of 7 and 4 units, as a command does, and returns the sum of the units; ok is false for a shard.
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

// Any division of the shards among processes, in any order, yields the result of one process. Existing results are not
// computed again.
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

// Merge names and refuses files that are not results of this question. The shard of a truncated result is run again.
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
		"another seed":         {func(dir string) string { return other(t, dir, func(r *Result) { r.Question.Args[1] = "--seed=2" }) }, ErrQuestion, "it has --seed=2; it lacks --seed=1"},
		"another RTL":          {func(dir string) string { return other(t, dir, func(r *Result) { r.Question.RTL = "x" }) }, ErrQuestion, `RTL "x", expected ""`},
		"another architecture": {func(dir string) string { return other(t, dir, func(r *Result) { r.Question.Arch = "arm64" }) }, ErrQuestion, `architecture "arm64", expected ""`},
		"another version": {func(dir string) string {
			return other(t, dir, func(r *Result) { r.Question.Version = "2" })
		}, ErrQuestion, `version "2", expected "1"`},
		"another simulator": {func(dir string) string { return other(t, dir, func(r *Result) { r.Made["sim"] = "two" }) }, ErrQuestion, "its sim is "},
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
	if string(r.Units[0].Result) != "7" || old != len(r.Units) { // otherwise it is a duplicate
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

// An input is a file and the files that have its weights, wherever they are in its folder; a reference stays in its own.
func TestInput(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := func(places ...string) string {
		inner, g := &onnxpb.GraphProto{}, &onnxpb.GraphProto{} // the first one's tensor is in a branch
		for i, p := range places {
			in := []*onnxpb.GraphProto{inner, g}[min(i, 1)]
			in.Initializer = append(in.Initializer, &onnxpb.TensorProto{ExternalData: []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: &p}}})
		}
		g.Node = []*onnxpb.NodeProto{{Attribute: []*onnxpb.AttributeProto{{G: inner}}}}
		text, err := proto.Marshal(&onnxpb.ModelProto{Graph: g})
		if err != nil {
			t.Fatal(err)
		}
		return write("a.onnx", text)
	}
	write("a.onnx.data", []byte("of nobody"))
	write("weights/one.bin", []byte("x"))
	write("two", []byte("y"))
	path := model("weights/one.bin", "./two", "two")
	ref, err := Input(dir, path, onnx.Outside)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Dir(At(dir, ref))
	list, err := os.ReadFile(filepath.Join(to, List))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(ref, list)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%v, %v", parts, err)
	}
	for i, name := range []string{"a.onnx", "weights/one.bin", "two"} {
		h, err := files.Hash(filepath.Join(to, name))
		if err != nil || parts[i] != (Part{h, name}) {
			t.Errorf("%s: %v, %v", name, parts[i], err)
		}
	}
	if again, err := Input(t.TempDir(), At(dir, ref), onnx.Outside); err != nil || again != ref {
		t.Errorf("the copy is %s, %v", again, err)
	}
	write("two", []byte("z"))
	if again, err := Input("", path, onnx.Outside); err != nil || again == ref {
		t.Errorf("other weights: %s, %v", again, err)
	}
	for _, bad := range []string{"none", "../a", "/etc/passwd"} {
		if ref, err := Input(t.TempDir(), model(bad), onnx.Outside); !errors.Is(err, onnx.ErrExternal) {
			t.Errorf("weights in %s: %s, %v", bad, ref, err)
		}
	}
	for _, bad := range []string{"", "a", strings.Repeat("0", 64) + "  b\n", strings.Repeat("0", 64) + "  a\n" + strings.Repeat("0", 64) + "  ../b\n"} {
		if got, err := Parts("input:"+sum([]byte(bad))+"/a", []byte(bad)); !errors.Is(err, ErrResult) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
	if _, err := Parts(ref, list[1:]); !errors.Is(err, ErrResult) {
		t.Error(err)
	}
	for _, bad := range []string{"a,b", "a=b"} {
		path := filepath.Join(t.TempDir(), bad)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if ref, err := Input("", path, onnx.Outside); err == nil {
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

// Any bytes in place of a result are read or refused. A result that was read is written with the same bytes.
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

// Any bytes in place of an input's list are read or refused, and the list names no file outside the input's folder.
func FuzzParts(f *testing.F) {
	f.Add("a", strings.Repeat("0", 64)+"  a\n"+strings.Repeat("1", 64)+"  weights/b\n")
	f.Add("a", "")
	f.Fuzz(func(t *testing.T, name, list string) {
		ref := "input:" + sum([]byte(list)) + "/" + name
		parts, err := Parts(ref, []byte(list))
		if err != nil {
			if !errors.Is(err, ErrResult) {
				t.Fatalf("%v names no fault", err)
			}
			return
		}
		dir := filepath.Dir(At("dir", ref))
		for _, p := range parts {
			if in, err := filepath.Rel(dir, filepath.Join(dir, p.Name)); err != nil || !filepath.IsLocal(in) || len(p.Hash) != 64 {
				t.Errorf("%+v, %v", p, err)
			}
		}
		if parts[0].Name != name || !strings.HasPrefix(dir, filepath.Join("dir", inputFolder)+string(filepath.Separator)) {
			t.Errorf("%q is in %s", name, dir)
		}
	})
}

// Any bytes in place of a question are read or refused, and its inputs are in the folder.
func FuzzQuestion(f *testing.F) {
	text, err := json.Marshal(question(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(bytes.Replace(text, []byte("--seed=1"), []byte("--board=input:"+strings.Repeat("0", 64)+"/a"), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, questionFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := Asked(dir)
		if err != nil {
			return
		}
		if err := q.Other(q); err != nil || len(q.Command(dir)) != len(q.Args) {
			t.Errorf("%v, %q", err, q.Command(dir))
		}
		for _, ref := range q.Inputs() {
			at := At(dir, ref)
			if in, err := filepath.Rel(filepath.Join(dir, inputFolder), at); at != ref && (err != nil || !filepath.IsLocal(in)) {
				t.Errorf("%s is %s", ref, at)
			}
		}
	})
}
