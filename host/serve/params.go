// Parameters of a request, in any of the protocol's types.

package serve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// number reads a parameter as a number. The parameter may be a text, because some clients cannot send fractions.
func number(params map[string]any, name string) (v float64, there bool, err error) {
	fail := func() (float64, bool, error) {
		return 0, true, refuse(Invalid, "parameter %s is %v (%T): expected a number", name, params[name], params[name])
	}
	p, there := params[name]
	if !there {
		return 0, false, nil
	}
	switch p := p.(type) {
	case int64:
		v = float64(p)
	case uint64:
		v = float64(p)
	case float64:
		v = p
	case string:
		if v, err = strconv.ParseFloat(p, 64); err != nil {
			return fail()
		}
	default:
		return fail()
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fail()
	}
	return v, true, nil
}

// whole reads a parameter that must be an integer from lo to hi.
func whole(params map[string]any, name string, lo, hi int64) (int64, bool, error) {
	v, there, err := number(params, name)
	if err != nil || !there {
		return 0, there, err
	}
	if v != math.Trunc(v) || v < float64(lo) || v > float64(hi) {
		return 0, true, refuse(Invalid, "parameter %s is %v: expected a whole number of %d..%d", name, params[name], lo, hi)
	}
	return int64(v), true, nil
}

// maxWait is the maximum of a time in a parameter, in us: one year.
const maxWait = int64(365 * 24 * 3600 * 1e6)

// within returns the maximum time for the request. It is the minimum of the call's deadline, slo_us, timeout and the
// model's SLO. 0 means that there is no limit.
func (m *Model) within(ctx context.Context, came time.Time, params map[string]any) (time.Duration, error) {
	least := time.Duration(m.set.SLO)
	tighten := func(d time.Duration) {
		if least == 0 || d < least {
			least = d
		}
	}
	for _, name := range []string{"slo_us", "timeout"} {
		us, there, err := whole(params, name, 0, maxWait)
		if err != nil {
			return 0, err
		}
		if us > 0 { // a timeout of 0 means no timeout, as in Triton
			tighten(time.Duration(us) * time.Microsecond)
		} else if there && name == "slo_us" {
			return 0, refuse(Invalid, "parameter slo_us is %v: expected 1..%d us; leave it out for the model's %v", params[name], maxWait, time.Duration(m.set.SLO))
		}
	}
	if at, ok := ctx.Deadline(); ok {
		left := time.Until(at)
		if left <= 0 {
			return 0, refuse(Expired, "%s: the call's deadline has passed before it was looked at", expired)
		}
		left += time.Since(came) // measured from the arrival of the request, like the other limits
		tighten(min(left, time.Duration(maxWait)*time.Microsecond))
	}
	return least, nil
}

// thresholds returns each exit's threshold: exit_threshold if given, else the model's. At max_exit, all samples leave.
func (m *Model) thresholds(params map[string]any) ([]float32, error) {
	exits := len(m.net.Exits)
	out := make([]float32, exits)
	for i := range out {
		out[i] = m.set.thetaAt(i)
	}
	v, there, err := number(params, "exit_threshold")
	if err != nil {
		return nil, err
	}
	if there {
		switch params["exit_threshold"].(type) {
		case int64, uint64: // an integer above 2 is in thousandths, because some clients cannot send fractions
			if v > 2 {
				v /= 1000
			}
		}
		if v < 0 || v > 2 {
			return nil, refuse(Invalid, "parameter exit_threshold is %v: expected 0..2 (above 1: no exit but the last), or a whole number of 1/1000", params["exit_threshold"])
		}
		for i := range out {
			out[i] = float32(v)
		}
	}
	last, there, err := whole(params, "max_exit", 0, int64(exits-1))
	if err != nil {
		return nil, err
	}
	if there {
		for i := int(last); i < exits; i++ {
			out[i] = 0
		}
	}
	return out, nil
}

