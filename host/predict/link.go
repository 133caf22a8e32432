// This file models the link to the host (Strait, equations 2 and 3). Transfers are sequential, so a batch's input waits
// for all earlier transfers. The actual time of a transfer corrects the estimates of the following transfers. It also
// corrects the link's speed, which NUMA and root complexes can change from the profiled speed.

package predict

// scaleMemory is the number of transfers over which the speed is averaged.
const scaleMemory = 16

// Link is the state of one device's uploads. The zero value is an idle link with the profiled speed.
type Link struct {
	free  Time    // expected end of all transfers so far
	last  Time    // actual end of the last transfer
	slow  float64 // recent ratio of actual to profiled time; 0: unknown
	count int
}

// Takes returns the expected time of a transfer, in ns, from its profiled time.
func (l *Link) Takes(profiled Time) Time {
	if l.count == 0 {
		return profiled
	}
	return Time(float64(profiled) * l.slow)
}

// Delay returns the time for which a transfer would wait if it were requested now (equation 2).
func (l *Link) Delay(now Time) Time { return max(0, l.free-now) }

// Send records a requested transfer and returns its expected end (equation 3).
func (l *Link) Send(now, profiled Time) Time {
	l.free = max(now, l.free) + l.Takes(profiled)
	return l.free
}

// Sent records the actual end of a transfer that was requested at the time `asked` and for which Send returned the end
// `expected`. The difference shifts the expected ends of all later transfers.
func (l *Link) Sent(asked, profiled, expected, actual Time) {
	l.free += actual - expected
	if began := max(asked, l.last); profiled > 0 && actual > began {
		ratio := float64(actual-began) / float64(profiled)
		l.count = min(l.count+1, scaleMemory)
		l.slow += (ratio - l.slow) / float64(l.count)
	}
	l.last = max(l.last, actual)
	l.free = max(l.free, l.last)
}
