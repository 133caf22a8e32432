// Command hwprefix copies the NPU's RTL and adds a prefix to the names of its modules and packages.
//
// Exit codes: 0 ok, 1 the copy could not be written, 2 wrong usage, 3 a file was rejected.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/prefix"
)

const usage = `hwprefix copies the NPU's RTL with a prefix to the name of every module and package, so that none collides with a
project's own where sources are added to it (packaged IP, hw/vivado/ip, needs none). Files given are copied along
with npu_top and the NPU's packages renamed in them; every other module that they name is the project's own, but what
they bind to a module that none of them defines is bound to the NPU's. A top that boardip wrote is such a file. Names in
macros and configurations are not seen. Nothing is written over that this command has not written.

  hwprefix -prefix acme_ -out DIR [FILE.v...]

Example: go run ./hw/vivado/ip/cmd/boardip -board zc706 -config small -out build/ip/zc706-small
         go run ./hw/cmd/hwprefix -prefix acme_ -out build/acme build/ip/zc706-small/sluice_zc706_small.v
         verilator --lint-only --top-module sluice_zc706_small -F build/acme/files.f

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	t := cli.NewFlagTool("hwprefix", usage, stderr)
	name := t.String("prefix", "", "what names begin with: a letter, then letters, digits and _")
	out := t.String("out", "", "folder to write to; made where it is not there")
	return t.Main(args, func() error {
		if *name == "" || *out == "" {
			return cli.Told(cli.Usage)
		}
		more := map[string][]byte{}
		for _, f := range t.Args() {
			text, err := os.ReadFile(f)
			if err == nil && more[filepath.Base(f)] != nil {
				err = fmt.Errorf("%s: duplicate file name", f)
			}
			if err != nil {
				return err
			}
			more[filepath.Base(f)] = text
		}
		files, err := prefix.Files(*name, more)
		if errors.Is(err, prefix.ErrPrefix) {
			return cli.Errorf(cli.Usage, "-prefix: %w", err)
		}
		if err != nil {
			return err
		}
		if err := free(*out, files, t.Args()); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
		if err := write(*out, files); err != nil {
			return cli.Coded(cli.Check, err)
		}
		_, err = fmt.Fprintf(stdout, "%d files of SystemVerilog, listed in %s\n", len(files)-1, filepath.Join(*out, prefix.List))
		return err
	})
}

// free rejects a folder if the call would overwrite a file that is not in the list of an earlier call.
func free(dir string, files map[string][]byte, given []string) error {
	list := filepath.Join(dir, prefix.List)
	written := map[string]bool{}
	if text, err := os.ReadFile(list); err == nil {
		if !bytes.HasPrefix(text, []byte(prefix.ListHead)) {
			return fmt.Errorf("%s is of something else", list)
		}
		written[prefix.List] = true
		for _, name := range strings.Fields(string(text)) {
			written[name] = true
		}
	}
	for name := range files {
		path := filepath.Join(dir, name)
		there, err := os.Stat(path)
		if err != nil {
			continue
		}
		if !written[name] {
			return fmt.Errorf("%s is there, and not of an earlier call", path)
		}
		for _, f := range given {
			if is, err := os.Stat(f); err == nil && os.SameFile(there, is) {
				return fmt.Errorf("%s is one of the files given", path)
			}
		}
	}
	return nil
}

// write writes the list last, so that an existing list proves that all its files exist.
func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if name == prefix.List {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, prefix.List), files[prefix.List], 0o644)
}
