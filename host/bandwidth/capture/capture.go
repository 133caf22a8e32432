// Package capture measures the transfer rates of requests from captured packets. The packets come from a pcap file or,
// on Linux, live from an interface. A request is all data that a client sends over TCP until the server answers (with
// any data), or until the client pauses for Config.Gap.
//
// The rate of a request includes packet headers. It excludes the first packets, because they arrive in a burst (a full
// token bucket, an empty queue). Otherwise the rate of a transfer of a few hundred packets would be 6 to 10 % too
// high. The gap must be long, because a link can pause within a request (LTE is scheduled in bursts). With the default
// gap, rates below 60 kbit/s cannot be measured, because packets are too far apart.
package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Errors about a capture. All wrap ErrCapture.
var (
	ErrCapture   = errors.New("capture")
	ErrTruncated = errors.New("truncated")
	ErrFormat    = errors.New("not a pcap file")
	ErrTime      = errors.New("impossible time")
	ErrFlows     = errors.New("too many connections")
)

const (
	maxSnap  = 1 << 20          // bytes of a packet; the limit in a file is ignored
	maxFlows = 1 << 16          // concurrent connections
	maxBack  = 10 * time.Second // largest accepted step back in time between packets (from a capture of several interfaces)
	maxJumps = 16               // number of accepted larger steps back (from a clock change or a wrong packet)
	maxHoles = 256              // number of missing ranges of a connection
	maxIdle  = time.Hour        // idle time after which a connection is dropped
	maxAhead = 1 << 26          // bytes beyond the last byte seen; a larger step means another connection
)

// Config defines a request.
type Config struct {
	Port uint16        // TCP port of the server
	Gap  time.Duration // pause that ends a request; 0: 200 ms
	// Skip is the number of bytes at a request's start that the rate excludes; negative: none. 0 excludes ten full
	// packets, or two if fewer than Least bytes follow the ten.
	Skip  int64
	Least int64 // number of bytes that must remain after the skipped bytes; 0: four full packets
}

// largest is the size of a full packet on Ethernet, in bytes. A full packet of a connection is its largest packet, but
// at most this size. Config.Skip and Config.Least count bytes, not packets, because an interface can merge packets.
const largest = 1514

// Transfer is the transfer of one request.
type Transfer struct {
	Client     netip.AddrPort
	Start, End time.Time // times of the first and last packet
	Packets    int
	Bytes      int64   // bytes on the link, headers included
	Rate       float64 // bits a second, after the skipped packets; 0: too few bytes remain
	// Short: only two packets were skipped, because the request is short. If the link's burst is longer, the rate is
	// too high: a token bucket of 10 kB sends a frame of 10 kB at once. The capture does not show the burst's length.
	Short bool
}

// Seen counts packets.
type Seen struct {
	Packets int // all packets
	Port    int // packets to the server's port
	Unread  int // packets without readable TCP
	Jumps   int // steps back of the clock by more than maxBack
}

// String describes the counts.
func (s Seen) String() string {
	text := fmt.Sprintf("%d packets, %d to the port, %d without TCP that can be read", s.Packets, s.Port, s.Unread)
	if s.Jumps > 0 {
		text += fmt.Sprintf("; the clock went back by more than %s %d times", maxBack, s.Jumps)
	}
	return text
}

// span is a byte range of a connection: from is included, to is not.
type span struct{ from, to int64 }

// stream is one direction of a connection. It records which bytes have arrived.
type stream struct {
	known bool
	next  int64  // end of the data that has arrived; its low half is a sequence number
	holes []span // missing ranges before next
}

// begin starts a stream at a SYN.
func (b *stream) begin(seq uint32) { *b = stream{known: true, next: int64(seq)} }

// far reports whether a sequence number is too far away to belong to this connection.
func (b *stream) far(seq uint32) bool {
	d := int32(seq - uint32(b.next))
	return b.known && (d > maxAhead || d < -maxAhead)
}

