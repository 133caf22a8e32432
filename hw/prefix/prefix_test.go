package prefix

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw"
)

func TestRename(t *testing.T) {
	ours := map[string]bool{"fifo": true, "drain": true, "abi_pkg": true, "drain_cell": true}
	for _, c := range []struct{ name, text, want string }{
		{"definition", "module drain #(parameter W = 1) (input logic fifo);", "module x_drain #(parameter W = 1) (input logic fifo);"},
		{"end", "endmodule : drain", "endmodule : x_drain"},
		{"a label", "begin : drain end : drain", "begin : drain end : drain"},
		{"instance", "fifo u_fifo (.fifo (fifo), .drain);", "x_fifo u_fifo (.fifo (fifo), .drain);"},
		{"parameters", "fifo\n  #(.DRAIN(1)) fifo (.a(drain[0]));", "x_fifo\n  #(.DRAIN(1)) fifo (.a(drain[0]));"},
		{"an array", "if (X) fifo u [3:0] (.a(b));", "if (X) x_fifo u [3:0] (.a(b));"},
		{"package", "package abi_pkg; endpackage\nimport abi_pkg::*;", "package x_abi_pkg; endpackage\nimport x_abi_pkg::*;"},
		{"member", "logic [abi_pkg::FIFO-1:0] fifo; assign s.drain = u.fifo;", "logic [x_abi_pkg::FIFO-1:0] fifo; assign s.drain = u.fifo;"},
		{"comments and strings", "// module drain\n/* fifo u (a) */ $fatal(1, \"fifo u (a)\");", "// module drain\n/* fifo u (a) */ $fatal(1, \"fifo u (a)\");"},
		{"part of a word", "module drain_cells; drained u (x); endmodule", "module drain_cells; drained u (x); endmodule"},
		{"bind", "bind drain drain_cell u (.*);", "bind x_drain x_drain_cell u (.*);"},
	} {
		if got := string(Rename([]byte(c.text), "x_", ours, ours)); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// With the prefix removed the copies are the originals, and every file is named after its module or package.
func TestCopies(t *testing.T) {
	files, err := Files("acme_", nil)
	if err != nil {
		t.Fatal(err)
	}
	rtl, err := hw.Files(hw.RTL)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(rtl)+1 || strings.Count(string(files[List]), "\nacme_") != len(rtl) {
		t.Fatalf("%d files of %d; list:\n%s", len(files), len(rtl), files[List])
	}
	for _, name := range rtl {
		was, _ := fs.ReadFile(hw.RTL, name)
		if got := files["acme_"+filepath.Base(name)]; !bytes.Equal(bytes.ReplaceAll(got, []byte("acme_"), nil), was) || bytes.Equal(got, was) {
			t.Errorf("%s is another text", name)
		}
	}
}

// The copies elaborate together with the originals, and with a project's modules of the same names.
func TestBesideOthers(t *testing.T) {
	if _, err := exec.LookPath("verilator"); err != nil {
		t.Fatal("verilator is missing: install the package verilator")
	}
	rtl, err := hw.Files(hw.RTL)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := Files("acme_", map[string][]byte{"user.v": []byte("module user; npu_top #(.CELLS(2)) u_npu (); endmodule\n")})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var theirs strings.Builder
	for _, name := range rtl {
		if m := module(name); strings.HasSuffix(m, "_pkg") {
			theirs.WriteString("package " + m + "; endpackage\n")
		} else {
			theirs.WriteString("module " + m + " (input a); endmodule\n")
		}
	}
	other := filepath.Join(dir, "theirs.sv")
	if err := os.WriteFile(other, []byte(theirs.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	lint := func(args ...string) error {
		args = append([]string{"--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-PINMISSING", "-Wno-UNUSED", "-Wno-UNDRIVEN", "--top-module", "user", "-F", filepath.Join(dir, List)}, args...)
		out, err := exec.Command("verilator", args...).CombinedOutput()
		t.Logf("%s\n%.2000s", args, out)
		return err
	}
	cells, err := filepath.Abs("../../sim/cells/dsp48e2.v")
	if err != nil {
		t.Fatal(err)
	}
	if err := lint("-Wno-fatal", cells); err != nil {
		t.Fatal("alone:", err)
	}
	if err := lint("-Werror-MODDUP", cells, other); err != nil {
		t.Fatal("beside others:", err)
	}
	// names without the prefix are found
	was := files["acme_fifo.sv"]
	if err := os.WriteFile(filepath.Join(dir, "acme_fifo.sv"), bytes.ReplaceAll(was, []byte("module acme_fifo"), []byte("module fifo")), 0o644); err != nil {
		t.Fatal(err)
	}
	if lint("-Werror-MODDUP", cells, other) == nil {
		t.Error("a module without its prefix goes unnoticed")
	}
}

func TestRefused(t *testing.T) {
	for _, p := range []string{"", "_x", "9x", "x-", "x y", "x/", "é"} {
		if _, err := Files(p, nil); !errors.Is(err, ErrPrefix) {
			t.Errorf("prefix %q: %v", p, err)
		}
	}
	for _, name := range []string{List, "x_fifo.sv"} {
		if _, err := Files("x_", map[string][]byte{name: nil}); !errors.Is(err, ErrFile) {
			t.Errorf("beside %s: %v", name, err)
		}
	}
	for _, text := range []string{
		"module npu_top; endmodule", "/* */ package // of theirs\n abi_pkg; endpackage", "module automatic npu_top; endmodule",
		"macromodule npu_top; endmodule", "module x_fifo; endmodule", "module mine; endmodule package x_abi_pkg; endpackage",
	} {
		if _, err := Files("x_", map[string][]byte{"a.v": []byte(text)}); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// a fifo of the project itself, in this or another file, is not the NPU's
	const theirs = "module fifo (input a); endmodule\nmodule mine; fifo u_a (.a(0)); drain #(.W(abi_pkg::N)) u_b (); npu_top u_c (); endmodule\n"
	files, err := Files("x_", map[string][]byte{"a.v": []byte(theirs)})
	want := strings.NewReplacer("abi_pkg", "x_abi_pkg", "npu_top", "x_npu_top").Replace(theirs)
	if err != nil || string(files["a.v"]) != want {
		t.Errorf("%v: %s", err, files["a.v"])
	}
	if _, err := Files("x_", map[string][]byte{"fifo.v": []byte("module fifo; endmodule")}); err != nil {
		t.Errorf("a fifo of their own, in a file of its name: %v", err)
	}
	// a bound assertion belongs to the NPU or to the project; it is never lost
	const bind = "bind drain mine u_a (.*); bind fifo mine u_b (.*); bind npu_top mine u_c (.*);"
	files, err = Files("x_", map[string][]byte{"a.v": []byte(bind), "b.v": []byte("module fifo; endmodule")})
	if want := strings.NewReplacer("bind drain", "bind x_drain", "npu_top", "x_npu_top").Replace(bind); err != nil || string(files["a.v"]) != want {
		t.Errorf("%v: %s", err, files["a.v"])
	}
	if files, err := Files("x_", map[string][]byte{"a.v": nil}); err != nil || !slices.Contains(strings.Fields(string(files[List])), "a.v") {
		t.Errorf("%v", err)
	}
}
