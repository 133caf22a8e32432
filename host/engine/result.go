// This file has the result of a run: a record for each request, the order of actions, and the spans of devices.

package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Ending is the way in which a request ends.
type Ending = sched.Ending

// The endings, as in package sched. Pending is the state before the end.
const (
	Pending   = sched.Pending
	OnTime    = sched.OnTime
	Late      = sched.Late
	Dropped   = sched.Dropped
	Refused   = sched.Refused
	Cancelled = sched.Cancelled
	Errored   = sched.Errored
)

// Record is the outcome of one request. Times are in ns since the start of the run. Started is -1 if the request never began
// on a device. Exit and Class are -1 if there is no result.
type Record struct {
	ID         device.RequestID `json:"id"`
	Task       uint64           `json:"task"`
	Sample     int              `json:"sample"`
	Arrived    Time             `json:"arrived_ns"`  // time at which the request was due
	Deadline   Time             `json:"deadline_ns"` // 0: none
	Started    Time             `json:"started_ns"`
	Ended      Time             `json:"ended_ns"`
	Exit       int              `json:"exit"`
	Class      int              `json:"class"`
	Confidence float32          `json:"confidence"`
	Logits     string           `json:"logits_sha256"` // hash of the raw logits, as little-endian int16, at the exit taken
	Ending     Ending           `json:"ending"`
	Retried    bool             `json:"retried,omitempty"`
	Why        string           `json:"why,omitempty"` // reason for an error or a rejection
}

// Latency is the time from arrival to end, in ns.
func (r *Record) Latency() Time { return r.Ended - r.Arrived }

// Step is an action that was carried out. Two runs took the same actions if their steps are equal except for At.
type Step struct {
	At       Time               `json:"at_ns"`
	Kind     string             `json:"kind"` // name of the sched.ActionKind
	Device   int                `json:"device"`
	Launch   device.LaunchID    `json:"launch,omitempty"`
	Into     device.LaunchID    `json:"into,omitempty"`
	First    int                `json:"first"`
	Last     int                `json:"last"`
	Requests []device.RequestID `json:"requests,omitempty"`
	Network  string             `json:"-"` // network of a launch
}

// Same reports whether two steps are equal except for their time.
func (s *Step) Same(o *Step) bool {
	return s.Kind == o.Kind && s.Device == o.Device && s.Launch == o.Launch && s.Into == o.Into &&
		s.First == o.First && s.Last == o.Last && slices.Equal(s.Requests, o.Requests)
}

// DiffSteps compares two runs. It returns 0 if both runs took the same actions in the same order. Otherwise it counts,
// for each run, the actions that are missing in the other run. It returns the larger count, at least 1. Times and
// launch ids are ignored.
func DiffSteps(a, b []Step) int {
	if slices.EqualFunc(a, b, func(x, y Step) bool { return x.Same(&y) }) {
		return 0
	}
	lack := func(a, b []Step) int {
		key := func(s *Step) string { return fmt.Sprint(s.Kind, s.Device, s.First, s.Last, s.Requests) }
		there := map[string]int{}
		for i := range b {
			there[key(&b[i])]++
		}
		n := 0
		for i := range a {
			if k := key(&a[i]); there[k] > 0 {
				there[k]--
			} else {
				n++
			}
		}
		return n
	}
	return max(1, lack(a, b), lack(b, a))
}

// Span is a time interval in which a device ran a segment or, if Segment is -1, a copy, load, unload (What) or reset.
type Span struct {
	What     string             `json:"what,omitempty"` // copy, load, unload
	Device   int                `json:"device"`
	Launch   device.LaunchID    `json:"launch"`
	Network  string             `json:"-"` // network of a launch
	Segment  int                `json:"segment"`
	Start    Time               `json:"start_ns"`
	End      Time               `json:"end_ns"`
	Requests []device.RequestID `json:"requests,omitempty"`
	Failed   bool               `json:"failed,omitempty"`
	Aborted  bool               `json:"aborted,omitempty"` // stopped inside the segment
}

