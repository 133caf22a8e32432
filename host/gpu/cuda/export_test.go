package cuda

import "github.com/sluice-npu/sluice/host/device"

// LoadAny begins the loading of a bundle that no compiler made, and that nobody checks.
func (d *Device) LoadAny(w device.Work) {
	n, err := prepare(w.Artefact.Bundle)
	d.give(order{work: &w, net: n, err: err})
}
