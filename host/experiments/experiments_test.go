package experiments_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
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

func TestServiceIsWhatSerialTakes(t *testing.T) {
	d, s := setup(t, 40)
	dev := soft.New(d, soft.Options{Memo: &soft.Memo{}})
	if err := dev.Load(context.Background(), s.Bundle); err != nil {
		t.Fatal(err)
	}
	theta := experiments.Theta{0.7}
	// A rate so low that no request waits: the mean latency is the mean service time.
	res, err := s.Run(context.Background(), dev, experiments.Point{Policy: "serial", Rate: 1, SLO: 1e9, Theta: theta, Seed: 1, N: 40}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(res.Summary().Latency.Avg), s.Service(theta); math.Abs(got-want) > 1 {
		t.Errorf("mean latency %g, mean service time %g", got, want)
	}
	for i := range res.Records {
		if want := experiments.Taken(s.Exits[i], theta); res.Records[i].Exit != want {
			t.Errorf("request %d left at exit %d, want %d", i, res.Records[i].Exit, want)
		}
	}
}

func TestRatesDoNotDependOnWorkers(t *testing.T) {
	d, s := setup(t, 20)
	memo := &soft.Memo{}
	var first []byte
	for _, workers := range []int{1, 3} {
		points, err := experiments.Rates(context.Background(), s, experiments.RatesConfig{
			Rates: []float64{0.5, 1.2}, Policies: []string{"serial", "fluid"}, Seeds: []uint64{1, 2}, N: 300,
			SLO: 5 * s.Table.Alone(), Theta: experiments.Theta{0.8}, Workers: workers,
			Open: func(ctx context.Context) (device.Blocking, error) {
				dev := soft.New(d, soft.Options{Memo: memo})
				return dev, dev.Load(ctx, s.Bundle)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(struct{ P, R any }{points, experiments.Rows("x", points)})
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && string(first) != string(text) {
			t.Error("the number of workers changes the result")
		}
		first = text
	}
}

func TestTuner(t *testing.T) {
	// Exit 0 is right and sure for half of the images, wrong and unsure for the others; exit 1 is
	// always right; both have equal work.
	var exits [][]device.ExitResult
	var labels []int
	for i := range 100 {
		e := []device.ExitResult{{Exit: 0, Class: 1, Confidence: 0.9}, {Exit: 1, Class: 1, Confidence: 0.95}}
		if i%2 == 1 {
			e[0].Class, e[0].Confidence = 2, 0.6
		}
		exits, labels = append(exits, e), append(labels, 1)
	}
	tu, err := experiments.NewTuner(exits, labels, []int64{10, 10})
	if err != nil {
		t.Fatal(err)
	}
	if m := tu.Last(); m.Accuracy != 1 || m.MACsShare != 1 {
		t.Errorf("without early exits: %+v", m)
	}
	u := tu.Uniform(1)
	if u.Accuracy != 1 || math.Abs(u.MACsShare-0.75) > 1e-9 || u.Theta[0] <= 0.6 || u.Theta[0] > 0.9 {
		t.Errorf("one for all: %+v", u)
	}
	if p := tu.PerExit(0.5, u); p.Accuracy != 0.5 || math.Abs(p.MACsShare-0.5) > 1e-9 {
		t.Errorf("one an exit, half the accuracy: %+v", p)
	}
	if _, err := experiments.NewTuner(exits, labels[1:], []int64{1, 1}); !errors.Is(err, experiments.ErrSetup) {
		t.Errorf("labels missing: %v", err)
	}
}
