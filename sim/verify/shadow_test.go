package verify_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

// setup returns a random network with two exits and n random images.
func setup(t *testing.T, n int) (configs.Design, *experiments.Setup) {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var b *bundle.Bundle
	for seed := uint64(1); b == nil || len(b.Network.Exits) < 2; seed++ {
		net, err := randnet.New(seed, d, randnet.All())
		if err != nil {
			t.Fatal(err)
		}
		b = net.Bundle
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var in [][]int16
	for range n {
		in = append(in, randnet.Input(rng, b))
	}
	exits, err := (&soft.Memo{}).Fill(context.Background(), b, in, 2, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := experiments.NewSetup(b, in, exits)
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

// wrongDev is a device that changes one bit, or one logit, in its n-th launch.
type wrongDev struct {
	*soft.Dev
	n     int
	logit bool
	run   int
}

func (s *wrongDev) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep, err := s.Dev.Run(ctx, l)
	if s.run++; s.run == s.n {
		if s.logit {
			raw := append([]int16(nil), rep.Results[0].Exits[0].Raw...)
			raw[0] ^= 1
			rep.Results[0].Exits[0].Raw = raw
		} else {
			slot := s.Slot(l.Requests[len(l.Requests)-1])
			slot[len(slot)-1] ^= 0x10
		}
	}
	return rep, err
}

func TestShadow(t *testing.T) {
	d, s := setup(t, 60)
	ctx := context.Background()
	run := func(dev verify.Slotted) (*verify.Shadow, error) {
		sh := &verify.Shadow{Slotted: dev, Reference: soft.New(d, soft.Options{})}
		if err := sh.Load(ctx, s.Bundle); err != nil {
			t.Fatal(err)
		}
		res, err := verify.Serve(ctx, s, sh, 5, nil)
		if err == nil {
			if err := res.Check(); err != nil {
				t.Error(err)
			}
			if res.Preemptions == 0 || res.Merges == 0 || res.Summary().Errors != 0 {
				t.Errorf("the random schedule shows little: %+v", res.Summary())
			}
		}
		return sh, err
	}
	sh, err := run(soft.New(d, soft.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for b, n := range sh.Exercised.Batches {
		if n == 0 {
			t.Errorf("no start with a batch of %d", b+1)
		}
	}
	if sh.Exercised.Halted == 0 || sh.Exercised.Bytes == 0 || sh.Exercised.Logits == 0 {
		t.Errorf("coverage %+v", sh.Exercised)
	}
	for _, logit := range []bool{false, true} {
		_, err := run(&wrongDev{Dev: soft.New(d, soft.Options{}), n: 17, logit: logit})
		if !errors.Is(err, verify.ErrMismatch) || !strings.Contains(err.Error(), "seed 5") {
			t.Errorf("a changed bit (logit: %v) gives %v", logit, err)
		}
	}
}

func TestExplainNamesTheElement(t *testing.T) {
	_, s := setup(t, 1)
	want := make([]byte, s.Bundle.Slot.Stride)
	got := append([]byte(nil), want...)
	l := s.Bundle.Network.Exits[0].Last
	got[s.Bundle.Layers[l].OutOffset] = 1
	text := verify.Explain(s.Bundle, 0, 0, got, want)
	for _, part := range []string{"output element y 0, x 0, channel 0", "1, expected 0", "OutC:"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
