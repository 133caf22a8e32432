// Package sched holds the policies. A policy is a deterministic state machine that events advance: it
// is told the time and what has happened, and answers with actions. It never reads a clock, blocks,
// logs or allocates in steady state. The engine carries its answers out, in virtual or in real time.
//
// The engine tells a policy every event once, after it has brought State up to date. Most policies
// keep nothing and answer from State alone; one that learns does so at events, and is a Keeper: equal
// answers follow from equal states, what it has learned included. Who waits, runs or has gone stands
// in State, so that cancels, faults and retries need no code of their own in a policy.
package sched

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Time is ns since the run began.
type Time = int64

// Never is later than all else: the deadline of a request that was given none.
const Never Time = math.MaxInt64

// Task is one call of a client; it ends with its last sample.
type Task struct {
	ID       uint64
	Client   int
	Network  string
	Created  Time
	Arrived  Time
	Deadline Time      // absolute; 0: none
	Priority int       // its level: higher ones go first (levels.go)
	Theta    float32   // exit threshold, the same at every exit; 0: all leave at the first
	Thetas   []float32 // by exit, in place of Theta where it is not nil
	Samples  int
	// Link is what the client's link carried while this came, in bits a second; 0: not known.
	Link float64
}

// Request is one sample of a task: what is queued, batched, preempted, exits.
type Request struct {
	ID       device.RequestID
	Task     uint64
	Sample   int
	Client   int
	Network  string
	Arrived  Time
	Deadline Time // absolute; Never: it was given none (HasDeadline)
	Priority int  // its level: higher ones go first (levels.go)
	Theta    float32
	Thetas   []float32 // shared with the task; read only
	Link     float64   // the task's
}

// HasDeadline tells whether the request was given a deadline. Without one Deadline is Never: it compares as
// what is later than all else, but a share of the time that is left to it is no time.
func (r *Request) HasDeadline() bool { return r.Deadline != Never }

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
	Loaded                       // a network came, became servable or has gone, or a device is back after a reset
	Fault                        // Launch failed; its requests are back in the queue or have ended
	Copied                       // Request lies on Device, to which it was assigned; Took
	Aborted                      // Launch has been stopped and is Halted; Took
	Planned                      // a Plan has found something: State.Found
)

// String names an event kind.
func (k EventKind) String() string {
	return name(int(k), "arrival", "segment_done", "cancel", "timer", "loaded", "fault", "copied", "aborted", "planned")
}

// Event is what a policy is told, after State has taken it in.
type Event struct {
	Kind    EventKind
	Device  int
	Request device.RequestID // Arrival, Cancel
	Launch  device.LaunchID  // SegmentDone, Fault
	Segment int              // SegmentDone: the exit passed
	Exited  int              // SegmentDone: B_exit, requests that left at it
	Took    Time             // SegmentDone, Copied, Aborted: how long it took, as measured
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
	Assign                        // Requests go to Device and the member Network of their family: begins their copies
	Abort                         // stop the running Launch at once: what ran since its resume point is lost
	MakePlan                      // begin Plan beside the engine; Planned follows
	Advise                        // tell a client what its next inputs had better be
)

// String names an action kind.
func (k ActionKind) String() string {
	return name(int(k), "launch", "preempt", "resume", "merge", "load", "unload", "drop", "wait", "theta",
		"assign", "abort", "plan", "advise")
}

