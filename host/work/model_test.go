package work

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// model simulates a hub with many workers. The hub, its store and every worker do one thing at a time.
type model struct {
	workers, shards int
	seconds         float64 // median of a shard
	hub, store      float64 // seconds for a shard
	copies          bool    // a worker without a shard copies the one that has run longest
}

// A shard costs 7.0 ms of CPU time (measured, BenchmarkShards). These are the shares of hub and server by its profile,
// in seconds.
const (
	hubSeconds   = 0.0012
	storeSeconds = 0.0043
)

// Properties of workers: spread is the standard deviation of the logarithm of a shard's time. One in slowOf workers
// takes slowness times as long, as on a machine that others use.
const (
	spread   = 0.3
	slowOf   = 100
	slowness = 10
)

type event struct {
	at     float64
	worker int
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any          { last := len(*e) - 1; x := (*e)[last]; *e = (*e)[:last]; return x }

// run returns the time until all results have come, divided by the time of workers that never wait and are never slow,
// and how busy the hub and its store were.
func (m *model) run() (by, hub, store float64) {
	r := rand.New(rand.NewPCG(1, uint64(m.workers)))
	length := make([]float64, m.shards)
	var sum float64
	for i := range length {
		length[i] = m.seconds * math.Exp(spread*r.NormFloat64())
		sum += length[i]
	}
	var q events
	for w := range m.workers {
		q = append(q, event{0, w})
	}
	var (
		next, done         int
		hubFree, storeFree float64
		end                float64
		has                = make([]int, m.workers) // shard of each worker, 0: none
		began              = make([]float64, m.shards+1)
		copied, result     = make([]bool, m.shards+1), make([]bool, m.shards+1)
	)
	for done < m.shards && len(q) > 0 {
		e := heap.Pop(&q).(event)
		if i := has[e.worker]; i > 0 {
			has[e.worker] = 0
			if !result[i] { // the first one counts
				result[i] = true
				done++
				storeFree = max(storeFree, e.at) + m.store
				hubFree = max(hubFree, storeFree) + m.hub
				end = max(end, hubFree)
			}
			e.at = max(e.at, storeFree) // the store has the result: the worker asks for more
		}
		i := 0
		switch {
		case next < m.shards:
			next++
			i = next
			began[i] = e.at
		case m.copies:
			for _, k := range has {
				if k > 0 && !result[k] && !copied[k] && (i == 0 || began[k] < began[i]) {
					i = k
				}
			}
			copied[i] = i > 0
		}
		if i == 0 {
			continue
		}
		has[e.worker] = i
		slow := 1.0
		if e.worker%slowOf == slowOf-1 {
			slow = slowness
		}
		heap.Push(&q, event{e.at + length[i-1]*slow, e.worker})
	}
	return end * float64(m.workers) / sum, float64(m.shards) * m.hub / end, float64(m.shards) * m.store / end
}

// The README's table for many workers has the model's figures.
func TestModel(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, seconds := range []float64{1, 10, 60} {
		for _, workers := range []int{100, 1000} {
			m := model{workers: workers, shards: 20 * workers, seconds: seconds, hub: hubSeconds, store: storeSeconds}
			by, hub, store := m.run()
			m.copies = true
			twice, _, _ := m.run()
			row := fmt.Sprintf("| %.0f s | %d | %.2f | %.2f | %.0f %% | %.0f %% |\n", seconds, workers, by, twice, 100*hub, 100*store)
			if !strings.Contains(string(readme), row) {
				t.Errorf("the README lacks %s", row)
			}
			rows.WriteString(row)
			if bound := float64(workers) * max(hubSeconds, storeSeconds) / seconds / math.Exp(spread*spread/2) * 0.98; by < bound || twice < bound {
				t.Errorf("%v: %.2f and %.2f, faster than what hub and store allow, %.2f", m, by, twice, bound)
			}
		}
	}
	t.Log("\n" + rows.String())
}
