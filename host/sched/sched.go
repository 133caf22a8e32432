// Package sched holds the policies. A policy is a pure function of state: it is told the time, it
// never reads a clock, blocks, logs or allocates in steady state, and it answers with actions. The
// engine carries them out, in virtual or in real time.
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
	Theta    float32
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
}

// EventKind is what happened.
type EventKind uint8

// Events.
const (
	Arrival     EventKind = iota // Request has been queued
	SegmentDone                  // Launch has passed exit Segment; Exited have left it
	Cancel                       // Request was taken back by its client
	Timer                        // the time a Wait asked for has come
	Loaded                       // a network has become servable
	Fault                        // Launch failed; its requests are back in the queue or have ended
)

// ActionKind is what the policy wants.
type ActionKind uint8

// Actions.
const (
	Launch      ActionKind = iota // take Count requests from the queue's head (or Requests) and run First..Last
	Preempt                       // halt Launch at the exit it has reached
	Resume                        // go on with the halted Launch
	Merge                         // put the requests of Launch into the halted launch Into
	LoadNetwork
	Unload
	Drop                          // give Request up
	Wait                          // call again at Until
)