// Result is the result of a run.
type Result struct {
	Policy  string   `json:"policy"`
	Records []Record `json:"records"` // by request id; empty if Config.Keep is Counts
	Stream  Stream   `json:"-"`       // counts of endings, always kept
	Steps   []Step   `json:"steps,omitempty"`
	Spans   []Span   `json:"spans,omitempty"`

	End         Time   `json:"end_ns"`  // time at which the last request ended
	Busy        []Time `json:"busy_ns"` // by device: time spent in segments, including failed ones
	Calls       int64  `json:"calls"`   // number of calls of the policy
	Launches    int64  `json:"launches"`
	Segments    int64  `json:"segments"`
	Preemptions int64  `json:"preemptions"`
	Merges      int64  `json:"merges"`
	Faults      int64  `json:"faults"` // failed segments, including hangs
	Hangs       int64  `json:"hangs"`
	Resets      int64  `json:"resets"`
	Retries     int64  `json:"retries"` // number of requests that were queued again

	Cycles uint64       `json:"cycles"` // sum over all segments, as the devices report them
	Stats  device.Stats `json:"stats"`  // summed over all segments
	// Samples is the number of samples that ran each segment, summed over all batches.
	Samples []int64 `json:"samples"`
}

// Latencies has statistics of the time from arrival to end, in ns, over on_time and late requests; -1: no requests.
type Latencies struct {
	Avg int64 `json:"avg_ns"`
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
}

// Summary has a run's statistics. Scripts read its keys.
type Summary struct {
	Policy      string    `json:"policy"`
	Requests    int64     `json:"requests"`
	OnTime      int64     `json:"on_time"`
	Late        int64     `json:"late"`
	Dropped     int64     `json:"dropped"`
	Refused     int64     `json:"refused"`
	Cancelled   int64     `json:"cancelled"`
	Errors      int64     `json:"errors"`
	Violations  int64     `json:"violations"` // number of endings other than on_time and cancelled
	Exits       []int64   `json:"exits"`      // number of requests that left at exit i
	Latency     Latencies `json:"latency"`
	Goodput     float64   `json:"goodput"` // on_time requests per second, from time 0 to the end of the last request
	Busy        float64   `json:"busy"`    // share of time in which a device ran segments, as an average over devices
	Calls       int64     `json:"calls"`
	Launches    int64     `json:"launches"`
	Preemptions int64     `json:"preemptions"`
	Merges      int64     `json:"merges"`
	Faults      int64     `json:"faults"`
	Hangs       int64     `json:"hangs"`
	Resets      int64     `json:"resets"`
	Retries     int64     `json:"retries"`
	Cycles      uint64    `json:"cycles"`
	Bytes       uint64    `json:"bytes"` // bytes of DRAM traffic
	End         Time      `json:"end_ns"`
	MeanBatch   float64   `json:"mean_batch"` // average number of samples in a segment run
}