// take records n bytes that start at a sequence number. It reports whether some of them are new. The same bytes can
// arrive again: loopback captures contain every packet twice, and packets are retransmitted.
func (b *stream) take(seq, n uint32) (fresh bool) {
	if n == 0 {
		return false
	}
	if !b.known {
		b.begin(seq)
	}
	from := b.next + int64(int32(seq-uint32(b.next)))
	to := from + int64(n)
	for i := 0; i < len(b.holes); i++ {
		h := b.holes[i]
		if to <= h.from || from >= h.to {
			continue
		}
		fresh = true
		var left []span
		if h.from < from {
			left = append(left, span{h.from, from})
		}
		if to < h.to {
			left = append(left, span{to, h.to})
		}
		b.holes = slices.Replace(b.holes, i, i+1, left...)
		i += len(left) - 1
	}
	if from > b.next {
		if len(b.holes) >= maxHoles {
			b.holes = slices.Delete(b.holes, 0, 1)
		}
		b.holes = append(b.holes, span{b.next, from})
	}
	if to > b.next {
		fresh, b.next = true, to
	}
	return fresh
}

// flow is one connection.
type flow struct {
	up, down stream // up is to the server, down is from the server
	full     int64  // size of the largest packet in bytes, at most largest
	now      Transfer
	long     behind
	short    behind
}

// behind measures the data after the skipped packets.
type behind struct {
	from time.Time // time of the last skipped packet
	rest int64     // number of bytes after the skipped packets
}

// take adds a packet that arrived at the time `at`. `after` is the number of the request's earlier bytes. The first
// packet is always skipped, because its send time is unknown.
func (b *behind) take(at time.Time, after, skip, bytes int64) {
	if after == 0 || after < skip {
		b.from = at
	} else {
		b.rest += bytes
	}
}

// rate returns the rate in bits a second; 0 if too few bytes remain.
func (b *behind) rate(end time.Time, least int64) float64 {
	if took := end.Sub(b.from); b.rest >= least && took > 0 {
		return float64(b.rest) * 8 / took.Seconds()
	}
	return 0
}

// Assembler combines packets into transfers.
type Assembler struct {
	cfg   Config
	link  uint32
	each  func(Transfer)
	flows map[netip.AddrPort]*flow
	last  time.Time
	swept time.Time // time of the last sweep
	seen  Seen

	eth     layers.Ethernet
	sll     layers.LinuxSLL
	null    layers.Loopback
	vlan    layers.Dot1Q
	pppoe   pppoe
	ip4     layers.IPv4
	ip6     layers.IPv6
	ext     layers.IPv6ExtensionSkipper
	tcp     layers.TCP
	payload gopacket.Payload
	parser  *gopacket.DecodingLayerParser
	six     *gopacket.DecodingLayerParser // decodes packets that begin with IPv6
	found   []gopacket.LayerType
}

// Link types in pcap files. The library's type is too small for them.
const (
	linkRaw   = 101
	linkRaw12 = 12 // written by Linux
	linkRaw14 = 14 // OpenBSD
	linkIPv4  = 228
	linkIPv6  = 229
	linkSLL2  = 276 // the IP packet follows a header of 20 bytes
)

// NewAssembler returns an Assembler for packets of a link type. It calls the function `each` when a request ends.
func NewAssembler(cfg Config, link uint32, each func(Transfer)) (*Assembler, error) {
	if cfg.Port == 0 {
		return nil, fmt.Errorf("%w: no port of the server is given", ErrCapture)
	}
	if cfg.Gap <= 0 {
		cfg.Gap = 200 * time.Millisecond
	}
	a := &Assembler{cfg: cfg, link: link, each: each, flows: map[netip.AddrPort]*flow{}}
	var first gopacket.LayerType
	switch link {
	case uint32(layers.LinkTypeEthernet):
		first = layers.LayerTypeEthernet
	case uint32(layers.LinkTypeLinuxSLL):
		first = layers.LayerTypeLinuxSLL
	case uint32(layers.LinkTypeNull), uint32(layers.LinkTypeLoop):
		first = layers.LayerTypeLoopback
	case linkRaw, linkRaw12, linkRaw14, linkIPv4, linkIPv6, linkSLL2:
		first = layers.LayerTypeIPv4
		a.six = a.parse(layers.LayerTypeIPv6)
	default:
		return nil, fmt.Errorf("%w: packets of link type %d; Ethernet (1), raw IP (101, 12, 14, 228, 229), Linux cooked (113, 276) and loopback (0, 108) are known", ErrCapture, link)
	}
	a.parser = a.parse(first)
	return a, nil
}

