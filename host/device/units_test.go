package device_test

import (
	"testing"

	"github.com/sluice-npu/sluice/host/device"
)

func TestNeighbours(t *testing.T) {
	set := device.UnitRange(1, 2).Union(device.UnitRange(5, 3)).Union(device.UnitRange(63, 4))
	for n, want := range []device.Units{{}, device.UnitRange(1, 1), device.UnitRange(1, 2), device.UnitRange(5, 3), device.UnitRange(63, 4), device.UnitRange(63, 4)} {
		if got := set.Neighbours(n); got != want {
			t.Errorf("%d of %v: %v, expected %v", n, set, got, want)
		}
	}
	info := device.Info{Units: 80, Neighbours: true}
	if !info.Legal(device.UnitRange(63, 4)) || !info.Legal(device.Units{}) || info.Legal(set) || info.Legal(device.UnitRange(78, 3)) {
		t.Error("neighbours within the device alone are legal")
	}
}
