package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/host/shard"
)

// Hub distributes the shards of the question that a folder stores to workers, and collects the results in that folder.
type Hub struct {
	Dir      string
	Needs    Needs
	Retries  int           // maximum number of times that a shard is sent to a worker
	Ack      time.Duration // maximum time between a worker's reports that it is still working
	Log      *slog.Logger
	Progress func(done int)

	queue *queue

	mu      sync.Mutex // for all fields below
	q       shard.Question
	missing map[int]bool
	refused map[int]int    // number of invalid results, by shard
	unread  map[int]bool   // shards with a result that could not be read at the first attempt
	failed  map[int]string // by failed shard: the reason
	workers map[string]*worker
	copied  map[int]string // by shard that was published a second time: name of the slow worker
	copies  Copies
	began   time.Time
	started map[int]time.Time // by shard at a worker: time of the worker's first message
	done    int               // number of completed shards since the hub began
	spent   time.Duration     // total time of these shards
}

// Copies counts the shards that were published a second time because the worker was slow.
type Copies struct {
	Given   int `json:"given"`
	First   int `json:"first"`   // number of copies that were completed before the slow worker
	Dropped int `json:"dropped"` // number of second results
}

// worker is the hub's record of a worker.
type worker struct {
	shard        int // 0: none
	since, heard time.Time
	done         int
	unable       string // reason why the worker cannot compute any shard
}

// ErrFailed means that some shards have no result.
var ErrFailed = errors.New("shards without a result")

// ErrHub means that the question already has a hub.
var ErrHub = errors.New("another hub at this NATS server has this question: expected one; its results will be in its folder")

// Lock prevents other hubs from using a folder until the file is closed or the process ends.
func Lock(dir string) (*os.File, error) {
	f, err := lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("%s: another hub may have this folder: %w", dir, err)
	}
	return f, nil
}

// URL returns the address at which other machines reach a server: if the server listens on all addresses of this
// machine, URL uses the machine's name instead of the address.
func URL(s *Server) (string, error) {
	at, err := url.Parse(s.ClientURL())
	if err != nil || !net.ParseIP(at.Hostname()).IsUnspecified() {
		return s.ClientURL(), err
	}
	name, err := os.Hostname()
	at.Host = net.JoinHostPort(name, at.Port())
	return at.String(), err
}

// Run publishes the shards that have no result. It returns when every shard has a result or has failed too often.
func (h *Hub) Run(ctx context.Context, nc *nats.Conn) error {
	q, err := shard.Asked(h.Dir)
	if err != nil {
		return err
	}
	missing, refused, err := shard.Lacks(h.Dir, q)
	if err != nil {
		return err
	}
	for _, err := range refused {
		h.Log.Warn("merge refuses this folder as it is", "why", err)
	}
	h.begin(q, missing)
	told, err := h.listen(ctx, nc)
	if err != nil {
		return err
	}
	defer func() { _ = told.Unsubscribe() }()
	consumer, err := h.publish(ctx, nc)
	if err != nil {
		return err
	}
	watch, err := h.queue.results.Watch(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	tick := time.NewTicker(min(h.Ack/4, time.Second))
	defer tick.Stop()
	idle := 1 // 1 instead of 0, so that the first tick publishes all shards; no worker has a shard at this time
	for len(h.missing) > len(h.failed) {
		h.Progress(q.Shards - len(h.missing))
		var err error
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case info := <-watch.Updates():
			if info != nil && !info.Deleted {
				err = h.collect(ctx, info)
			}
		case <-tick.C:
			idle, err = h.supervise(ctx, consumer, idle)
		}
		if err != nil {
			return err
		}
	}
	return h.end(ctx)
}

// publish creates the question's queue with its inputs. It returns the consumer that sends shards to workers.
func (h *Hub) publish(ctx context.Context, nc *nats.Conn) (jetstream.Consumer, error) {
	var err error
	if h.queue, err = create(ctx, nc, short(&h.q)); err != nil {
		return nil, err
	}
	if err := h.inputs(ctx); err != nil {
		return nil, err
	}
	meta, err := (&campaign{h.q, h.Needs}).metadata()
	if err != nil {
		return nil, err
	}
	return h.queue.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: short(&h.q), FilterSubject: h.subject("*"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: h.Ack, MaxDeliver: h.Retries, Metadata: meta,
		MaxAckPending: shard.Most,
	})
}

// supervise publishes a slow worker's shard and lost shards again. The argument before is the number of consecutive
// earlier ticks at which no worker had a shard. idle is this number including the current tick.
func (h *Hub) supervise(ctx context.Context, consumer jetstream.Consumer, before int) (idle int, err error) {
	at, err := consumer.Info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // another hub of this question has ended
		return before, err
	}
	if err != nil {
		h.Log.Warn("the queue does not answer", "error", err)
		return before, nil
	}
	if at.NumPending == 0 && at.NumAckPending == 0 {
		idle = before + 1
	}
	if at.NumPending == 0 && at.NumWaiting > 0 {
		if err := h.copy(ctx); err != nil {
			return idle, err
		}
	}
	if idle >= 2 {
		return 0, h.again(ctx)
	}
	return idle, nil
}

