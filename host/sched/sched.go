// Package sched holds the policies. A policy is a deterministic state machine: it receives events with the time and
// returns actions. It never reads a clock, blocks, logs or allocates in steady state. The engine carries out its
// actions, in virtual or in real time.
//
// The engine tells a policy every event once, after updating State. Most policies keep nothing and decide from State
// alone. A policy that learns does so at events: equal states, including what was learned, give equal answers. State lists the requests that wait and run, so cancels, faults and retries need no extra code in a policy.
package sched

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Time is ns since the run began.
type Time = int64

// Never is later than all other times. It is the Deadline of a request without a deadline.
const Never Time = math.MaxInt64

// Task is one call of a client; it ends with its last sample.
type Task struct {
	ID       uint64
	Client   int
	Network  string
	Created  Time
	Arrived  Time
	Deadline Time      // absolute; 0: none
	Priority int       // level: higher ones go first (levels.go)
	Theta    float32   // exit threshold, the same at every exit; 0: all requests leave at the first exit
	Thetas   []float32 // by exit; replaces Theta unless nil
	Samples  int
	// Link is the bandwidth of the client's link while this task arrived, in bits per second; 0: unknown.
	Link float64
}

// Request is one sample of a task: the unit that is queued, batched and preempted, and that exits.
type Request struct {
	ID       device.RequestID
	Task     uint64
	Sample   int
	Client   int
	Network  string
	Arrived  Time
	Deadline Time // absolute; Never: none (HasDeadline)
	Priority int  // level: higher ones go first (levels.go)
	Theta    float32
	Thetas   []float32 // shared with the task; read only
	Link     float64   // the task's
}

// HasDeadline reports whether the request has a deadline. Without one, Deadline is Never, which compares as later than
// everything else. A share of the remaining time is then not defined.
func (r *Request) HasDeadline() bool { return r.Deadline != Never }

// ThetaAt is the threshold at an exit.
func (r *Request) ThetaAt(exit int) float32 {
	if exit >= 0 && exit < len(r.Thetas) {
		return r.Thetas[exit]
	}
	return r.Theta
}

// EventKind is the kind of an event.
type EventKind uint8

const (
	Arrival     EventKind = iota // Request has been queued
	SegmentDone                  // Launch has passed exit Segment; Exited have left it
	Cancel                       // the client has cancelled Request
	Timer                        // the time that a Wait asked for has come
	Loaded                       // a network was added, is now servable or is gone, or a device is back after a reset
	Fault                        // Launch failed; its requests are back in the queue or have ended
	Copied                       // Request has been copied to Device, to which it was assigned; see Took
	Aborted                      // Launch was stopped and is Halted; see Took
	Planned                      // a Plan has returned a result: State.Found
)

// String names an event kind.
func (k EventKind) String() string {
	return name(int(k), "arrival", "segment_done", "cancel", "timer", "loaded", "fault", "copied", "aborted", "planned")
}

// Event is what the engine tells a policy, after it has updated State.
type Event struct {
	Kind    EventKind
	Device  int
	Request device.RequestID // Arrival, Cancel
	Launch  device.LaunchID  // SegmentDone, Fault
	Segment int              // SegmentDone: the exit passed
	Exited  int              // SegmentDone: B_exit, requests that left at it
	Took    Time             // SegmentDone, Copied, Aborted: measured duration
}

// ActionKind is the kind of an action.
type ActionKind uint8

