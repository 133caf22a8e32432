// Package capture takes the rates of requests' transfers out of captured packets: of a pcap file, or live
// from an interface (Linux). A request is what a client sends over TCP until the server answers (any data of
// the server's is an answer), or until nothing has come for a while; its rate is what the link carried,
// headers included, behind its first packets: these come in a burst (a token bucket that has filled up, a
// queue that was empty), and with them a transfer of some hundred packets reads 6 to 10 % too fast.
//
// A link may pause within a request (LTE is scheduled in bursts), so that only a pause of Config.Gap ends
// one that nobody answers; a link on which packets are further apart than that, below 60 kbit/s with the
// default, is not measured.
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

// What is wrong with a capture. Every error about one wraps ErrCapture.
var (
	ErrCapture   = errors.New("capture")
	ErrTruncated = errors.New("truncated")
	ErrFormat    = errors.New("not a pcap file")
	ErrTime      = errors.New("impossible time")
	ErrFlows     = errors.New("too many connections")
)

// Bounds of what is accepted.
const (
	maxSnap  = 1 << 20          // bytes of a packet; what a file says that its packets may have is not asked
	maxFlows = 1 << 16          // connections at the same time
	maxBack  = 10 * time.Second // that packets may be out of order: several interfaces
	maxJumps = 16               // times that the clock goes back further: it is set, or one packet's is ahead
	maxHoles = 256              // of a connection: what has not come yet, though something behind it has
	maxIdle  = time.Hour        // after which a silent connection is forgotten
	maxAhead = 1 << 26          // bytes from what was seen last: beyond it is another connection
)

// Config says what a request is.
type Config struct {
	Port  uint16        // of the server
	Gap   time.Duration // a pause that ends a request; 0: 200 ms
	Skip  int64         // first bytes of a request that are left out; 0: ten full packets, or two where that leaves too few; negative: none
	Least int64         // bytes that must be left; 0: four full packets
}

// largest is a full packet on Ethernet. Skip and Least are counted in bytes, since an interface may show
// several packets as one; a connection's full packet is its largest, but not larger than this.
const largest = 1514

// Transfer is one request on its way.
type Transfer struct {
	Client     netip.AddrPort
	Start, End time.Time // its first and its last packet
	Packets    int
	Bytes      int64   // on the link, headers included
	Rate       float64 // bits a second, behind the packets that are skipped; 0: too few are left
	// Short: only two packets were skipped, since the request is short. Where a burst is longer than that
	// (a token bucket of 10 kB takes a frame of 10 kB whole) the rate is too high, and nothing shows it.
	Short bool
}

// Seen counts packets.
type Seen struct {
	Packets int // all
	Port    int // to the server's port
	Unread  int // without TCP that can be read
	Jumps   int // before which the clock went back
}

// String says it in words.
func (s Seen) String() string {
	text := fmt.Sprintf("%d packets, %d to the port, %d without TCP that can be read", s.Packets, s.Port, s.Unread)
	if s.Jumps > 0 {
		text += fmt.Sprintf("; the clock went back by more than %s %d times", maxBack, s.Jumps)
	}
	return text
}

// span is bytes of a connection, from the first to before the last.
type span struct{ from, to int64 }

// stream is one direction of a connection: what of it has come, wherever it stands in it.
type stream struct {
	known bool
	next  int64  // behind all that has come; the sequence number is its low half
	holes []span // before that, what has not come yet
}

// begin is a SYN.
func (b *stream) begin(seq uint32) { *b = stream{known: true, next: int64(seq)} }

// far is whether a sequence number cannot be this connection's.
func (b *stream) far(seq uint32) bool {
	d := int32(seq - uint32(b.next))
	return b.known && (d > maxAhead || d < -maxAhead)
}

// take takes in n bytes from a sequence number on; whether some of them had not come before. Loopback
// shows every packet twice, what was lost comes again, and some come late.
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
	up, down stream // towards the server, and back
	full     int64  // its largest packet
	now      Transfer
	long     behind
	short    behind
}

// behind is what follows the packets that are skipped.
type behind struct {
	from time.Time // the last packet that is skipped
	rest int64     // bytes behind it
}

