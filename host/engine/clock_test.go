package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// TestServeOnAnotherClock: arrivals, deadlines and durations follow the given clock at any speed. This clock advances
// 72 s at every reading, and a launch takes ten readings. By the host's clock the last arrival would be an hour away.
func TestServeOnAnotherClock(t *testing.T) {
	const hour = 3_600_000_000_000
	tab := table(t, enginetest.Linear(2, 8, 200_000, 20_000))
	var looks atomic.Int64
	looks.Store(7 * hour) // an origin of its own
	const tick = hour / 50
	now := func() engine.Time { return looks.Add(tick) }
	delay := func(context.Context, int64) error {
		for range 10 {
			now()
		}
		return nil
	}
	times := []int64{0, hour / 4, hour / 2, hour}
	cfg := config(tab, sched.Serial{}, times, 2*hour, func(int) int { return 1 })
	cfg.Devices = adapt(&enginetest.Fake{T: tab, Delay: delay})
	cfg.Now = now
	cfg.Watchdog = engine.Watchdog{Fixed: 100 * hour, Other: 100 * hour}
	res, err := engine.Serve(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Fatal(err)
	}
	if s := res.Summary(); s.OnTime != int64(len(times)) {
		t.Errorf("%+v", s)
	}
	for i, r := range res.Records {
		if r.Arrived != times[i] || r.Started < times[i] || r.Ended-r.Started < 10*tick {
			t.Errorf("request %d arrived at %d (due %d), started at %d, ended at %d", i, r.Arrived, times[i], r.Started, r.Ended)
		}
	}
}
