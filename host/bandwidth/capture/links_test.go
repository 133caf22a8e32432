package capture

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
)

// wires are the headers before a TCP segment, by type of capture.
type wire struct {
	name string
	link uint32
	wrap func(tcp []byte) []byte
}

func be16(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func ip4(tcp []byte) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(tcp)))
	copy(h[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	if binary.BigEndian.Uint16(tcp) == 80 {
		copy(h[12:], []byte{10, 0, 0, 2, 10, 0, 0, 1})
	}
	return join(h, tcp)
}

func ip6(next byte, ext, tcp []byte) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7], h[23], h[39] = 0x60, next, 64, 1, 2
	if binary.BigEndian.Uint16(tcp) == 80 {
		h[23], h[39] = 2, 1
	}
	binary.BigEndian.PutUint16(h[4:], uint16(len(ext)+len(tcp)))
	return join(h, ext, tcp)
}

func plain6(tcp []byte) []byte { return ip6(6, nil, tcp) }

func ethernet(types []byte, packet []byte) []byte { return join(make([]byte, 12), types, packet) }

func wires() []wire {
	options := []byte{6, 0, 1, 4, 0, 0, 0, 0} // destination options, then TCP
	return []wire{
		{"Ethernet", 1, func(p []byte) []byte { return ethernet(be16(0x800), ip4(p)) }},
		{"Ethernet, IPv6", 1, func(p []byte) []byte { return ethernet(be16(0x86dd), plain6(p)) }},
		{"IPv6 with options", 1, func(p []byte) []byte { return ethernet(be16(0x86dd), ip6(60, options, p)) }},
		{"VLAN", 1, func(p []byte) []byte { return ethernet(join(be16(0x8100), be16(5), be16(0x800)), ip4(p)) }},
		{"two VLANs", 1, func(p []byte) []byte {
			return ethernet(join(be16(0x88a8), be16(5), be16(0x8100), be16(6), be16(0x800)), ip4(p))
		}},
		{"PPPoE", 1, func(p []byte) []byte {
			return ethernet(join(be16(0x8864), []byte{0x11, 0}, be16(1), be16(len(p)+22), be16(0x21)), ip4(p))
		}},
		{"PPPoE, IPv6", 1, func(p []byte) []byte {
			return ethernet(join(be16(0x8864), []byte{0x11, 0}, be16(1), be16(len(p)+42), be16(0x57)), plain6(p))
		}},
		{"raw", 101, ip4},
		{"raw, IPv6", 101, plain6},
		{"raw as Linux says it", 12, ip4},
		{"IPv4", 228, ip4},
		{"IPv6", 229, plain6},
		{"loopback", 0, func(p []byte) []byte { return join([]byte{2, 0, 0, 0}, ip4(p)) }},
		{"Linux cooked", 113, func(p []byte) []byte {
			return join(be16(0), be16(1), be16(6), make([]byte, 8), be16(0x800), ip4(p))
		}},
		{"Linux cooked 2", 276, func(p []byte) []byte {
			return join(be16(0x800), be16(0), make([]byte, 4), be16(1), []byte{0, 6}, make([]byte, 8), ip4(p))
		}},
		{"Linux cooked 2, IPv6", 276, func(p []byte) []byte {
			return join(be16(0x86dd), be16(0), make([]byte, 4), be16(1), []byte{0, 6}, make([]byte, 8), plain6(p))
		}},
	}
}

// segment is a TCP segment with n bytes.
func segment(from, to uint16, seq uint32, flags byte, n int) []byte {
	p := make([]byte, 20+n)
	binary.BigEndian.PutUint16(p[0:], from)
	binary.BigEndian.PutUint16(p[2:], to)
	binary.BigEndian.PutUint32(p[4:], seq)
	p[12], p[13] = 5<<4, flags
	return p
}

// sent writes the segments of a request over a wire, in the given order, mss bytes each, at a rate in Mbit/s; between
// adds a delay to a segment.
type sent struct {
	wire    wire
	mss     int
	order   []int
	mbits   float64
	between func(turn int) time.Duration
	open    bool // without a handshake
}

