package work

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/shard"
)

// Worker computes shards.
type Worker struct {
	Name string
	Dir  string // folder that contains a folder per question
	Has  Needs
	Idle time.Duration // the worker ends after this time without work; 0: never
	Log  *slog.Logger
	// Run computes a shard of a folder's question and writes the result to the folder. For shard 0, it only checks
	// requirements.
	Run func(ctx context.Context, dir string, q *shard.Question, i int) error

	nc     *nats.Conn
	queue  *queue            // of the current question
	known  map[string]*known // questions, by consumer
	failed int               // number of consecutive shards that failed
}

// known is a worker's record of a question.
type known struct {
	queue  *queue
	dir    string // the question's folder, if it exists
	unable string // reason why the worker cannot compute the question's shards
	ready  bool   // the folder is prepared
	done   bool   // the worker has completed a shard of the question
}

// mostPause is the maximum pause of a worker after failed shards.
const mostPause = time.Minute

// errOver ends the work on a shard because the hub has the shard's result from another worker.
var errOver = errors.New("another worker was first")

// ErrUnable is wrapped by the error of a worker that cannot compute any shard of a question.
var ErrUnable = errors.New("this worker cannot do it")

// Join computes shards until the context ends, or until the worker has had no work for Idle. It returns an error if the
// hub refuses the worker's credentials.
func (w *Worker) Join(ctx context.Context, nc *nats.Conn) error {
	w.nc, w.known = nc, map[string]*known{}
	worked, reached := time.Now(), false
	for ctx.Err() == nil {
		reached = reached || nc.IsConnected()
		some, err := w.round(ctx)
		if err != nil && ctx.Err() == nil {
			w.Log.Debug("no work", "error", err)
		}
		pause := time.Duration(0)
		switch {
		case some:
			worked = time.Now()
			if w.failed > 0 { // the cause may be this machine, so other workers should get the shards meanwhile
				pause = min(time.Second<<min(w.failed-1, 10), mostPause)
			}
		case w.Idle > 0 && time.Since(worked) > w.Idle && !reached:
			return errors.New("no hub was reached")
		case w.Idle > 0 && time.Since(worked) > w.Idle:
			w.Log.Info("no more work", "waited", w.Idle)
			return nil
		case err != nil && (nc.IsClosed() || errors.Is(nc.LastError(), nats.ErrAuthorization)):
			return fmt.Errorf("the hub refuses this worker: %w", nc.LastError())
		default: // no hub exists, or no question for this worker
			pause = 500 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// round computes one shard of each question that this worker can compute.
func (w *Worker) round(ctx context.Context) (some bool, err error) {
	if w.queue == nil {
		if w.queue, err = find(ctx, w.nc); err != nil {
			return false, err
		}
	}
	all, there := w.queue.stream.ListConsumers(ctx), map[string]bool{}
	for info := range all.Info() {
		k := w.of(info.Name)
		there[info.Name] = true
		if k.unable != "" {
			text, _ := json.Marshal(beat{Worker: w.Name, Unable: k.unable}) // no error is possible for two strings
			_ = w.nc.Publish(beats+info.Name, text)                         // repeated in the next round
			continue
		}
		c, err := campaignOf(info.Config.Metadata)
		if err == nil && short(&c.Question) != info.Name {
			err = fmt.Errorf("%w: hub and worker need the same program; the hub's is of version %s, revision %s, and asks in another form", ErrUnable, c.Question.Version, c.Question.Revision)
		}
		if err == nil {
			err = w.turn(ctx, info.Name, k)
		}
		if ready := k.ready; err == nil {
			err = w.able(ctx, &c)
			some = some || k.ready && !ready // preparation may last minutes, which are not time without work
		}
		if errors.Is(err, ErrUnable) {
			k.unable = err.Error()
			w.Log.Warn("question left to others", "question", info.Name, "why", err)
		}
		if err != nil {
			continue
		}
		did, err := w.one(ctx, info, &c)
		some = some || did
		if err != nil {
			w.Log.Warn("shard not done", "question", info.Name, "error", err)
			w.failed++
		} else if did {
			w.failed = 0
		}
	}
	if err := all.Err(); err != nil {
		return some, err
	}
	for name, k := range w.known {
		if !there[name] { // the question was withdrawn
			delete(w.known, name)
			if k.dir != "" {
				err = errors.Join(err, os.RemoveAll(k.dir))
			}
		}
	}
	return some, err
}

func (w *Worker) of(question string) *known {
	if w.known[question] == nil {
		w.known[question] = &known{}
	}
	return w.known[question]
}

// turn switches the worker to the stores of a question. It opens them at their first use.
func (w *Worker) turn(ctx context.Context, question string, k *known) (err error) {
	if k.queue == nil {
		if k.queue, err = w.queue.stores(ctx, question); err != nil {
			k.queue = nil
			return err
		}
	}
	w.queue = k.queue
	return nil
}

func (w *Worker) dir(q *shard.Question) string { return filepath.Join(w.Dir, short(q)) }

// able prepares the folder of a question, once per process: another version may have prepared an existing folder.
func (w *Worker) able(ctx context.Context, c *campaign) error {
	if !w.Has.Meets(c.Needs) {
		return fmt.Errorf("%w: it needs %s; this worker has %s (join --has, --cores, --memory)", ErrUnable, c.Needs, w.Has)
	}
	dir, k := w.dir(&c.Question), w.of(short(&c.Question))
	if _, err := os.Stat(dir); err == nil && k.ready {
		return nil
	}
	k.dir = dir
	for _, ref := range c.Question.Inputs() {
		if err := w.fetch(ctx, dir, ref); err != nil {
			return err
		}
	}
	if err := shard.Settle(dir, c.Question); err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	if err := w.Run(ctx, dir, &c.Question, 0); errors.Is(err, ErrUnable) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	k.ready = true
	return nil
}

// fetch reads an input from the hub.
func (w *Worker) fetch(ctx context.Context, dir, ref string) error {
	path := shard.At(dir, ref)
	if path == ref {
		return fmt.Errorf("%w: the input %q", ErrUnable, ref)
	}
	to := filepath.Dir(path)
	list, _, err := get(ctx, w.queue.inputs, filepath.Base(to)+"/"+shard.List, 1<<20)
	if err != nil {
		return err
	}
	parts, err := shard.Parts(ref, list)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	for _, p := range parts {
		text, _, err := get(ctx, w.queue.inputs, filepath.Base(to)+"/"+p.Name, shard.MaxInput)
		if err != nil {
			return err
		}
		if h := fmt.Sprintf("%x", sha256.Sum256(text)); h != p.Hash {
			return fmt.Errorf("%w: %s of the input %s has the hash %s", ErrUnable, p.Name, ref, h)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, p.Name)), 0o777); err != nil {
			return err
		}
		if err := files.Write(filepath.Join(to, p.Name), text); err != nil {
			return err
		}
	}
	return nil
}

// one computes a shard of a question if a shard is waiting.
func (w *Worker) one(ctx context.Context, info *jetstream.ConsumerInfo, c *campaign) (some bool, err error) {
	consumer, err := w.queue.stream.Consumer(ctx, info.Name)
	if err != nil {
		return false, err
	}
	batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		return false, err
	}
	for m := range batch.Messages() {
		some = true
		err = w.do(ctx, m, c, info.Config.AckWait)
	}
	if ended := batch.Error(); !errors.Is(ended, jetstream.ErrConsumerDeleted) { // all shards are completed and the question was withdrawn
		err = errors.Join(err, ended)
	}
	return some, err
}