func (a *Assembler) parse(first gopacket.LayerType) *gopacket.DecodingLayerParser {
	p := gopacket.NewDecodingLayerParser(first, &a.eth, &a.sll, &a.null, &a.vlan, &a.pppoe, &a.ip4, &a.ip6, &a.ext, &a.tcp, &a.payload)
	p.IgnoreUnsupported = true
	return p
}

// pppoe decodes the headers of a PPPoE session and of PPP, which the library cannot decode in place.
type pppoe struct {
	layers.BaseLayer
	next gopacket.LayerType
}

// CanDecode and NextLayerType implement gopacket.DecodingLayer.
func (*pppoe) CanDecode() gopacket.LayerClass      { return layers.LayerTypePPPoE }
func (p *pppoe) NextLayerType() gopacket.LayerType { return p.next }

// DecodeFromBytes implements gopacket.DecodingLayer.
func (p *pppoe) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	const header = 6 + 2
	if len(data) < header {
		df.SetTruncated()
		return errors.New("a PPPoE header is cut")
	}
	p.BaseLayer = layers.BaseLayer{Contents: data[:header], Payload: data[header:]}
	p.next = gopacket.LayerTypeZero
	switch binary.BigEndian.Uint16(data[6:]) {
	case 0x21:
		p.next = layers.LayerTypeIPv4
	case 0x57:
		p.next = layers.LayerTypeIPv6
	}
	return nil
}

// decode finds the layers of a packet, up to the first unreadable layer.
func (a *Assembler) decode(data []byte) {
	a.found = a.found[:0]
	parser := a.parser
	if a.link == linkSLL2 {
		if len(data) < 20 {
			return
		}
		data = data[20:]
	}
	if a.six != nil && len(data) > 0 && data[0]>>4 == 6 {
		parser = a.six
	}
	_ = parser.DecodeLayers(data, &a.found)
}

// Add processes a packet. Because a capture can contain any traffic, Add ignores packets of other ports and unreadable
// packets.
func (a *Assembler) Add(data []byte, ci gopacket.CaptureInfo) error {
	a.seen.Packets++
	if ci.Timestamp.Before(a.last.Add(-maxBack)) {
		a.Flush() // the elapsed time is unknown
		back := a.last.Sub(ci.Timestamp)
		a.last, a.swept = ci.Timestamp, ci.Timestamp
		if a.seen.Jumps++; a.seen.Jumps > maxJumps {
			return fmt.Errorf("%w: packet %d: %w: %s before one that came earlier, and that for the %dth time", ErrCapture, a.seen.Packets, ErrTime, back, a.seen.Jumps)
		}
	}
	if ci.Timestamp.After(a.last) {
		a.last = ci.Timestamp
	}
	a.sweep()
	a.decode(data)
	var src, dst netip.Addr
	whole := -1
	for _, l := range a.found {
		switch l {
		case layers.LayerTypeIPv4:
			src, dst = addr(a.ip4.SrcIP), addr(a.ip4.DstIP)
			whole = int(a.ip4.Length) - 4*int(a.ip4.IHL)
			if a.ip4.FragOffset != 0 {
				whole = -1
			}
		case layers.LayerTypeIPv6:
			src, dst = addr(a.ip6.SrcIP), addr(a.ip6.DstIP)
			whole = int(a.ip6.Length)
		case layers.LayerTypeTCP:
			if slices.Contains(a.found, layers.LayerTypeIPv6) { // the library counts IPv6 extensions as payload
				whole -= len(a.ip6.Payload) - len(a.tcp.Contents) - len(a.tcp.Payload)
			}
			if n := whole - 4*int(a.tcp.DataOffset); whole >= 0 && n >= 0 {
				return a.tcpPacket(netip.AddrPortFrom(src, uint16(a.tcp.SrcPort)), netip.AddrPortFrom(dst, uint16(a.tcp.DstPort)), uint32(n), ci)
			}
		}
	}
	a.seen.Unread++
	return nil
}

