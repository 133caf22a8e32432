package bitstreams

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-npu/sluice/boards"
)

// placeholder is an ELF program with one segment, enough for bootgen to make a partition.
func placeholder(t *testing.T, machine elf.Machine, wide bool, at uint64) []byte {
	t.Helper()
	code := bytes.Repeat([]byte{0xFE, 0xFF, 0xFF, 0xEA}, 64)
	var out bytes.Buffer
	ident := [elf.EI_NIDENT]byte{0x7F, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	var head, seg any
	if wide {
		ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
		head = &elf.Header64{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: at, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
		seg = &elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Off: 120, Vaddr: at, Paddr: at, Filesz: uint64(len(code)), Memsz: uint64(len(code)), Align: 4}
	} else {
		head = &elf.Header32{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: uint32(at), Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: 1, Shentsize: 40}
		seg = &elf.Prog32{Type: uint32(elf.PT_LOAD), Flags: 5, Off: 84, Vaddr: uint32(at), Paddr: uint32(at), Filesz: uint32(len(code)), Memsz: uint32(len(code)), Align: 4}
	}
	if err := errors.Join(binary.Write(&out, binary.LittleEndian, head), binary.Write(&out, binary.LittleEndian, seg)); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), code...)
}

// TestBootImage: bootgen makes a BOOT.BIN from each board's recipe, with placeholders for the loaders, and its PL
// partition is our .bin.
func TestBootImage(t *testing.T) {
	bootgen, err := exec.LookPath("bootgen")
	if err != nil {
		t.Fatal("bootgen is missing: install the package xilinx-bootgen")
	}
	for _, c := range []struct {
		board, arch string
		bit         []byte
		elves       map[string][]byte
	}{
		{"zc706", "zynq", z7045(202), map[string][]byte{
			"fsbl.elf": placeholder(t, elf.EM_ARM, false, 0), "u-boot.elf": placeholder(t, elf.EM_ARM, false, 0x4000000),
		}},
		{"zcu104", "zynqmp", zu7ev(186), map[string][]byte{
			"fsbl.elf": placeholder(t, elf.EM_AARCH64, true, 0xFFFC0000), "pmufw.elf": placeholder(t, 189, false, 0xFFDC0000),
			"bl31.elf": placeholder(t, elf.EM_AARCH64, true, 0xFFFEA000), "u-boot.elf": placeholder(t, elf.EM_AARCH64, true, 0x8000000),
		}},
	} {
		board, err := boards.Load(c.board)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		files := map[string][]byte{"npu.bit": c.bit, "boot.bif": []byte(board.BIF())}
		for name, data := range c.elves {
			files[name] = data
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(bootgen, "-arch", c.arch, "-image", "boot.bif", "-o", "BOOT.BIN", "-w", "on")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.board, err, out)
			continue
		}
		boot, err := os.ReadFile(filepath.Join(dir, "BOOT.BIN"))
		if err != nil {
			t.Fatal(err)
		}
		// The boot header: width detection and "XNLX" (UG585 table 6-5, UG1085 table 11-4).
		if len(boot) < 0x28 || !bytes.Equal(boot[0x20:0x28], []byte{0x66, 0x55, 0x99, 0xAA, 'X', 'N', 'L', 'X'}) {
			t.Errorf("%s: no boot header", c.board)
		}
		b, err := ParseBit(c.bit)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(boot, b.Bin()) {
			t.Errorf("%s: the PL's partition is not the .bin", c.board)
		}
		if err := b.CheckPart(board.Part); err != nil {
			t.Error(err)
		}
	}
}
