// Package sched holds the policies. A policy is a pure function of state: it is told the time, it
// never reads a clock, blocks, logs or allocates in steady state, and it answers with actions. The
// engine carries them out, in virtual or in real time.
//
// The engine tells a policy every event after it has brought State up to date. A policy looks at
// State, not at its own memory of earlier events, so that cancels, faults and retries need no code
// of their own in it.
package sched

import "github.com/sluice-npu/sluice/host/device"

// Time is ns since the run began.
type Time = int64

// Task is one call of a client; it ends with its last sample.
type Task struct {
	ID       uint64
	Client   int
	Network  string
	Created  Time
	Arrived  Time
	Deadline Time // absolute
	Priority int
	Theta    float32   // exit threshold, the same at every exit
	Thetas   []float32 // by exit, in place of Theta where it is not nil
	Samples  int
}

// Request is one sample of a task: what is queued, batched, preempted, exits.
type Request struct {
	ID       device.RequestID
	Task     uint64
	Sample   int
	Network  string
	Arrived  Time
	Deadline Time
	Priority int
	Theta    float32
	Thetas   []float32 // shared with the task; read only
}

// ThetaAt is the threshold at an exit.
func (r *Request) ThetaAt(exit int) float32 {
	if exit >= 0 && exit < len(r.Thetas) {
		return r.Thetas[exit]
	}
	return r.Theta
}

// EventKind is what happened.
type EventKind uint8

// Events.
const (
	Arrival     EventKind = iota // Request has been queued
	SegmentDone                  // Launch has passed exit Segment; Exited have left it
	Cancel                       // Request was taken back by its client
	Timer                        // the time a Wait asked for has come
	Loaded                       // a network has become servable, or a device is so again after a reset
	Fault                        // Launch failed; its requests are back in the queue or have ended
)

// String names an event kind.
func (k EventKind) String() string {
	return name(int(k), "arrival", "segment_done", "cancel", "timer", "loaded", "fault")
}

// Event is what a policy is told, after State has taken it in.
type Event struct {
	Kind    EventKind
	Device  int
	Request device.RequestID // Arrival, Cancel
	Launch  device.LaunchID  // SegmentDone, Fault
	Segment int              // SegmentDone: the exit passed
	Exited  int              // SegmentDone: B_exit, requests that left at it
}

// ActionKind is what the policy wants.
type ActionKind uint8

// Actions.
const (
	Launch      ActionKind = iota // take Count requests from the queue's head (or Requests) and run First..Last
	Preempt                       // halt Launch at the exit it has reached
	Resume                        // go on with the halted Launch, to Last
	Merge                         // put the requests of Launch into the halted launch Into
	LoadNetwork                   // make Network servable on Device
	Unload                        // free what Network takes on Device
	Drop                          // give Request up
	Wait                          // call again at Until
	SetTheta                      // segments of Network that begin from now on ask for no more confidence than Thetas
)

// String names an action kind.
func (k ActionKind) String() string {
	return name(int(k), "launch", "preempt", "resume", "merge", "load", "unload", "drop", "wait", "theta")
}

func name(k int, names ...string) string {
	if k < 0 || k >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Action is one thing the engine is to do. Actions of one answer are carried out in order.
type Action struct {
	Kind        ActionKind
	Device      int                // Launch, LoadNetwork, Unload
	Network     string             // Launch, LoadNetwork, Unload, SetTheta
	Launch      device.LaunchID    // Preempt, Resume, Merge
	Into        device.LaunchID    // Merge
	First, Last int                // Launch: segments; Resume: Last
	Count       int                // Launch: requests from the queue's head, where Requests is nil
	Requests    []device.RequestID // Launch: these queued requests
	Request     device.RequestID   // Drop
	Until       Time               // Wait
	Partition   uint64             // Launch
	Priority    int                // Launch
	Thetas      []float32          // SetTheta: by exit; nil: what the requests brought
}

// Phase is where a launch stands.
type Phase uint8

// Phases.
const (
	Running Phase = iota // a segment is being computed
	AtExit               // an exit has just been passed and the policy is asked what to do
	Halted               // preempted; its samples lie in their slots
)

// LaunchView is a launch as a policy sees it.
//
// A launch that has passed an exit before its Last goes on by itself unless it is preempted; one
// that has reached its Last with requests left in it stays there for a Merge or a Resume with a
// further Last. Launches without requests are gone before a policy is told of anything.
type LaunchView struct {
	ID       device.LaunchID
	Device   int
	Network  string
	First    int
	Last     int
	Reached  int // the last exit passed; First-1 before any
	Phase    Phase
	Began    int       // places taken: requests it was launched with or that were merged into it, those that left included
	Requests []Request // still in the batch, in the order they were put there
}

// Slack is the time left to the earliest deadline of the batch; negative when it has passed.
func (l *LaunchView) Slack(now Time) Time {
	if len(l.Requests) == 0 {
		return 1<<63 - 1
	}
	d := l.Requests[0].Deadline
	for i := 1; i < len(l.Requests); i++ {
		d = min(d, l.Requests[i].Deadline)
	}
	return d - now
}

// Hosted is a network that a device can serve, with its times on it.
type Hosted struct {
	Network string
	Table   *Table
}

// DeviceView is a device as a policy sees it.
type DeviceView struct {
	MaxBatch int // B_max of the hardware
	Places   int // launches it can run at the same time
	Down     bool
	Hosted   []Hosted
	Launches []*LaunchView // in order of their start; the last is the one that runs or ran last
}

// Table is the latency table of a network on this device, nil where it is not servable.
func (d *DeviceView) Table(network string) *Table {
	for i := range d.Hosted {
		if d.Hosted[i].Network == network {
			return d.Hosted[i].Table
		}
	}
	return nil
}

// State is all a policy may look at. The engine keeps it; a policy changes nothing in it.
type State struct {
	Queue   Queue
	Devices []DeviceView
	Traffic []Traffic // by network: what has been seen of its requests so far
}

// Policy decides. Decide appends its actions to buf and returns it; it keeps no reference to s or
// buf. Two calls with equal arguments give equal answers.
type Policy interface {
	Name() string
	Decide(now Time, s *State, ev Event, buf []Action) []Action
}
