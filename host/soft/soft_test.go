package soft_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// network is a random one with two exits.
func network(t *testing.T) (configs.Design, *bundle.Bundle, [][]int16) {
	t.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed < 200; seed++ {
		n, err := randnet.New(seed, d, randnet.All())
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Bundle.Network.Exits) < 2 {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var in [][]int16
		for range 6 {
			in = append(in, randnet.Input(rng, n.Bundle))
		}
		return d, n.Bundle, in
	}
	t.Fatal("no random network has two exits")
	return d, nil, nil
}

func open(t *testing.T, o soft.Options) (*soft.Dev, *bundle.Bundle, [][]int16) {
	t.Helper()
	d, b, in := network(t)
	dev := soft.New(d, o)
	if err := dev.Load(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return dev, b, in
}

func launch(b *bundle.Bundle, first, last int, theta float32, ids ...device.RequestID) *device.Launch {
	l := &device.Launch{ID: 1, Network: b.Network.Name, First: first, Last: last, Requests: ids}
	for range ids {
		l.Theta = append(l.Theta, theta)
	}
	return l
}

// Devices with and without memo, in whole launches and segment by segment, give golden's results.
func TestResultsAreGolden(t *testing.T) {
	memo := &soft.Memo{}
	full, b, in := open(t, soft.Options{})
	quick, _, _ := open(t, soft.Options{Memo: memo})
	prog, err := golden.New(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := memo.Fill(context.Background(), b, in, 2, nil, nil); err != nil {
		t.Fatal(err)
	}
	ctx, last := context.Background(), len(b.Network.Exits)-1
	for i, x := range in {
		want, err := prog.Run(x)
		if err != nil {
			t.Fatal(err)
		}
		for _, dev := range []*soft.Dev{full, quick} {
			if err := dev.Admit(ctx, b.Network.Name, 7, device.InWords(x)); err != nil {
				t.Fatal(err)
			}
			whole, err := dev.Run(ctx, launch(b, 0, last, 2, 7))
			if err != nil {
				t.Fatal(err)
			}
			var parts []device.ExitResult
			for s := range want {
				rep, err := dev.Run(ctx, launch(b, s, s, 2, 7))
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, rep.Results[0].Exits...)
			}
			dev.Release(7)
			if d := cmp.Diff(whole.Results[0].Exits, parts); d != "" {
				t.Errorf("input %d: whole and segment by segment: %s", i, d)
			}
			if whole.Results[0].Taken != last {
				t.Errorf("input %d takes exit %d under a theta that nobody reaches", i, whole.Results[0].Taken)
			}
			for s := range want {
				class, conf := bundle.Confidence(want[s], b.Network.Exits[s].Frac)
				if e := parts[s]; !slices.Equal(e.Raw, want[s]) || e.Exit != s || e.Class != class || e.Confidence != conf {
					t.Errorf("input %d, exit %d: %+v, golden's logits are %v", i, s, e, want[s])
				}
			}
		}
	}
}

func TestTimesAndCounts(t *testing.T) {
	dev, b, in := open(t, soft.Options{Memo: &soft.Memo{}})
	ctx, last := context.Background(), len(b.Network.Exits)-1
	at := func(first, last, batch int) int64 {
		for _, e := range b.Latency {
			if e.First == first && e.Last == last && e.Batch == batch {
				return e.P50
			}
		}
		t.Fatalf("no cell %d..%d, %d", first, last, batch)
		return 0
	}
	for i := range 3 {
		if err := dev.Admit(ctx, b.Network.Name, device.RequestID(i+1), device.InWords(in[i])); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := dev.Run(ctx, launch(b, 0, last, 2, 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Ns != at(0, last, 3) || rep.Stats.Starts != uint64(last+1) {
		t.Errorf("three samples to the end: %d ns, %d starts; the table says %d", rep.Ns, rep.Stats.Starts, at(0, last, 3))
	}
	one, err := dev.Run(ctx, launch(b, 0, last, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	// Written are whole beats of a tile's channels, whose number k and s of the batch decide.
	var results uint64
	for i, l := range b.Layers {
		if !b.FBCB[i][2].OnChip {
			results += abi.DataBits / 8 * uint64(l.OutH) * uint64(l.OutW) * uint64(l.OutC)
		}
	}
	if rep.Stats.MACs != 3*one.Stats.MACs || one.Stats.MACs == 0 ||
		rep.Stats.BytesWritten < 3*results || rep.Stats.BytesWritten > 3*one.Stats.BytesWritten ||
		rep.Stats.BytesRead <= one.Stats.BytesRead || rep.Stats.BytesRead > 3*one.Stats.BytesRead {
		t.Errorf("counts of three samples %+v, of one %+v", rep.Stats, one.Stats)
	}
	// One leaves at the first exit: from there on, the table's time for two.
	l := launch(b, 0, last, 2, 1, 2, 3)
	l.Theta[1] = 0
	rep, err = dev.Run(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	if want := at(0, 0, 3) + at(1, last, 2); rep.Ns != want || rep.Results[1].Taken != 0 || len(rep.Results[1].Exits) != 1 {
		t.Errorf("one leaves: %d ns, want %d; %+v", rep.Ns, want, rep.Results[1])
	}
	// All requests leave, so no later segment runs.
	rep, err = dev.Run(ctx, launch(b, 0, last, 0, 1, 2))
	if err != nil || rep.Ns != at(0, 0, 2) || rep.Stats.Starts != 1 {
		t.Errorf("all leave: %d ns, %d starts, %v", rep.Ns, rep.Stats.Starts, err)
	}
}

func TestARetryStartsFromTheInput(t *testing.T) {
	dev, b, in := open(t, soft.Options{})
	ctx := context.Background()
	if err := dev.Admit(ctx, b.Network.Name, 1, device.InWords(in[0])); err != nil {
		t.Fatal(err)
	}
	first, err := dev.Run(ctx, launch(b, 0, 1, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	mem := bytes.Clone(dev.Slot(1))
	again, err := dev.Run(ctx, launch(b, 0, 1, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first.Results, again.Results); d != "" || !bytes.Equal(mem, dev.Slot(1)) {
		t.Error("a second time gives something else", d)
	}
}

func TestRefusals(t *testing.T) {
	dev, b, in := open(t, soft.Options{Slots: 16})
	ctx, name := context.Background(), b.Network.Name
	if err := dev.Admit(ctx, name, 1, device.InWords(in[0])); err != nil {
		t.Fatal(err)
	}
	many := make([]device.RequestID, abi.BMax+1)
	for what, err := range map[string]error{
		"unknown network": dev.Admit(ctx, "x", 2, device.InWords(in[0])),
		"twice":           dev.Admit(ctx, name, 1, device.InWords(in[0])),
		"short input":     dev.Admit(ctx, name, 2, device.InWords(in[0][1:])),
		"no slot":         func() error { _, err := dev.Run(ctx, launch(b, 0, 0, 2, 9)); return err }(),
		"empty batch":     func() error { _, err := dev.Run(ctx, launch(b, 0, 0, 2)); return err }(),
		"large batch":     func() error { _, err := dev.Run(ctx, launch(b, 0, 0, 2, many...)); return err }(),
		"no segment":      func() error { _, err := dev.Run(ctx, launch(b, 0, 99, 2, 1)); return err }(),
		"too early":       func() error { _, err := dev.Run(ctx, launch(b, 1, 1, 2, 1)); return err }(),
	} {
		if !errors.Is(err, soft.ErrRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for id := device.RequestID(2); id <= 16; id++ {
		if err := dev.Admit(ctx, name, id, device.InWords(in[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := dev.Admit(ctx, name, 17, device.InWords(in[0])); !errors.Is(err, soft.ErrRequest) {
		t.Errorf("a sample too many: %v", err)
	}
	other, err := configs.Load("run")
	if err != nil {
		t.Fatal(err)
	}
	if err := soft.New(other, soft.Options{}).Load(ctx, b); !errors.Is(err, soft.ErrMismatch) {
		t.Errorf("a bundle of another design: %v", err)
	}
	bad := *b
	bad.ABIHash++
	if err := dev.Load(ctx, &bad); !errors.Is(err, soft.ErrMismatch) {
		t.Errorf("a bundle of another ABI: %v", err)
	}
	cut := *b
	cut.Latency = cut.Latency[1:]
	if err := dev.Load(ctx, &cut); err == nil {
		t.Error("a table with a hole is accepted")
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := dev.Run(ctx, launch(b, 0, 0, 2, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A bundle can be loaded under several names, each of which comes from the work that loads it.
func TestLoadByAnotherName(t *testing.T) {
	d, b, in := network(t)
	dev := device.Adapt(soft.New(d, soft.Options{}))
	for _, name := range []string{"first", "second", b.Network.Name} {
		if _, err := dev.Begin(t.Context(), 0, &device.Work{ID: 1, Kind: device.Load, Network: name, Artefact: b}); err != nil {
			t.Fatal(err)
		}
	}
	for id, name := range []string{"first", "second", b.Network.Name} {
		w := &device.Work{ID: 2, Kind: device.Copy, Network: name, Request: device.RequestID(id + 1), Input: func() ([]device.Tensor, error) { return device.InWords(in[0]), nil }}
		if done, err := dev.Begin(t.Context(), 0, w); !done || err != nil {
			t.Errorf("a request for %s: %v", name, err)
		}
	}
}

func TestUnload(t *testing.T) {
	dev, b, in := open(t, soft.Options{})
	ctx, name := context.Background(), b.Network.Name
	if err := dev.Admit(ctx, name, 1, device.InWords(in[0])); err != nil {
		t.Fatal(err)
	}
	if err := dev.Unload(ctx, name); !errors.Is(err, device.ErrRequest) {
		t.Errorf("under a sample: %v", err)
	}
	dev.Release(1)
	if err := dev.Unload(ctx, name); err != nil {
		t.Error(err)
	}
	if err := dev.Unload(ctx, name); !errors.Is(err, device.ErrRequest) {
		t.Errorf("twice: %v", err)
	}
	if err := dev.Admit(ctx, name, 1, device.InWords(in[0])); !errors.Is(err, device.ErrRequest) {
		t.Errorf("admitted for a network that is gone: %v", err)
	}
}
