package gpu

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
)

// Alone runs one batch alone on a new device in the mode "streams". It returns, in ns, the time of the batch's input
// transfer and the time of each segment.
func Alone(ctx context.Context, cfg Config, n *Network, units device.Units, batch int) (copied int64, segments []int64, err error) {
	d, err := Loaded(cfg, "streams", []string{n.Name}, func(int) *Network { return n })
	if err != nil {
		return 0, nil, err
	}
	work, now := device.WorkID(0), int64(0)
	begin := func(w *device.Work) {
		work++
		w.ID = work
		if err == nil {
			_, err = d.Begin(ctx, now, w)
		}
	}
	play := func() {
		for t, ok := d.Next(); ok; t, ok = d.Next() {
			now = max(now, t)
			for ev := d.Take(now); ev != nil; ev = d.Take(now) {
				switch ev.Kind {
				case device.Passed:
					segments = append(segments, ev.Report.Ns)
				case device.Failed:
					err = ev.Err
				}
			}
		}
	}
	exits, err := d.Segments(n.Name)
	if err != nil {
		return 0, nil, err
	}
	l := device.Launch{ID: 1, Network: n.Name, Last: exits - 1, Units: units}
	for i := range batch {
		id := device.RequestID(i + 1)
		l.Requests, l.Theta = append(l.Requests, id), append(l.Theta, 2)
		begin(&device.Work{Kind: device.Copy, Network: n.Name, Request: id})
	}
	play()
	copied = now
	begin(&device.Work{Kind: device.Run, Launch: l})
	if err == nil {
		play()
	}
	if err == nil && len(segments) != exits {
		err = fmt.Errorf("%d segments of %d have ended", len(segments), exits)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s alone on %s, a batch of %d: %w", n.Name, cfg.Name, batch, err)
	}
	return copied, segments, nil
}
