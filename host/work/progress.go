package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-npu/sluice/host/shard"
)

// mostWorkers is the maximum number of workers in a hub's records.
const mostWorkers = 10_000

func (h *Hub) begin(q *shard.Question, missing map[int]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.q, h.missing, h.refused, h.failed, h.unread = *q, missing, map[int]int{}, map[int]string{}, map[int]bool{}
	h.workers, h.copied, h.started, h.began = map[string]*worker{}, map[int]string{}, map[int]time.Time{}, time.Now()
}

// beat records that a worker is computing a shard. It replies "over" if the shard already has a result.
func (h *Hub) beat(m *nats.Msg) {
	var b beat
	err := json.Unmarshal(m.Data, &b)
	if err == nil && b.Hub {
		_ = m.Respond(nil) // the answer shows the other hub that this question already has a hub
		return
	}
	if err != nil || len(b.Worker) > 200 || b.Shard < 1 && b.Unable == "" || b.Shard > h.q.Shards {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	answer, now := "", time.Now()
	w := h.workers[b.Worker]
	if w == nil && len(h.workers) < mostWorkers {
		w = &worker{}
		h.workers[b.Worker] = w
	}
	if b.Unable != "" {
		if w != nil && w.unable == "" {
			w.unable = fmt.Sprintf("%.1000s", b.Unable)
			h.Log.Warn("a worker leaves the question to others", "worker", b.Worker, "why", w.unable)
		}
		b.Shard = 0
	} else if !h.missing[b.Shard] {
		answer, b.Shard = over, 0
	}
	if w != nil {
		if w.shard != b.Shard {
			w.shard, w.since = b.Shard, now
			if b.Shard != 0 {
				h.started[b.Shard] = now
			}
		}
		w.heard = now
	}
	_ = m.Respond([]byte(answer)) // without an answer, the worker continues
}

// copy publishes the slowest shard a second time. This is the shard with the longest time at a worker, if this time
// exceeds the average time of a shard.
func (h *Hub) copy(ctx context.Context) error {
	h.mu.Lock()
	var slow *worker
	name, now := "", time.Now()
	for n, w := range h.workers {
		if h.missing[w.shard] && h.copied[w.shard] == "" && now.Sub(w.heard) < h.Ack && (slow == nil || w.since.Before(slow.since)) {
			name, slow = n, w
		}
	}
	if slow == nil || h.done == 0 || now.Sub(slow.since) <= h.spent/time.Duration(h.done) {
		h.mu.Unlock()
		return nil
	}
	i := slow.shard
	h.copied[i] = name
	h.copies.Given++
	h.mu.Unlock()
	h.Log.Info("a slow shard is given out again", "shard", i, "worker", name)
	if _, err := h.queue.js.Publish(ctx, h.subject(strconv.Itoa(i)), nil); err != nil {
		return fmt.Errorf("publish shard %d: %w", i, err)
	}
	return nil
}

// finish records that a shard's result from a worker is now in the folder.
func (h *Hub) finish(i int, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.missing, i)
	delete(h.failed, i)
	if at, ok := h.started[i]; ok {
		h.done++
		h.spent += time.Since(at)
		delete(h.started, i)
	}
	if w := h.workers[name]; w != nil {
		w.done++
		if w.shard == i {
			w.shard = 0
		}
	}
	if slow := h.copied[i]; slow != "" && slow != name {
		h.copies.First++
	}
}

// second records a result of a shard that already had one.
func (h *Hub) second(i int, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.copied[i] != "" {
		h.copies.Dropped++
		h.Log.Info("second result dropped", "shard", i, "worker", name)
	}
}

func (h *Hub) fail(i int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed[i] = why
	h.Log.Error("shard failed", "shard", i, "why", why)
}

