package main

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-npu/sluice/host/npu/uio"
	"github.com/sluice-npu/sluice/hw/abi"
)

// TestReplace: nothing is loaded over an NPU that is busy or another process's, and while it is loaded nobody
// takes the NPU.
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
	if err := replace(o, true, load); err != nil || loads != 1 {
		t.Errorf("at rest: %v, %d loads", err, loads)
	}
	binary.LittleEndian.PutUint32(regs[abi.RegStatus:], abi.RegStatusBusyMask)
	put(filepath.Join(o.Dev, "uio0"), regs)
	if err := replace(o, true, load); err == nil || loads != 1 {
		t.Errorf("busy: %v, %d loads", err, loads)
	}
	if err := replace(o, false, load); err != nil || loads != 2 {
		t.Errorf("busy, not looked at: %v, %d loads", err, loads)
	}
	c, err := uio.Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, look := range []bool{true, false} {
		if err := replace(o, look, load); !errors.Is(err, uio.ErrBusy) || loads != 2 {
			t.Errorf("another's: %v, %d loads", err, loads)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	o.Name = "other" // no driver, so no user
	if err := replace(o, true, func() error { loads++; return nil }); err != nil || loads != 3 {
		t.Errorf("no device: %v, %d loads", err, loads)
	}
}
