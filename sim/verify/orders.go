// The order of actions is compared on two devices with the same arrivals.

package verify

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
)

// Orders counts the actions and results of a device that differ from those of a reference with the table's times.
type Orders struct {
	Requests        int `json:"requests"`
	Actions         int `json:"actions"`
	TableActions    int `json:"table_actions_differ"`
	TableResults    int `json:"table_results_differ"`
	MeasuredActions int `json:"measured_actions_differ"`
	MeasuredResults int `json:"measured_results_differ"`
}

// CompareOrders serves the same arrivals on a reference and on a device, both with the times of the table. If clock is
// set, it also serves them on the device with measured times. With measured times, actions are allowed to differ.
func CompareOrders(ctx context.Context, s *experiments.Setup, dev, ref device.Blocking, pt experiments.Point, clock bool) (Orders, error) {
	run := func(d device.Blocking, clock engine.Clock) (*engine.Result, error) {
		q := pt
		q.Clock = clock
		r, err := s.Run(ctx, d, q, nil)
		if err == nil && r.Faults > 0 {
			err = fmt.Errorf("%d segments failed on %s: %s", r.Faults, d.Info().Name, experiments.FirstWhy(r))
		}
		return r, err
	}
	want, err := run(ref, engine.Table)
	if err != nil {
		return Orders{}, err
	}
	table, err := run(dev, engine.Table)
	if err != nil {
		return Orders{}, err
	}
	o := Orders{
		Requests: pt.N, Actions: len(want.Steps),
		TableActions: engine.DiffSteps(want.Steps, table.Steps), TableResults: engine.DiffResults(want, table),
	}
	if !clock {
		return o, nil
	}
	measured, err := run(dev, engine.Measured)
	if err != nil {
		return Orders{}, err
	}
	o.MeasuredActions, o.MeasuredResults = engine.DiffSteps(want.Steps, measured.Steps), engine.DiffResults(want, measured)
	return o, nil
}

// Problem describes a forbidden difference, or returns "".
func (o Orders) Problem() string {
	if o.TableActions+o.TableResults+o.MeasuredResults == 0 {
		return ""
	}
	return fmt.Sprintf("by the table %d actions and %d results differ, measured %d results", o.TableActions, o.TableResults, o.MeasuredResults)
}