func addr(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}

// sweep ends the requests that have paused for Config.Gap. It searches for them once per quarter of this gap.
func (a *Assembler) sweep() {
	if a.last.Sub(a.swept) < a.cfg.Gap/4 {
		return
	}
	a.swept = a.last
	a.flush(func(f *flow) bool { return a.last.Sub(f.now.End) >= a.cfg.Gap })
}

func (a *Assembler) tcpPacket(src, dst netip.AddrPort, n uint32, ci gopacket.CaptureInfo) error {
	t := &a.tcp
	switch a.cfg.Port {
	case dst.Port():
	case src.Port():
		f := a.flows[dst]
		if f == nil {
			return nil
		}
		if t.SYN {
			f.down.begin(t.Seq + 1)
		}
		if f.down.take(t.Seq, n) || t.FIN || t.RST { // the answer
			a.end(f)
		}
		if t.RST {
			delete(a.flows, dst)
		}
		return nil
	default:
		return nil
	}
	a.seen.Port++
	f := a.flows[src]
	if f == nil {
		if len(a.flows) == maxFlows && !a.forget() {
			return fmt.Errorf("%w: packet %d: %w: more than %d", ErrCapture, a.seen.Packets, ErrFlows, maxFlows)
		}
		f = &flow{}
		a.flows[src] = f
	}
	if t.SYN || f.up.far(t.Seq) { // the packet belongs to a new connection with the same port
		a.end(f)
		*f = flow{}
	}
	if t.SYN {
		f.up.begin(t.Seq + 1)
		return nil
	}
	if f.up.take(t.Seq, n) {
		a.data(f, src, ci)
	}
	if t.FIN || t.RST {
		a.end(f)
		delete(a.flows, src)
	}
	return nil
}

// forget deletes idle connections. It reports whether it deleted any.
func (a *Assembler) forget() bool {
	was := len(a.flows)
	for k, f := range a.flows {
		if f.now.Packets == 0 && a.last.Sub(f.now.End) > maxIdle {
			delete(a.flows, k)
		}
	}
	return len(a.flows) < was
}

// data processes a packet with new bytes.
func (a *Assembler) data(f *flow, src netip.AddrPort, ci gopacket.CaptureInfo) {
	n := &f.now
	if n.Packets > 0 && ci.Timestamp.Sub(n.End) >= a.cfg.Gap {
		a.end(f)
	}
	if n.Packets == 0 {
		*n, f.long, f.short = Transfer{Client: src, Start: ci.Timestamp, End: ci.Timestamp}, behind{}, behind{}
	}
	if ci.Timestamp.After(n.End) {
		n.End = ci.Timestamp
	}
	size := int64(ci.Length)
	f.full = max(f.full, min(largest, size))
	long, short := a.cfg.Skip, int64(0)
	if long == 0 {
		long, short = 10*f.full, 2*f.full
	}
	f.long.take(n.End, n.Bytes, long, size)
	f.short.take(n.End, n.Bytes, short, size)
	n.Packets++
	n.Bytes += size
}