const (
	Launch      ActionKind = iota // take Count requests from the queue's head (or Requests) and run First..Last
	Preempt                       // halt Launch at the exit it has reached
	Resume                        // let the halted Launch run to Last
	Merge                         // put the requests of Launch into the halted launch Into
	LoadNetwork                   // make Network servable on Device
	Unload                        // free the memory of Network on Device
	Drop                          // give up Request
	Wait                          // call the policy again at Until
	SetTheta                      // from now on, segments of Network begin with thresholds of at most Thetas
	Assign                        // send Requests to Device, for the member Network of their family: begins their copies
	Abort                         // stop the running Launch at once: what it computed since its resume point is lost
	MakePlan                      // start computing Plan outside the engine; Planned follows
	Advise                        // recommend to a client how to send its next inputs
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

// Plan is a computation that takes too long for a decision (annealing, fitting). It works on a snapshot, outside the
// engine.
type Plan interface {
	// Find computes, on any goroutine, and stops when ctx ends. The event Planned delivers its result, which may be
	// partial or nil.
	Find(ctx context.Context) any
	// Cost is the duration of the computation in virtual time, in ns.
	Cost() Time
}

// Advice is a recommendation of an engine to a client about its next inputs.
type Advice struct {
	Client  int
	Network string  // the member of the family that will answer
	Shape   []int   // of an input; nil: unchanged
	Rate    float64 // tasks per second that can be served; 0: no recommendation
}

// Action is one thing that the engine should do. The actions of one answer are carried out in order.
type Action struct {
	Kind        ActionKind
	Device      int                // Launch, Assign, LoadNetwork, Unload
	Network     string             // Launch, Assign, LoadNetwork, Unload: the member; SetTheta
	Launch      device.LaunchID    // Preempt, Resume, Merge, Abort
	Into        device.LaunchID    // Merge
	First, Last int                // Launch: segments; Resume: Last
	Count       int                // Launch: number of requests from the queue's head, if Requests is nil
	Requests    []device.RequestID // Launch, Assign: these waiting requests
	Assigned    bool               // Launch: from the queue of Device, not from State.Queue
	Request     device.RequestID   // Drop
	Until       Time               // Wait
	Units       device.Units       // Launch: the allowed units; zero: the whole device. Resume: the same, but zero: unchanged
	Exclusive   bool               // Launch, and Resume with Units: no other launch runs on these units
	Priority    int                // Launch, and Resume with Units
	Thetas      []float32          // SetTheta: by exit; nil: those of the requests
	Plan        Plan               // MakePlan
	Advice      *Advice            // Advise
}

// Phase is the state of a launch.
type Phase uint8

const (
	Running  Phase = iota // a segment is being computed
	AtExit                // an exit has just been passed and the policy is asked what to do
	Halted                // preempted; its samples keep their slots
	Stopping              // running, but halts at the next point where the device can stop
)

// LaunchView is a launch as a policy sees it.
//
// A launch that has passed an exit before its Last continues unless it is preempted. A launch that has reached its Last
// with requests left stays there until a Merge, or a Resume with a later Last. The policy never sees launches without
// requests.
type LaunchView struct {
	ID      device.LaunchID
	Device  int
	Network string
	First   int
	Last    int
	Reached int // the last exit passed; First-1 before any
	Kernel  int // if it was stopped inside a segment: the first kernel of that segment that it still has to run
	Phase   Phase
	Since   Time // when it began to run, or reached the point where it waits
	Copying int  // number of inputs that must be copied before it runs

	Units     device.Units // the units it may use; zero: the whole device
	Exclusive bool
	Priority  int

	Began    int       // slots taken: requests launched with it or merged into it, also those that have left
	Requests []Request // the requests still in the batch, in the order in which they joined
}

// Slack is the time to the earliest deadline in the batch; negative if it has passed.
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

// Hosted is a network that a device can serve, with its times on that device.
type Hosted struct {
	Network string // the member's name
	Family  string // the family it belongs to; its own name if there is none
	Table   *Table
}

// DeviceView is a device as a policy sees it.
type DeviceView struct {
	MaxBatch int // B_max of the hardware
	Places   int // launches it can run at the same time
	Slots    int // samples it can hold at the same time
	Used     int // slots in use

	Units, UnitAlign int // what launches can be confined to (device.Info)
	Neighbours       bool
	Priorities       int

	Down     bool
	Lost     device.Units // partitions that are being reset
	Hosted   []Hosted
	Launches []*LaunchView // in order of their start; the last one runs or ran last
	Queue    Queue         // waiting requests that are assigned to it, copied or not
}

// Free returns the units that no launch holds. A launch holds its units while it runs. It also holds them at an exit, unless
// this answer preempts it.
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

// Table is the latency table of a network on this device; nil if the device cannot serve it. For a family it is the table of
// the first member, which a launch of the family runs.
func (d *DeviceView) Table(network string) *Table {
	if h := d.Member(network); h != nil {
		return h.Table
	}
	return nil
}

// Member returns the network with this name on this device, or the first one of the family with this name.
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

// Hosts reports whether exactly this network can be launched on this device.
func (d *DeviceView) Hosts(network string) bool {
	return slices.ContainsFunc(d.Hosted, func(h Hosted) bool { return h.Network == network })
}

// State is all that a policy may look at. The engine updates it; a policy must not change it.
type State struct {
	Queue   Queue
	Devices []DeviceView
	Traffic []Traffic // by network: statistics of its requests
	Found   any       // at Planned: the result of Plan.Find
	// ByTable: requests that cannot meet their deadline by the latency tables are not served to the end.
	ByTable bool
}

// Policy decides. Decide receives one event, appends its actions to buf and returns it; it keeps no reference to s,
// ev or buf. The answer depends only on the arguments and on what the policy has learned.
type Policy interface {
	Name() string
	Decide(now Time, s *State, ev *Event, buf []Action) []Action
}
