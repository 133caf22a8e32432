package jellyfish

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth/capture"
	"github.com/sluice-npu/sluice/host/ingest"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/sched"
)

// Jellyfish serves cameras on sockets in real time: each frame is counted and answered, the server has measured its
// transfer, and the next frame has the advised size.
func TestServe(t *testing.T) {
	zoo, err := jellyfish.NewZoo([]jellyfish.Net{
		{Name: "small", Side: 128, Bytes: 20_000, Accuracy: 0.2, P99: []jellyfish.Time{1e6, 2e6}},
		{Name: "large", Side: 256, Bytes: 40_000, Accuracy: 0.4, P99: []jellyfish.Time{500e6, 600e6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := NewOwn(1)
	set := &Setting{Zoo: zoo, Workers: 1, Ns: 600e9, Seed: 1}
	for k := range 2 {
		c, err := own.Camera(k, "", 20, 900e6, "steps")
		if err != nil {
			t.Fatal(err)
		}
		set.Clients = append(set.Clients, c)
	}
	sys, err := NamedOf(zoo, "jellyfish+")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all sync.WaitGroup
	sent := make([]*ingest.Sent, len(set.Clients))
	for k := range set.Clients {
		all.Go(func() {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			cam := NewSender(zoo, k, &set.Clients[k], true)
			if sent[k], err = cam.Run(ctx, c, 600*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	go func() { all.Wait(); l.Close() }()
	o, err := Serve(ctx, set, sys, Assume(), l, nil, func(err error) { t.Error(err) })
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for k, s := range sent {
		answered := 0
		for _, n := range s.Endings {
			answered += n
		}
		c := &o.Clients[k]
		if s.Frames != 12 || answered != s.Frames || c.Frames != s.Frames || c.OnTime != s.Endings[sched.OnTime] || c.Link <= 0 {
			t.Errorf("client %d: %+v, the server counts %+v", k, s, c)
		}
		// The large network is too slow for the deadlines. The first frame is small because the link is unknown; later frames
		// are small only because of advice.
		if s.Bytes >= 20_020+11*40_020 {
			t.Errorf("client %d has sent %d bytes in %d frames: it was not advised", k, s.Bytes, s.Frames)
		}
		frames += s.Frames
	}
	if o.Frames != frames || o.Counts.Decisions == 0 || int(o.Summary.Requests) != frames {
		t.Errorf("%d frames, %+v", frames, o)
	}
}

// From a live capture the rate of a client's last request is used, for every spelling of its address.
func TestRates(t *testing.T) {
	var r Rates
	from := netip.MustParseAddrPort("10.1.2.3:4000")
	mapped := &net.TCPAddr{IP: net.ParseIP("::ffff:10.1.2.3"), Port: 4000}
	if x := r.Of(mapped); x != 0 {
		t.Errorf("%g before any request", x)
	}
	for _, rate := range []float64{2e6, 3e6, 0} { // the last has too few packets
		r.Add(capture.Transfer{Client: from, Rate: rate})
	}
	if x := r.Of(mapped); x != 3e6 {
		t.Errorf("%g, expected 3e6", x)
	}
	if x := r.Of(&net.TCPAddr{IP: mapped.IP, Port: 4001}) + r.Of(&net.UnixAddr{}); x != 0 {
		t.Errorf("%g of others", x)
	}
}
