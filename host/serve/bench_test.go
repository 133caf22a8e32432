package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gonum.org/v1/gonum/stat"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/drive"
	"github.com/sluice-npu/sluice/host/serve/oip"
	"github.com/sluice-npu/sluice/host/soft"
)

// servesAlone makes this program a server in its own process, until its input ends.
const servesAlone = "SLUICE_TEST_SERVES"

// servesBare makes that server repeat its first REST answer, so that only net/http is measured.
const servesBare = "SLUICE_TEST_BARE"

// bare repeats the first answer of h.
func bare(h http.Handler) http.Handler {
	var once sync.Once
	var first *httptest.ResponseRecorder
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		once.Do(func() {
			r.Body, first = io.NopCloser(bytes.NewReader(body)), httptest.NewRecorder()
			h.ServeHTTP(first, r)
		})
		maps.Copy(w.Header(), first.Header())
		w.WriteHeader(first.Code)
		_, _ = w.Write(first.Body.Bytes())
	})
}

// serveAlone serves the bundle named by the environment, with numerics that take no time, and prints its address.
func serveAlone(path string) error {
	defer runtime.KeepAlive(serve.Ballast())
	s, err := serve.New(context.Background(), serve.Options{Open: stubbed(true)})
	if err == nil {
		err = errors.Join(s.Add(path), s.LoadAll())
	}
	if err != nil {
		return err
	}
	var at [2]string
	g, h := s.GRPC(), &http.Server{Handler: s.REST(), ReadHeaderTimeout: time.Minute}
	if os.Getenv(servesBare) != "" {
		h.Handler = bare(h.Handler)
	}
	for i, run := range []func(net.Listener) error{h.Serve, g.Serve} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		at[i] = l.Addr().String()
		go func() { _ = run(l) }()
	}
	fmt.Println(at[0], at[1])
	_, _ = io.Copy(io.Discard, os.Stdin)
	err = s.Drain(context.Background())
	g.Stop()
	return errors.Join(err, h.Close())
}

// stubbed opens soft devices, paced by the table, with stub's numerics.
func stubbed(timely bool) serve.Opener {
	return func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
		d := soft.New(b.Design, soft.Options{Executor: func(b *bundle.Bundle) (soft.Executor, error) { return stub{b.Network.Exits[0].Classes}, nil }})
		opened := &serve.Opened{Device: device.Adapt(d), Timely: timely}
		opened.Watchdog.Least = 2e9
		return opened, d.Load(ctx, b)
	}
}

// paced returns a folder with the model tiny, where each segment takes a fixed time for every batch size.
func paced(t testing.TB, segment time.Duration) (dir string, table *sched.Table) {
	b, err := tiny()
	if err != nil {
		t.Fatal(err)
	}
	c := *b
	c.Latency = slices.Clone(b.Latency)
	for i := range c.Latency {
		if e := &c.Latency[i]; segment > 0 { // otherwise the table's own time
			e.P50 = segment.Nanoseconds() * int64(e.Last-e.First+1)
			e.P99 = e.P50
		}
	}
	dir = t.TempDir()
	if err := bundle.WriteFile(filepath.Join(dir, "tiny.sluice"), &c); err != nil {
		t.Fatal(err)
	}
	if table, err = sched.NewTable(c.Latency, c.Network.Name); err != nil {
		t.Fatal(err)
	}
	return dir, table
}

// BenchmarkRequest: CPU time per request of a server in its own process, with eight concurrent calls, for REST and gRPC,
// and the share of net/http in REST's. The time of starting, the first requests and draining is subtracted.
func BenchmarkRequest(b *testing.B) {
	dir, _ := paced(b, 10*time.Microsecond)
	served := func(b *testing.B, face string, n int) time.Duration {
		exe, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), servesAlone+"="+dir)
		if face == "net/http" {
			cmd.Env = append(cmd.Env, servesBare+"=1")
		}
		cmd.Stderr = os.Stderr
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			b.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		rest, remote, ok := strings.Cut(strings.TrimSpace(line), " ")
		if err != nil || !ok {
			b.Fatal(line, err)
		}
		s, err := drive.Dial(map[string]string{"REST": "http://" + rest, "net/http": "http://" + rest, "gRPC": "grpc://" + remote}[face], "", nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		b.StartTimer()
		sum, err := drive.Run(b.Context(), s, &drive.Load{Model: "tiny", Clients: 8, N: n})
		b.StopTimer()
		s.Close()
		if err != nil || sum.OnTime != n {
			b.Fatalf("%+v, %v", sum, err)
		}
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Fatal(err)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	for _, face := range []string{"REST", "net/http", "gRPC"} {
		b.Run(face, func(b *testing.B) {
			const first = 1000
			start := served(b, face, first)
			b.ReportMetric(float64((served(b, face, first+b.N)-start).Microseconds())/float64(b.N), "server-CPU-µs/op")
		})
	}
}

