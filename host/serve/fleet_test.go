package serve_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

var fleetN = flag.Int("fleet.n", 200, "requests to three servers; from 1000 on, 99 % on time are demanded of weights, and both trials are made")

// TestReportsArrive: the trailer of a call and the header of an answer say how busy the server is, of refusals too.
func TestReportsArrive(t *testing.T) {
	s := start(t, 20*time.Millisecond, nil)
	for name, q := range map[string]*oip.ModelInferRequest{"answer": question(1, nil), "refusal": question(1, map[string]*oip.InferParameter{"slo_us": whole(1)})} {
		var trailer metadata.MD
		_, err := s.ModelInfer(t.Context(), q, grpc.Trailer(&trailer))
		text := trailer.Get("endpoint-load-metrics-bin")
		r := &orca.OrcaLoadReport{}
		if len(text) != 1 || proto.Unmarshal([]byte(text[0]), r) != nil || (err == nil) != (name == "answer") {
			t.Errorf("%s (%v): trailer %v: expected a load report", name, err, trailer)
		}
	}
	_, h, _ := post(t, s.rest+"/v2/models/tiny/infer", body(1, nil), 4*pixels)
	if text := h.Get("endpoint-load-metrics"); len(text) < 5 || text[:5] != "TEXT " {
		t.Errorf("header %q: expected TEXT and a load report", text)
	}
}

// retrying sends a request to another server where one is lost or has no room.
const retrying = `"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.005s", "maxBackoff": "0.05s",
	"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]`

// member is a server of a fleet.
type member struct {
	*running
	g    *grpc.Server
	at   string
	took atomic.Int64 // requests that it was asked
}

// fleet starts two servers and one that is four times slower; each runs one sample at a time.
func fleet(t *testing.T, segment time.Duration) []*member {
	var all []*member
	for _, slower := range []time.Duration{1, 1, 4} {
		m := &member{running: start(t, slower*segment, func(o *serve.Options) { o.Defaults.BMax = 1 })}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m.g, m.at = m.GRPC(grpc.ChainUnaryInterceptor(func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			m.took.Add(1)
			return h(ctx, q)
		})), l.Addr().String()
		go m.g.Serve(l)
		t.Cleanup(m.g.Stop)
		all = append(all, m)
	}
	return all
}

// TestFleet: of three servers at 70 % of what they can, one four times slower, one is killed half way. By the weights that
// the servers' reports give them, every request is answered, and each server is asked by what it can.
func TestFleet(t *testing.T) {
	const (
		segment = 5 * time.Millisecond
		slo     = 250 * time.Millisecond
	)
	capacity := func(servers ...float64) (sum float64) { // requests a second: the slow one's four segments are worth one
		for _, s := range servers {
			sum += s / (2 * segment.Seconds())
		}
		return sum
	}
	long := *fleetN >= 1000
	for _, trial := range []struct {
		name, balancer string
		killed         int
		rate           float64
		weighted, long bool
	}{
		{"weights, a fast one killed", `{"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}`, 0, 0.7 * capacity(1, 0.25), true, false},
		{"weights, the slow one killed", `{"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}`, 2, 0.7 * capacity(1, 1, 0.25), true, true},
		{"round robin, a fast one killed", `{"round_robin": {}}`, 0, 0.7 * capacity(1, 0.25), false, true},
		{"round robin, the slow one killed", `{"round_robin": {}}`, 2, 0.7 * capacity(1, 1, 0.25), false, true},
	} {
		if trial.long && !long {
			continue
		}
		t.Run(trial.name, func(t *testing.T) {
			servers := fleet(t, segment)
			r := manual.NewBuilderWithScheme("fleet")
			var state resolver.State
			for _, m := range servers {
				state.Addresses = append(state.Addresses, resolver.Address{Addr: m.at})
			}
			r.InitialState(state)
			conn, err := grpc.NewClient("fleet:///", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [`+trial.balancer+`], `+retrying+`}`))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := oip.NewGRPCInferenceServiceClient(conn)
			var (
				all              sync.WaitGroup
				answered, onTime atomic.Int64
				rng              = rand.New(rand.NewPCG(1, 0))
				due              = time.Now()
				params           = map[string]*oip.InferParameter{"slo_us": whole(slo.Microseconds()), "exit_threshold": text("2")}
				before           [3]int64
			)
			for i := range *fleetN {
				due = due.Add(time.Duration(rng.ExpFloat64() / trial.rate * 1e9))
				time.Sleep(time.Until(due))
				if i == *fleetN/2 {
					for k, m := range servers {
						before[k] = m.took.Load()
					}
					go servers[trial.killed].g.Stop()
				}
				all.Go(func() {
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					defer stop()
					if _, err := client.ModelInfer(ctx, question(1, params)); err != nil {
						if trial.weighted {
							t.Errorf("request %d: %v", i, err)
						}
						return
					}
					answered.Add(1)
					if time.Since(due) <= slo {
						onTime.Add(1)
					}
				})
			}
			all.Wait()
			share := float64(onTime.Load()) / float64(*fleetN)
			t.Logf("%.0f a second: %d of %d answered, %.2f %% within %v; asked %v until one was killed", trial.rate, answered.Load(), *fleetN, 100*share, slo, before)
			if !trial.weighted {
				return
			}
			if fast := min(before[0], before[1]); 2*fast < 3*before[2] {
				t.Errorf("the servers were asked %v: expected a fast one half as often again as the slow one", before)
			}
			if long && share < 0.99 {
				t.Errorf("%.2f %% within %v: expected 99 %%", 100*share, slo)
			}
		})
	}
}
