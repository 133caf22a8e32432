// Nested combines policies. An outer policy assigns requests to devices and to members of families. An inner policy for
// each device runs the assigned requests.

package sched

// Nested consists of an outer policy and one inner policy for each device. The outer policy sees the whole State. It
// should answer only with Assign, Drop, LoadNetwork, Unload, MakePlan, Advise, SetTheta and Wait. An inner policy sees
// a State with only its device (Devices[0]), and a queue with only the requests that were assigned to this device.
type Nested struct {
	Outer Policy
	Inner []Policy // by device

	views []State
	event Event // the event for the inner policy
}

// Name joins the names of both policies.
func (n *Nested) Name() string {
	if len(n.Inner) == 0 {
		return n.Outer.Name()
	}
	return n.Outer.Name() + "/" + n.Inner[0].Name()
}

// Decide asks the outer policy, and then the inner policies of the devices to which the event may apply. After an
// Assign, the engine calls Decide again with a Fault or Copied event, so the inner policy sees its new requests.
func (n *Nested) Decide(now Time, s *State, ev *Event, buf []Action) []Action {
	for len(n.views) < len(n.Inner) {
		n.views = append(n.views, State{Devices: make([]DeviceView, 1)})
	}
	buf = n.Outer.Decide(now, s, ev, buf)
	for d, p := range n.Inner {
		if d >= len(s.Devices) {
			break
		}
		if (ev.Kind == SegmentDone || ev.Kind == Aborted || ev.Kind == Copied) && ev.Device != d {
			continue
		}
		v := &n.views[d]
		v.Queue, v.Devices[0], v.Traffic, v.Found, v.ByTable = s.Devices[d].Queue, s.Devices[d], s.Traffic, s.Found, s.ByTable
		n.event = *ev
		n.event.Device = 0
		from := len(buf)
		buf = p.Decide(now, v, &n.event, buf)
		for i := from; i < len(buf); i++ {
			if buf[i].Kind == Launch {
				buf[i].Assigned = true
			}
			buf[i].Device = d
		}
	}
	return buf
}
