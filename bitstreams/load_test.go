package bitstreams

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLoad(t *testing.T) {
	sys, firmware := t.TempDir(), filepath.Join(t.TempDir(), "firmware")
	class := filepath.Join(sys, "class", "fpga_manager", "fpga0")
	dev := t.TempDir()
	m := Manager{Sys: sys, Dev: dev, Firmware: firmware}
	if err := m.Load("npu.bin", nil); !errors.Is(err, ErrManager) || !strings.Contains(err.Error(), "boot.scr") {
		t.Errorf("no manager: %v", err)
	}
	put := func(name, text string) {
		if err := errors.Join(os.MkdirAll(class, 0o755), os.WriteFile(filepath.Join(class, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("state", "operating\n")
	if err := m.Load("npu.bin", nil); !errors.Is(err, ErrManager) {
		t.Errorf("a mainline kernel: %v", err)
	}
	put("firmware", "")
	bin := []byte{1, 2, 3}
	if err := m.Load("npu.bin", bin); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(firmware, "npu.bin"))
	if err != nil || !bytes.Equal(got, bin) {
		t.Errorf("firmware: % x, %v", got, err)
	}
	if name, err := os.ReadFile(filepath.Join(class, "firmware")); string(name) != "npu.bin" || err != nil {
		t.Errorf("attribute: %q, %v", name, err)
	}
	for _, name := range []string{"", "a/b", "../npu.bin", "a b"} {
		if err := m.Load(name, bin); !errors.Is(err, ErrLoad) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	put("state", "write error\n")
	if err := m.Load("npu.bin", bin); !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), "write error") {
		t.Errorf("a refusal: %v", err)
	}

	// Our module takes precedence over the attribute.
	put("state", "operating\n")
	node := filepath.Join(dev, "sluice-fpga")
	if err := errors.Join(os.Remove(filepath.Join(class, "firmware")), os.WriteFile(node, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := m.Load("npu.bin", bin); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(node); err != nil || !bytes.Equal(got, bin) {
		t.Errorf("module: % x, %v", got, err)
	}
	put("state", "unknown\n")
	if err := m.Load("npu.bin", bin); !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a PL that is not configured afterwards: %v", err)
	}
	if err := errors.Join(os.Remove(node), os.Symlink("/dev/full", node)); err != nil {
		t.Fatal(err)
	}
	if err := m.Load("npu.bin", bin); !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), "dmesg") {
		t.Errorf("a refused write: %v", err)
	}
	full := refusal("npu.bin", 19<<20, &os.PathError{Op: "write", Path: node, Err: syscall.ENOMEM})
	if err := full; !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), "cma=36M") {
		t.Errorf("no contiguous memory: %v", err)
	}
}
