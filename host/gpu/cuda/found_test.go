package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
)

// Every GPU is found, and where there is none it is told from a driver that is missing or does not start.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		api  *driver.API
		init string
		hide string
	}{{driver.CUDA, "cuInit", "CUDA_VISIBLE_DEVICES"}, {driver.HIP, "hipInit", "HIP_VISIBLE_DEVICES"}} {
		path, h := of(t, c.api)
		h.GPUs(2, 60)
		if all, err := cuda.Found(c.api, path); err != nil || len(all) != 2 || !strings.HasPrefix(all[1], "Fake GPU, driver for ") {
			t.Errorf("two GPUs: %q, %v", all, err)
		}
		h.GPUs(0, 60)
		none := func(want string) {
			t.Helper()
			all, err := cuda.Found(c.api, path)
			if !errors.Is(err, driver.ErrNone) || errors.Is(err, driver.ErrMissing) || all != nil ||
				!strings.Contains(err.Error(), c.hide) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no GPU: %q, %v", c.api.Name, all, err)
			}
		}
		none(path)
		h.GPUs(1, map[*driver.API]int{driver.CUDA: 132, driver.HIP: 60}[c.api])
		h.Inject(c.init, 0, 100, 0) // what drivers answer that see none
		none(c.init)
		h.Inject(c.init, 0, 803, 0)
		if _, err := cuda.Found(c.api, path); !errors.Is(err, driver.ErrMissing) || !strings.Contains(err.Error(), "does not start: "+c.init) {
			t.Errorf("%s: a driver that is not the kernel's: %v", c.api.Name, err)
		}
		_, err := cuda.Found(c.api, "none.so")
		if other := map[*driver.API]string{driver.CUDA: "HIP", driver.HIP: "CUDA"}[c.api]; !errors.Is(err, driver.ErrMissing) || strings.Contains(err.Error(), other) {
			t.Errorf("%s: no library: %v", c.api.Name, err)
		}
	}
}