func inOrder(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func (f *file) request1(s sent) {
	if !s.open {
		p := s.wire.wrap(segment(5000, 80, 999, syn, 0))
		f.raw(p, len(p))
		p = s.wire.wrap(segment(5000, 80, 1000, 0x10, 0)) // not part of the request
		f.raw(p, len(p))
	}
	for turn, i := range s.order {
		p := s.wire.wrap(segment(5000, 80, 1000+uint32(i*s.mss), 0x10, s.mss))
		f.at += time.Duration(float64(len(p)) * 8 / s.mbits * 1000)
		if s.between != nil {
			f.at += s.between(turn)
		}
		f.raw(p[:min(len(p), 120)], len(p))
	}
}

func (f *file) close1(s sent, flags byte, n int) {
	f.at += time.Millisecond
	p := s.wire.wrap(segment(80, 5000, 1, flags, n))
	f.raw(p, len(p))
}

// near reports whether there is one transfer with that number of packets and that rate.
func near(t *testing.T, what string, got []Transfer, packets int, mbits float64) {
	t.Helper()
	if len(got) != 1 || got[0].Packets != packets || math.Abs(got[0].Rate/1e6/mbits-1) > 0.02 {
		t.Errorf("%s: %+v, expected %d packets at %g Mbit/s", what, got, packets, mbits)
	}
}

// Every readable kind of packet, complete and cut by a snap length; FIN and answers end requests.
func TestLinkTypes(t *testing.T) {
	for _, w := range wires() {
		f := newFile(binary.LittleEndian, 120, w.link)
		s := sent{wire: w, mss: 1400, order: inOrder(60), mbits: 20}
		f.request1(s)
		ack := w.wrap(segment(5000, 80, 1000+60*1400, 0x10, 0)) // not part of it
		f.at += 5 * time.Millisecond
		f.raw(ack, len(ack))
		f.close1(s, psh, 2)
		p := w.wrap(segment(5000, 80, 1000+60*1400, 0x10, 1400)) // the next one begins at once
		f.raw(p[:120], len(p))
		var got []Transfer
		seen, err := Read("x", bytes.NewReader(f.Bytes()), Config{Port: 80}, func(tr Transfer) { got = append(got, tr) })
		if err != nil || len(got) != 2 || seen != (Seen{Packets: 65, Port: 64}) {
			t.Errorf("%s: %v, %d transfers, %v", w.name, err, len(got), seen)
			continue
		}
		near(t, w.name, got[:1], 60, 20)
	}
	long := newFile(binary.LittleEndian, 65535, 1<<28|276) // the checksum length is in the upper bits
	long.request1(sent{wire: wires()[14], mss: 1400, order: inOrder(60), mbits: 20})
	near(t, "276 with flags", transfers(t, long, Config{Port: 80}), 60, 20)
}

// Reordered, retransmitted and lost packets do not change the rate; nor does a capture that begins in the middle.
func TestOrderOfPackets(t *testing.T) {
	eth := wires()[0]
	swapped, reversed, lossy := inOrder(60), inOrder(60), []int(nil)
	for i := 0; i < 60; i += 2 {
		swapped[i], swapped[i+1] = i+1, i
	}
	for i := range reversed {
		reversed[i] = i/4*4 + 3 - i%4
	}
	var late []int
	for i := range 60 { // every fifth comes 12 places later
		if i%5 == 3 {
			late = append(late, i)
		} else {
			lossy = append(lossy, i)
		}
		if len(late) > 0 && late[0]+12 <= i {
			lossy, late = append(lossy, late[0]), late[1:]
		}
	}
	lossy = append(lossy, late...)
	for what, order := range map[string][]int{"neighbours change places": swapped, "groups of four reversed": reversed, "every fifth late": lossy} {
		for _, open := range []bool{false, true} {
			f := newFile(binary.LittleEndian, 65535, 1)
			f.request1(sent{wire: eth, mss: 1448, order: order, mbits: 20, open: open})
			packets := 60
			if open { // data before the first captured packet may be old
				packets -= order[0]
			}
			near(t, what, transfers(t, f, Config{Port: 80}), packets, 20)
		}
	}
	// Three times each, with ranges that overlap known and unknown ones: only new bytes count.
	f := newFile(binary.LittleEndian, 65535, 1)
	f.request1(sent{wire: eth, mss: 1448, order: inOrder(60), mbits: 20})
	again := f.at
	for _, i := range inOrder(60) {
		p := eth.wrap(segment(5000, 80, 1000+uint32(i*1448), 0x10, 1448))
		f.raw(p, len(p))
	}
	if again != f.at {
		t.Fatal("the clock has moved")
	}
	near(t, "all again", transfers(t, f, Config{Port: 80}), 60, 20)
}

// A stream counts each byte once, however it is split.
func TestStream(t *testing.T) {
	const first = math.MaxUint32 - 9 // the numbers wrap
	var s stream
	s.begin(first)
	for _, c := range []struct {
		from, n int
		fresh   bool
	}{{0, 5, true}, {0, 5, false}, {20, 10, true}, {22, 3, false}, {8, 4, true}, {5, 30, true}, {5, 15, false}, {0, 35, false}, {34, 2, true}, {40, 0, false}} {
		if got := s.take(first+uint32(c.from), uint32(c.n)); got != c.fresh {
			t.Errorf("%d bytes from %d on: %v", c.n, c.from, got)
		}
	}
	if len(s.holes) != 0 {
		t.Errorf("%v is missing", s.holes)
	}
	for i := range 3 * maxHoles {
		s.take(uint32(100+10*i), 1)
	}
	if len(s.holes) > maxHoles {
		t.Errorf("%d holes are remembered", len(s.holes))
	}
}

// A link that pauses is measured with its pauses, and a slow one too. Only a long silence ends a request without an
// answer; it ends then, not at the next request.
func TestPauses(t *testing.T) {
	eth := wires()[0]
	f := newFile(binary.LittleEndian, 65535, 1)
	f.request1(sent{wire: eth, mss: 1448, order: inOrder(160), mbits: 100, between: func(turn int) time.Duration {
		if turn%8 == 0 {
			return 14 * time.Millisecond
		}
		return 0
	}})
	got := transfers(t, f, Config{Port: 80})
	if whole := 1502 * 8 * 160 / f.at.Seconds(); len(got) != 1 || math.Abs(got[0].Rate/whole-1) > 0.1 {
		t.Errorf("%+v on a link that carries %.0f bits/s in bursts", got, whole)
	}
	for _, mbits := range []float64{0.07, 0.5, 1} {
		f := newFile(binary.LittleEndian, 65535, 1)
		f.request1(sent{wire: eth, mss: 1448, order: inOrder(30), mbits: mbits})
		near(t, "slow", transfers(t, f, Config{Port: 80}), 30, mbits)
	}
	f = newFile(binary.LittleEndian, 65535, 1)
	f.request1(sent{wire: eth, mss: 1448, order: inOrder(30), mbits: 20})
	f.at += time.Second
	f.packet(7000, 80, 1, 0x10, 1514, 96) // another client
	told := 0
	a, err := NewAssembler(Config{Port: 80}, 1, func(Transfer) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	p, err := pcapgo.NewReader(bytes.NewReader(f.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.file(p); err != nil || told != 1 {
		t.Errorf("%d requests are told of after a second's silence, %v", told, err)
	}
}

// A frame of 10 kB is measured for any packet size. Packets merged by the interface are measured if there are
// several. Server data in the middle of a request splits it, as documented.
func TestSizes(t *testing.T) {
	eth := wires()[0]
	for _, mss := range []int{1240, 1400, 1420, 1452, 1460} {
		f := newFile(binary.LittleEndian, 65535, 1)
		f.request1(sent{wire: eth, mss: mss, order: inOrder((10_000 + mss - 1) / mss), mbits: 10})
		near(t, "a frame of 10 kB", transfers(t, f, Config{Port: 80}), (10_000+mss-1)/mss, 10)
	}
	f := newFile(binary.LittleEndian, 65535, 1)
	f.request1(sent{wire: eth, mss: 60_000, order: inOrder(8), mbits: 20})
	near(t, "packets of 60 kB", transfers(t, f, Config{Port: 80}), 8, 20)
	f = newFile(binary.LittleEndian, 65535, 1)
	s := sent{wire: eth, mss: 1448, order: inOrder(60), mbits: 20}
	f.request1(s)
	whole := f.Len()
	f.close1(s, psh, 8)
	f.close1(s, psh, 8) // a retransmission is not an answer
	p := eth.wrap(segment(5000, 80, 1000+60*1448, 0x10, 100))
	f.raw(p, len(p))
	f.close1(s, psh, 8)
	p = eth.wrap(segment(5000, 80, 1000+60*1448+100, 0x10, 100))
	f.raw(p, len(p))
	if got := transfers(t, f, Config{Port: 80}); len(got) != 2 || got[0].Packets != 60 || got[1].Packets != 2 {
		t.Errorf("after %d bytes: %+v", whole, got)
	}
}

// FIN and RST of either side end a request; what follows from the same port is another connection, with or without a
// SYN.
func TestEnds(t *testing.T) {
	eth := wires()[0]
	const fin, rst = 0x11, 4
	for _, c := range []struct {
		what       string
		fromServer bool
		flags      byte
	}{{"FIN of the client", false, fin}, {"RST of the client", false, rst}, {"FIN of the server", true, fin}, {"RST of the server", true, rst}} {
		f := newFile(binary.LittleEndian, 65535, 1)
		f.request1(sent{wire: eth, mss: 1448, order: inOrder(20), mbits: 20})
		from, to := uint16(5000), uint16(80)
		if c.fromServer {
			from, to = to, from
		}
		p := eth.wrap(segment(from, to, 1000+20*1448, c.flags, 0))
		f.raw(p, len(p))
		f.request1(sent{wire: eth, mss: 1448, order: []int{20, 21, 22}, mbits: 20, open: true})
		if got := transfers(t, f, Config{Port: 80}); len(got) != 2 || got[0].Packets != 20 || got[1].Packets != 3 {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	for _, seq := range []uint32{2_000_000_000, 3_900_000_000} {
		f := newFile(binary.LittleEndian, 65535, 1)
		f.seq[5000] = 3_000_000_000
		f.request(5000, 30, 0, time.Millisecond)
		f.seq[5000] = seq
		f.request(5000, 30, 0, 2*time.Millisecond)
		if got := transfers(t, f, Config{Port: 80}); len(got) != 2 || got[1].Packets != 30 || math.Abs(got[1].Rate-1514*8/2e-3) > 1 {
			t.Errorf("another connection from %d on: %+v", seq, got)
		}
	}
}

// A wrong time stamp of one packet affects only the request that contains it; the end of a request is the latest time
// stamp.
func TestClock(t *testing.T) {
	for _, by := range []time.Duration{1e6 * time.Second, -20 * time.Second, -5 * time.Second} {
		f := newFile(binary.LittleEndian, 65535, 1)
		f.at = 100 * time.Second
		for k := range 3 {
			for i := range 40 {
				f.at += 605 * time.Microsecond
				if k == 1 && i == 20 {
					f.at += by
				}
				f.packet(5000, 80, f.seq[5000], psh, 1514, 96)
				f.seq[5000] += 1460
				if k == 1 && i == 20 {
					f.at -= by
				}
			}
			f.answer(5000)
		}
		var got []Transfer
		seen, err := Read("x", bytes.NewReader(f.Bytes()), Config{Port: 80}, func(tr Transfer) { got = append(got, tr) })
		if err != nil || len(got) < 3 || (seen.Jumps > 0) != (by != -5*time.Second) {
			t.Fatalf("%s: %d transfers, %v, %v", by, len(got), seen, err)
		}
		for _, tr := range []Transfer{got[0], got[len(got)-1]} {
			near(t, by.String(), []Transfer{tr}, 40, 1514*8/605.)
		}
		if by == -5*time.Second {
			near(t, "with one behind", got[1:2], 40, 1514*8/605.)
		}
	}
}

// Packets are read whatever lengths the file states; unreadable ones are counted.
func TestSeen(t *testing.T) {
	for _, snap := range []uint32{0, 96, 524288, math.MaxUint32} {
		f := newFile(binary.LittleEndian, snap, 1)
		f.request(5000, 40, 0, time.Millisecond)
		near(t, "snap length", transfers(t, f, Config{Port: 80}), 40, 1514*8/1000.)
	}
	f := handmade(binary.LittleEndian)
	seen, err := Read("x", bytes.NewReader(f.Bytes()), Config{Port: 8080}, func(Transfer) { t.Error("a transfer to another port") })
	if err != nil || seen.Port != 0 || seen.Unread != 1 || !strings.HasPrefix(seen.String(), "150 packets, 0 to the port, 1 without") {
		t.Errorf("%v, %v", seen, err)
	}
	seen, err = Read("x", bytes.NewReader(newFile(binary.LittleEndian, 0, 1).Bytes()), Config{Port: 80}, func(Transfer) {})
	if err != nil || seen != (Seen{}) {
		t.Errorf("nothing: %v, %v", seen, err)
	}
}
