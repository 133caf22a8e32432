package jellyfish

import "golang.org/x/sys/unix"

// spent is the processor time of this thread, which others that run on the machine do not change.
func spent() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}
