package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth"
)

var update = flag.Bool("update", false, "write the stored capture")

// file is a pcap file written by hand.
type file struct {
	bytes.Buffer
	order binary.ByteOrder
	at    time.Duration
	seq   map[uint16]uint32
	// answered is the number of bytes that the server has sent.
	answered uint32
}

func newFile(order binary.ByteOrder, snap, link uint32) *file {
	f := &file{order: order, seq: map[uint16]uint32{}}
	var h [24]byte
	order.PutUint32(h[0:], 0xa1b2c3d4) // times in us
	order.PutUint16(h[4:], 2)
	order.PutUint16(h[6:], 4)
	order.PutUint32(h[16:], snap)
	order.PutUint32(h[20:], link)
	f.Write(h[:])
	return f
}

// packet writes a TCP segment on Ethernet, size bytes in total, captured up to snap bytes.
func (f *file) packet(from, to uint16, seq uint32, flags byte, size, snap int) {
	p := make([]byte, size)
	binary.BigEndian.PutUint16(p[12:], 0x0800)
	ip := p[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(size-14))
	client, server := ip[12:], ip[16:]
	if from == 80 {
		client, server = server, client
	}
	copy(client, []byte{10, 0, 0, 1})
	copy(server, []byte{10, 0, 0, 2})
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp[0:], from)
	binary.BigEndian.PutUint16(tcp[2:], to)
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 5<<4, flags
	f.raw(p[:min(size, snap)], size)
}

func (f *file) raw(p []byte, size int) {
	var h [16]byte
	us := f.at.Microseconds()
	f.order.PutUint32(h[0:], uint32(1_700_000_000+us/1_000_000))
	f.order.PutUint32(h[4:], uint32(us%1_000_000))
	f.order.PutUint32(h[8:], uint32(len(p)))
	f.order.PutUint32(h[12:], uint32(size))
	f.Write(h[:])
	f.Write(p)
}

const (
	syn = 2
	psh = 0x18
)

// request sends n full packets to port 80: the first burst of them at once, each of the others after the gap.
func (f *file) request(from uint16, n, burst int, gap time.Duration) {
	for i := range n {
		if i > 0 && i >= burst {
			f.at += gap
		}
		f.packet(from, 80, f.seq[from], psh, 1514, 96)
		f.seq[from] += 1460
	}
}

func (f *file) answer(to uint16) {
	f.at += time.Millisecond
	f.packet(80, to, 1+f.answered, psh, 100, 96)
	f.answered += 46
}

