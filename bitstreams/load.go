package bitstreams

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Errors of Load.
var (
	ErrManager = errors.New("no FPGA manager that takes a file")
	ErrLoad    = errors.New("the FPGA manager refused")
)

// Manager is an FPGA manager of the kernel, reached through our module (boards/kernel/sluice_fpga.c) or sysfs.
type Manager struct {
	Sys      string // mount point of sysfs (default /sys)
	Dev      string // mount point of devtmpfs (default /dev)
	Firmware string // the kernel's folder for firmware (default /lib/firmware)
	Name     string // manager's name (default fpga0)
}

func (m Manager) class() string {
	sys, name := m.Sys, m.Name
	if sys == "" {
		sys = "/sys"
	}
	if name == "" {
		name = "fpga0"
	}
	return filepath.Join(sys, "class", "fpga_manager", name)
}

// State returns the manager's state of the PL, for example operating, unknown or write error.
func (m Manager) State() (string, error) {
	text, err := os.ReadFile(filepath.Join(m.class(), "state"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrManager, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Attribute returns an attribute of the manager, such as its readable name.
func (m Manager) Attribute(attribute string) string {
	text, _ := os.ReadFile(filepath.Join(m.class(), attribute))
	return strings.TrimSpace(string(text))
}

// deviceFile is created by sluice_fpga.ko. One write must contain the whole .bin.
const deviceFile = "sluice-fpga"

// Load writes a .bin to the manager and waits until the PL is configured. It uses our module, or the attribute
// "firmware" that only linux-xlnx has. If neither exists, only U-Boot can load a bitstream (boot.scr), and the error
// reports this. The caller must ensure that nothing uses the PL.
func (m Manager) Load(name string, bin []byte) error {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, " \n") {
		return fmt.Errorf("load %q: %w: expected a file's name without a folder", name, ErrLoad)
	}
	err := m.byModule(name, bin)
	if errors.Is(err, os.ErrNotExist) {
		err = m.bySysfs(name, bin)
	}
	if err != nil {
		return err
	}
	state, err := m.State()
	if err != nil {
		return err
	}
	if state != "operating" {
		return fmt.Errorf("load %s: %w: its state is %q, expected \"operating\"", name, ErrLoad, state)
	}
	return nil
}

// byModule writes a .bin to our module. It returns os.ErrNotExist if the module is not loaded.
func (m Manager) byModule(name string, bin []byte) error {
	dev := m.Dev
	if dev == "" {
		dev = "/dev"
	}
	path := filepath.Join(dev, deviceFile)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(bin); err != nil {
		return refusal(name, len(bin), err)
	}
	return nil
}

// refusal explains why a manager rejected a .bin of n bytes.
func refusal(name string, n int, err error) error {
	if errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("load %s: %w: %w: the kernel has no contiguous memory of %d bytes: give it cma=%dM on its command line, or load from U-Boot",
			name, ErrLoad, err, n, 8+(n+n/2)>>20)
	}
	return fmt.Errorf("load %s: %w: %w: dmesg tells more", name, ErrLoad, err)
}

func (m Manager) bySysfs(name string, bin []byte) error {
	attribute := filepath.Join(m.class(), "firmware")
	if _, err := os.Stat(attribute); err != nil {
		return fmt.Errorf("%w: %w: there is neither /dev/sluice-fpga (load sluice_fpga.ko) nor this attribute (linux-xlnx has it); put npu.bin on the boot partition, where boot.scr loads it", ErrManager, err)
	}
	dir := m.Firmware
	if dir == "" {
		dir = "/lib/firmware"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), bin, 0o644); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(m.class(), "flags"), []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("load %s: full configuration: %w", name, err)
	}
	if err := os.WriteFile(attribute, []byte(name), 0); err != nil {
		return refusal(name, len(bin), err)
	}
	return nil
}
