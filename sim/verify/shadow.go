// A device and its reference are compared byte for byte.

package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
)

// Slotted is a device with readable slots.
type Slotted interface {
	device.Blocking
	Slot(device.RequestID) []byte
}

// Shadow runs everything on two devices and fails if their results or logits differ. After every launch, it also
// compares all bytes in the slots of all admitted samples, including halted samples. The reference's slots start as
// copies of the device's slots, so that unwritten bytes are also compared.
type Shadow struct {
	Slotted           // the device; its times and counters are reported
	Reference Slotted // the reference, with its own slots

	b    *bundle.Bundle
	live []device.RequestID

	Exercised Exercised
}

// Exercised counts the launches and their events.
type Exercised struct {
	Launches int    `json:"launches"` // number of launches
	Batches  []int  `json:"batches"`  // number of launches, by B_act - 1
	Exits    []int  `json:"exits"`    // number of requests, by exit
	Bytes    uint64 `json:"bytes_compared"`
	Logits   int    `json:"logits_compared"`
	Halted   int    `json:"halted"` // samples compared while they were not in the launch
}

// Load implements device.Blocking.
func (s *Shadow) Load(ctx context.Context, a device.Artefact) error {
	b, err := device.ArtefactOf[*bundle.Bundle](a, "shadow")
	if err != nil {
		return err
	}
	s.b = b
	if err := s.Reference.Load(ctx, b); err != nil {
		return err
	}
	if n := s.Slotted.Info().MaxBatch; len(s.Exercised.Batches) < n {
		s.Exercised.Batches = append(s.Exercised.Batches, make([]int, n-len(s.Exercised.Batches))...)
	}
	if n := len(b.Network.Exits); len(s.Exercised.Exits) < n {
		s.Exercised.Exits = append(s.Exercised.Exits, make([]int, n-len(s.Exercised.Exits))...)
	}
	return s.Slotted.Load(ctx, b)
}

// Admit implements device.Blocking.
func (s *Shadow) Admit(ctx context.Context, network string, id device.RequestID, input []device.Tensor) error {
	if err := s.Slotted.Admit(ctx, network, id, input); err != nil {
		return err
	}
	if err := s.Reference.Admit(ctx, network, id, input); err != nil {
		s.Slotted.Release(id)
		return err
	}
	// Both devices have written the input. Copy the rest of the slot to the reference.
	ref := slices.Clone(s.Reference.Slot(id))
	copy(s.Reference.Slot(id), s.Slotted.Slot(id))
	n := &s.b.Network
	size := s.b.Design.ElemBytes()
	for p := range n.InH * n.InW {
		at := n.InOffset + size*p*n.InPix
		if got, want := s.Slotted.Slot(id)[at:at+size*n.InC], ref[at:at+size*n.InC]; !bytes.Equal(got, want) {
			return fmt.Errorf("%w: request %d: pixel %d of the input was uploaded as % x, expected % x", ErrMismatch, id, p, got, want)
		}
	}
	s.live = append(s.live, id)
	return nil
}

// Release implements device.Blocking.
func (s *Shadow) Release(id device.RequestID) {
	s.Slotted.Release(id)
	s.Reference.Release(id)
	s.live = slices.DeleteFunc(s.live, func(o device.RequestID) bool { return o == id })
}

// Run implements device.Blocking.
func (s *Shadow) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	got, err := s.Slotted.Run(ctx, l)
	if err != nil {
		return got, err
	}
	want, err := s.Reference.Run(ctx, l)
	if err != nil {
		return got, fmt.Errorf("reference: %w", err)
	}
	s.Exercised.Launches++
	s.Exercised.Batches[len(l.Requests)-1]++
	if len(got.Results) != len(want.Results) {
		return got, fmt.Errorf("%w: %d results, expected %d", ErrMismatch, len(got.Results), len(want.Results))
	}
	for i := range want.Results {
		if err := s.result(&got.Results[i], &want.Results[i]); err != nil {
			return got, fmt.Errorf("launch %d, segments %d..%d, B = %d: %w", l.ID, l.First, l.Last, len(l.Requests), err)
		}
	}
	for _, id := range s.live {
		if !slices.Contains(l.Requests, id) {
			s.Exercised.Halted++
		}
		a, b := s.Slotted.Slot(id), s.Reference.Slot(id)
		s.Exercised.Bytes += uint64(len(b))
		if !bytes.Equal(a, b) {
			return got, fmt.Errorf("launch %d, segments %d..%d, B = %d, request %d: %w: %s",
				l.ID, l.First, l.Last, len(l.Requests), id, ErrMismatch, Explain(s.b, l.First, l.Last, a, b))
		}
	}
	return got, nil
}

func (s *Shadow) result(got, want *device.Result) error {
	if got.Request != want.Request || got.Taken != want.Taken || len(got.Exits) != len(want.Exits) {
		return fmt.Errorf("%w: request %d takes exit %d after %d exits, expected request %d, exit %d, %d exits",
			ErrMismatch, got.Request, got.Taken, len(got.Exits), want.Request, want.Taken, len(want.Exits))
	}
	for i := range want.Exits {
		g, w := &got.Exits[i], &want.Exits[i]
		s.Exercised.Logits += len(w.Raw)
		if g.Exit != w.Exit || g.Class != w.Class || g.Confidence != w.Confidence || !slices.Equal(g.Raw, w.Raw) {
			return fmt.Errorf("%w: request %d at exit %d: class %d, confidence %v, logits %v; expected exit %d, class %d, confidence %v, logits %v",
				ErrMismatch, got.Request, g.Exit, g.Class, g.Confidence, g.Raw, w.Exit, w.Class, w.Confidence, w.Raw)
		}
	}
	if want.Taken >= 0 && want.Taken < len(s.Exercised.Exits) {
		s.Exercised.Exits[want.Taken]++
	}
	return nil
}

// Explain describes the first element, in the order of execution, in which two slots differ, and its layer and
// descriptor. The segments from first to last have run.
func Explain(b *bundle.Bundle, first, last int, got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("a slot of %d bytes, expected %d", len(got), len(want))
	}
	size := b.Design.ElemBytes()
	at := func(slot []byte, i int) int16 { return b.ElementAt(slot, i, 0) }
	for l := b.Network.Exits[first].First; l <= b.Network.Exits[last].Last; l++ {
		d := &b.Layers[l]
		for y := range int(d.OutH) {
			for x := range int(d.OutW) {
				for c := range int(d.OutC) {
					i := int(d.OutOffset) + y*int(d.OutRowBytes) + size*(x*int(d.OutPix)+c)
					if i+size <= len(want) && at(got, i) != at(want, i) {
						name := ""
						if l < len(b.Names) {
							name = b.Names[l]
						}
						return fmt.Sprintf("layer %d (%s), output element y %d, x %d, channel %d, byte %d: %d, expected %d; descriptor %+v",
							l, name, y, x, c, i, at(got, i), at(want, i), *d)
					}
				}
			}
		}
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d, which no layer of segments %d..%d writes: %#02x, expected %#02x", i, first, last, got[i], want[i])
		}
	}
	return "no difference"
}
