// Package capture takes the rates of requests' transfers out of captured packets: of a pcap file, or live
// from an interface (Linux). A request is what a client sends over TCP until the server answers, or until
// it pauses; its rate is what the link carried, headers included, behind its first packets: these come in
// a burst (a token bucket that has filled up, a queue that was empty), and with them a transfer of some
// hundred packets reads 6 to 10 % too fast.
package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
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
	maxSnap  = 1 << 18          // bytes of a packet: what libpcap allows
	maxFlows = 1 << 16          // connections at the same time
	maxBack  = 10 * time.Second // that a capture's clock may go back: several interfaces, or a clock that is set
)

// Config says what a request is.
type Config struct {
	Port  uint16        // of the server
	Gap   time.Duration // a pause that ends a request; 0: 10 ms
	Skip  int64         // first bytes of a request that are left out; 0: ten full packets, or two where that leaves too few; negative: none
	Least int64         // bytes that must be left; 0: four full packets

	short int64 // what is left out of a request that Skip leaves too little of
}

// full is a full packet on Ethernet. Skip and Least are counted in bytes, since an interface may show
// several packets as one.
const full = 1514

func (c *Config) defaults() {
	if c.Gap <= 0 {
		c.Gap = 10 * time.Millisecond
	}
	if c.Skip == 0 {
		c.Skip, c.short = 10*full, 2*full
	}
	if c.Least <= 0 {
		c.Least = 4 * full
	}
}

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

// flow is one connection's packets towards the server.
type flow struct {
	known bool   // next is
	next  uint32 // the first byte that has not been seen
	now   Transfer
	long  behind
	short behind
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
	each  func(Transfer)
	flows map[netip.AddrPort]*flow
	last  time.Time
	n     int

	eth     layers.Ethernet
	sll     layers.LinuxSLL
	null    layers.Loopback
	vlan    layers.Dot1Q
	ip4     layers.IPv4
	ip6     layers.IPv6
	tcp     layers.TCP
	payload gopacket.Payload
	parser  *gopacket.DecodingLayerParser
	found   []gopacket.LayerType
}

// NewAssembler makes one for packets of a link type; each is called at the end of every request.
func NewAssembler(cfg Config, link layers.LinkType, each func(Transfer)) (*Assembler, error) {
	cfg.defaults()
	if cfg.Port == 0 {
		return nil, fmt.Errorf("%w: no port of the server is given", ErrCapture)
	}
	a := &Assembler{cfg: cfg, each: each, flows: map[netip.AddrPort]*flow{}}
	var first gopacket.LayerType
	switch link {
	case layers.LinkTypeEthernet:
		first = layers.LayerTypeEthernet
	case layers.LinkTypeLinuxSLL:
		first = layers.LayerTypeLinuxSLL
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		first = layers.LayerTypeLoopback
	case layers.LinkTypeRaw, layers.LinkTypeIPv4, 12: // 12 is what Linux writes for raw
		first = layers.LayerTypeIPv4
	default:
		return nil, fmt.Errorf("%w: packets of link type %d; Ethernet (1), raw IPv4 (101), Linux cooked (113) and loopback (0) are known", ErrCapture, link)
	}
	a.parser = gopacket.NewDecodingLayerParser(first, &a.eth, &a.sll, &a.null, &a.vlan, &a.ip4, &a.ip6, &a.tcp, &a.payload)
	a.parser.IgnoreUnsupported = true
	return a, nil
}

// Add takes in a packet. Those that are not of the server's port, or cannot be read, are left out: a
// capture may hold anything.
func (a *Assembler) Add(data []byte, ci gopacket.CaptureInfo) error {
	a.n++
	if ci.Timestamp.Before(a.last.Add(-maxBack)) {
		return fmt.Errorf("%w: packet %d: %w: %s, %s after the one before", ErrCapture, a.n, ErrTime, ci.Timestamp, ci.Timestamp.Sub(a.last))
	}
	if ci.Timestamp.After(a.last) {
		a.last = ci.Timestamp
	}
	_ = a.parser.DecodeLayers(data, &a.found) // as far as it can be read
	var src, dst netip.Addr
	whole := -1
	for _, l := range a.found {
		switch l {
		case layers.LayerTypeIPv4:
			src, dst = addr(a.ip4.SrcIP), addr(a.ip4.DstIP)
			whole = int(a.ip4.Length) - 4*int(a.ip4.IHL)
			if a.ip4.FragOffset != 0 {
				return nil
			}
		case layers.LayerTypeIPv6:
			src, dst = addr(a.ip6.SrcIP), addr(a.ip6.DstIP)
			whole = int(a.ip6.Length)
		case layers.LayerTypeTCP:
			bytes := whole - 4*int(a.tcp.DataOffset)
			if whole < 0 || bytes < 0 {
				return nil
			}
			return a.tcpPacket(netip.AddrPortFrom(src, uint16(a.tcp.SrcPort)), netip.AddrPortFrom(dst, uint16(a.tcp.DstPort)), uint32(bytes), ci)
		}
	}
	return nil
}

