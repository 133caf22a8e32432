package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/host/shard"
)

// Hub gives the shards of a folder's question away and collects their results in it.
type Hub struct {
	Dir      string
	Needs    Needs
	Retries  int           // times that a shard is given out
	Ack      time.Duration // by which a worker has to show that it lives
	Log      *slog.Logger
	Progress func(done int)

	q       shard.Question
	queue   *queue
	missing map[int]bool
	refused map[int]int    // results of a shard that were none
	failed  map[int]string // why
}

// ErrFailed says that shards have no result.
var ErrFailed = errors.New("shards without a result")

// Serve starts a NATS server with JetStream, whose files are in a folder.
func Serve(listen, token, dir string) (*server.Server, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", listen, err)
	}
	if ip := net.ParseIP(host); token == "" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen %s: expected a loopback address, or a token that workers have to know", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: host, Port: port, JetStream: true, StoreDir: dir, Authorization: token, NoSigs: true, NoLog: true, SyncAlways: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("listen %s: the server is not ready", listen)
	}
	return s, nil
}

// Run publishes the shards that have no result and returns when all have one, or when those left have failed too often.
func (h *Hub) Run(ctx context.Context, nc *nats.Conn) error {
	q, err := shard.Asked(h.Dir)
	if err != nil {
		return err
	}
	h.q, h.refused, h.failed = *q, map[int]int{}, map[int]string{}
	if h.missing, err = shard.Lacks(h.Dir, q); err != nil {
		return err
	}
	if h.queue, err = open(ctx, nc, true); err != nil {
		return err
	}
	if err := h.inputs(ctx); err != nil {
		return err
	}
	meta, err := (&campaign{*q, h.Needs}).metadata()
	if err != nil {
		return err
	}
	consumer, err := h.queue.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: short(q), FilterSubject: h.subject("*"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: h.Ack, MaxDeliver: h.Retries, Metadata: meta,
		MaxAckPending: shard.Most,
	})
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
	idle := 1 // ticks at which nobody had a shard; what is not published is lost at once
	for len(h.missing) > len(h.failed) {
		h.Progress(q.Shards - len(h.missing))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case info := <-watch.Updates():
			if info != nil && !info.Deleted {
				if err := h.collect(ctx, info); err != nil {
					return err
				}
			}
		case <-tick.C:
			at, err := consumer.Info(ctx)
			if err != nil {
				h.Log.Warn("the queue does not answer", "error", err)
				continue
			}
			if idle++; at.NumPending > 0 || at.NumAckPending > 0 {
				idle = 0
			}
			if idle >= 2 {
				if err := h.again(ctx); err != nil {
					return err
				}
				idle = 0
			}
		}
	}
	if len(h.failed) == 0 {
		return nil
	}
	var why []string
	for _, i := range slices.Sorted(maps.Keys(h.failed)) {
		why = append(why, fmt.Sprintf("shard %d: %s", i, h.failed[i]))
	}
	return fmt.Errorf("%w: %d of %d:\n  %s", ErrFailed, len(why), q.Shards, strings.Join(why, "\n  "))
}

func (h *Hub) subject(i string) string { return subject + short(&h.q) + "." + i }

// inputs publishes the question's files.
func (h *Hub) inputs(ctx context.Context) error {
	for _, ref := range h.q.Inputs() {
		paths, err := filepath.Glob(filepath.Join(filepath.Dir(shard.At(h.Dir, ref)), "*"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
			_, err = h.queue.inputs.Put(ctx, jetstream.ObjectMeta{Name: name}, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("publish %s: %w", path, err)
			}
		}
	}
	return nil
}

// again publishes shards that nobody has and that have no result: all of them at first, later those whose message or
// result was lost. One that is still in the stream was given out often enough.
func (h *Hub) again(ctx context.Context) error {
	for _, i := range slices.Sorted(maps.Keys(h.missing)) {
		text := strconv.Itoa(i)
		if h.failed[i] != "" {
			continue
		}
		if _, err := h.queue.results.GetInfo(ctx, object(&h.q, i)); err == nil {
			continue // on its way here
		}
		m, err := h.queue.stream.GetLastMsgForSubject(ctx, h.subject(text))
		switch {
		case err == nil:
			if err := h.queue.stream.DeleteMsg(ctx, m.Sequence); err != nil { // the next hub gives it out again
				return err
			}
			h.failed[i] = fmt.Sprintf("given out %d times; %s", h.Retries, h.why(ctx, i))
			h.Log.Error("shard failed", "shard", i, "why", h.failed[i])
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return err
		case h.refused[i] >= h.Retries:
			h.failed[i] = fmt.Sprintf("%d results were refused", h.refused[i])
		default:
			if _, err := h.queue.js.Publish(ctx, h.subject(text), nil); err != nil {
				return fmt.Errorf("publish shard %d: %w", i, err)
			}
		}
	}
	return nil
}

// why is what a worker last said about a shard.
func (h *Hub) why(ctx context.Context, i int) string {
	e, err := h.queue.reports.Get(ctx, short(&h.q)+"."+strconv.Itoa(i))
	if err != nil {
		return "no worker said why: it was killed, or lost its connection"
	}
	var r report
	if err := json.Unmarshal(e.Value(), &r); err != nil {
		return "a report that cannot be read"
	}
	return fmt.Sprintf("%.100s: %.1000s", r.Worker, r.Why)
}

// collect takes a result to the folder, or refuses it.
func (h *Hub) collect(ctx context.Context, info *jetstream.ObjectInfo) error {
	id, text, _ := strings.Cut(info.Name, "/")
	i, err := strconv.Atoi(text)
	if id != short(&h.q) || err != nil || !h.missing[i] {
		return nil // of another question, or there already
	}
	body, _, err := get(ctx, h.queue.results, info.Name, shard.MaxResult)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	var r *shard.Result
	if err == nil {
		r, err = shard.Decode(info.Metadata[nameKey], body, &h.q)
	}
	if err == nil && r.Shard != i {
		err = fmt.Errorf("%w: it is of shard %d", shard.ErrResult, r.Shard)
	}
	if err != nil {
		h.refused[i]++
		h.Log.Warn("result refused", "shard", i, "error", err)
		return h.queue.results.Delete(ctx, info.Name)
	}
	if _, err := r.Write(h.Dir); err != nil {
		return err
	}
	delete(h.missing, i)
	delete(h.failed, i)
	return nil
}
