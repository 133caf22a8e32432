// fluid+theta is fluid+, but lowers exit thresholds while many requests wait. A budget limits the loss of accuracy.

package sched

import "slices"

// Level is a set of exit thresholds and its loss of accuracy.
type Level struct {
	Thetas []float32 // thresholds by exit; a request with a lower threshold of its own uses that threshold
	Loss   []float64 // by exit: average loss of accuracy of a request that passes the exit
}

// bankRequests limits the unused budget of a network. The unit is the accuracy budget of one request.
const bankRequests = 1000

// easing is the state of the thresholds of one network.
type easing struct {
	network     string
	level, high int // current level, and the highest level that a running segment may use
	passed      []int64
	ended       int64
	bank        float64 // remaining budget of accuracy, summed over requests
}

// settle adds the budget of new results to a network's bank, and subtracts the losses of the exits passed.
func (p *Plus) settle(e *easing, t *Traffic) {
	e.bank = min(e.bank+mul(p.Loss, float64(t.Ended-e.ended)), mul(p.Loss, bankRequests))
	e.ended = t.Ended
	for x, n := range t.Passed {
		if e.high > 0 {
			e.bank -= mul(p.Levels[e.high-1].loss(x), float64(n-e.passed[x]))
		}
		e.passed[x] = n
	}
}

// ease selects the thresholds by the length of the queue. With B_max or more waiting requests it selects the lowest
// thresholds, and with fewer requests proportionally higher thresholds. Every result adds its budget to the bank, and
// every passed exit subtracts the level's loss there. A level with which one batch could overdraw the bank is not used.
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
			continue // the levels are for another network
		}
		k := slices.IndexFunc(p.eased, func(e easing) bool { return e.network == t.Network })
		if k < 0 {
			k = len(p.eased)
			p.eased = append(p.eased, easing{network: t.Network, passed: make([]int64, len(t.Passed))})
		}
		e := &p.eased[k]
		p.settle(e, t)
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

// most returns the largest loss of all exits.
func (l *Level) most() float64 {
	most := 0.0
	for _, v := range l.Loss {
		most = max(most, v)
	}
	return most
}
