package cuda

import "github.com/sluice-npu/sluice/host/gpu/cuda/driver"

// cleared is the value of each word after Clear.
const cleared = 0xa5a5a5a5

// Clear overwrites the free slots of a network. So a test cannot mistake the result of an earlier launch for a new
// result. The device must be idle.
func (d *Device) Clear(network string) error {
	return d.ask(func(l *launcher) error {
		n := l.nets[network]
		if n == nil {
			return refuse("network %q is not loaded", network)
		}
		for _, slot := range n.free {
			from, to := int64(slot)*n.b.Slot.Stride, int64(slot+1)*n.b.Slot.Stride
			from, to = (from+3)/4*4, to/4*4
			if err := l.lib.Fill(n.slots+driver.Ptr(from), cleared, int(to-from)/4, l.copies); err != nil {
				return err
			}
		}
		return l.lib.Wait(l.copies)
	})
}
