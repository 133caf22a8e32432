package boards

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stubs replace the programs that kernel/build.sh calls: make creates the output files of a kernel build, rejects
// modules without a configured tree, and records its arguments.
var stubs = map[string]string{
	"make": `set -eu
for a in "$@"; do case $a in O=*) o=${a#O=} ;; M=*) m=${a#M=} ;; KCONFIG_ALLCONFIG=*) f=${a#*=} ;; esac; done
case " $* " in
*" allnoconfig "*) cp "$f" "$o/.config" ;;
*" zImage "*)
  echo kernel >>"$ASKED"
  mkdir -p "$o/arch/arm/boot/dts" "$o/include/generated" "$o/scripts/mod"
  for f in arch/arm/boot/zImage arch/arm/boot/dts/zynq-zc706.dtb Module.symvers include/generated/autoconf.h scripts/mod/modpost vmlinux; do echo x >"$o/$f"; done ;;
*" modules "*)
  echo modules >>"$ASKED"
  [ -s "$o/.config" ] && [ -s "$o/Module.symvers" ] && [ -s "$3/Makefile" ] || { echo "the tree is not configured"; exit 1; }
  for f in sluice_dma sluice_fpga; do echo x >"$m/$f.ko"; done ;;
esac
`,
	"tar":                       `while [ "$1" != -C ]; do shift; done; cat >/dev/null; echo x >"$2/Makefile"` + "\n",
	"dpkg-query":                "echo 6.1.1\n",
	"arm-linux-gnueabihf-gcc":   "echo gcc ${GCC:-12}\n",
	"arm-linux-gnueabihf-strip": `cp "$4" "$3"` + "\n",
	"flex":                      "", "bison": "", "bc": "", "xz": "",
}

// TestKernelKept: a saved kernel is used again if it is complete and has the same sources, configuration and
// compiler. Otherwise it is built anew; an incomplete one is never taken for complete.
func TestKernelKept(t *testing.T) {
	if _, err := os.Stat("/usr/src/linux-source-6.1.tar.xz"); err != nil {
		t.Fatalf("%v: install the package linux-source-6.1", err)
	}
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	asked := at("asked")
	if err := os.CopyFS(at(".ci"), os.DirFS("../.ci")); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("kernel/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err := errors.Join(err, os.MkdirAll(at("boards/kernel"), 0o755), os.WriteFile(at("boards/"+name), text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range stubs {
		if err := errors.Join(os.MkdirAll(at("bin"), 0o755), os.WriteFile(at("bin/"+name), []byte("#!/bin/sh\n"+text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	change := func(name, from, to string) {
		t.Helper()
		text, err := os.ReadFile(at(name))
		if err != nil || !strings.Contains(string(text), from) {
			t.Fatalf("%s has no %q, %v", name, from, err)
		}
		if err := os.WriteFile(at(name), []byte(strings.Replace(string(text), from, to, 1)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if _, err := os.Stat(at(name)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	module := func() { t.Helper(); change("boards/kernel/sluice_dma.c", "static", "static ") }
	const kept, all, modules = "", "kernel\nmodules\n", "modules\n"
	gcc, cache := "12", ""
	for _, c := range []struct {
		what string
		do   func()
		want string // arguments of make
		says string
	}{
		{"nothing is there", func() {}, all, "CPU-s (uncached)"},
		{"all is there", func() {}, kept, ""},
		{"no tree: nothing needs it", func() { remove("build/kernel/arm/tree") }, kept, ""},
		{"a module changed, no tree", func() { module() }, all, "tree/.config is gone: building anew"},
		{"no configuration", func() { module(); remove("build/kernel/arm/tree/.config") }, all, "build/kernel/arm/tree/.config is gone: building anew"},
		{"no symbols", func() { module(); remove("build/kernel/arm/tree/Module.symvers") }, all, "Module.symvers is gone"},
		{"no kernel", func() { remove("build/kernel/arm/kernel") }, all, "build/kernel/arm/kernel is gone"},
		{"an empty device tree", func() { change("build/kernel/arm/zc706.dtb", "x\n", "") }, all, "zc706.dtb is gone"},
		{"no sources", func() { remove("build/kernel/src/Makefile") }, kept, ""},
		{"a module changed", func() { module() }, modules, ""},
		{"a module is gone", func() { remove("build/kernel/arm/sluice_dma.ko") }, modules, ""},
		{"a comment", func() { change("boards/kernel/arm.config", "# ", "#  ") }, kept, ""},
		{"a line", func() { change("boards/kernel/arm.config", "CONFIG_NR_CPUS=2", "CONFIG_NR_CPUS=1") }, all, ""},
		{"a compiler", func() { gcc = "13" }, all, ""},
		{"all is there again", func() {}, kept, ""},
		{"another clone, the same cache", func() { remove("build"); cache = at("cache") }, all, ""},
		{"nothing but the cache", func() { remove("build") }, kept, ""},
		{"a module changed, nothing but the cache", func() { remove("build"); module() }, all, ""},
	} {
		c.do()
		os.Remove(asked)
		cmd := exec.Command(at("boards/kernel/build.sh"), "arm")
		cmd.Env = []string{"PATH=" + at("bin") + ":/usr/bin:/bin", "ASKED=" + asked, "GCC=" + gcc, "SLUICE_CACHE=" + cache}
		said, err := cmd.CombinedOutput()
		made, _ := os.ReadFile(asked)
		if err != nil || string(made) != c.want || !strings.Contains(string(said), c.says) {
			t.Errorf("%s: %v, made %q, expected %q: %s", c.what, err, made, c.want, said)
		}
	}
}