// end reports a request.
func (a *Assembler) end(f *flow) {
	n := &f.now
	if n.Packets == 0 {
		return
	}
	least := a.cfg.Least
	if least <= 0 {
		least = 4 * f.full
	}
	if n.Rate = f.long.rate(n.End, least); f.long.rest < least && a.cfg.Skip == 0 {
		n.Rate = f.short.rate(n.End, least)
		n.Short = n.Rate > 0
	}
	a.each(*n)
	*n = Transfer{End: n.End}
}

// Flush ends all requests in progress, oldest first.
func (a *Assembler) Flush() { a.flush(func(*flow) bool { return true }) }

// flush ends the selected requests in progress, in the order in which they began.
func (a *Assembler) flush(which func(*flow) bool) {
	var left []*flow
	for _, f := range a.flows {
		if f.now.Packets > 0 && which(f) {
			left = append(left, f)
		}
	}
	slices.SortFunc(left, func(x, y *flow) int {
		if c := x.now.Start.Compare(y.now.Start); c != 0 {
			return c
		}
		return x.now.Client.Compare(y.now.Client)
	})
	for _, f := range left {
		a.end(f)
	}
}

// fileHeader is the length of a pcap file's header.
const fileHeader = 24

// Read reads a pcap file. name is used in error messages. If the file is truncated, the error contains the number of
// the cut packet. All transfers before that packet have been reported.
func Read(name string, r io.Reader, cfg Config, each func(Transfer)) (Seen, error) {
	fail := func(err error) error { return fmt.Errorf("%s: %w", name, err) }
	b := bufio.NewReader(r)
	magic, err := b.Peek(4)
	switch {
	case err != nil:
		return Seen{}, fail(fmt.Errorf("%w: %w: %d bytes", ErrCapture, ErrTruncated, len(magic)))
	case magic[0] == 0x0a && magic[1] == 0x0d:
		return Seen{}, fail(fmt.Errorf("%w: %w but pcapng: editcap -F pcap makes one", ErrCapture, ErrFormat))
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return Seen{}, fail(fmt.Errorf("%w: %w but compressed: gunzip it", ErrCapture, ErrFormat))
	}
	link := uint32(0)
	if header, err := b.Peek(fileHeader); err == nil {
		order := binary.ByteOrder(binary.LittleEndian)
		if header[0] == 0xa1 {
			order = binary.BigEndian
		}
		link = order.Uint32(header[20:]) & 0x0fffffff // the upper bits are the length of frame check sequences
	}
	p, err := pcapgo.NewReader(b)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return Seen{}, fail(fmt.Errorf("%w: %w: it ends in its header of %d bytes", ErrCapture, ErrTruncated, fileHeader))
	case err != nil:
		return Seen{}, fail(fmt.Errorf("%w: %w: %w", ErrCapture, ErrFormat, err))
	}
	p.SetSnaplen(maxSnap) // the limits in files are unusable: 0, 524288 and larger numbers occur
	a, err := NewAssembler(cfg, link, each)
	if err != nil {
		return Seen{}, fail(err)
	}
	err = a.file(p)
	a.Flush()
	if err != nil {
		return a.seen, fail(err)
	}
	return a.seen, nil
}

// file reads the packets of a file.
func (a *Assembler) file(p *pcapgo.Reader) error {
	for n := 1; ; n++ {
		data, ci, err := p.ZeroCopyReadPacketData()
		switch {
		case errors.Is(err, io.EOF) && ci.Length == 0 && ci.CaptureLength == 0 && ci.Timestamp.IsZero():
			return nil // the file ends after a whole packet
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: packet %d: %w: it ends in the packet", ErrCapture, n, ErrTruncated)
		case err != nil:
			return fmt.Errorf("%w: packet %d: %w", ErrCapture, n, err)
		case ci.Length > maxSnap:
			return fmt.Errorf("%w: packet %d: %d bytes, expected at most %d", ErrCapture, n, ci.Length, maxSnap)
		}
		if err := a.Add(data, ci); err != nil {
			return err
		}
	}
}
