package work

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-npu/sluice/host/shard"
)

const shards = 64

func asked() shard.Question {
	q := shard.NewQuestion("test", "1")
	q.Args, q.Shards = []string{"run"}, shards
	return q
}

// square is a shard's work: one unit.
func square(_ context.Context, dir string, q *shard.Question, i int) error {
	if i == 0 {
		return nil
	}
	time.Sleep(20 * time.Millisecond)
	text, err := json.Marshal(i * i)
	if err != nil {
		return err
	}
	r := shard.Result{Question: *q, Shard: i, Made: map[string]string{}, Units: []shard.Unit{{Key: shard.Key{Stage: "square", Unit: i - 1}, Result: text}}}
	_, err = r.Write(dir)
	return err
}

// TestMain is also the hub and the workers that tests kill.
func TestMain(m *testing.M) {
	role, addr, dir := os.Getenv("WORK_ROLE"), os.Getenv("WORK_ADDR"), os.Getenv("WORK_DIR")
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx := context.Background()
	var err error
	switch role {
	case "":
		os.Exit(m.Run())
	case "hub":
		err = hub(ctx, addr, dir, log)
	case "worker", "stuck":
		run := square
		if role == "stuck" {
			run = func(_ context.Context, _ string, _ *shard.Question, i int) error {
				for i > 0 { // for a shard
					time.Sleep(time.Hour)
				}
				return nil
			}
		}
		var nc *nats.Conn
		if nc, err = Connect("nats://"+addr, "w"); err == nil {
			err = (&Worker{Name: "w", Dir: dir, Log: log, Run: run}).Join(ctx, nc)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func hub(ctx context.Context, addr, dir string, log *slog.Logger) error {
	l, err := Lock(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := Serve(addr, "", filepath.Join(dir, ".hub"))
	if err != nil {
		return err
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	nc, err := Connect(s.ClientURL(), "hub", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer nc.Close()
	return (&Hub{Dir: dir, Retries: 3, Ack: 2 * time.Second, Log: log, Progress: func(int) {}}).Run(ctx, nc)
}

// A worker with a wrong token ends, and says why.
func TestToken(t *testing.T) {
	s, err := Serve(free(t), "right", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	nc, err := Connect(s.ClientURL(), "w", nats.Token("wrong"))
	if err == nil {
		defer nc.Close()
		err = (&Worker{Name: "w", Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Run: square}).Join(t.Context(), nc)
	}
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("the worker ends with %v", err)
	}
}

// free is a port that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func start(t testing.TB, role, addr, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORK_ROLE="+role, "WORK_ADDR="+addr, "WORK_DIR="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// have waits until a folder has n results.
func have(t *testing.T, dir string, n int) {
	t.Helper()
	q := asked()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		missing, _, err := shard.Lacks(dir, &q)
		if err != nil {
			t.Fatal(err)
		}
		if shards-len(missing) >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d shards are missing", len(missing), shards)
		}
	}
}

// whole checks that a folder merges to the result of one process.
func whole(t *testing.T, dir string) {
	t.Helper()
	r, err := shard.Merge(dir, asked())
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for v, err := range shard.Units(r, "square", shards, func(int) (int, error) { return 0, errors.New("not from the folder") }) {
		if i++; err != nil || v != i*i {
			t.Fatalf("unit %d: %d, %v", i, v, err)
		}
	}
}

// A worker is killed, then the hub, which is started again: all shards have their results.
func TestKilled(t *testing.T) {
	dir, addr := t.TempDir(), free(t)
	if err := shard.Settle(dir, asked()); err != nil {
		t.Fatal(err)
	}
	first := start(t, "hub", addr, dir)
	one := start(t, "worker", addr, t.TempDir())
	start(t, "worker", addr, t.TempDir())
	have(t, dir, 5)
	if err := one.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	have(t, dir, 15)
	if _, err := Lock(dir); err == nil {
		t.Error("a second hub has the folder")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // the error says that it was killed
	if missing, _, err := shard.Lacks(dir, ptr(asked())); err != nil || len(missing) == 0 {
		t.Fatalf("%d shards are missing, %v: the hub was killed too late", len(missing), err)
	}
	again := start(t, "hub", addr, dir)
	have(t, dir, shards)
	if err := again.Wait(); err != nil {
		t.Error(err)
	}
	whole(t, dir)
}

func ptr[T any](v T) *T { return &v }

// connected is a connection to a hub's server in this process.
func connected(t testing.TB) *nats.Conn {
	t.Helper()
	s, err := Serve("127.0.0.1:0", "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := Connect(s.ClientURL(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// served is a connection, and the queue of a question.
func served(t *testing.T) (*nats.Conn, *queue) {
	t.Helper()
	nc, asked := connected(t), asked()
	q, err := create(t.Context(), nc, short(&asked))
	if err != nil {
		t.Fatal(err)
	}
	return nc, q
}

// Messages and results are lost, results are truncated or a stranger's: each such shard is done again.
func TestLost(t *testing.T) {
	nc, in := served(t)
	dir, q, ctx := t.TempDir(), asked(), t.Context()
	if err := shard.Settle(dir, q); err != nil {
		t.Fatal(err)
	}
	put := func(i int, name string, text []byte) {
		if _, err := in.results.Put(ctx, jetstream.ObjectMeta{Name: strconv.Itoa(i), Metadata: map[string]string{nameKey: name}}, strings.NewReader(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	r := shard.Result{Question: q, Shard: 3, Units: []shard.Unit{{Key: shard.Key{Stage: "square", Unit: 2}, Result: []byte("0")}}}
	name, text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(7, name, text)
	stream, err := in.js.Stream(ctx, "OBJ_"+resultsIn+short(&q))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject("$O."+resultsIn+short(&q)+".C.>")); err != nil { // its content is lost, its description is there
		t.Fatal(err)
	}
	was := shortest
	shortest = time.Second
	defer func() { shortest = was }()
	put(3, name, text[:len(text)/2])
	put(4, name, text) // of shard 3
	put(5, "../../00005-of-00064."+strings.Repeat("0", 64), text)
	r.Question.RTL, r.Shard = "other", 6
	if name, text, err = r.Encode(); err != nil {
		t.Fatal(err)
	}
	put(6, name, text)
	var said strings.Builder
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(locked{&mu, &said}, nil))
	done := make(chan error)
	h := &Hub{Dir: dir, Retries: 3, Ack: 2 * time.Second, Log: log, Progress: func(int) {}}
	go func() { done <- h.Run(ctx, nc) }()
	for { // until all that have no result are published
		info, err := in.stream.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs >= shards-5 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := in.stream.Purge(ctx, jetstream.WithPurgeSubject(subject+short(&q)+".9")); err != nil {
		t.Fatal(err)
	}
	live, stop := context.WithCancel(ctx)
	defer stop()
	runs := map[int]int{}
	w := &Worker{Name: "w", Dir: t.TempDir(), Log: log, Run: func(ctx context.Context, dir string, q *shard.Question, i int) error {
		runs[i]++
		return square(ctx, dir, q, i)
	}}
	left := make(chan error)
	go func() { left <- w.Join(live, nc) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	await(t, "the worker's folder to be emptied", func() bool {
		all, err := os.ReadDir(w.Dir)
		return err == nil && len(all) == 0
	})
	for bucket := range in.js.StreamNames(ctx).Name() {
		if bucket != streamName {
			t.Errorf("%s is still there", bucket)
		}
	}
	if info, err := in.stream.Info(ctx); err != nil || info.State.Msgs != 0 {
		t.Errorf("messages are still there: %+v, %v", info, err)
	}
	stop()
	if err := <-left; err != nil {
		t.Error(err)
	}
	whole(t, dir)
	if _, err := in.stream.Consumer(ctx, short(&q)); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("the question is still there: %v", err)
	}
	for i := range shards {
		if runs[i+1] != 1 {
			t.Errorf("shard %d was done %d times", i+1, runs[i+1])
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"truncated or altered", "it is of shard 3", "expected IIIII-of-NNNNN.SHA256", `RTL \"other\"`, "tried again later"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q was not said:\n%s", want, said.String())
		}
	}
}

// A second hub of a question is refused, and takes over the question when the first one has ended.
func TestHubs(t *testing.T) {
	nc, in := served(t)
	q := asked()
	q.Shards = 1
	hub := func() *Hub {
		h := &Hub{Dir: t.TempDir(), Retries: 3, Ack: 2 * time.Second, Log: slog.New(slog.DiscardHandler), Progress: func(int) {}}
		if err := shard.Settle(h.Dir, q); err != nil {
			t.Fatal(err)
		}
		return h
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, second := make(chan error, 1), hub()
	go func() { first <- hub().Run(ctx, nc) }()
	await(t, "the first hub", func() bool { _, err := in.stream.Consumer(ctx, short(&q)); return err == nil })
	if err := second.Run(ctx, nc); !errors.Is(err, ErrHub) {
		t.Errorf("a second hub: %v", err)
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	live, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	defer left.Wait()
	defer leave()
	left.Go(func() {
		if err := (&Worker{Name: "w", Dir: t.TempDir(), Log: second.Log, Run: square}).Join(live, nc); err != nil {
			t.Error(err)
		}
	})
	if err := second.Run(live, nc); err != nil {
		t.Error(err)
	}
}

// A result that the queue does not return in time is neither refused nor deleted, and is collected later.
func TestLate(t *testing.T) {
	_, in := served(t)
	dir, q, ctx := t.TempDir(), asked(), t.Context()
	name, text, err := (&shard.Result{Question: q, Shard: 3}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	info, err := in.results.Put(ctx, jetstream.ObjectMeta{Name: "3", Metadata: map[string]string{nameKey: name}}, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	h := &Hub{Dir: dir, Log: slog.New(slog.DiscardHandler), q: q, queue: in, missing: map[int]bool{3: true}, refused: map[int]int{}, unread: map[int]bool{}}
	late, stop := context.WithTimeout(ctx, 0)
	defer stop()
	if err := h.collect(late, info); err != nil || h.refused[3] != 0 || !h.missing[3] {
		t.Errorf("%v, %v, %v", err, h.refused, h.missing)
	}
	if err := h.again(ctx); err != nil || h.missing[3] {
		t.Errorf("%v, %v", err, h.missing)
	}
	if err := h.collect(ctx, info); err != nil || h.copies.Dropped != 0 {
		t.Errorf("%v, %+v", err, h.copies)
	}
	h.copied = map[int]string{3: "slow"}
	if err := h.collect(ctx, info); err != nil || h.copies.Dropped != 1 {
		t.Errorf("a second result: %v, %+v", err, h.copies)
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A shard that always fails is given out so often, and listed with its reason; a worker that lacks something leaves all
// to others.
func TestFails(t *testing.T) {
	nc, _ := served(t)
	dir := t.TempDir()
	if err := shard.Settle(dir, asked()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	live, stop := context.WithCancel(t.Context())
	defer stop()
	var left sync.WaitGroup
	join := func(name string, has Needs, run func(context.Context, string, *shard.Question, int) error) {
		left.Go(func() {
			if err := (&Worker{Name: name, Dir: t.TempDir(), Has: has, Log: log, Run: run}).Join(live, nc); err != nil {
				t.Error(err)
			}
		})
	}
	yosys := Needs{Tools: []string{"yosys"}, Cores: 2}
	join("plain", Needs{Cores: 8}, func(context.Context, string, *shard.Question, int) error {
		t.Error("a worker without yosys has a shard")
		return nil
	})
	join("other version", yosys, func(_ context.Context, _ string, _ *shard.Question, i int) error {
		if i > 0 {
			t.Errorf("a worker of another version has shard %d", i)
		}
		return shard.ErrQuestion
	})
	tries := 0
	join("good", Needs{Tools: []string{"simulator", "yosys"}, Cores: 2}, func(ctx context.Context, dir string, q *shard.Question, i int) error {
		if i == 7 {
			tries++
			return errors.New("no more memory")
		}
		return square(ctx, dir, q, i)
	})
	stray := filepath.Join(dir, "notes.txt") // merge refuses it, so the hub says so
	if err := os.WriteFile(stray, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	h := &Hub{Dir: dir, Needs: yosys, Retries: 2, Ack: 2 * time.Second, Log: slog.New(slog.NewTextHandler(&said, nil)), Progress: func(int) {}}
	err := h.Run(t.Context(), nc)
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "1 of 64:\n  shard 7: given out 2 times; good: no more memory") {
		t.Errorf("%v", err)
	}
	stop()
	left.Wait()
	if tries != 2 {
		t.Errorf("the shard was tried %d times", tries)
	}
	if text := said.String(); !strings.Contains(text, "notes.txt") || !strings.Contains(text, "delete the file") {
		t.Errorf("the hub says nothing of a file that merge refuses: %s", text)
	}
	why := map[string]string{}
	for _, w := range h.Status().Workers {
		why[w.Name] = w.Unable
	}
	for name, want := range map[string]string{"plain": "it needs yosys, 2 cores, 0 GiB; this worker has no tools, 8 cores", "other version": "another question", "good": ""} {
		if got, ok := why[name]; !ok || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s leaves the question to others since %q, expected %q", name, got, want)
		}
	}
}

// If a worker finds out only during a shard that it lacks a tool, this does not count as one of the shard's attempts.
func TestUnable(t *testing.T) {
	nc, _ := served(t)
	dir, q := t.TempDir(), asked()
	q.Shards = 1
	if err := shard.Settle(dir, q); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	live, stop := context.WithCancel(t.Context())
	var left sync.WaitGroup
	defer left.Wait()
	defer stop()
	lacks := make(chan bool, 3)
	left.Go(func() {
		for range cap(lacks) + 1 { // one after the other
			good := len(lacks) == cap(lacks)
			w := &Worker{Name: "w", Dir: t.TempDir(), Idle: 3 * time.Second, Log: log, Run: func(ctx context.Context, dir string, q *shard.Question, i int) error {
				if i > 0 && !good {
					lacks <- true
					return ErrUnable
				}
				return square(ctx, dir, q, i)
			}}
			if err := w.Join(live, nc); err != nil {
				t.Error(err)
			}
		}
	})
	h := &Hub{Dir: dir, Retries: 2, Ack: 2 * time.Second, Log: log, Progress: func(int) {}}
	if err := h.Run(t.Context(), nc); err != nil || len(lacks) != cap(lacks) {
		t.Errorf("%d workers lacked a tool: %v", len(lacks), err)
	}
}

// A question whose id the worker computes otherwise, as from a hub of another version, is left with the hub's version.
func TestOtherForm(t *testing.T) {
	nc, in := served(t)
	q := asked()
	q.Revision = "r1"
	text, err := json.Marshal(campaign{Question: q})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other", FilterSubject: subject + "other.*", AckPolicy: jetstream.AckExplicitPolicy, Metadata: map[string]string{"campaign": string(text)}}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w := &Worker{Name: "w", Dir: t.TempDir(), Idle: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)), Run: square}
	if err := w.Join(t.Context(), nc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"revision r1", "no more work"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in %s", want, log.String())
		}
	}
}

// The time in which a worker prepares a question is not counted as time without work.
func TestPrepared(t *testing.T) {
	nc, in := served(t)
	q := asked()
	text, err := json.Marshal(campaign{Question: q})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: short(&q), FilterSubject: subject + short(&q) + ".*", AckPolicy: jetstream.AckExplicitPolicy, Metadata: map[string]string{"campaign": string(text)}}); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Run: square, nc: nc, known: map[string]*known{}}
	for _, want := range []bool{true, false} {
		if some, err := w.round(t.Context()); some != want || err != nil {
			t.Errorf("%v, %v; expected %v", some, err, want)
		}
	}
}

// A worker hangs but keeps reporting that it works: another worker gets a copy of its shard, and the first one is
// stopped.
func TestSlow(t *testing.T) {
	nc, _ := served(t)
	dir, q := t.TempDir(), asked()
	q.Shards = 6
	if err := shard.Settle(dir, q); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	live, stop := context.WithCancel(t.Context())
	var left sync.WaitGroup
	defer left.Wait()
	defer stop()
	hangs, stopped := make(chan int, q.Shards), make(chan error, q.Shards)
	join := func(name string, run func(context.Context, string, *shard.Question, int) error) {
		w := &Worker{Name: name, Dir: t.TempDir(), Log: log, Run: run}
		left.Go(func() {
			if err := w.Join(live, nc); err != nil {
				t.Error(err)
			}
		})
	}
	join("slow", func(ctx context.Context, _ string, _ *shard.Question, i int) error {
		if i == 0 {
			return nil
		}
		hangs <- i
		<-ctx.Done()
		stopped <- ctx.Err()
		return ctx.Err()
	})
	h := &Hub{Dir: dir, Retries: 1, Ack: time.Second, Log: log, Progress: func(int) {}}
	page := httptest.NewServer(h.Page())
	defer page.Close()
	get := func(path string) string {
		r, err := http.Get(page.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, r.Status, err)
		}
		return string(text)
	}
	if text := get("/"); !strings.Contains(text, "0 of 0 shards") {
		t.Error(text)
	}
	done := make(chan error)
	go func() {
		once, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		done <- h.Run(once, nc)
	}()
	slow := <-hangs
	var s Status
	if err := json.Unmarshal([]byte(get("/status.json")), &s); err != nil || s.Shards != 6 || s.Done != 0 || len(s.Workers) != 1 || s.Workers[0].Shard != slow {
		t.Errorf("%+v, %v", s, err)
	}
	join("<quick>", square)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s = *h.Status()
	if s.Copies != (Copies{Given: 1, First: 1}) || s.Done != 6 || s.Minute <= 0 || s.Left != 0 || len(s.Workers) != 2 || s.Workers[0].Name != "<quick>" || s.Workers[0].Done != 6 || s.Workers[1].Done != 0 {
		t.Errorf("%+v", s)
	}
	if text := get("/"); !strings.Contains(text, "6 of 6 shards") || !strings.Contains(text, "&lt;quick&gt;") || strings.Contains(text, "<quick>") {
		t.Error(text)
	}
	if len(hangs) != 0 {
		t.Errorf("the slow worker had another shard: %d", <-hangs)
	}
}

// A worker that is started again, perhaps in another version, is asked again whether it can do a question.
func TestAnew(t *testing.T) {
	_, in := served(t)
	dir := t.TempDir()
	for _, want := range []error{nil, ErrUnable} {
		w := &Worker{Dir: dir, queue: in, known: map[string]*known{}, Run: func(context.Context, string, *shard.Question, int) error { return want }}
		if err := w.able(t.Context(), &campaign{Question: asked()}); !errors.Is(err, want) || err != nil && strings.Count(err.Error(), want.Error()) > 1 {
			t.Errorf("%v, expected %v", err, want)
		}
	}
}

// An object that is larger than its writer says is refused before all of it is read.
func TestSize(t *testing.T) {
	_, in := served(t)
	if _, err := in.results.PutBytes(t.Context(), "1", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	name := "$O." + resultsIn + short(ptr(asked())) + ".M." + base64.URLEncoding.EncodeToString([]byte("1"))
	stream, err := in.js.Stream(t.Context(), "OBJ_"+resultsIn+short(ptr(asked())))
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	lie := strings.Replace(string(m.Data), `"size":1048576`, `"size":1000`, 1)
	if _, err := in.js.PublishMsg(t.Context(), &nats.Msg{Subject: name, Header: m.Header, Data: []byte(lie)}); err != nil {
		t.Fatal(err)
	}
	if text, info, err := get(t.Context(), in.results, "1", 2000); !errors.Is(err, shard.ErrResult) || info.Size != 1000 || len(text) > 2001 {
		t.Errorf("%d bytes, %+v, %v", len(text), info, err)
	}
}

// Workers get the inputs unchanged. An input that was altered on the way is not used.
func TestInputs(t *testing.T) {
	nc, in := served(t)
	dir, q, ctx := t.TempDir(), asked(), t.Context()
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := shard.Input(dir, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Args = append(q.Args, "--board="+ref)
	h := &Hub{Dir: dir, q: q, queue: in}
	if err := h.inputs(ctx); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Name: "w", Dir: t.TempDir(), nc: nc, queue: in}
	if err := w.fetch(ctx, w.Dir, ref); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(shard.At(w.Dir, ref)); string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := in.inputs.PutString(ctx, strings.TrimPrefix(ref, "input:"), "y"); err != nil {
		t.Fatal(err)
	}
	if err := w.fetch(ctx, t.TempDir(), ref); !errors.Is(err, ErrUnable) || !strings.Contains(err.Error(), "a.yaml of the input") {
		t.Errorf("an altered input: %v", err)
	}
}

// Any bytes of a message are read or dropped: a hub's question, a worker's report, a subject.
func FuzzMessages(f *testing.F) {
	c := campaign{Question: asked(), Needs: Needs{Tools: []string{"board"}}}
	m, err := c.metadata()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m["campaign"])
	f.Add(`{"worker":"w","shard":3}`)
	f.Add("shard.x.7")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := campaignOf(map[string]string{"campaign": text}); err == nil {
			q := &c.Question
			for _, ref := range q.Inputs() {
				at := shard.At("dir", ref)
				if in, err := filepath.Rel("dir", at); at != ref && (err != nil || !filepath.IsLocal(in)) {
					t.Errorf("%q is in %s", ref, at)
				}
			}
			if len(short(q)) != 16 || len(q.Command("dir")) != len(q.Args) {
				t.Errorf("%+v", q)
			}
		}
		if i, err := shardOf(text, shards); (err == nil) != (i >= 1 && i <= shards) {
			t.Errorf("%q: %d, %v", text, i, err)
		}
		h := &Hub{Ack: time.Second}
		h.begin(ptr(asked()), map[int]bool{3: true})
		h.beat(&nats.Msg{Data: []byte(text)})
		for _, w := range h.Status().Workers {
			if w.Shard != 0 && w.Shard != 3 || len(w.Name) > 200 {
				t.Errorf("%+v", w)
			}
		}
	})
}

// A server that others reach wants a token.
func TestLoopback(t *testing.T) {
	if _, err := Serve("0.0.0.0:0", "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected a loopback address, or a token") {
		t.Errorf("%v", err)
	}
	s, err := Serve("0.0.0.0:0", "secret", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if at, err := URL(s); err != nil || !strings.HasPrefix(at, "nats://"+name+":") {
		t.Errorf("workers join %s, %v", at, err)
	}
}

// BenchmarkShards is the cost of a shard besides its work, with hub, server and worker in one process: time, CPU time, and at
// tenths of the shards the heap after a collection and what the process has in memory.
func BenchmarkShards(b *testing.B) {
	nc := connected(b)
	dir, q := b.TempDir(), asked()
	q.Shards = b.N
	if err := shard.Settle(dir, q); err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, stop := context.WithCancel(b.Context())
	var joined sync.WaitGroup
	joined.Go(func() {
		w := &Worker{Name: "w", Dir: b.TempDir(), Log: log, Run: func(_ context.Context, dir string, q *shard.Question, i int) error {
			if i == 0 {
				return nil
			}
			_, err := (&shard.Result{Question: *q, Shard: i}).Write(dir)
			return err
		}}
		if err := w.Join(ctx, nc); err != nil {
			b.Error(err)
		}
	})
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 10)
	}
	var at []float64 // KiB of heap at each tenth
	b.ResetTimer()
	before := cpu(b)
	h := &Hub{Dir: dir, Retries: 3, Ack: 30 * time.Second, Log: log, Progress: func(done int) {
		if b.N >= 1000 && done >= len(at)*b.N/10 {
			at = append(at, heap())
			b.Logf("%d shards: heap %.0f KiB, in memory %.0f KiB", done, at[len(at)-1], resident(b))
		}
	}}
	if err := h.Run(ctx, nc); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric((cpu(b)-before)*1e3/float64(b.N), "CPU-ms/op")
	b.StopTimer()
	stop()
	joined.Wait()
	b.ReportMetric(heap(), "KiB-heap")
	if n := len(at); n > 5 {
		b.ReportMetric((at[n-1]-at[n-5])/(0.4*float64(b.N)), "KiB-heap/op")
	}
}

// BenchmarkKill is the time from the kill of a worker in the middle of a shard until another one, which waits, begins it. The
// workers are killed at moments spread over the time between two reports.
func BenchmarkKill(b *testing.B) {
	const ack = 3 * time.Second
	nc := connected(b)
	var most time.Duration
	for i := range b.N {
		dir, q := b.TempDir(), asked()
		q.Args, q.Shards = append(q.Args, strconv.Itoa(i)), 1
		if err := shard.Settle(dir, q); err != nil {
			b.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		h := &Hub{Dir: dir, Retries: 3, Ack: ack, Log: log, Progress: func(int) {}}
		done, begun := make(chan error), make(chan time.Time, 1)
		go func() { done <- h.Run(b.Context(), nc) }()
		stuck := start(b, "stuck", strings.TrimPrefix(nc.ConnectedUrl(), "nats://"), b.TempDir())
		for len(h.Status().Workers) == 0 || h.Status().Workers[0].Shard == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		ctx, stop := context.WithCancel(b.Context())
		var joined sync.WaitGroup
		joined.Go(func() {
			w := &Worker{Name: "other", Dir: b.TempDir(), Log: log, Run: func(ctx context.Context, dir string, q *shard.Question, i int) error {
				if i > 0 {
					begun <- time.Now()
				}
				return square(ctx, dir, q, i)
			}}
			if err := w.Join(ctx, nc); err != nil {
				b.Error(err)
			}
		})
		time.Sleep(ack + ack/3*time.Duration(i)/time.Duration(b.N)) // it has reported a few times
		killed := time.Now()
		if err := stuck.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		lost := (<-begun).Sub(killed)
		most = max(most, lost)
		b.Logf("%.2f s", lost.Seconds())
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		stop()
		joined.Wait()
	}
	b.ReportMetric(most.Seconds()/ack.Seconds(), "most/ack")
}

// cpu is the CPU time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// resident is what this process has in memory, in KiB.
func resident(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var all, in float64
	if _, err := fmt.Sscan(string(text), &all, &in); err != nil {
		b.Fatal(err)
	}
	return in * float64(os.Getpagesize()) / (1 << 10)
}
