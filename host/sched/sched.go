// Package sched has the policies. A policy is a deterministic state machine. It receives events with the time and
// returns actions. It never reads a clock, blocks or logs, and allocates no memory in steady state. The engine carries
// out the actions, in virtual or in real time.
//
// The engine reports every event to a policy once, after it has updated State. Most policies store nothing and decide
// from State alone. A policy learns only from events: equal State and equal learned values give equal answers.
// State lists the waiting and running requests, so cancels, faults and retries need no extra code in a policy.
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

// Task is one call of a client. It ends when its last sample ends.
type Task struct {
	ID       uint64
	Client   int
	Network  string
	Created  Time
	Arrived  Time
	Deadline Time      // absolute time; 0: no deadline
	Priority int       // level: higher levels go first (levels.go)
	Theta    float32   // exit threshold, the same at every exit; 0: all requests leave at the first exit
	Thetas   []float32 // thresholds by exit; used instead of Theta unless nil
	Samples  int
	// Link is the bandwidth, in bits per second, that the client's link had when this task arrived; 0: unknown.
	Link float64
}

// Request is one sample of a task. Requests are queued, batched and preempted, and leave at exits.
type Request struct {
	ID       device.RequestID
	Task     uint64
	Sample   int
	Client   int
	Network  string
	Arrived  Time
	Deadline Time // absolute time; Never: no deadline (HasDeadline)
	Priority int  // level: higher levels go first (levels.go)
	Theta    float32
	Thetas   []float32 // shared with the task; read-only
	Link     float64   // the same as in the task
}

// HasDeadline reports whether the request has a deadline. Without a deadline, Deadline is Never, so code must not
// compute a share of the time until Deadline.
func (r *Request) HasDeadline() bool { return r.Deadline != Never }

// ThetaAt returns the threshold at an exit.
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
	SegmentDone                  // Launch has passed exit Segment; Exited requests have left there
	Cancel                       // the client has cancelled Request
	Timer                        // the time of a Wait has come
	Loaded                       // a network was added, loaded or removed, or a device was reset
	Fault                        // Launch failed; its requests are back in the queue or have ended
	Copied                       // the input of Request has been copied to its assigned Device; see Took
	Aborted                      // Launch was stopped and is Halted; see Took
	Planned                      // a Plan has returned a result, which is in State.Found
)

// String returns the name of an event kind.
func (k EventKind) String() string {
	return name(int(k), "arrival", "segment_done", "cancel", "timer", "loaded", "fault", "copied", "aborted", "planned")
}

// Event tells a policy what happened. The engine has already updated State.
type Event struct {
	Kind    EventKind
	Device  int
	Request device.RequestID // Arrival, Cancel
	Launch  device.LaunchID  // SegmentDone, Fault
	Segment int              // SegmentDone: the exit that was passed
	Exited  int              // SegmentDone: B_exit, the number of requests that left there
	Took    Time             // SegmentDone, Copied, Aborted: measured duration
}

// ActionKind is the kind of an action.
type ActionKind uint8

const (
	Launch      ActionKind = iota // launch Count requests of the queue's head (or Requests) for segments First..Last
	Preempt                       // halt Launch at the exit that it has reached
	Resume                        // run the halted Launch up to Last
	Merge                         // move the requests of Launch into the halted launch Into
	LoadNetwork                   // load Network on Device
	Unload                        // unload Network from Device
	Drop                          // give up Request
	Wait                          // call the policy again at Until
	SetTheta                      // from now on, segments of Network begin with thresholds of at most Thetas
	Assign                        // assign Requests to Device for the member Network; their copies begin
	Abort                         // stop the running Launch at once; its work since its resume point is lost
	MakePlan                      // start the computation of Plan outside the engine; Planned follows
	Advise                        // recommend to a client how to send its inputs
)

// String returns the name of an action kind.
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

// Plan is a computation that takes too long for a decision, for example annealing or fitting. It uses a snapshot and
// runs outside the engine.
type Plan interface {
	// Find computes the result, on any goroutine, and stops when ctx ends. The event Planned delivers the result, which
	// may be partial or nil.
	Find(ctx context.Context) any
	// Cost returns the duration of the computation in virtual time, in ns.
	Cost() Time
}

// Advice is what an engine recommends to a client about the client's next inputs.
type Advice struct {
	Client  int
	Network string  // the member of the family that will serve the inputs
	Shape   []int   // shape of an input; nil: unchanged
	Rate    float64 // tasks per second that can be served; 0: no recommendation
}