func addr(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}

func (a *Assembler) tcpPacket(src, dst netip.AddrPort, bytes uint32, ci gopacket.CaptureInfo) error {
	t := &a.tcp
	switch a.cfg.Port {
	case dst.Port():
	case src.Port():
		if f := a.flows[dst]; f != nil && (bytes > 0 || t.FIN || t.RST) { // the answer
			a.end(f)
			if t.RST {
				delete(a.flows, dst)
			}
		}
		return nil
	default:
		return nil
	}
	f := a.flows[src]
	if f == nil {
		if len(a.flows) == maxFlows {
			return fmt.Errorf("%w: packet %d: %w: more than %d", ErrCapture, a.n, ErrFlows, maxFlows)
		}
		f = &flow{}
		a.flows[src] = f
	}
	seq := t.Seq
	if t.SYN {
		a.end(f)
		f.known, f.next = true, seq+1
		return nil
	}
	// Loopback shows every packet twice, and what was lost comes again: only new bytes count.
	if fresh := int32(seq + bytes - f.next); bytes > 0 && (!f.known || fresh > 0) {
		f.known, f.next = true, seq+bytes
		a.data(f, src, ci)
	}
	if t.FIN || t.RST {
		a.end(f)
		delete(a.flows, src)
	}
	return nil
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
	f.long.take(n.End, n.Bytes, a.cfg.Skip, int64(ci.Length))
	f.short.take(n.End, n.Bytes, a.cfg.short, int64(ci.Length))
	n.Packets++
	n.Bytes += int64(ci.Length)
}

// end tells of a request.
func (a *Assembler) end(f *flow) {
	n := &f.now
	if n.Packets == 0 {
		return
	}
	if n.Rate = f.long.rate(n.End, a.cfg.Least); f.long.rest < a.cfg.Least && a.cfg.short > 0 {
		n.Rate = f.short.rate(n.End, a.cfg.Least)
		n.Short = n.Rate > 0
	}
	a.each(*n)
	*n = Transfer{}
}

// Flush ends the requests that are under way, oldest first.
func (a *Assembler) Flush() {
	var left []*flow
	for _, f := range a.flows {
		if f.now.Packets > 0 {
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

// Read takes a pcap file; name is for errors. What is not whole is refused, with the packet at which
// it ends; the transfers before it have been told.
func Read(name string, r io.Reader, cfg Config, each func(Transfer)) error {
	fail := func(err error) error { return fmt.Errorf("%s: %w", name, err) }
	b := bufio.NewReader(r)
	magic, err := b.Peek(4)
	switch {
	case err != nil:
		return fail(fmt.Errorf("%w: %w: %d bytes", ErrCapture, ErrTruncated, len(magic)))
	case magic[0] == 0x0a && magic[1] == 0x0d:
		return fail(fmt.Errorf("%w: %w but pcapng: editcap -F pcap makes one", ErrCapture, ErrFormat))
	case magic[0] == 0x1f && magic[1] == 0x8b:
		return fail(fmt.Errorf("%w: %w but compressed: gunzip it", ErrCapture, ErrFormat))
	}
	p, err := pcapgo.NewReader(b)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fail(fmt.Errorf("%w: %w: it ends in its header of 24 bytes", ErrCapture, ErrTruncated))
	case err != nil:
		return fail(fmt.Errorf("%w: %w: %w", ErrCapture, ErrFormat, err))
	case p.Snaplen() > maxSnap:
		return fail(fmt.Errorf("%w: packets of up to %d bytes, expected at most %d", ErrCapture, p.Snaplen(), maxSnap))
	}
	a, err := NewAssembler(cfg, p.LinkType(), each)
	if err != nil {
		return fail(err)
	}
	defer a.Flush()
	for n := 1; ; n++ {
		data, ci, err := p.ReadPacketData()
		switch {
		case errors.Is(err, io.EOF) && ci.Length == 0 && ci.CaptureLength == 0 && ci.Timestamp.IsZero():
			return nil // at the end of a packet
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return fail(fmt.Errorf("%w: packet %d: %w: it ends in the packet", ErrCapture, n, ErrTruncated))
		case err != nil:
			return fail(fmt.Errorf("%w: packet %d: %w", ErrCapture, n, err))
		case ci.Length > maxSnap:
			return fail(fmt.Errorf("%w: packet %d: %d bytes, expected at most %d", ErrCapture, n, ci.Length, maxSnap))
		}
		if err := a.Add(data, ci); err != nil {
			return fail(err)
		}
	}
}
