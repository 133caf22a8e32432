// The link to the host (Strait, equations 2 and 3): transfers follow one another, so a batch's input
// waits until those before it are through. What a transfer really took moves the estimates behind it,
// and a transfer's own estimate (NUMA and root complexes make other speeds than the profile's).

package predict

// scaleMemory is over how many transfers the link's speed is averaged.
const scaleMemory = 16

// Link is what is known of one device's upstream transfers. The zero value is an idle link as profiled.
type Link struct {
	free  Time    // when what was sent so far will be through
	last  Time    // when a transfer really ended last
	slow  float64 // actual over profiled time, lately; 0: none yet
	count int
}

// Takes is how long a transfer that is profiled at so many ns takes, by what was seen.
func (l *Link) Takes(profiled Time) Time {
	if l.count == 0 {
		return profiled
	}
	return Time(float64(profiled) * l.slow)
}

// Delay is equation 2: how long a transfer that is asked for now waits before it begins.
func (l *Link) Delay(now Time) Time { return max(0, l.free-now) }

// Send is equation 3: a transfer is asked for; when it will be through.
func (l *Link) Send(now, profiled Time) Time {
	l.free = max(now, l.free) + l.Takes(profiled)
	return l.free
}

// Sent takes in that a transfer asked for at a time and expected to end at another has ended: all those
// behind it come as much sooner or later.
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
