// Flags with a format other than a number. They are checked when the command line is parsed, before any work.

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/load"
)

// rateFlag is an arrival rate: a multiple of the capacity under the policy serial, or requests per second.
type rateFlag struct {
	text     string
	value    float64
	absolute bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *rateFlag) UnmarshalText(b []byte) error {
	r.text = string(b)
	number, absolute := strings.CutSuffix(r.text, "/s")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v > 1e9 {
		return fmt.Errorf("%q: expected a multiple of serial's capacity (0.9) or requests per second (250/s)", b)
	}
	r.value, r.absolute = v, absolute
	if absolute {
		return load.CheckRate(v)
	}
	return nil
}

// at returns the rate in requests per second.
func (r rateFlag) at(capacity float64) float64 {
	if r.absolute {
		return r.value
	}
	return r.value * capacity
}

// sloFlag is a latency objective: a time, or a multiple of the time of one request alone in the whole network.
type sloFlag struct {
	text  string
	times float64
	ns    int64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *sloFlag) UnmarshalText(b []byte) error {
	s.text = string(b)
	if number, ok := strings.CutSuffix(s.text, "x"); ok {
		v, err := strconv.ParseFloat(number, 64)
		if err == nil && v > 0 && v < 1e6 {
			s.times = v
			return nil
		}
	} else if d, err := time.ParseDuration(s.text); err == nil && d > 0 {
		s.ns = d.Nanoseconds()
		return load.CheckSLO(s.ns)
	}
	return fmt.Errorf("%q: expected a multiple of one request alone (5x) or a time (20ms)", b)
}

// at returns the latency objective in ns.
func (s sloFlag) at(alone int64) int64 {
	if s.ns > 0 {
		return s.ns
	}
	return int64(s.times * float64(alone))
}

// thetaFlag is one exit threshold for all exits, or one per exit.
type thetaFlag struct {
	text  string
	theta experiments.Theta
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *thetaFlag) UnmarshalText(b []byte) error {
	t.text, t.theta = string(b), nil
	for f := range strings.SplitSeq(t.text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 32)
		if err != nil || !(v >= 0) || v > 2 {
			return fmt.Errorf("%q: expected numbers of 0..2 (above 1: that exit is never taken), found %q", b, f)
		}
		t.theta = append(t.theta, float32(v))
	}
	return nil
}

// fits checks the number of thresholds: one, the number of exits, or the number of exits minus one. The last exit needs
// no threshold.
func (t thetaFlag) fits(exits int) error {
	if n := len(t.theta); n != 1 && n != exits && n != exits-1 {
		return cli.Errorf(cli.Usage, "--theta %s: %d thresholds for %d exits, expected 1 or %d; the last exit needs none", t.text, n, exits, exits)
	}
	return nil
}

// errDuplicate is the error for a seed that occurs twice in a list. A duplicate run would falsify the interval.
var errDuplicate = errors.New("duplicate seed")

// checkSeeds rejects a list of seeds that is not sufficient for a confidence interval.
func checkSeeds(seeds []uint64) error {
	seen := map[uint64]bool{}
	for _, s := range seeds {
		if seen[s] {
			return cli.Errorf(cli.Usage, "--seeds %v: %w %d", seeds, errDuplicate, s)
		}
		seen[s] = true
	}
	if len(seeds) == 0 || len(seeds) > 1000 {
		return cli.Errorf(cli.Usage, "--seeds: %d of them, expected 1..1000", len(seeds))
	}
	return nil
}