// Summary computes the Summary. If the result has no records, p50 and p99 come from Histogram and are exact to 0.1 %.
func (r *Result) Summary() Summary {
	s := Summary{
		Policy: r.Policy, Requests: int64(len(r.Records)), Calls: r.Calls, Launches: r.Launches,
		Preemptions: r.Preemptions, Merges: r.Merges, Faults: r.Faults, Hangs: r.Hangs, Resets: r.Resets,
		Retries: r.Retries, Cycles: r.Cycles, Bytes: r.Stats.BytesRead + r.Stats.BytesWritten, End: r.End,
		Exits:   make([]int64, len(r.Samples)),
		Latency: Latencies{-1, -1, -1},
	}
	var ends [Errored + 1]int64
	if len(r.Records) == 0 {
		s.Requests, ends = r.Stream.Requests, r.Stream.Endings
		copy(s.Exits, r.Stream.Exits)
		if n := r.Stream.Hist.n; n > 0 {
			s.Latency = Latencies{int64(math.Round(r.Stream.Sum / float64(n))), r.Stream.Hist.Quantile(0.5), r.Stream.Hist.Quantile(0.99)}
		}
	}
	for i := range r.Records {
		rec := &r.Records[i]
		ends[rec.Ending]++
		if (rec.Ending == OnTime || rec.Ending == Late) && rec.Exit >= 0 && rec.Exit < len(s.Exits) {
			s.Exits[rec.Exit]++
		}
	}
	s.OnTime, s.Late, s.Dropped, s.Refused = ends[OnTime], ends[Late], ends[Dropped], ends[Refused]
	s.Cancelled, s.Errors = ends[Cancelled], ends[Errored]
	s.Violations = s.Late + s.Dropped + s.Refused + s.Errors
	if l := r.Latencies(); len(l) > 0 {
		slices.Sort(l)
		var sum float64
		for _, v := range l {
			sum += float64(v)
		}
		s.Latency = Latencies{int64(math.Round(sum / float64(len(l)))), Quantile(l, 0.5), Quantile(l, 0.99)}
	}
	if r.End > 0 {
		s.Goodput = float64(s.OnTime) / (float64(r.End) / 1e9)
		for _, b := range r.Busy {
			s.Busy += float64(b) / float64(r.End) / float64(len(r.Busy))
		}
	}
	if r.Segments > 0 {
		var n int64
		for _, v := range r.Samples {
			n += v
		}
		s.MeanBatch = float64(n) / float64(r.Segments)
	}
	return s
}

// Latencies lists the latencies in ns of on_time and late requests, by id.
func (r *Result) Latencies() []int64 {
	var l []int64
	for i := range r.Records {
		if e := r.Records[i].Ending; e == OnTime || e == Late {
			l = append(l, r.Records[i].Latency())
		}
	}
	return l
}

// Quantile returns the smallest of the sorted values v for which at least a share q of all values is <= v.
func Quantile[T int64 | float64](sorted []T, q float64) T {
	return sorted[rank(q, int64(len(sorted)))-1]
}

// rank returns the rank (1..n) of the quantile q in n values.
func rank(q float64, n int64) int64 { return min(max(int64(math.Ceil(q*float64(n))), 1), n) }

// Check returns an error unless every request has ended once, the counts are consistent, and times do not decrease.
func (r *Result) Check() error {
	s := r.Summary()
	if n := s.OnTime + s.Late + s.Dropped + s.Refused + s.Cancelled + s.Errors; n != s.Requests {
		return fmt.Errorf("%d endings for %d requests", n, s.Requests)
	}
	for i := range r.Records {
		rec := &r.Records[i]
		result := rec.Ending == OnTime || rec.Ending == Late
		switch {
		case i > 0 && rec.ID <= r.Records[i-1].ID:
			return fmt.Errorf("request %d stands after request %d", rec.ID, r.Records[i-1].ID)
		case rec.Ended < rec.Arrived || rec.Started >= 0 && (rec.Started < rec.Arrived || rec.Ended < rec.Started):
			return fmt.Errorf("request %d arrived at %d, started at %d, ended at %d", rec.ID, rec.Arrived, rec.Started, rec.Ended)
		case result != (rec.Exit >= 0):
			return fmt.Errorf("request %d ended %s with exit %d", rec.ID, rec.Ending, rec.Exit)
		case result && (rec.Deadline == 0 || rec.Ended <= rec.Deadline) != (rec.Ending == OnTime):
			return fmt.Errorf("request %d ended %s at %d, its deadline being %d", rec.ID, rec.Ending, rec.Ended, rec.Deadline)
		}
	}
	return nil
}

// DiffResults returns the number of requests with different exits, classes or logits in two runs. Requests are compared
// by id. A request that is in only one of the runs counts too.
func DiffResults(a, b *Result) int {
	n := max(len(a.Records), len(b.Records)) - min(len(a.Records), len(b.Records))
	for i := range min(len(a.Records), len(b.Records)) {
		x, y := &a.Records[i], &b.Records[i]
		if x.Exit >= 0 && y.Exit >= 0 && (x.Exit != y.Exit || x.Class != y.Class || x.Logits != y.Logits) {
			n++
		}
	}
	return n
}