// Status is the progress of a hub.
type Status struct {
	Schema  string         `json:"schema"`
	Program string         `json:"program"`
	Args    []string       `json:"args"`
	Shards  int            `json:"shards"`
	Done    int            `json:"done"`
	Refused int            `json:"refused"` // number of invalid results
	Failed  []Failure      `json:"failed"`
	Workers []WorkerStatus `json:"workers"`
	Copies  Copies         `json:"copies"`
	Minute  float64        `json:"shards_per_minute"` // mean since the hub began; 0: no shard is done yet
	Left    float64        `json:"seconds_left"`      // estimate at this rate
}

// Failure is a shard that has no result.
type Failure struct {
	Shard int    `json:"shard"`
	Why   string `json:"why"`
}

// WorkerStatus is the current state of a worker.
type WorkerStatus struct {
	Name    string  `json:"name"`
	Shard   int     `json:"shard"`   // 0: none
	Seconds float64 `json:"seconds"` // time in s since the worker received the shard
	Heard   float64 `json:"heard_s"` // time in s since the worker's last message
	Done    int     `json:"done"`
	Unable  string  `json:"unable,omitempty"` // reason why the worker cannot compute any shard
}

// Status returns the hub's progress.
func (h *Hub) Status() *Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	s := &Status{
		Schema: "sluice-work/1", Program: h.q.Program, Args: h.q.Args, Shards: h.q.Shards, Done: h.q.Shards - len(h.missing),
		Failed: []Failure{}, Workers: []WorkerStatus{}, Copies: h.copies,
	}
	for _, i := range slices.Sorted(maps.Keys(h.failed)) {
		s.Failed = append(s.Failed, Failure{i, h.failed[i]})
	}
	for _, n := range h.refused {
		s.Refused += n
	}
	for name, w := range h.workers {
		x := WorkerStatus{Name: name, Shard: w.shard, Heard: now.Sub(w.heard).Seconds(), Done: w.done, Unable: w.unable}
		if w.shard != 0 {
			x.Seconds = now.Sub(w.since).Seconds()
		}
		s.Workers = append(s.Workers, x)
	}
	slices.SortFunc(s.Workers, func(a, b WorkerStatus) int { return cmp.Compare(a.Name, b.Name) })
	if h.done > 0 {
		s.Minute = float64(h.done) / now.Sub(h.began).Minutes()
		s.Left = float64(len(h.missing)-len(h.failed)) / s.Minute * 60
	}
	return s
}

// Page serves the status: / as a page, /status.json as JSON.
func (h *Hub) Page() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, h.Status()) // an error means that the client has disconnected
	})
	m.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(h.Status())
	})
	return m
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>{{.Done}} of {{.Shards}} shards</title>
<style>body{font-family:sans-serif;margin:2em}td,th{text-align:left;padding:.1em 1em .1em 0}</style>
<h1>{{.Done}} of {{.Shards}} shards</h1>
<p><code>{{.Program}}{{range .Args}} {{.}}{{end}}</code></p>
<progress value="{{.Done}}" max="{{.Shards}}"></progress>
<p>{{if .Minute}}{{printf "%.1f" .Minute}} shards a minute, {{printf "%.0f" .Left}} s left{{else}}no shard is done yet{{end}};
{{.Refused}} results refused; {{.Copies.Given}} slow shards given out twice, {{.Copies.First}} times the copy was first</p>
{{if .Failed}}<h2>{{len .Failed}} failed</h2>
<table><tr><th>shard<th>why</tr>{{range .Failed}}
<tr><td>{{.Shard}}<td>{{.Why}}</tr>{{end}}
</table>{{end}}
<h2>{{len .Workers}} workers</h2>
<table><tr><th>worker<th>done<th>has shard<th>for<th>heard</tr>{{range .Workers}}
<tr><td>{{.Name}}<td>{{.Done}}<td>{{if .Shard}}{{.Shard}}<td>{{printf "%.0f" .Seconds}} s{{else}}{{.Unable}}<td>{{end}}<td>{{printf "%.0f" .Heard}} s ago</tr>{{end}}
</table>
<p><a href="status.json">the same as JSON</a></p>
`))