// priority returns the priority for the engine, where a greater number is more urgent. In the request's parameter, 1 is
// the highest priority and 0 means the model's default.
func (m *Model) priority(params map[string]any) (int, error) {
	levels := m.set.Priorities
	p, _, err := whole(params, "priority", 0, int64(levels))
	if err != nil {
		return 0, err
	}
	if p == 0 {
		p = int64(m.set.Priority)
	}
	return levels - int(p), nil
}

// task returns a task for the engine. The argument samples is the number of samples in the request.
func (m *Model) task(ctx context.Context, r *Request, samples int) (sched.Task, error) {
	within, err := m.within(ctx, r.Came, r.Params)
	if err != nil {
		return sched.Task{}, err
	}
	t := sched.Task{Network: m.network, Samples: samples}
	if t.Thetas, err = m.thresholds(r.Params); err != nil {
		return sched.Task{}, err
	}
	t.Theta = t.Thetas[0]
	if t.Priority, err = m.priority(r.Params); err != nil {
		return sched.Task{}, err
	}
	now := m.on.server.Now()
	t.Created = max(1, now-time.Since(r.Came).Nanoseconds())
	t.Arrived = t.Created
	if within > 0 {
		if t.Deadline = t.Created + within.Nanoseconds(); t.Deadline <= now {
			return t, refuse(Expired, "%s: its deadline, after %v%s, passed before it had arrived completely", expired, within, map[bool]string{true: " (the model's slo)"}[within == time.Duration(m.set.SLO)])
		}
	}
	return t, nil
}

// samples converts the inputs for the device.
func (m *Model) samples(r *Request, most int) ([][]device.Tensor, error) {
	if len(r.Inputs) != 1 || r.Inputs[0].Name != m.inputName() {
		names := make([]string, len(r.Inputs))
		for i := range r.Inputs {
			names[i] = r.Inputs[i].Name
		}
		return nil, refuse(Invalid, "%s: inputs %q: expected one, %q", r.Model, names, m.inputName())
	}
	in := &r.Inputs[0]
	dims := m.dims()
	shape := in.Shape
	if len(shape) == len(dims) { // a single sample
		shape = append([]int64{1}, shape...)
	}
	fits := len(shape) == len(dims)+1
	for i := 0; fits && i < len(dims); i++ {
		fits = shape[i+1] == dims[i]
	}
	if !fits || shape[0] < 1 || shape[0] > int64(most) {
		return nil, refuse(Invalid, "%s: input %q has the shape %v: expected [n %s], n of 1..%d", r.Model, in.Name, in.Shape, trim(dims), most)
	}
	n, each := int(shape[0]), m.net.InH*m.net.InW*m.net.InC
	size := sizeOf(in.Datatype)
	switch {
	case in.Datatype == "UINT8" && m.pixels == nil:
		return nil, refuse(Invalid, "%s: input %q is of UINT8, and the bundle does not say how pixels become values: expected FP32, or INT16", r.Model, in.Name)
	case !slices.Contains(inputTypes(), in.Datatype) || in.Datatype == "INT8" && m.net.Type() != "int8":
		own := strings.ToUpper(m.net.Type())
		return nil, refuse(Invalid, "%s: input %q is of %s: expected FP32 (values), UINT8 (pixels), or %s (elements, %s)", r.Model, in.Name, in.Datatype, own, m.net.Scale())
	}
	if len(in.Data) != n*each*size {
		return nil, refuse(Invalid, "%s: input %q of %s with the shape %v has %d bytes: expected %d", r.Model, in.Name, in.Datatype, in.Shape, len(in.Data), n*each*size)
	}
	out := make([][]device.Tensor, n)
	saturated := 0
	for i := range out {
		words, cut, err := toWords(in.Datatype, in.Data[i*each*size:(i+1)*each*size], m.net, m.pixels)
		if err != nil {
			return nil, refuse(Invalid, "%s: input %q, sample %d: %v", r.Model, in.Name, i, err)
		}
		if cut {
			saturated++
		}
		out[i] = []device.Tensor{device.Words(in.Name, words, m.net.InH, m.net.InW, m.net.InC)}
	}
	m.saturated.Add(uint64(saturated))
	return out, nil
}

func trim(dims []int64) string {
	s := fmt.Sprint(dims)
	return s[1 : len(s)-1]
}
