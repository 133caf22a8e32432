package jellyfish

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/host/bandwidth"
	"github.com/sluice-npu/sluice/host/bandwidth/capture"
	"github.com/sluice-npu/sluice/host/links"
)

// Estimate is the estimated rate of a client's link after one of its requests.
type Estimate struct {
	Client netip.AddrPort
	AtNs   int64   // end of the request, in ns since the capture's first packet
	Rate   float64 // bits a second; 0: not measured
}

// BySecond returns a client's estimated rate at the end of each second, in bits a second. A second without requests has
// the rate of the previous second. client can be empty if there is only one client.
func BySecond(all []Estimate, client string) (netip.Addr, []int64, error) {
	want, err := netip.ParseAddr(client)
	if client != "" && err != nil {
		return want, nil, fmt.Errorf("%q: an IP address is expected", client)
	}
	var clients []netip.Addr
	var rates []int64
	for _, t := range all {
		if t.Rate == 0 || t.AtNs < 0 || t.AtNs >= links.Longest || client != "" && t.Client.Addr() != want {
			continue
		}
		if !slices.Contains(clients, t.Client.Addr()) {
			clients = append(clients, t.Client.Addr())
		}
		second := int(t.AtNs / 1e9)
		for len(rates) <= second {
			rates = append(rates, 0)
		}
		rates[second] = int64(t.Rate)
	}
	if len(clients) != 1 {
		return want, nil, fmt.Errorf("%d clients with an estimate (%v), one is expected", len(clients), clients)
	}
	last := rates[slices.IndexFunc(rates, func(r int64) bool { return r > 0 })]
	for i, r := range rates {
		if r > 0 {
			last = r
		}
		rates[i] = last
	}
	return clients[0], rates, nil
}

// Estimates returns a function that estimates the client's rate after a transfer, and passes the estimate to "each".
// There is one estimator per client, because all connections of a client share its link.
func Estimates(each func(capture.Transfer, Estimate)) func(capture.Transfer) {
	of := map[netip.Addr]*bandwidth.Estimator{}
	var start time.Time
	return func(t capture.Transfer) {
		if start.IsZero() {
			start = t.Start
		}
		l := of[t.Client.Addr()]
		if l == nil {
			l = &bandwidth.Estimator{}
			of[t.Client.Addr()] = l
		}
		at := t.End.Sub(start).Nanoseconds()
		l.Add(at, t.Rate)
		each(t, Estimate{t.Client, at, l.Rate(at)})
	}
}

// Rates contains, by connection, the rate of the last request in a live capture. It is safe for concurrent use.
type Rates struct {
	mu sync.Mutex
	of map[netip.AddrPort]float64
}

// mostRates is the largest number of connections in Rates. At this number, Rates deletes all its connections.
const mostRates = 1 << 16

// Add records the rate of a request. A request without a rate changes nothing.
func (r *Rates) Add(t capture.Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) == mostRates {
		r.of = map[netip.AddrPort]float64{}
	}
	if t.Rate > 0 {
		r.of[t.Client] = t.Rate
	}
}

// Of returns the rate of a connection's last request in bits a second, or 0 if no rate was measured.
func (r *Rates) Of(client net.Addr) float64 {
	a, ok := client.(*net.TCPAddr)
	if !ok {
		return 0
	}
	at := a.AddrPort()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())]
}

// captured is the prefix of a link's name if the link is read from captured packets: pcap:PORT:FILE, or
// pcap:PORT@ADDRESS:FILE.
const captured = "pcap:"

// LinkOf returns a link by name: a name of links.Named, or a capture. With a capture, the link has the rates of the
// captured transfers. The policy estimates the rate of this link like the rate of any other link.
func LinkOf(name string, seed uint64, memory float64) (*links.Trace, error) {
	rest, ok := strings.CutPrefix(name, captured)
	if !ok {
		return links.Named(name, seed, memory)
	}
	server, path, ok := strings.Cut(rest, ":")
	port, client, _ := strings.Cut(server, "@")
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || err != nil || n == 0 || path == "" {
		return nil, fmt.Errorf("%w %q: pcap:PORT:FILE or pcap:PORT@ADDRESS:FILE is expected", links.ErrTrace, name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", links.ErrTrace, name, err)
	}
	defer f.Close()
	var all []Estimate
	if _, err := capture.Read(path, f, capture.Config{Port: uint16(n)}, Estimates(func(_ capture.Transfer, e Estimate) { all = append(all, e) })); err != nil {
		return nil, fmt.Errorf("%w %q: %w", links.ErrTrace, name, err)
	}
	_, rates, err := BySecond(all, client)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", links.ErrTrace, name, err)
	}
	return &links.Trace{Name: name, Bits: rates}, nil
}
