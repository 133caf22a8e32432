// Nested: an outer policy assigns requests to devices and to members of families, an inner one for
// each device runs what was assigned to it.

package sched

// Nested is both as one policy. The outer one sees everything, and is to answer with Assign, Drop,
// LoadNetwork, Unload, MakePlan, Advise, SetTheta and Wait; an inner one sees a state of its device
// alone (Devices[0]), whose queue is the requests that were assigned to it, and answers as if nothing
// else existed.
type Nested struct {
	Outer Policy
	Inner []Policy // by device

	views []State
	event Event // as the inner policy hears it
}

// Name is both names.
func (n *Nested) Name() string {
	if len(n.Inner) == 0 {
		return n.Outer.Name()
	}
	return n.Outer.Name() + "/" + n.Inner[0].Name()
}

// Decide asks the outer policy, then the inner ones whom the event may concern: after an Assign the
// engine asks again (Fault without a device, or Copied), so an inner policy sees its new requests then.
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