// end withdraws the question. It returns an error that lists the failed shards.
func (h *Hub) end(ctx context.Context) error {
	if err := h.queue.withdraw(ctx, short(&h.q)); err != nil {
		h.Log.Warn("the question is still at the server", "error", err)
	}
	if c := h.copies; c.Given > 0 {
		h.Log.Info("shards of slow workers were given out twice", "given", c.Given, "first", c.First, "dropped", c.Dropped)
	}
	if len(h.failed) == 0 {
		return nil
	}
	var why []string
	for _, i := range slices.Sorted(maps.Keys(h.failed)) {
		why = append(why, fmt.Sprintf("shard %d: %s", i, h.failed[i]))
	}
	return fmt.Errorf("%w: %d of %d:\n  %s", ErrFailed, len(why), h.q.Shards, strings.Join(why, "\n  "))
}

// listen subscribes to the workers' messages. It returns ErrHub if the question already has a hub.
func (h *Hub) listen(ctx context.Context, nc *nats.Conn) (*nats.Subscription, error) {
	once, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	text, _ := json.Marshal(beat{Hub: true}) // no error is possible for a boolean
	if _, err := nc.RequestWithContext(once, beats+short(&h.q), text); err == nil {
		return nil, ErrHub
	}
	return nc.Subscribe(beats+short(&h.q), h.beat)
}

func (h *Hub) subject(i string) string { return subject + short(&h.q) + "." + i }

func (h *Hub) inputs(ctx context.Context) error {
	for _, ref := range h.q.Inputs() {
		dir := filepath.Dir(shard.At(h.Dir, ref))
		list, err := os.ReadFile(filepath.Join(dir, shard.List))
		if err != nil {
			return err
		}
		parts, err := shard.Parts(ref, list)
		if err != nil {
			return err
		}
		for _, p := range append(parts, shard.Part{Name: shard.List}) {
			f, err := os.Open(filepath.Join(dir, p.Name))
			if err != nil {
				return err
			}
			_, err = h.queue.inputs.Put(ctx, jetstream.ObjectMeta{Name: filepath.Base(dir) + "/" + p.Name}, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("publish %s: %w", f.Name(), err)
			}
		}
	}
	return nil
}

// again publishes the missing shards when no worker has a shard: at first all, later those whose message or result was
// lost. If a shard's message is still in the stream, the shard was sent too often and has failed.
func (h *Hub) again(ctx context.Context) error {
	for _, i := range slices.Sorted(maps.Keys(h.missing)) {
		text := strconv.Itoa(i)
		if h.failed[i] != "" {
			continue
		}
		info, err := h.queue.results.GetInfo(ctx, text)
		if err == nil { // the result exists, but could not be read earlier
			err = h.collect(ctx, info)
		}
		if !errors.Is(err, jetstream.ErrObjectNotFound) {
			if err != nil {
				return err
			}
			continue
		}
		_, err = h.queue.stream.GetLastMsgForSubject(ctx, h.subject(text))
		switch {
		case err == nil:
			if err := h.queue.stream.Purge(ctx, jetstream.WithPurgeSubject(h.subject(text))); err != nil { // so that the next hub can publish it again
				return err
			}
			h.fail(i, fmt.Sprintf("given out %d times; %s", h.Retries, h.why(ctx, i)))
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return err
		case h.refused[i] >= h.Retries:
			h.fail(i, fmt.Sprintf("%d results were refused", h.refused[i]))
		default:
			if _, err := h.queue.js.Publish(ctx, h.subject(text), nil); err != nil {
				return fmt.Errorf("publish shard %d: %w", i, err)
			}
		}
	}
	return nil
}

// why returns a worker's last report about a shard.
func (h *Hub) why(ctx context.Context, i int) string {
	e, err := h.queue.reports.Get(ctx, strconv.Itoa(i))
	if err != nil {
		return "no worker said why: it was killed, or lost its connection"
	}
	var r report
	if err := json.Unmarshal(e.Value(), &r); err != nil {
		return "a report that cannot be read"
	}
	return fmt.Sprintf("%.100s: %.1000s", r.Worker, r.Why)
}

// collect writes a result to the folder, or rejects it.
func (h *Hub) collect(ctx context.Context, info *jetstream.ObjectInfo) error {
	i, err := strconv.Atoi(info.Name)
	if err != nil || !h.missing[i] {
		h.second(i, info.Metadata[workerKey])
		return nil // not a result, or the folder already contains it
	}
	body, now, err := get(ctx, h.queue.results, info.Name, shard.MaxResult)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if now != nil { // a second result may have replaced the first
		info = now
	}
	var r *shard.Result
	if err == nil {
		r, err = shard.Decode(info.Metadata[nameKey], body, &h.q)
	}
	if err == nil && r.Shard != i {
		err = fmt.Errorf("%w: it is of shard %d", shard.ErrResult, r.Shard)
	}
	if err != nil && !errors.Is(err, shard.ErrResult) && !errors.Is(err, shard.ErrQuestion) && !errors.Is(err, jetstream.ErrDigestMismatch) && (now == nil || !h.unread[i]) {
		if now != nil { // the connection works, because the description was read; so the content may be lost
			h.unread[i] = true
		}
		h.Log.Warn("result not read, tried again later", "shard", i, "error", err)
		return nil
	}
	if err != nil {
		h.mu.Lock()
		h.refused[i]++
		h.mu.Unlock()
		h.Log.Warn("result refused", "shard", i, "error", err)
		return h.queue.results.Delete(ctx, info.Name)
	}
	if _, err := r.Write(h.Dir); err != nil {
		return err
	}
	h.finish(i, info.Metadata[workerKey])
	return nil
}
