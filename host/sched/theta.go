// fluid+theta: fluid+ that asks for less confidence while many wait, within a budget of accuracy.

package sched

import "slices"

// Level is a set of exit thresholds, and what it costs.
type Level struct {
	Thetas []float32 // by exit; what a request brought itself holds where it is lower
	Loss   []float64 // by exit: accuracy lost by a request that passes it, in the mean
}

// bankRequests bounds what a calm time saves up, in requests' worth of the budget.
const bankRequests = 1000

// easing is the state of one network's thresholds.
type easing struct {
	network     string
	level, high int // in force; and the highest that a segment which runs may have been begun with
	passed      []int64
	ended       int64
	bank        float64 // accuracy that may be lost yet, in requests
}

// ease asks for the thresholds that fit the queue: the lowest from B_max waiting requests on, in
// proportion below. Every result pays the budget in, every exit passed takes its level's loss out;
// a level that one batch could overdraw it with is not taken.
func (p *Plus) ease(s *State, buf []Action) []Action {
	if len(p.Levels) == 0 {
		return buf
	}
	batch, idle := 1, true
	for i := range s.Devices {
		batch = max(batch, s.Devices[i].MaxBatch)
		for _, l := range s.Devices[i].Launches {
			idle = idle && l.Phase != Running
		}
	}
	if p.BMax > 0 {
		batch = min(batch, p.BMax)
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		if len(t.Passed) != len(p.Levels[0].Thetas) {
			continue // the levels are not for this network
		}
		k := slices.IndexFunc(p.eased, func(e easing) bool { return e.network == t.Network })
		if k < 0 {
			k = len(p.eased)
			p.eased = append(p.eased, easing{network: t.Network, passed: make([]int64, len(t.Passed))})
		}
		e := &p.eased[k]
		e.bank = min(e.bank+mul(p.Loss, float64(t.Ended-e.ended)), mul(p.Loss, bankRequests))
		e.ended = t.Ended
		for x, n := range t.Passed {
			if e.high > 0 {
				e.bank -= mul(p.Levels[e.high-1].loss(x), float64(n-e.passed[x]))
			}
			e.passed[x] = n
		}
		want := len(p.Levels) * min(s.Queue.Len(), batch) / batch
		for want > 0 && e.bank < mul(float64(batch), p.Levels[want-1].most()) {
			want--
		}
		if idle {
			e.high = want
		}
		e.high = max(e.high, want)
		if want == e.level {
			continue
		}
		e.level = want
		a := Action{Kind: SetTheta, Network: t.Network}
		if want > 0 {
			a.Thetas = p.Levels[want-1].Thetas
		}
		buf = append(buf, a)
	}
	return buf
}

func (l *Level) loss(exit int) float64 {
	if exit < len(l.Loss) {
		return l.Loss[exit]
	}
	return 0
}

// most is the largest loss at one exit.
func (l *Level) most() float64 {
	most := 0.0
	for _, v := range l.Loss {
		most = max(most, v)
	}
	return most
}
