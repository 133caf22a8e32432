// Package ingest receives clients' frames over a network in real time. It times each transfer, and reports the rate of
// the client's link to the scheduler (sched.Task.Link). An answer contains the result and the advised size of later
// frames.
//
// A client sends frames one after another over a connection, without waiting for answers. Numbers are 32-bit big-endian
// integers:
//
//	frame   "SLFR", client, us from creation to the first sent byte, side in pixels, number of bytes, the bytes
//	answer  "SLAN", frame's number on the connection (from 1), ending, class (2^32-1: none), next side (0: any)
//
// Endings are numbered in the order of sched's endings: 1 is on time. A client that has closed its sending side still
// receives answers.
package ingest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/sched"
)

// Time is a time on the server's clock in ns.
type Time = sched.Time

// ErrFrame is the error for data that are not a frame.
var ErrFrame = errors.New("frame")

// Sizes on the network, in bytes.
const (
	headBytes   = 20
	answerBytes = 20
)

// Limits for a client.
const (
	mostWaited  = time.Minute      // time from a frame's creation until the frame is sent
	mostSilence = 30 * time.Second // pause within a frame
	mostPending = 1024             // number of unread answers
)

// The first bytes of a transfer are not timed, because a shaped link sends them in a burst (Jellyfish, section V). The
// untimed part is ten packets of a large frame, or two packets of a small frame. Four timed packets must remain, as in
// package capture. Otherwise, or if they arrive all at once, the whole transfer is timed.
const (
	packet    = 1448
	skipLong  = 10 * packet
	skipShort = 2 * packet
	leastRest = 4 * packet
)

// Config configures a gate.
type Config struct {
	SLO     []Time // by client: maximum time from a frame's creation to its result
	Network string // name of the network in tasks
	Bytes   int    // size of the largest frame in bytes
	Now     func() Time
	// Submit submits a task. Several goroutines call it at once. The gate chooses the task's id; Answer needs this id.
	Submit func(ctx context.Context, t *sched.Task, side int) error
	// Link returns the rate of a client's link, in bits per second, that another source measured, such as package capture.
	// If Link is nil or returns 0, the gate uses the rate that it measured from the frame's transfer.
	Link func(client net.Addr) float64
}

// Answer is the result for a frame.
type Answer struct {
	Ending sched.Ending
	Class  int // -1: no class
}

// Gate is the server's side of the connections.
type Gate struct {
	cfg Config

	mu      sync.Mutex
	id      uint64
	waiting map[uint64]ticket
	side    []int // by client: advised side in pixels
}

// ticket identifies the connection and the frame of an answer.
type ticket struct {
	conn   *conn
	number uint32
	client int
}

type conn struct {
	net.Conn
	answers chan [answerBytes]byte
	// These fields need the gate's lock. left is the number of frames without an answer. ended: no more frames will
	// arrive. lost: answers are dropped, because the client does not read them or has disconnected.
	left    int
	ended   bool
	lost    bool
	settled chan struct{} // closed when the connection has ended and all frames have answers
}

// NewGate returns a Gate.
func NewGate(cfg Config) *Gate {
	return &Gate{cfg: cfg, waiting: map[uint64]ticket{}, side: make([]int, len(cfg.SLO))}
}

// Serve accepts connections until ctx ends, and then closes the listener. It also returns if the listener was closed
// and all clients have disconnected. If the server ends a connection, Serve passes the reason to `bad` (may be nil).
func (g *Gate) Serve(ctx context.Context, l net.Listener, bad func(error)) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			all.Wait()
			return nil
		case err != nil:
			return fmt.Errorf("take a client's connection: %w", err)
		}
		all.Go(func() {
			if err := g.connection(ctx, c); err != nil && ctx.Err() == nil && bad != nil {
				bad(fmt.Errorf("client at %s: %w", c.RemoteAddr(), err))
			}
		})
	}
}

func (g *Gate) connection(ctx context.Context, n net.Conn) error {
	c := &conn{Conn: n, answers: make(chan [answerBytes]byte, mostPending), settled: make(chan struct{})}
	var writer sync.WaitGroup
	writer.Go(func() {
		for a := range c.answers {
			if _, err := c.Write(a[:]); err != nil {
				_ = c.Close()
			}
		}
	})
	defer c.Close()
	defer writer.Wait()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer g.hangUp(c)
	buf := make([]byte, 16<<10)
	for number := uint32(1); ; number++ {
		switch err := g.frame(ctx, c, number, buf); {
		case errors.Is(err, io.EOF):
			g.end(c)
			select {
			case <-c.settled:
			case <-ctx.Done():
				_ = c.Close()
			}
			return nil
		case err != nil:
			_ = c.Close()
			return fmt.Errorf("frame %d: %w", number, err)
		}
	}
}

// end records that no more frames will arrive on a connection.
func (g *Gate) end(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.ended = true; c.left == 0 {
		close(c.settled)
	}
}

