package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
)

// offset is the offset in the fake driver.
const offset = 0x1c4

// Masks of streams select the TPCs that were observed for their bits; some bits select none. A driver with an unknown
// offset is not changed, and one with a wrong offset is not used.
func TestStreamMasks(t *testing.T) {
	path, h := library(t)
	h.GPUs(1, 16)
	defer h.GPUs(1, 132)
	masks := func(version string, at int) *cuda.Masks {
		return &cuda.Masks{Driver: version, Offsets: driver.Offsets{version: at}}
	}
	t.Run("units", func(t *testing.T) {
		r := start(t, cuda.Config{Masks: masks("550.54.15", offset)})
		if info := r.d.Info(); info.Units != 8 || info.Neighbours {
			t.Fatalf("%+v", info)
		}
		seen := map[int]int{}
		for _, u := range []device.Units{{0b1001_0110}, {0b0110_0001}, {0b0000_1000}} {
			w, err := r.d.Probe(u)
			if err != nil || len(w.SMs) != 2*u.Count() || w.Want != len(w.SMs) {
				t.Errorf("%+v, %v", w, err)
			}
			for _, sm := range w.SMs {
				seen[sm]++
			}
		}
		for sm := range 16 {
			if seen[sm] != 1 {
				t.Errorf("SM %d is in %d partitions", sm, seen[sm])
			}
		}
		b, _ := network(t, *seed, 2)
		r.load(b)
		if e := r.copy(b, 1, make([]int16, b.Network.InH*b.Network.InW*b.Network.InC)); e.Kind != device.Done {
			t.Fatal(e.Err)
		}
		w := launch(b, 0, 0, 2, 1)
		w.Launch.Units = device.Units{0b101}
		r.must(w)
	})
	for want, m := range map[string]*cuda.Masks{
		"is not known":              {Driver: "550.54.15", Offsets: driver.Offsets{"550.54.14": offset}},
		"stands [0xa5a5a5a5":        masks("550.54.15", offset+64),
		"disable 0 SMs of 16":       masks("550.54.15", 0),
		"a version as 550.54.15":    masks("new", offset),
		"masks of 64 bits, the GPU": nil,
	} {
		if m == nil {
			h.GPUs(1, 132)
			m = masks("470.223.02", offset)
		}
		if _, err := cuda.New(cuda.Config{Library: path, Masks: m}); !errors.Is(err, driver.ErrOffset) || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q: %v", want, err)
		}
		h.GPUs(1, 16)
		if n := h.Open(); n != 0 || len(h.Faults()) != 0 {
			t.Errorf("%s: %d things stay open, faults %v", want, n, h.Faults())
		}
	}
}

// The known offsets can be read by ReadOffsets, and errors of a file name their line.
func TestOffsets(t *testing.T) {
	got, err := driver.ReadOffsets("o", "# of a driver\n550.54.15: 0x4ac\n\n 999.1:16 # mine\n")
	if err != nil || len(got) != 2 || got["550.54.15"] != driver.KnownOffsets()["550.54.15"] || got["999.1"] != 16 {
		t.Errorf("%v, %v", got, err)
	}
	for version, at := range driver.KnownOffsets() {
		if bits, err := driver.MaskBits(version, 66); err != nil || bits != 128 || at%4 != 0 {
			t.Errorf("%s: %d bits at %#x, %v", version, bits, at, err)
		}
	}
	if got, err := driver.ReadOffsets("o", "\ufeff999.0.1: 4\r\n"); err != nil || got["999.0.1"] != 4 {
		t.Errorf("as an editor of Windows writes it: %v, %v", got, err)
	}
	for _, text := range []string{"", "# none\n"} {
		if _, err := driver.ReadOffsets("o", text); !errors.Is(err, driver.ErrOffset) || !strings.Contains(err.Error(), "o: no line of it names a driver") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"550", ": 4", "1 2: 4", "1: x", "1: -4", "1: 3", "1: 0x10000", "1: 4\n1: 8"} {
		if _, err := driver.ReadOffsets("o", text); !errors.Is(err, driver.ErrOffset) || !strings.Contains(err.Error(), "o, line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReadOffsets(f *testing.F) {
	f.Add("550.54.15: 0x4ac # x\n")
	f.Add("1:")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := driver.ReadOffsets("o", text)
		if err != nil && (!errors.Is(err, driver.ErrOffset) || got != nil) {
			t.Error(got, err)
		}
		for version, at := range got {
			if version == "" || at < 0 || at%4 != 0 {
				t.Errorf("%q: %d", version, at)
			}
		}
	})
}

// NVML's values, an error at each of its calls, and a missing NVML.
func TestNVML(t *testing.T) {
	path, err := fake.BuildNVML(fake.Dir())
	if err != nil {
		t.Fatal(err)
	}
	lib, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	var set func(version string, fails int) int
	purego.RegisterLibFunc(&set, lib, "fake_nvml")
	set("550.54.15", 0)
	h, err := driver.AskNVML(path, "0000:01:00.0")
	if want := (driver.Health{Driver: "550.54.15", SMMHz: 1980, MemoryMHz: 3201, GPUUse: 40, MemoryUse: 15, RxKBs: 1000, TxKBs: 2000}); err != nil || h != want {
		t.Errorf("%+v, %v", h, err)
	}
	for i, name := range []string{"nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetClockInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPcieThroughput", "", "nvmlShutdown"} {
		if name == "" {
			continue
		}
		set("550.54.15", i+1)
		if _, err := driver.AskNVML(path, "0000:00:00.0"); err == nil || !strings.Contains(err.Error(), name+" answers 999") {
			t.Errorf("%s: %v", name, err)
		}
		if n := set("550.54.15", 0); n != 0 {
			t.Errorf("%s: it stays open %d times", name, n)
		}
	}
	for call, want := range map[int]driver.Health{ // a part of a GPU, a virtual one: what it does not say is unknown
		4: {Driver: "550.54.15", SMMHz: -1, MemoryMHz: -1, GPUUse: 40, MemoryUse: 15, RxKBs: 1000, TxKBs: 2000},
		5: {Driver: "550.54.15", SMMHz: 1980, MemoryMHz: 3201, GPUUse: -1, MemoryUse: -1, RxKBs: 1000, TxKBs: 2000},
		6: {Driver: "550.54.15", SMMHz: 1980, MemoryMHz: 3201, GPUUse: 40, MemoryUse: 15, RxKBs: -1, TxKBs: -1},
	} {
		set("550.54.15", 100+call)
		if h, err := driver.AskNVML(path, "0000:00:00.0"); err != nil || h != want {
			t.Errorf("call %d is not supported: %+v, %v", call, h, err)
		}
	}
	set("550.54.15", 102)
	if _, err := driver.AskNVML(path, "0000:00:00.0"); err == nil || !strings.Contains(err.Error(), "nvmlSystemGetDriverVersion answers 3") {
		t.Errorf("no version: %v", err)
	}
	set("550.54.15", 0)
	if _, err := driver.AskNVML(path, "0000:07:00.0"); err == nil || !strings.Contains(err.Error(), "nvmlDeviceGetHandleByPciBusId_v2 answers 2") {
		t.Errorf("a GPU that is not there: %v", err)
	}
	if _, err := driver.AskNVML("none.so", "0000:00:00.0"); !errors.Is(err, driver.ErrMissing) {
		t.Error(err)
	}
}
