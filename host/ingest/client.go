package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth"
	"github.com/sluice-npu/sluice/host/sched"
)

// Size is a frame size that a camera offers.
type Size struct{ Side, Bytes int }

// Camera is a client that sends frames at a fixed rate. A frame is not larger than the size that the server advises,
// nor than the link can transfer before the next frame.
type Camera struct {
	Client   int
	Rate     int    // frames per second
	Sizes    []Size // smallest first
	Headroom float64
	// Arrive simulates a link. It returns the time at which the first `bytes` bytes of a transfer have arrived. The
	// transfer starts at `begins`. If Arrive is nil, only the real link limits the transfer.
	Arrive func(begins Time, bytes int64) Time
}

// Sent counts a camera's frames and their endings.
type Sent struct {
	Frames  int
	Bytes   int64
	Endings map[sched.Ending]int // number of answered frames by ending
}

// Run sends frames over a connection for a duration, waits for the answers, and closes the connection.
func (m *Camera) Run(ctx context.Context, c net.Conn, long time.Duration) (*Sent, error) {
	var reader sync.WaitGroup
	defer reader.Wait()
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	out := &Sent{Endings: map[sched.Ending]int{}}
	var mu sync.Mutex
	advised := m.Sizes[len(m.Sizes)-1].Side
	var answered error
	reader.Go(func() {
		for {
			var text [answerBytes]byte
			if _, err := io.ReadFull(c, text[:]); err != nil {
				if !errors.Is(err, io.EOF) {
					answered = fmt.Errorf("answers: %w", err)
				}
				return
			}
			if string(text[:4]) != "SLAN" {
				answered = fmt.Errorf("%w: an answer begins with %q, expected SLAN", ErrFrame, text[:4])
				return
			}
			mu.Lock()
			out.Endings[sched.Ending(text[11])]++
			if side := binary.BigEndian.Uint32(text[16:]); side > 0 {
				advised = int(side)
			}
			mu.Unlock()
		}
	})
	start := time.Now()
	now := func() Time { return time.Since(start).Nanoseconds() }
	var link bandwidth.Estimator
	gap := Time(time.Second) / Time(m.Rate)
	for created := Time(0); created < long.Nanoseconds(); created += gap {
		if err := until(ctx, start.Add(time.Duration(created))); err != nil {
			return nil, err
		}
		mu.Lock()
		size := m.size(advised, link.Rate(now()))
		mu.Unlock()
		begins := now()
		text := make([]byte, headBytes+size.Bytes)
		copy(text, "SLFR")
		for i, v := range []int64{int64(m.Client), (begins - created) / 1000, int64(size.Side), int64(size.Bytes)} {
			binary.BigEndian.PutUint32(text[4*(i+1):], uint32(v))
		}
		if err := m.write(ctx, c, start, begins, text); err != nil {
			return nil, fmt.Errorf("frame %d: %w", out.Frames+1, err)
		}
		if took := now() - begins; took > 0 {
			link.Add(now(), float64(len(text))*8e9/float64(took))
		}
		out.Frames++
		out.Bytes += int64(len(text))
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return nil, err
		}
	}
	reader.Wait()
	return out, answered
}

// size returns the next frame's size. If the link's rate is unknown, it returns the smallest size.
func (m *Camera) size(advised int, rate float64) Size {
	best := m.Sizes[0]
	for _, s := range m.Sizes {
		if s.Side <= advised && float64(s.Bytes) <= m.Headroom*rate/8/float64(m.Rate) {
			best = s
		}
	}
	return best
}

// write sends a frame, packet by packet if Arrive is set.
func (m *Camera) write(ctx context.Context, c net.Conn, start time.Time, begins Time, text []byte) error {
	if m.Arrive == nil {
		_, err := c.Write(text)
		return err
	}
	for sent := 0; sent < len(text); {
		n := min(packet, len(text)-sent)
		if err := until(ctx, start.Add(time.Duration(m.Arrive(begins, int64(sent+n))))); err != nil {
			return err
		}
		if _, err := c.Write(text[sent : sent+n]); err != nil {
			return err
		}
		sent += n
	}
	return nil
}

func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
