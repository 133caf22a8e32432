package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/host/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a connection whose bytes come by a script: each chunk a given number of ns after the previous one. Only
// reads advance the clock.
type wire struct {
	net.Conn
	mu     sync.Mutex
	now    Time
	chunks []chunk
	rest   []byte
	back   bytes.Buffer
}

type chunk struct {
	after Time
	text  []byte
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		if len(w.chunks) == 0 {
			return 0, io.EOF
		}
		w.now, w.rest = w.now+w.chunks[0].after, w.chunks[0].text
		w.chunks = w.chunks[1:]
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.back.Write(p)
}

func (w *wire) clock() Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (*wire) Close() error                    { return nil }
func (*wire) SetReadDeadline(time.Time) error { return nil }
func (*wire) RemoteAddr() net.Addr            { return &net.UnixAddr{Name: "wire"} }

// head is the header of a frame.
func head(client, waitedUs, side, size uint32) []byte {
	text := []byte("SLFR")
	for _, v := range []uint32{client, waitedUs, side, size} {
		text = binary.BigEndian.AppendUint32(text, v)
	}
	return text
}

// frame sends a frame of the given size: a burst at once, then packets at a rate.
func (w *wire) frame(client, waitedUs, side uint32, size, burst int, bits float64) {
	w.chunks = append(w.chunks, chunk{1e6, head(client, waitedUs, side, uint32(size))})
	for left := size; left > 0; {
		n, after := min(left, packet), Time(0)
		if size-left >= burst {
			after = Time(float64(n) * 8e9 / bits)
		}
		w.chunks = append(w.chunks, chunk{after, make([]byte, n)})
		left -= n
	}
}

// gate serves the wire, answers each task at once, and returns the tasks.
func gate(t *testing.T, w *wire, refuse bool, link ...float64) ([]sched.Task, []int, error) {
	t.Helper()
	var tasks []sched.Task
	var sides []int
	var elsewhere func(net.Addr) float64
	if link != nil {
		elsewhere = func(net.Addr) float64 { return link[len(tasks)] }
	}
	var g *Gate
	g = NewGate(Config{SLO: []Time{100e6, 150e6}, Network: "zoo", Bytes: 1 << 20, Now: w.clock, Link: elsewhere, Submit: func(_ context.Context, task *sched.Task, side int) error {
		tasks, sides = append(tasks, *task), append(sides, side)
		if refuse {
			return errors.New("full")
		}
		g.Advise(task.Client, 352)
		g.Answer(task.ID, Answer{Ending: sched.OnTime, Class: 7})
		g.Answer(task.ID, Answer{Ending: sched.Late, Class: 7}) // already answered
		return nil
	}})
	err := g.connection(context.Background(), w)
	return tasks, sides, err
}

// The reported rate of a frame's transfer is the link's rate, without the burst at the beginning. The creation time,
// and so the deadline, includes the waiting time at the client. A frame that is too short has no rate; one that comes
// at once has a high rate.
func TestLink(t *testing.T) {
	w := &wire{now: 5e9}
	w.frame(0, 3000, 608, 56_000, 4*packet, 20e6)
	w.frame(1, 0, 128, 10_000, 2*packet, 7.5e6)
	w.frame(1, 0, 128, 5000, 0, 7.5e6)
	w.frame(1, 0, 128, 56_000, 1<<20, 1)
	tasks, sides, err := gate(t, w, false)
	if err != nil || len(tasks) != 4 || sides[0] != 608 || sides[1] != 128 {
		t.Fatalf("%d tasks of %v, %v", len(tasks), sides, err)
	}
	for i, want := range []float64{20e6, 7.5e6, 0, 56_000 * 8e6} {
		if got := tasks[i].Link; math.Abs(got-want) > 1e-3*want {
			t.Errorf("frame %d: %g bits/s, expected %g", i, got, want)
		}
	}
	a := &tasks[0]
	if a.Created != 5e9+1e6-3e6 || a.Deadline != a.Created+100e6 || a.Client != 0 || a.Network != "zoo" || a.Samples != 1 {
		t.Errorf("%+v", a)
	}
	if took := float64(a.Arrived - (a.Created + 3e6)); math.Abs(took-(56_000-4*packet)*8e9/20e6) > 1e4 {
		t.Errorf("it took %g ns", took)
	}
	text := w.back.Bytes()
	if len(text) != 4*answerBytes {
		t.Fatalf("%d bytes of answers", len(text))
	}
	for i := range 4 {
		want := []byte("SLAN")
		for _, v := range []uint32{uint32(i + 1), uint32(sched.OnTime), 7, 352} {
			want = binary.BigEndian.AppendUint32(want, v)
		}
		if got := text[i*answerBytes : (i+1)*answerBytes]; !bytes.Equal(got, want) {
			t.Errorf("answer %d: %q, expected %q", i, got, want)
		}
	}
}

