package cuda

import (
	"runtime"
	"testing"
	"time"
)

// A pause counts only while launches are running, and has the thread's activity during it.
func TestPauses(t *testing.T) {
	runtime.LockOSThread() // as the launcher does: the processor time is the thread's
	defer runtime.UnlockOSThread()
	var w watch
	var p Pauses
	long := time.Hour
	w.round(&p, true)
	w.was = w.was.Add(-long) // as if the thread had not run
	w.round(&p, true)
	if p.N != 1 || p.Longest < long || p.CPU > long || p.CPU < 0 {
		t.Errorf("%+v", p)
	}
	for _, busy := range []bool{false, true} { // idle before, or now
		w.busy, w.was = !busy, w.was.Add(-long)
		w.round(&p, busy)
	}
	if p.N != 1 {
		t.Errorf("idle times are pauses: %+v", p)
	}
}
