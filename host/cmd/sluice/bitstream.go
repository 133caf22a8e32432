// sluice bitstream shows a .bit file, compares the file with the board and the manifest, and loads it into the PL.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
)

type bitstreamCmd struct {
	Inspect bitInspectCmd `cmd:"" help:"Show what is in a .bit file."`
	Verify  bitVerifyCmd  `cmd:"" help:"Check a .bit file against a board, its manifest and a bundle."`
	Bin     bitBinCmd     `cmd:"" help:"Write the .bin that U-Boot and the kernel's FPGA manager take."`
	Load    bitLoadCmd    `cmd:"" help:"On the board: verify, then configure the PL."`
}

type bitFile struct {
	File string `arg:"" help:".bit file."`
}

func (f *bitFile) read() ([]byte, *bitstreams.Bit, error) {
	b, err := bitstreams.ReadBit(f.File)
	if err != nil {
		return nil, nil, cli.Coded(cli.Input, err)
	}
	text, err := os.ReadFile(f.File)
	return text, b, cli.Coded(cli.Input, err)
}

type bitInspectCmd struct {
	bitFile
	JSON bool `name:"json" help:"Print JSON."`
}

func (*bitInspectCmd) Help() string { return "Example:\n  sluice bitstream inspect npu.bit" }

func (c *bitInspectCmd) Run(e *cli.Env) error {
	_, b, err := c.read()
	if err != nil {
		return err
	}
	if c.JSON {
		return e.Output(struct {
			cli.Header
			*bitstreams.Bit
			Bytes int `json:"bytes"`
		}{cli.NewHeader("sluice-bitstream-inspect/1", 0, "synthesised"), b, len(b.Data)}, "", true)
	}
	fmt.Fprintf(e.Stdout, "design     %s\npart       %s\nwritten    %s %s, by Vivado %s\ndevice     %s, IDCODE %08x\ndata       %d bytes, %d words of frames\n",
		b.Design, b.Part, b.Date, b.Time, b.Tool, b.Device.Name, b.Device.IDCode, len(b.Data), b.Frames)
	return nil
}

type bitVerifyCmd struct {
	bitFile
	Board    string `required:"" help:"Board: a name, or a board.yaml."`
	Manifest string `help:"Manifest (default: the file's name with .yaml)."`
	Bundle   string `help:"Bundle that is to be served on it."`
	JSON     bool   `name:"json" help:"Print JSON."`
}

func (*bitVerifyCmd) Help() string {
	return `Example:
  sluice bitstream verify npu.bit --board zc706 --bundle fashion.sluice`
}

// verify returns the checks, the manifest (nil: unreadable) and the .bit file.
func (c *bitVerifyCmd) verify() ([]check, *bitstreams.Manifest, *bitstreams.Bit, error) {
	board, err := boards.Load(c.Board)
	if err != nil {
		return nil, nil, nil, cli.Coded(cli.Input, err)
	}
	text, b, err := c.read()
	if err != nil {
		return nil, nil, nil, err
	}
	var checks []check
	say := func(name string, err error, found string) {
		if err != nil {
			checks = append(checks, check{Name: name, Hint: err.Error()})
			return
		}
		checks = append(checks, check{Name: name, OK: true, Hint: found})
	}
	say("part", b.CheckPart(board.Part), board.Part)
	path := c.Manifest
	if path == "" {
		path = strings.TrimSuffix(c.File, filepath.Ext(c.File)) + ".yaml"
	}
	m, err := bitstreams.ReadManifest(path)
	if err != nil {
		say("manifest", err, "")
		return checks, nil, b, nil
	}
	err = errors.Join(m.CheckFile(text, b), m.CheckBoard(board))
	say("manifest", err, fmt.Sprintf("%s: %s, %s, slack %.3f ns at %g MHz", path, m.Config, m.Status, m.Timing.WNS, m.Timing.ClockMHz))
	if c.Bundle != "" {
		bu, err := bundle.ReadFile(c.Bundle)
		found := ""
		if err == nil {
			err = m.CheckHardware(bu.Design.Hash(), bu.ABIHash)
			found = fmt.Sprintf("%s for %s", bu.Network.Name, bu.Design.Name)
		}
		say("bundle", err, found)
	}
	return checks, m, b, nil
}

func (c *bitVerifyCmd) Run(e *cli.Env) error {
	checks, _, _, err := c.verify()
	if err != nil {
		return err
	}
	doc := checksDoc{cli.NewHeader("sluice-bitstream-verify/1", 0, "synthesised"), checks}
	if err := e.Print(doc, "", c.JSON, func(w io.Writer) error { printChecks(w, checks); return nil }); err != nil {
		return err
	}
	return failedChecks(checks)
}

func printChecks(w io.Writer, checks []check) {
	for _, k := range checks {
		mark := "ok   "
		if !k.OK {
			mark = "WRONG"
		}
		fmt.Fprintf(w, "%s  %-10s %s\n", mark, k.Name, k.Hint)
	}
}

func failedChecks(checks []check) error {
	n := 0
	for _, k := range checks {
		if !k.OK {
			n++
		}
	}
	if n > 0 {
		return cli.Errorf(cli.Check, "%d of %d checks failed", n, len(checks))
	}
	return nil
}

type bitBinCmd struct {
	bitFile
	Out string `required:"" help:"File to write."`
}

func (*bitBinCmd) Help() string { return "Example:\n  sluice bitstream bin npu.bit --out npu.bin" }

func (c *bitBinCmd) Run(e *cli.Env) error {
	_, b, err := c.read()
	if err != nil {
		return err
	}
	bin := b.Bin()
	if err := cli.WriteFile(c.Out, func(w io.Writer) error {
		_, err := w.Write(bin)
		return err
	}); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "wrote %s: %d bytes for %s\n", c.Out, len(bin), b.Device.Name)
	return nil
}

type bitLoadCmd struct {
	bitVerifyCmd
	Force bool `help:"Load without checking the NPU in the PL first: use it if that NPU is busy or does not answer, or if the PL has another design, where a read may hang the processor."`
}

func (*bitLoadCmd) Help() string {
	return `Refuses a file that does not verify, and a PL whose NPU is busy or that another process uses; what is in the PL is
read where its clock runs and it is out of reset, as far as that can be seen (a kernel with DEVMEM, and root). Hands the .bin to
the kernel's FPGA manager by sluice_fpga.ko (/dev/sluice-fpga) or, where that is not there, by the manager's sysfs
(linux-xlnx); without either put npu.bin on the boot partition.

Example:
  sluice bitstream load npu.bit --board zc706`
}

func (c *bitLoadCmd) Run(e *cli.Env) error {
	checks, m, b, err := c.verify()
	if err != nil {
		return err
	}
	if err := failedChecks(checks); err != nil {
		printChecks(e.Stdout, checks)
		return err
	}
	target, err := boards.Load(c.Board)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	if err := configure(e, target, m, b, c.Force); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "loaded %s: design hash %s\n", c.File, m.DesignHash)
	return nil
}