func name(k int, names ...string) string {
	if k < 0 || k >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Plan is work that is too long for a decision (annealing, fitting): it is made from a snapshot and
// computed beside the engine.
type Plan interface {
	// Find computes, on any goroutine, and gives up when ctx ends. What it finds comes back with the
	// event Planned, also in part or nil.
	Find(ctx context.Context) any
	// Cost is how long that takes in virtual time, in ns.
	Cost() Time
}

// Keeper is a policy that learns. Snapshot is a copy of what it has learned; after Restore of it the
// policy answers as it did then. Neither keeps hold of the other's memory.
type Keeper interface {
	Policy
	Snapshot() any
	Restore(snapshot any)
}

// Advice is what an engine tells a client about its next inputs.
type Advice struct {
	Client  int
	Network string  // the member of the family that will answer
	Shape   []int   // of an input; nil: as it was
	Rate    float64 // tasks a second that can be served; 0: no advice
}

// Action is one thing the engine is to do. Actions of one answer are carried out in order.
type Action struct {
	Kind        ActionKind
	Device      int                // Launch, Assign, LoadNetwork, Unload
	Network     string             // Launch, Assign, LoadNetwork, Unload: the member; SetTheta
	Launch      device.LaunchID    // Preempt, Resume, Merge, Abort
	Into        device.LaunchID    // Merge
	First, Last int                // Launch: segments; Resume: Last
	Count       int                // Launch: requests from the queue's head, where Requests is nil
	Requests    []device.RequestID // Launch, Assign: these waiting requests
	Assigned    bool               // Launch: from the queue of Device, not from State.Queue
	Request     device.RequestID   // Drop
	Until       Time               // Wait
	Units       device.Units       // Launch: what it is confined to; zero: the whole device. Resume: likewise, zero: as it was
	Exclusive   bool               // Launch, and Resume with Units: nobody else runs on these units
	Priority    int                // Launch, and Resume with Units
	Thetas      []float32          // SetTheta: by exit; nil: what the requests brought
	Plan        Plan               // MakePlan
	Advice      *Advice            // Advise
}

// Phase is where a launch stands.
type Phase uint8

// Phases.
const (
	Running  Phase = iota // a segment is being computed
	AtExit                // an exit has just been passed and the policy is asked what to do
	Halted                // preempted; its samples lie in their slots
	Stopping              // running, and to be halted at the next place where the device lets go
)

// LaunchView is a launch as a policy sees it.
//
// A launch that has passed an exit before its Last goes on by itself unless it is preempted; one
// that has reached its Last with requests left in it stays there for a Merge or a Resume with a
// further Last. Launches without requests are gone before a policy is told of anything.
type LaunchView struct {
	ID      device.LaunchID
	Device  int
	Network string
	First   int
	Last    int
	Reached int // the last exit passed; First-1 before any
	Kernel  int // the first kernel of the next segment that has to run, where it was stopped inside
	Phase   Phase
	Since   Time // when it began to run, or to stand where it stands

	Units     device.Units // what it is confined to; zero: the whole device
	Exclusive bool
	Priority  int

	Began    int       // places taken: requests it was launched with or that were merged into it, those that left included
	Requests []Request // still in the batch, in the order they were put there
}

// Slack is the time left to the earliest deadline of the batch; negative when it has passed.
func (l *LaunchView) Slack(now Time) Time {
	if len(l.Requests) == 0 {
		return Never
	}
	d := l.Requests[0].Deadline
	for i := 1; i < len(l.Requests); i++ {
		d = min(d, l.Requests[i].Deadline)
	}
	return d - now
}

// Hosted is a network that a device can serve, with its times on it.
type Hosted struct {
	Network string // the member's own name
	Family  string // the family it answers for; its own name where it has none
	Table   *Table
}

// DeviceView is a device as a policy sees it.
type DeviceView struct {
	MaxBatch int // B_max of the hardware
	Places   int // launches it can run at the same time
	Slots    int // samples it can hold at the same time
	Used     int // slots that are taken

	Units, UnitAlign int // what launches can be confined to (device.Info)
	Neighbours       bool
	Priorities       int

	Down     bool
	Lost     device.Units // partitions that are being reset
	Hosted   []Hosted
	Launches []*LaunchView // in order of their start; the last is the one that runs or ran last
	Queue    Queue         // requests that were assigned to it and wait, copied or not
}

// Free is what of the device's units no launch holds: one that runs, or stands at an exit and goes on by
// itself unless this answer preempts it.
func (d *DeviceView) Free() device.Units {
	u := device.UnitRange(0, d.Units).Without(d.Lost)
	for _, l := range d.Launches {
		if l.Phase == Halted || l.Phase == AtExit && l.Reached >= l.Last {
			continue
		}
		if l.Units.Empty() { // the whole device
			return device.Units{}
		}
		u = u.Without(l.Units)
	}
	return u
}

// Table is the latency table of a network on this device, nil where it is not servable. Of a family it
// is that of the first member: what a launch that names the family runs.
func (d *DeviceView) Table(network string) *Table {
	if h := d.Member(network); h != nil {
		return h.Table
	}
	return nil
}

// Member is the network with this name on this device, or the first of the family with it.
func (d *DeviceView) Member(network string) *Hosted {
	for i := range d.Hosted {
		if d.Hosted[i].Network == network {
			return &d.Hosted[i]
		}
	}
	for i := range d.Hosted {
		if d.Hosted[i].Family == network {
			return &d.Hosted[i]
		}
	}
	return nil
}

// Hosts tells whether the network with just this name can be launched on this device.
func (d *DeviceView) Hosts(network string) bool {
	return slices.ContainsFunc(d.Hosted, func(h Hosted) bool { return h.Network == network })
}

// State is all a policy may look at. The engine keeps it; a policy changes nothing in it.
type State struct {
	Queue   Queue
	Devices []DeviceView
	Traffic []Traffic // by network: what has been seen of its requests so far
	Found   any       // at Planned: Plan.Find's answer
	// ByTable: who cannot meet a deadline any more, by the latency tables, is not served to the end.
	ByTable bool
}

// Policy decides. Decide takes in one event, appends its actions to buf and returns it; it keeps no
// reference to s, ev or buf. The answer depends on the arguments and on what a Keeper has learned alone.
type Policy interface {
	Name() string
	Decide(now Time, s *State, ev *Event, buf []Action) []Action
}