// A rate from elsewhere takes the place of the gate's own, where there is one.
func TestLinkFromElsewhere(t *testing.T) {
	w := &wire{now: 5e9}
	for range 2 {
		w.frame(0, 0, 608, 56_000, 4*packet, 20e6)
	}
	tasks, _, err := gate(t, w, false, 3e6, 0)
	if err != nil || len(tasks) != 2 || tasks[0].Link != 3e6 || math.Abs(tasks[1].Link-20e6) > 20e3 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// A frame whose deadline passed before it arrived is still served, but late.
func TestLateBeforeItCame(t *testing.T) {
	w := &wire{now: 5e9}
	w.frame(0, 200_000, 128, 10_000, 0, 20e6)
	tasks, _, err := gate(t, w, false)
	if err != nil || len(tasks) != 1 || tasks[0].Deadline != tasks[0].Arrived+1 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// Refused frames get an answer that says so.
func TestRefused(t *testing.T) {
	w := &wire{}
	w.frame(0, 0, 128, 10_000, 0, 1e6)
	if tasks, _, err := gate(t, w, true); err != nil || len(tasks) != 1 {
		t.Fatal(len(tasks), err)
	}
	if text := w.back.Bytes(); len(text) != answerBytes || text[11] != byte(sched.Refused) || binary.BigEndian.Uint32(text[12:]) != math.MaxUint32 {
		t.Errorf("%q", text)
	}
}

// Bytes that are not a frame end the connection with a message, and nothing of them is served.
func TestBadFrames(t *testing.T) {
	for _, c := range []struct {
		text []byte
		says string
	}{
		{[]byte("GET / HTTP/1.1\r\nHost: a"), `frame 1: frame: it begins with "GET "`},
		{head(2, 0, 128, 100), "of client 2, expected 0..1"},
		{head(0, math.MaxUint32, 128, 100), "created 1h11m34.967295s before, expected 1m0s at most"},
		{head(0, 0, 128, 0), "0 bytes, expected 1..1048576"},
		{head(0, 0, 128, math.MaxUint32), "4294967295 bytes, expected"},
		{append(head(0, 0, 128, 100), 1, 2, 3), "3 of 100 bytes have come"},
		{head(0, 0, 128, 100)[:7], "frame 1: unexpected EOF"},
	} {
		tasks, _, err := gate(t, &wire{chunks: []chunk{{0, c.text}}}, false)
		if err == nil || !strings.Contains(err.Error(), c.says) || len(tasks) != 0 {
			t.Errorf("%q: %v, %d tasks; expected %q", c.text, err, len(tasks), c.says)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(head(0, 0, 128, 3))
	f.Add(append(head(1, 5, 128, 3), 1, 2, 3))
	f.Fuzz(func(t *testing.T, text []byte) {
		tasks, _, err := gate(t, &wire{chunks: []chunk{{1, text}}}, false)
		if n := len(text) / (headBytes + 1); len(tasks) > n || err == nil && len(text) > 0 && len(tasks) == 0 {
			t.Fatalf("%d tasks in %d bytes, %v", len(tasks), len(text), err)
		}
	})
}

// A camera sends as many frames and of the size that it should, none larger than advised, over a socket; each is
// answered. A client that has closed its side still gets the answers to its pending frames.
func TestCamera(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	start := time.Now()
	var mu sync.Mutex
	var sides []int
	var g *Gate
	var late sync.WaitGroup
	g = NewGate(Config{SLO: []Time{100e6}, Network: "zoo", Bytes: 1 << 20, Now: func() Time { return time.Since(start).Nanoseconds() }, Submit: func(_ context.Context, task *sched.Task, side int) error {
		mu.Lock()
		sides = append(sides, side)
		n := len(sides)
		mu.Unlock()
		g.Advise(0, 352)
		answer := func() { g.Answer(task.ID, Answer{Ending: sched.OnTime, Class: 1}) }
		if n == 5 { // the last one's answer comes after the camera has closed its side
			late.Go(func() { time.Sleep(20 * time.Millisecond); answer() })
			return nil
		}
		answer()
		return nil
	}})
	var served sync.WaitGroup
	served.Go(func() {
		if err := g.Serve(ctx, l, func(err error) { t.Error(err) }); err != nil {
			t.Error(err)
		}
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cam := &Camera{Rate: 100, Sizes: []Size{{128, 10_000}, {352, 20_000}, {608, 30_000}}, Headroom: 1e6}
	sent, err := cam.Run(ctx, c, 50*time.Millisecond)
	if err != nil || sent.Frames != 5 || sent.Endings[sched.OnTime] != 5 {
		t.Errorf("%+v, %v", sent, err)
	}
	late.Wait()
	stop()
	served.Wait()
	if len(sides) != 5 || sides[0] != 128 {
		t.Errorf("sides %v", sides)
	}
	for _, s := range sides {
		if s > 608 {
			t.Errorf("sides %v", sides)
		}
	}
	if s := cam.size(352, 1e9); s.Side != 352 {
		t.Errorf("advised 352 pixels, sent %d", s.Side)
	}
	cam.Headroom = 0.9
	if s := cam.size(608, 20_000*8*100/0.9+1); s.Side != 352 {
		t.Errorf("a link for 20 kB a frame, sent %d pixels", s.Side)
	}
}
