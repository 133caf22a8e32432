// Live capture from an interface.

package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// headers is the number of bytes that are captured from the start of each packet. It suffices for Ethernet, two VLANs,
// PPPoE, IPv6 with extensions, and TCP with all options.
const headers = 14 + 4 + 4 + 8 + 40 + 64 + 60

// Source captures packets from an interface. The process must have the capability CAP_NET_RAW.
type Source struct {
	h   *pcapgo.EthernetHandle
	cfg Config
}

// Open starts a capture. Packets are buffered until Live reads them.
func Open(iface string, cfg Config) (*Source, error) {
	h, err := pcapgo.NewEthernetHandle(iface)
	if err != nil {
		return nil, fmt.Errorf("%w: interface %s (needs root or CAP_NET_RAW): %w", ErrCapture, iface, err)
	}
	s := &Source{h, cfg}
	if err := s.filter(); err != nil {
		h.Close()
		return nil, fmt.Errorf("%w: interface %s: %w", ErrCapture, iface, err)
	}
	return s, nil
}

// filter configures the kernel to capture only the headers of IP packets.
func (s *Source) filter() error {
	if err := s.h.SetCaptureLength(headers); err != nil {
		return err
	}
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IP, SkipTrue: 5},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_8021Q, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_8021AD, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_PPP_SES, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: headers},
	})
	if err != nil {
		return err
	}
	return s.h.SetBPF(raw)
}

// Live reports transfers until ctx is done, and then closes the source.
func (s *Source) Live(ctx context.Context, each func(Transfer)) (Seen, error) {
	a, err := NewAssembler(s.cfg, uint32(layers.LinkTypeEthernet), each)
	if err != nil {
		s.h.Close()
		return Seen{}, err
	}
	err = s.packets(ctx, func(ci gopacket.CaptureInfo, data []byte) error {
		if err := a.Add(data, ci); err != nil && !errors.Is(err, ErrTime) { // ErrTime: the clock was set back
			return err
		}
		return nil
	})
	a.Flush()
	return a.seen, err
}

// packets reads packets until ctx is done, and then closes the source.
func (s *Source) packets(ctx context.Context, each func(ci gopacket.CaptureInfo, data []byte) error) error {
	defer s.h.Close()
	defer context.AfterFunc(ctx, func() { s.h.Close() })() // ends a read that waits
	for {
		data, ci, err := s.h.ZeroCopyReadPacketData()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCapture, err)
		}
		if err := each(ci, data); err != nil {
			return err
		}
	}
}