// do computes the shard of a message, stores its result, and then acknowledges the message. If the worker's reports
// stop before that, another worker receives the shard.
func (w *Worker) do(ctx context.Context, m jetstream.Msg, c *campaign, wait time.Duration) error {
	i, err := shardOf(m.Subject(), c.Question.Shards)
	if err != nil {
		return errors.Join(err, m.TermWithReason(err.Error()))
	}
	if _, err := w.queue.results.GetInfo(ctx, strconv.Itoa(i)); err == nil || !w.wanted(ctx, &c.Question, i) {
		return m.DoubleAck(ctx) // another worker has stored the result: it was faster, or was considered lost by mistake
	}
	living, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		for {
			select {
			case <-living.Done():
				return
			case <-time.After(wait / 3):
				_ = m.InProgress() // if this report fails, the next report may succeed
				if !w.wanted(living, &c.Question, i) {
					stop(errOver)
				}
			}
		}
	}()
	k := w.of(short(&c.Question))
	w.Log.Info("shard", "question", short(&c.Question), "shard", i)
	err = w.Run(living, w.dir(&c.Question), &c.Question, i)
	if err == nil {
		err = w.put(living, &c.Question, i)
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), m.Nak()) // NATS then sends the shard to another worker immediately
	}
	if err != nil && (errors.Is(context.Cause(living), errOver) || !w.wanted(ctx, &c.Question, i)) {
		w.Log.Info("shard given up", "question", short(&c.Question), "shard", i, "why", errOver)
		return m.Term()
	}
	if err != nil {
		if errors.Is(err, ErrUnable) && !k.done { // publish the shard again for other workers, unless this shard may be the cause (done)
			k.unable = err.Error()
			if _, told := w.queue.js.Publish(ctx, m.Subject(), nil); told == nil {
				return errors.Join(err, m.TermWithReason(err.Error()))
			}
		}
		text, _ := json.Marshal(report{w.Name, err.Error()}) // no error is possible for two strings
		_, told := w.queue.reports.Put(ctx, strconv.Itoa(i), text)
		return errors.Join(err, told, m.NakWithDelay(time.Second))
	}
	k.done = true
	if err := m.DoubleAck(ctx); err != nil { // the result is stored, so the next worker acknowledges the shard immediately
		w.Log.Info("shard done, not acknowledged", "question", short(&c.Question), "shard", i, "error", err)
	}
	return nil
}

// wanted sends the hub a beat for shard i. It returns false if a result exists or the question was withdrawn.
func (w *Worker) wanted(ctx context.Context, q *shard.Question, i int) bool {
	text, _ := json.Marshal(beat{Worker: w.Name, Shard: i}) // no error is possible for a string and a number
	once, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	if m, err := w.nc.RequestWithContext(once, beats+short(q), text); err == nil {
		return string(m.Data) != over
	}
	_, err := w.queue.stream.Consumer(ctx, short(q)) // the hub does not answer, or has ended
	return !errors.Is(err, jetstream.ErrConsumerNotFound)
}

// put stores the result of a shard. It retries if the hub cannot be reached.
func (w *Worker) put(ctx context.Context, q *shard.Question, i int) error {
	name, text, err := shard.Find(w.dir(q), q, i)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		once, stop := context.WithTimeout(ctx, patience(uint64(len(text))))
		_, err = w.queue.results.Put(once, jetstream.ObjectMeta{Name: strconv.Itoa(i), Metadata: map[string]string{nameKey: name, workerKey: w.Name}}, bytes.NewReader(text))
		stop()
		if err == nil {
			return os.Remove(filepath.Join(w.dir(q), name))
		}
		if ctx.Err() != nil || try == 30 {
			return err
		}
		time.Sleep(time.Second)
	}
}
