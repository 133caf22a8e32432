// Package links models clients' links. A formula or a file gives the rate over time, from which the end of a transfer
// follows. Times in ns and rates in bits a second are integers, so a run is the same on every machine.
package links

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// Time is in ns.
type Time = int64

// ErrTrace is wrapped by errors about a trace.
var ErrTrace = errors.New("trace of a link")

// second is the time step of a trace, in ns.
const second Time = 1_000_000_000

// Longest is the length of the longest trace, in ns.
const Longest = maxValues * second

// Limits of a file.
const (
	maxValues = 1 << 20 // 12 days
	minMbits  = 0.001
	maxMbits  = 1e6
)

// Trace is a link's rate in each second. After the last second, the trace repeats from the start.
type Trace struct {
	Name string
	Bits []int64 // by second: rate in bits a second
}

// Rate returns the link's rate at a time. A negative time counts as 0.
func (t *Trace) Rate(at Time) int64 {
	return t.Bits[max(0, at)/second%int64(len(t.Bits))]
}

// Arrive returns the end time of a transfer that begins at start. bytes is the size of the transfer.
func (t *Trace) Arrive(start Time, bytes int64) Time {
	if bytes > 1<<30 { // bits times ns would overflow an int64
		half := bytes / 2
		return t.Arrive(t.Arrive(start, half), bytes-half)
	}
	left := bytes * 8
	for at := max(0, start); ; {
		if left <= 0 {
			return at
		}
		rate := t.Rate(at)
		end := (at/second + 1) * second
		fits := carried(rate, end-at)
		if left <= fits {
			return at + (left*second+rate-1)/rate
		}
		left -= fits
		at = end
	}
}

// carried returns the number of bits that a link transfers in a part of a second.
func carried(rate int64, ns Time) int64 {
	if rate < math.MaxInt64/second {
		return rate * ns / second
	}
	v := new(big.Int).Mul(big.NewInt(rate), big.NewInt(ns))
	return v.Div(v, big.NewInt(second)).Int64()
}

// Steps returns a trace of 20, 15, 10 and 7.5 Mbit/s, each for 20 s (Jellyfish, section VI-B).
func Steps() *Trace {
	t := &Trace{Name: "steps"}
	for _, b := range []int64{20_000_000, 15_000_000, 10_000_000, 7_500_000} {
		for range 20 {
			t.Bits = append(t.Bits, b)
		}
	}
	return t
}

// Stats are the published statistics of a measured trace, in Mbit/s.
type Stats struct{ Least, Most, Mean float64 }

// WiFi and LTE return the statistics of the publication's two measured traces.
func WiFi() Stats { return Stats{12.9, 90.8, 51.9} }

// LTE returns rates of a downlink trace that were halved to represent the uplink.
func LTE() Stats { return Stats{2.9, 26.3, 15.2} }

// Memory is the correlation of the values in consecutive seconds (assumed). For values 7 s apart, it is one half.
const Memory = 0.9

// Draw returns a random trace with exactly these statistics. It draws a normal process with the given memory (0 to
// below 1, see Memory). It maps the values to a beta distribution with the mean s.Mean, and then scales them so that
// they span the whole range.
func (s Stats) Draw(name string, seconds int, seed uint64, memory float64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 0x6c696e6b73))
	share := (s.Mean - s.Least) / (s.Most - s.Least)
	spread := distuv.Beta{Alpha: 4 * share, Beta: 4 * (1 - share)} // if the mean is in the middle of the range: Beta(2, 2)
	v := make([]float64, max(seconds, 3))
	z := rng.NormFloat64()
	least, most := math.Inf(1), math.Inf(-1)
	for i := range v {
		v[i] = spread.Quantile(0.5 * math.Erfc(-z/math.Sqrt2))
		least, most = min(least, v[i]), max(most, v[i])
		z = memory*z + math.Sqrt(1-memory*memory)*rng.NormFloat64()
	}
	// bent scales the values to 0..1, raises them to a power, and returns their mean. The search finds the power for
	// s.Mean.
	bent := func(power float64) (mean float64) {
		for _, x := range v {
			mean += math.Pow((x-least)/(most-least), power) / float64(len(v))
		}
		return mean
	}
	low, high := 1e-3, 1e3
	for range 100 {
		if mid := math.Sqrt(low * high); bent(mid) > share {
			low = mid
		} else {
			high = mid
		}
	}
	t := &Trace{Name: name}
	for _, x := range v {
		mbits := s.Least + (s.Most-s.Least)*math.Pow((x-least)/(most-least), low)
		t.Bits = append(t.Bits, int64(math.Round(mbits*1e3))*1000) // rounded to kbit/s, so that the rate is the same on every machine
	}
	return t
}

// Named returns a trace by name: "steps", "wifi", "lte", or the path of a file. "wifi" and "lte" are random traces of
// 600 s with the given memory.
func Named(name string, seed uint64, memory float64) (*Trace, error) {
	switch name {
	case "steps":
		return Steps(), nil
	case "wifi":
		return WiFi().Draw(name, 600, seed, memory), nil
	case "lte":
		return LTE().Draw(name, 600, seed, memory), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w %q: neither steps, wifi or lte nor a file: %w", ErrTrace, name, err)
	}
	defer f.Close()
	return Read(name, f)
}

// Read reads a file in which each line contains the rate for one second, in Mbit/s. Empty lines and text after # are
// ignored. A rate of 0 is an outage. At least one rate must be positive.
func Read(name string, r io.Reader) (*Trace, error) {
	t := &Trace{Name: name}
	lines := bufio.NewScanner(plaintext.NewReader(r))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != 0 && !(v >= minMbits && v <= maxMbits) {
			return nil, fmt.Errorf("%w: %s:%d: %q, expected a rate in Mbit/s, 0 or %g to %g", ErrTrace, name, n, clip(text), minMbits, maxMbits)
		}
		if len(t.Bits) == maxValues {
			return nil, fmt.Errorf("%w: %s:%d: more than %d values", ErrTrace, name, n, maxValues)
		}
		t.Bits = append(t.Bits, int64(math.Round(v*1e6)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTrace, name, err)
	}
	if len(t.Bits) == 0 {
		return nil, fmt.Errorf("%w: %s: no value, expected one in Mbit/s a line", ErrTrace, name)
	}
	if slices.Max(t.Bits) == 0 {
		return nil, fmt.Errorf("%w: %s: all of %d values are 0: nothing would ever arrive", ErrTrace, name, len(t.Bits))
	}
	return t, nil
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