// hangUp causes the gate to drop further answers for a connection. Answers in the queue are still written.
func (g *Gate) hangUp(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.lost = true
	close(c.answers)
}

// frame receives a frame. It returns io.EOF if the client has closed the connection before the frame.
func (g *Gate) frame(ctx context.Context, c *conn, number uint32, buf []byte) error {
	var head [headBytes]byte
	_ = c.SetReadDeadline(time.Time{})
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	began := g.cfg.Now()
	field := func(i int) uint32 { return binary.BigEndian.Uint32(head[4*i:]) }
	client, waited, side, size := field(1), time.Duration(field(2))*time.Microsecond, field(3), field(4)
	switch {
	case string(head[:4]) != "SLFR":
		return fmt.Errorf("%w: it begins with %q, expected SLFR", ErrFrame, head[:4])
	case uint64(client) >= uint64(len(g.cfg.SLO)):
		return fmt.Errorf("%w: of client %d, expected 0..%d", ErrFrame, client, len(g.cfg.SLO)-1)
	case waited > mostWaited:
		return fmt.Errorf("%w: created %s before, expected %s at most", ErrFrame, waited, mostWaited)
	case size < 1 || uint64(size) > uint64(g.cfg.Bytes):
		return fmt.Errorf("%w: %d bytes, expected 1..%d", ErrFrame, size, g.cfg.Bytes)
	}
	_ = c.SetReadDeadline(time.Now().Add(mostSilence))
	m := newMeter(began, int64(size))
	for left := int(size); left > 0; {
		n, err := c.Read(buf[:min(left, len(buf))])
		if left -= n; n > 0 {
			m.took(g.cfg.Now(), int64(n))
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && left > 0 {
			return fmt.Errorf("%w: %d of %d bytes have come: %w", ErrFrame, int(size)-left, size, err)
		}
	}
	arrived := g.cfg.Now()
	created := max(0, began-waited.Nanoseconds())
	link := m.rate()
	if g.cfg.Link != nil {
		link = cmp.Or(g.cfg.Link(c.RemoteAddr()), link)
	}
	t := &sched.Task{
		Client: int(client), Network: g.cfg.Network, Created: created, Arrived: arrived, Samples: 1, Link: link,
		// A late frame is still submitted, because it shows that the client is alive on a slow link.
		Deadline: max(created+g.cfg.SLO[client], arrived+1),
	}
	g.mu.Lock()
	g.id++
	t.ID = g.id
	g.waiting[t.ID] = ticket{c, number, int(client)}
	c.left++
	g.mu.Unlock()
	if err := g.cfg.Submit(ctx, t, int(side)); err != nil {
		g.Answer(t.ID, Answer{Ending: sched.Refused, Class: -1})
	}
	return nil
}

// Answer sends a task's result to its client. It ignores tasks that are unknown or already answered. It does not block.
func (g *Gate) Answer(task uint64, a Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.waiting[task]
	if !ok {
		return
	}
	delete(g.waiting, task)
	c := t.conn
	defer func() {
		if c.left--; c.left == 0 && c.ended {
			close(c.settled)
		}
	}()
	if c.lost {
		return
	}
	var text [answerBytes]byte
	copy(text[:], "SLAN")
	for i, v := range []uint32{t.number, uint32(a.Ending), uint32(int32(a.Class)), uint32(g.side[t.client])} {
		binary.BigEndian.PutUint32(text[4*(i+1):], v)
	}
	select {
	case c.answers <- text:
	default:
		c.lost = true
		_ = c.Close()
	}
}

// Advise sets the size of a client's next frames. The size is sent with the next answer.
func (g *Gate) Advise(client, side int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if client >= 0 && client < len(g.side) {
		g.side[client] = side
	}
}

// meter times a transfer, including its header.
type meter struct {
	began, at   Time
	skip, total int64
	from        Time  // time at which the last untimed byte had arrived
	base        int64 // number of bytes that had arrived by this time
}

func newMeter(began Time, bytes int64) meter {
	m := meter{began: began, at: began, skip: skipShort, total: headBytes}
	if bytes >= skipLong+leastRest {
		m.skip = skipLong
	}
	return m
}

// took records that n more bytes had arrived at the time in the argument at.
func (m *meter) took(at Time, n int64) {
	if m.total += n; m.base == 0 && m.total >= m.skip {
		m.from, m.base = at, m.total
	}
	m.at = at
}

// rate returns the rate of the timed bytes, in bits per second. If fewer than leastRest bytes are timed, or all arrived
// at once, it is the rate of the whole frame, over at least 1 us. If the transfer is shorter than leastRest, it is 0.
func (m *meter) rate() float64 {
	switch {
	case m.total < leastRest:
		return 0
	case m.base > 0 && m.total-m.base >= leastRest && m.at > m.from:
		return float64(m.total-m.base) * 8e9 / float64(m.at-m.from)
	}
	return float64(m.total-headBytes) * 8e9 / float64(max(1000, m.at-m.began))
}