// BenchmarkLatency: p99 at half of a device's capacity through gRPC over loopback, and of the core alone with the same
// arrivals at the same time, so that both have the same load of the machine; each with its 95 % interval.
func BenchmarkLatency(b *testing.B) {
	const segment = 5 * time.Millisecond
	dir, table := paced(b, segment)
	n := max(b.N, 4000)                                      // of 1,000, ten are beyond p99
	at, err := load.Poisson(0.5/(2*segment.Seconds()), n, 1) // half the rate of a device that serves one at a time
	if err != nil {
		b.Fatal(err)
	}
	open := func(start time.Time, one func(i int)) []time.Duration {
		var all sync.WaitGroup
		took := make([]time.Duration, n)
		for i := range n {
			due := start.Add(time.Duration(at[i]))
			time.Sleep(time.Until(due))
			all.Go(func() {
				one(i)
				took[i] = time.Since(due)
			})
		}
		all.Wait()
		slices.Sort(took)
		return took
	}
	never := map[string]*oip.InferParameter{"exit_threshold": text("2")}
	_, s := servedBy(b, dir, "fluid", true)
	served := func(int) {
		if _, err := s.ModelInfer(b.Context(), question(1, never)); err != nil {
			b.Error(err)
		}
	}
	o, err := stubbed(true)(b.Context(), readBundle(b, dir))
	if err != nil {
		b.Fatal(err)
	}
	policy, err := sched.New("fluid", sched.Options{})
	if err != nil {
		b.Fatal(err)
	}
	core, err := engine.NewServer(engine.Config{
		Devices: []device.Device{o.Device}, Networks: []engine.Network{{Name: "tiny", Tables: []*sched.Table{table}}},
		Policy: policy, Inputs: engine.NoInputs, Watchdog: o.Watchdog, ByTable: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := core.Run(b.Context())
		ended <- err
	}()
	words := make([]int16, pixels)
	alone := func(int) {
		now := core.Now()
		t, err := core.Open(b.Context(), &engine.Call{
			Task:   sched.Task{Network: "tiny", Theta: 2, Created: now, Arrived: now},
			Inputs: [][]device.Tensor{{device.Words("input", words, 28, 28, 1)}},
		})
		if err != nil {
			b.Error(err)
			return
		}
		<-t.Done()
	}
	start := time.Now().Add(time.Second)
	other := make(chan []time.Duration, 1)
	go func() { other <- open(start.Add(segment), alone) }() // not at the same moments
	tooks := map[string][]time.Duration{"server": open(start, served), "core": <-other}
	core.Drain()
	if err := errors.Join(<-ended, o.Device.Close()); err != nil {
		b.Error(err)
	}
	ms := func(of string, rank float64) float64 { return tooks[of][min(n-1, max(0, int(rank)))].Seconds() * 1e3 }
	at99, off := 0.99*float64(n), 1.96*math.Sqrt(0.99*0.01*float64(n)) // ranks
	for of := range tooks {
		b.ReportMetric(ms(of, at99), of+"-p99-ms")
		b.ReportMetric(ms(of, at99-off), of+"-p99-low-ms")
		b.ReportMetric(ms(of, at99+off), of+"-p99-high-ms")
	}
	b.ReportMetric(ms("server", at99)-ms("core", at99), "over-core-ms")
	b.ReportMetric(float64(n), "requests")
	b.ReportMetric(0, "ns/op")
}

func readBundle(t testing.TB, dir string) *bundle.Bundle {
	b, err := bundle.ReadFile(filepath.Join(dir, "tiny.sluice"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// servedBy serves a folder's models with a policy, over gRPC. admits: requests that cannot be in time by the table are
// refused.
func servedBy(b *testing.B, dir, policy string, admits bool) (*serve.Server, oip.GRPCInferenceServiceClient) {
	s, err := serve.New(context.WithoutCancel(b.Context()), serve.Options{Open: stubbed(admits), Defaults: serve.Settings{Policy: policy, Queue: 1 << 16}})
	if err == nil {
		err = errors.Join(s.Add(dir), s.LoadAll())
	}
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := s.GRPC()
	go g.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		if err := s.Drain(context.Background()); err != nil {
			b.Error(err)
		}
		g.Stop()
	})
	return s, oip.NewGRPCInferenceServiceClient(conn)
}

// Overload in BenchmarkOverload and TestOverloadHolds: segments are so long that ten times the capacity is hardly a
// load for the machine. The capacity is that of full batches of eight, where half leave at the first of two exits.
const (
	overSegment = 100 * time.Millisecond
	overSLO     = 1250 * time.Millisecond
	overFull    = 8 / (1.5 * 100e-3)
)

// overload sends requests for ten seconds at a multiple of the capacity. No request waits longer than the last deadline,
// so it ends then, for any length of the queue. late is the delay of each request at the sender, which only sleeps.
func overload(tb testing.TB, times float64, seed uint64, ask func(ctx context.Context, params map[string]any) error) (onTime float64, refused, late []time.Duration) {
	n := int(10 * times * overFull)
	at, err := load.Poisson(times*overFull, n, seed)
	if err != nil {
		tb.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	ctx, cancel := context.WithDeadline(tb.Context(), start.Add(time.Duration(at[n-1])+overSLO))
	defer cancel()
	for i := range n {
		due := start.Add(time.Duration(at[i]))
		time.Sleep(time.Until(due))
		late = append(late, time.Since(due))
		all.Go(func() {
			asked := time.Now()
			err := ask(ctx, map[string]any{"slo_us": overSLO.Microseconds(), "exit_threshold": []string{"0", "2"}[i%2]})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && time.Since(due) <= overSLO:
				onTime++
			case status.Code(err) == codes.ResourceExhausted:
				refused = append(refused, time.Since(asked))
			}
		})
	}
	all.Wait()
	slices.Sort(refused)
	slices.Sort(late)
	return onTime / time.Since(start).Seconds(), refused, late
}

// TestOverloadHolds: without the machine's own time, fluid+ serves at 2, 5 and 10 times capacity at least 95 % of its peak
// on time, and fluid 90 %. Refusals are immediate.
func TestOverloadHolds(t *testing.T) {
	dir, _ := paced(t, overSegment)
	for policy, least := range map[string]float64{"fluid+": 0.95, "fluid": 0.9} {
		var onTime []float64
		for _, times := range []float64{1, 2, 5, 10} {
			synctest.Test(t, func(t *testing.T) {
				s, err := serve.New(context.Background(), serve.Options{Open: stubbed(true), Defaults: serve.Settings{Policy: policy, Queue: 1 << 16}})
				if err == nil {
					err = errors.Join(s.Add(dir), s.LoadAll())
				}
				if err != nil {
					t.Fatal(err)
				}
				in := []serve.Tensor{{Name: "input", Datatype: "FP32", Shape: []int64{1, 28, 28, 1}, Data: make([]byte, 4*pixels)}}
				served, refused, _ := overload(t, times, 1, func(ctx context.Context, params map[string]any) error {
					_, err := s.Infer(ctx, &serve.Request{Model: "tiny", Params: params, Inputs: in}, nil)
					return err
				})
				if n := len(refused); n == 0 || refused[n-1] > 0 {
					t.Errorf("%s, %g times: %d are refused, after up to %v: expected some, at once", policy, times, n, slices.Max(append(refused, 0)))
				}
				onTime = append(onTime, served)
				if err := s.Drain(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		if worst, peak := slices.Min(onTime[1:]), slices.Max(onTime); worst < least*peak || peak < 0.65*overFull {
			t.Errorf("%s: %.1f a second on time at 1, 2, 5 and 10 times capacity: expected %g of the peak, and a peak of %.1f", policy, onTime, least, 0.65*overFull)
		}
	}
}

// BenchmarkOverload: requests served on time per second through gRPC over loopback, the time of a refusal, and the spread
// over seeds. Half of the requests leave at the first of two exits. "batcher" is like Triton's dynamic batcher: whole
// batches, a short wait for others, exits taken at the end of the batch, no refusal by the table. sent-late-p99-ms and
// segment-late-max-ms show the machine's share: the delay of the sender, which only sleeps, and of a segment, which is a
// timer. A refusal waits for the same processors twice or more.
func BenchmarkOverload(b *testing.B) {
	dir, _ := paced(b, overSegment)
	for _, p := range []struct {
		name, policy string
		admits       bool
		seeds        uint64
	}{{"fluid", "fluid", true, 3}, {"fluid+", "fluid+", true, 3}, {"clockwork", "clockwork", true, 1}, {"batcher", "r-adaptb-s", false, 1}} {
		for _, times := range []float64{1, 2, 5, 10} {
			b.Run(fmt.Sprintf("%s/%gx", p.name, times), func(b *testing.B) {
				var onTime []float64
				var refused, sent []time.Duration
				longest, asked := engine.Time(0), 0
				for seed := range p.seeds {
					s, c := servedBy(b, dir, p.policy, p.admits)
					served, refusals, late := overload(b, times, seed+1, func(ctx context.Context, params map[string]any) error {
						q := question(1, map[string]*oip.InferParameter{"slo_us": whole(params["slo_us"].(int64)), "exit_threshold": text(params["exit_threshold"].(string))})
						_, err := c.ModelInfer(ctx, q)
						return err
					})
					onTime, refused, sent, asked = append(onTime, served), append(refused, refusals...), append(sent, late...), asked+len(late)
					for _, x := range s.Take().Devices[0].Last {
						longest = max(longest, x.End-x.Start)
					}
					runtime.GC()
				}
				p99 := func(of []time.Duration) float64 {
					slices.Sort(of)
					return of[len(of)*99/100].Seconds() * 1e3
				}
				b.ReportMetric(stat.Mean(onTime, nil), "on-time/s")
				b.ReportMetric(slices.Min(onTime), "on-time-least/s")
				b.ReportMetric(slices.Max(onTime), "on-time-most/s")
				b.ReportMetric(float64(len(refused))/float64(asked), "refused")
				if len(refused) > 0 {
					b.ReportMetric(p99(refused), "refusal-p99-ms")
				}
				b.ReportMetric(p99(sent), "sent-late-p99-ms")
				b.ReportMetric(float64(longest)/1e6-overSegment.Seconds()*1e3, "segment-late-max-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
