//go:build !linux

package jellyfish

import "time"

var begun = time.Now()

// spent is the time that has gone by: what others do on the machine is in it.
func spent() int64 { return time.Since(begun).Nanoseconds() }