func transfers(t *testing.T, f *file, cfg Config) (out []Transfer) {
	t.Helper()
	if _, err := Read("x.pcap", bytes.NewReader(f.Bytes()), cfg, func(tr Transfer) { out = append(out, tr) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// handmade has two clients. One has 10 Mbit/s (1514 bytes every 1.2112 ms, here 1.211) after a burst of ten packets,
// then 5; another one has 20 in between. There are also duplicate packets, retransmissions, and unrelated packets.
func handmade(order binary.ByteOrder) *file {
	f := newFile(order, 65535, 1)
	f.packet(5000, 80, 999, syn, 74, 96)
	f.seq[5000] = 1000
	f.request(5000, 60, 10, 1211*time.Microsecond)
	f.packet(5000, 80, f.seq[5000]-1460, psh, 1514, 96) // a retransmission
	f.packet(80, 5000, 1, 0x10, 66, 66)                 // an acknowledgement is not an answer
	f.answer(5000)
	f.raw([]byte{1, 2, 3}, 3)
	f.packet(5000, 81, 7, psh, 1514, 96)
	f.request(6000, 30, 0, 605*time.Microsecond)
	f.at += 250 * time.Millisecond // a pause ends the request
	f.request(6000, 12, 0, 605*time.Microsecond)
	f.answer(6000)
	f.seq[5000] = 1<<32 - 20*1460 // sequence numbers wrap
	f.packet(5000, 80, f.seq[5000]-1, syn, 74, 96)
	f.request(5000, 40, 0, 2422*time.Microsecond)
	return f
}

func TestHandmade(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		got := transfers(t, handmade(order), Config{Port: 80})
		rate := func(packets int, gap float64) float64 { return 1514 * 8 * float64(packets) / gap * 1e6 }
		want := []struct {
			packets int
			rate    float64
			short   bool
		}{{60, rate(1, 1211), false}, {30, rate(1, 605), false}, {12, rate(1, 605), true}, {40, rate(1, 2422), false}}
		if len(got) != len(want) {
			t.Fatalf("%d transfers: %+v", len(got), got)
		}
		for i, w := range want {
			if got[i].Packets != w.packets || got[i].Bytes != int64(w.packets)*1514 || math.Abs(got[i].Rate-w.rate) > 1e-6*w.rate || got[i].Short != w.short {
				t.Errorf("transfer %d: %+v, expected %d packets at %.0f bits/s", i, got[i], w.packets, w.rate)
			}
		}
	}
	// The file that other tests read is this one.
	const stored = "testdata/hand.pcap"
	if *update {
		if err := os.WriteFile(stored, handmade(binary.LittleEndian).Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(stored); err != nil || !bytes.Equal(b, handmade(binary.LittleEndian).Bytes()) {
		t.Errorf("%s is another file: -update writes it (%v)", stored, err)
	}
	// Why packets are skipped: with the burst, the first transfer seems too fast.
	all := transfers(t, handmade(binary.LittleEndian), Config{Port: 80, Skip: -1})
	skipped := transfers(t, handmade(binary.LittleEndian), Config{Port: 80})
	if over := all[0].Rate / skipped[0].Rate; over < 1.06 {
		t.Errorf("a burst of ten packets in 60 reads %.3f times too fast", over)
	}
	// The same through the estimator: of 10 and 20 Mbit/s.
	var e bandwidth.Estimator
	start := skipped[0].Start
	for _, tr := range skipped[:2] {
		e.Add(int64(tr.End.Sub(start)), tr.Rate)
	}
	if got := e.Rate(int64(skipped[2].End.Sub(start))); math.Abs(got-13.34e6) > 0.02e6 {
		t.Errorf("an estimate of %.0f bits/s, expected the harmonic mean of 10.0 and 20.0 Mbit/s", got)
	}
}

// Frames of 10 kB, those of the smallest network, are seven packets. After a burst of two, the rate is the link's; a
// burst of the whole frame looks like a fast link; five packets give no estimate; an explicit skip is used as given.
func TestShort(t *testing.T) {
	frame := func(n, burst int) *file {
		f := newFile(binary.LittleEndian, 65535, 1)
		for range 3 {
			f.request(5000, n, burst, 1211*time.Microsecond)
			f.answer(5000)
		}
		return f
	}
	const link = 1514 * 8 / 1211e-6
	for _, c := range []struct {
		what     string
		n, burst int
		skip     int64
		least    float64
		most     float64
	}{
		{"burst of two", 7, 2, 0, link * 0.999, link * 1.001},
		{"no burst", 7, 0, 0, link * 0.999, link * 1.001},
		{"burst of five", 7, 5, 0, link * 2, link * 3},
		{"five packets", 5, 0, 0, 0, 0},
		{"ten skipped", 7, 0, 10 * largest, 0, 0},
		{"none skipped", 7, 2, -1, link * 1.15, link * 1.25},
	} {
		got := transfers(t, frame(c.n, c.burst), Config{Port: 80, Skip: c.skip})
		if len(got) != 3 {
			t.Fatalf("%s: %d transfers", c.what, len(got))
		}
		for _, tr := range got {
			if tr.Rate < c.least || tr.Rate > c.most || tr.Short != (c.skip == 0 && tr.Rate > 0) {
				t.Errorf("%s: %+v on a link of %.0f bits/s", c.what, tr, link)
			}
		}
	}
}

// Every prefix of a file that does not end with a packet is rejected as truncated, with the number of the packet.
func TestTruncated(t *testing.T) {
	f := newFile(binary.LittleEndian, 65535, 1)
	ends := map[int]bool{f.Len(): true}
	for range 5 {
		f.request(5000, 1, 0, time.Millisecond)
		ends[f.Len()] = true
	}
	for n := range f.Len() + 1 {
		told := 0
		_, err := Read("x.pcap", bytes.NewReader(f.Bytes()[:n]), Config{Port: 80}, func(tr Transfer) { told += tr.Packets })
		if want := max(0, (n-24)/(16+96)); told != want {
			t.Fatalf("%d bytes: %d packets are told of, expected the %d before", n, told, want)
		}
		if ends[n] {
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		if !errors.Is(err, ErrTruncated) || !errors.Is(err, ErrCapture) || !strings.HasPrefix(err.Error(), "x.pcap: ") {
			t.Fatalf("%d of %d bytes: %v", n, f.Len(), err)
		}
	}
}

func TestHostile(t *testing.T) {
	good := func() *file { return newFile(binary.LittleEndian, 65535, 1) }
	patch := func(at int, v uint32) []byte {
		f := good()
		f.request(5000, 3, 0, time.Millisecond)
		b := bytes.Clone(f.Bytes())
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	back := good()
	for range maxJumps + 1 {
		back.at = 100 * time.Second
		back.request(5000, 1, 0, 0)
		back.at = 50 * time.Second
		back.request(5000, 1, 0, 0)
	}
	many := good()
	for i := range maxFlows + 1 {
		p := make([]byte, 60)
		p[12], p[14], p[17], p[23], p[46], p[53] = 8, 0x45, 46, 6, 5<<4, 1
		binary.BigEndian.PutUint32(p[26:], uint32(i))
		p[37] = 80
		many.raw(p, 60)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                {nil, "truncated"},
		"no pcap":              {[]byte("GET / HTTP/1.1\r\nHost: example\r\n\r\n"), "not a pcap file"},
		"pcapng":               {append([]byte{0x0a, 0x0d, 0x0d, 0x0a}, make([]byte, 60)...), "editcap"},
		"compressed":           {append([]byte{0x1f, 0x8b, 8, 0}, make([]byte, 60)...), "gunzip"},
		"a packet of 4 GB":     {patch(24+8, math.MaxUint32), "exceeds snap length"},
		"said to be of 4 GB":   {patch(24+12, math.MaxUint32), "packet 1: 4294967295 bytes"},
		"longer than it was":   {patch(24+12, 10), "exceeds original"},
		"a link of Bluetooth":  {patch(20, 201), "link type 201"},
		"time goes back":       {back.Bytes(), "impossible time"},
		"a flood":              {many.Bytes(), "too many connections"},
		"version 7":            {patch(4, 7), "not a pcap file"},
		"the middle of a file": {patch(0, 0x31), "not a pcap file"},
	} {
		_, err := Read("x.pcap", bytes.NewReader(c.file), Config{Port: 80}, func(Transfer) {})
		if !errors.Is(err, ErrCapture) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
	if _, err := Read("x.pcap", bytes.NewReader(good().Bytes()), Config{}, nil); err == nil {
		t.Error("no port is accepted")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(handmade(binary.LittleEndian).Bytes()[:4000])
	f.Add(handmade(binary.BigEndian).Bytes()[:3000])
	short := newFile(binary.LittleEndian, 200, 113)
	rng := rand.New(rand.NewPCG(1, 2))
	junk := make([]byte, 64)
	for i := range junk {
		junk[i] = byte(rng.Uint32())
	}
	short.raw(junk, 64)
	f.Add(short.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		packets, total := 0, int64(0)
		_, err := Read("f", bytes.NewReader(b), Config{Port: 80, Skip: -1, Least: 1}, func(tr Transfer) {
			if tr.Packets < 1 || tr.Bytes < 0 || tr.End.Before(tr.Start) || !(tr.Rate >= 0) || math.IsInf(tr.Rate, 0) || !tr.Client.IsValid() {
				t.Errorf("%+v", tr)
			}
			packets += tr.Packets
			total += tr.Bytes
		})
		if 16*packets > len(b) {
			t.Errorf("%d packets out of %d bytes", packets, len(b))
		}
		if err != nil && !errors.Is(err, ErrCapture) {
			t.Errorf("an error of another kind: %v", err)
		}
	})
}