// take takes in a packet that came at a time, after so many bytes; the first one says when it began,
// whatever is skipped: when it was sent is not known.
func (b *behind) take(at time.Time, after, skip, bytes int64) {
	if after == 0 || after < skip {
		b.from = at
	} else {
		b.rest += bytes
	}
}

// rate is 0 where too little is behind.
func (b *behind) rate(end time.Time, least int64) float64 {
	if took := end.Sub(b.from); b.rest >= least && took > 0 {
		return float64(b.rest) * 8 / took.Seconds()
	}
	return 0
}

// Assembler makes transfers of packets.
type Assembler struct {
	cfg   Config
	link  uint32
	each  func(Transfer)
	flows map[netip.AddrPort]*flow
	last  time.Time
	swept time.Time // when it was last looked who has paused
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
	six     *gopacket.DecodingLayerParser // where a packet begins with IPv6
	found   []gopacket.LayerType
}

// Link types of packets that begin with IP: by their numbers in files, which the library's type is too
// narrow for.
const (
	linkRaw   = 101
	linkRaw12 = 12 // what Linux writes
	linkRaw14 = 14 // OpenBSD
	linkIPv4  = 228
	linkIPv6  = 229
	linkSLL2  = 276 // behind 20 bytes
)

// NewAssembler makes one for packets of a link type; each is called at the end of every request.
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

// pppoe is a session's header and PPP's, which the library does not decode in place.
type pppoe struct {
	layers.BaseLayer
	next gopacket.LayerType
}

// CanDecode implements gopacket.DecodingLayer.
func (*pppoe) CanDecode() gopacket.LayerClass { return layers.LayerTypePPPoE }

// NextLayerType implements gopacket.DecodingLayer.
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

// decode finds the layers of a packet, as far as it can be read.
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

// Add takes in a packet. Those that are not of the server's port, or cannot be read, are left out: a
// capture may hold anything.
func (a *Assembler) Add(data []byte, ci gopacket.CaptureInfo) error {
	a.seen.Packets++
	if ci.Timestamp.Before(a.last.Add(-maxBack)) {
		a.Flush() // nothing is known of what lies between
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
			if slices.Contains(a.found, layers.LayerTypeIPv6) { // its extensions count as its payload
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

// sweep ends the requests that have paused, once in a while.
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
	if t.SYN || f.up.far(t.Seq) { // another connection with the same port
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

// forget drops the connections that have been silent for long; whether there were any.
func (a *Assembler) forget() bool {
	was := len(a.flows)
	for k, f := range a.flows {
		if f.now.Packets == 0 && a.last.Sub(f.now.End) > maxIdle {
			delete(a.flows, k)
		}
	}
	return len(a.flows) < was
}

// data takes in a packet with new bytes.
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

// end tells of a request.
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

// Flush ends the requests that are under way, oldest first.
func (a *Assembler) Flush() { a.flush(func(*flow) bool { return true }) }

// flush ends those under way that a condition holds for, in the order in which they began.
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

// fileHeader is how long a pcap file's header is.
const fileHeader = 24

// Read takes a pcap file; name is for errors. What is not whole is refused, with the packet at which
// it ends; the transfers before it have been told.
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
		link = order.Uint32(header[20:]) & 0x0fffffff // what stands above says how long check sums are
	}
	p, err := pcapgo.NewReader(b)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return Seen{}, fail(fmt.Errorf("%w: %w: it ends in its header of %d bytes", ErrCapture, ErrTruncated, fileHeader))
	case err != nil:
		return Seen{}, fail(fmt.Errorf("%w: %w: %w", ErrCapture, ErrFormat, err))
	}
	p.SetSnaplen(maxSnap) // files say 0, 524288 and more
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

// file takes a file's packets.
func (a *Assembler) file(p *pcapgo.Reader) error {
	for n := 1; ; n++ {
		data, ci, err := p.ZeroCopyReadPacketData()
		switch {
		case errors.Is(err, io.EOF) && ci.Length == 0 && ci.CaptureLength == 0 && ci.Timestamp.IsZero():
			return nil // at the end of a packet
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