// Action is one instruction to the engine. The engine carries out the actions of one answer in order.
type Action struct {
	Kind        ActionKind
	Device      int                // Launch, Assign, LoadNetwork, Unload
	Network     string             // Launch, Assign, LoadNetwork, Unload: the member of a family; SetTheta
	Launch      device.LaunchID    // Preempt, Resume, Merge, Abort
	Into        device.LaunchID    // Merge
	First, Last int                // Launch: segments; Resume: Last
	Count       int                // Launch: number of requests from the queue's head, if Requests is nil
	Requests    []device.RequestID // Launch, Assign: ids of waiting requests
	Assigned    bool               // Launch: from the queue of Device, not from State.Queue
	Request     device.RequestID   // Drop
	Until       Time               // Wait
	Units       device.Units       // Launch: the allowed units; zero: the whole device. Resume: the same, but zero: unchanged
	Exclusive   bool               // Launch, and Resume with Units: no other launch runs on these units
	Priority    int                // Launch, and Resume with Units
	Thetas      []float32          // SetTheta: thresholds by exit; nil: the thresholds of the requests
	Plan        Plan               // MakePlan
	Advice      *Advice            // Advise
}

// Phase is the state of a launch.
type Phase uint8

const (
	Running  Phase = iota // a segment is being computed
	AtExit                // the launch has just passed an exit, and the policy decides how it continues
	Halted                // preempted; its samples still use their slots
	Stopping              // running, but halts at the next point where the device can stop
)

// LaunchView is a launch as a policy sees it.
//
// A launch that has passed an exit before its Last continues unless it is preempted. A launch that has reached its Last
// and still has requests waits for a Merge, or for a Resume with a later Last. State has no launches without requests.
type LaunchView struct {
	ID      device.LaunchID
	Device  int
	Network string
	First   int
	Last    int
	Reached int // the last exit that was passed; First-1 before the first exit
	Kernel  int // if the launch was stopped inside a segment: the first remaining kernel of this segment
	Phase   Phase
	Since   Time // time at which the launch began to run, or reached the point at which it waits
	Copying int  // number of inputs that must be copied before the launch runs

	Units     device.Units // the units that the launch may use; zero: the whole device
	Exclusive bool
	Priority  int

	Began    int       // number of requests launched with it or merged into it, including those that left
	Requests []Request // the requests that are still in the batch, in the order in which they joined
}

// Slack returns the time until the earliest deadline in the batch; negative if this deadline has passed.
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

// Hosted is a network that a device can serve, with its latency table for that device.
type Hosted struct {
	Network string // name of the member
	Family  string // family of the member; its own name if it has no family
	Table   *Table
}

// DeviceView is a device as a policy sees it.
type DeviceView struct {
	MaxBatch int // B_max of the hardware
	Places   int // maximum number of launches that run at the same time
	Slots    int // maximum number of samples at the same time
	Used     int // number of slots in use

	Units, UnitAlign int // the units to which launches can be confined (device.Info)
	Neighbours       bool
	Priorities       int

	Down     bool
	Lost     device.Units // partitions that are being reset
	Hosted   []Hosted
	Launches []*LaunchView // in the order of their start; the last launch runs or ran last
	Queue    Queue         // waiting requests that are assigned to the device, also before their copy
}

// Free returns the units that no launch uses. A launch uses its units while it runs, and at an exit before its Last.
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

// Table returns the latency table of a network on this device; nil if the device cannot serve the network. For a family
// it returns the table of the first member, since a launch of the family runs this member.
func (d *DeviceView) Table(network string) *Table {
	if h := d.Member(network); h != nil {
		return h.Table
	}
	return nil
}

// Member returns the network with this name on this device, or the first member of the family with this name.
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

// Hosts reports whether the network with exactly this name can be launched on this device.
func (d *DeviceView) Hosts(network string) bool {
	return slices.ContainsFunc(d.Hosted, func(h Hosted) bool { return h.Network == network })
}

// State is the whole input of a policy. The engine updates it. A policy must not change it.
type State struct {
	Queue   Queue
	Devices []DeviceView
	Traffic []Traffic // statistics of the requests, by network
	Found   any       // at Planned: the result of Plan.Find
	// ByTable: the engine gives up requests that, by the latency tables, cannot meet their deadlines.
	ByTable bool
}

// Policy decides about actions. Decide receives one event, appends its actions to buf and returns buf. It must not
// store references to s, ev or buf. The answer depends only on the arguments and on the state of the policy.
type Policy interface {
	Name() string
	Decide(now Time, s *State, ev *Event, buf []Action) []Action
}
