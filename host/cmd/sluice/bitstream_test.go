package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
)

// TestReplace: nothing is loaded over an NPU that is busy or used by another process, and during loading no other
// process can take the NPU.
func TestReplace(t *testing.T) {
	o := uio.Opts{Name: "npu", Sys: t.TempDir(), Dev: t.TempDir()}
	regs := make([]byte, 0x1000)
	binary.LittleEndian.PutUint32(regs[abi.RegID:], abi.ID)
	put := func(path string, data []byte) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"name": "npu", "maps/map0/addr": "0x43c00000", "maps/map0/size": "0x10000"} {
		put(filepath.Join(o.Sys, "class/uio/uio0", name), []byte(text+"\n"))
	}
	put(filepath.Join(o.Dev, "uio0"), regs)
	loads := 0
	load := func() error {
		loads++
		if c, err := uio.Hold(o); !errors.Is(err, uio.ErrBusy) {
			t.Errorf("taken while it is loaded: %v, %v", c, err)
		}
		return nil
	}
	awake := func() error { return nil }
	if err := replace(o, true, awake, load); err != nil || loads != 1 {
		t.Errorf("at rest: %v, %d loads", err, loads)
	}
	binary.LittleEndian.PutUint32(regs[abi.RegStatus:], abi.RegStatusBusyMask)
	put(filepath.Join(o.Dev, "uio0"), regs)
	if err := replace(o, true, awake, load); err == nil || loads != 1 {
		t.Errorf("busy: %v, %d loads", err, loads)
	}
	if err := replace(o, false, awake, load); err != nil || loads != 2 {
		t.Errorf("busy, not looked at: %v, %d loads", err, loads)
	}
	c, err := uio.Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, look := range []bool{true, false} {
		if err := replace(o, look, awake, load); !errors.Is(err, uio.ErrBusy) || loads != 2 {
			t.Errorf("another's: %v, %d loads", err, loads)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	// A clock that is stopped: the registers, which are idle here, are not read.
	put(filepath.Join(o.Dev, "uio0"), make([]byte, 0x1000))
	still := errors.New("stands still")
	if err := replace(o, true, func() error { return still }, load); !errors.Is(err, still) || loads != 2 {
		t.Errorf("no clock: %v, %d loads", err, loads)
	}
	if err := replace(o, false, func() error { t.Error("looked at, though forced"); return still }, load); err != nil || loads != 3 {
		t.Errorf("no clock, forced: %v, %d loads", err, loads)
	}
	o.Name = "other" // no driver, so no other user
	if err := replace(o, true, awake, func() error { loads++; return nil }); err != nil || loads != 4 {
		t.Errorf("no device: %v, %d loads", err, loads)
	}
}

// TestAnswers: the loaded design is read only if clock, reset and address are the board's, and is compared with the
// manifest.
func TestAnswers(t *testing.T) {
	b, err := boards.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	o := uio.Opts{Name: b.UIO, Sys: t.TempDir(), Dev: t.TempDir()}
	put := func(path string, data []byte) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"uio/uio0/name": b.UIO, "uio/uio0/maps/map0/addr": "0x43c00000", "uio/uio0/maps/map0/size": "0x10000",
		"misc/sluice-npu-memory/mode": "write-combined", "misc/sluice-npu-memory/phys_addr": "0x30000000", "misc/sluice-npu-memory/size": "65536",
	} {
		put(filepath.Join(o.Sys, "class", name), []byte(text+"\n"))
	}
	put(filepath.Join(o.Dev, "sluice-npu-memory"), make([]byte, 65536))
	regs := make([]byte, 0x1000)
	for off, v := range map[uint32]uint32{
		abi.RegID: abi.ID, abi.RegVersion: abi.SchemaVersion, abi.RegABIHash0: uint32(abi.Hash & 0xFFFFFFFF), abi.RegABIHash1: uint32(abi.Hash >> 32), abi.RegDesignHash0: 7,
		abi.RegBuildTR: 32, abi.RegBuildTP: 3, abi.RegBuildTC: 4, abi.RegBuildAXI: 1<<abi.RegBuildAXINAXILSB | 8<<abi.RegBuildAXIAXIBytesLSB,
	} {
		binary.LittleEndian.PutUint32(regs[off:], v)
	}
	put(filepath.Join(o.Dev, "uio0"), regs)
	m := &bitstreams.Manifest{DesignHash: "0000000000000007", ABIHash: fmt.Sprintf("%016x", uint64(abi.Hash))}
	right := func(boards.Board) ([]string, error) { return []string{"FCLK0 100.000 MHz"}, nil }
	if around, err := answers(t.Context(), b, o, m, right); err != nil || len(around) != 1 {
		t.Errorf("%q, %v", around, err)
	}
	other := *m
	other.DesignHash = "0000000000000008"
	if _, err := answers(t.Context(), b, o, &other, right); !errors.Is(err, bitstreams.ErrMismatch) || !isCode(err, cli.Check) {
		t.Errorf("another design: %v", err)
	}
	// If the check is skipped, nothing is opened.
	if err := os.Remove(filepath.Join(o.Dev, "uio0")); err != nil {
		t.Fatal(err)
	}
	still := errors.New("stands still")
	if _, err := answers(t.Context(), b, o, m, func(boards.Board) ([]string, error) { return nil, still }); !errors.Is(err, still) || !isCode(err, cli.Device) {
		t.Errorf("no clock: %v", err)
	}
	put(filepath.Join(o.Sys, "class/uio/uio0/maps/map0/addr"), []byte("0x43c10000\n"))
	if _, err := answers(t.Context(), b, o, m, right); err == nil || !strings.Contains(err.Error(), "at 0x43c10000, zc706 at 0x43c00000") {
		t.Errorf("another address: %v", err)
	}
}

func isCode(err error, code int) bool {
	c := (*cli.Error)(nil)
	return errors.As(err, &c) && c.Code == code
}
