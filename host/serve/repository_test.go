package serve_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// copied adds the model tiny to the repository again, with another name.
func (s *running) copied(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "tiny.sluice"))
	if err := errors.Join(err, os.WriteFile(filepath.Join(s.dir, name+".sluice"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (s *running) settings(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOneThreshold: a threshold for all exits needs no list.
func TestOneThreshold(t *testing.T) {
	for text, want := range map[string]float32{"theta: 0.5": 0.5, "theta: 0": 0, "theta: [1]": 1} {
		if s, err := serve.ParseSettings([]byte(text)); err != nil || !slices.Equal(s.Theta, serve.Thetas{want}) {
			t.Errorf("%s: %v, %v", text, s.Theta, err)
		}
	}
}

// TestLeave: a server that is about to drain reports itself and its models as not ready, and still serves.
func TestLeave(t *testing.T) {
	s := start(t, 0, nil)
	if !s.Ready() {
		t.Fatal("it is not ready at first")
	}
	s.Leave()
	ready, err := s.ModelReady(t.Context(), &oip.ModelReadyRequest{Name: "tiny"})
	if s.Ready() || err != nil || ready.GetReady() {
		t.Error("it says that it is ready, or its model", err)
	}
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); err != nil {
		t.Error(err)
	}
}

// TestNewModels: load finds models and versions that were added since the server started. NAME.yaml is for all versions;
// a version's own file overrides it.
func TestNewModels(t *testing.T) {
	s := start(t, 0, nil)
	s.copied(t, "later")
	s.copied(t, "tiny@2")
	s.copied(t, "tiny@3")
	s.settings(t, "tiny", "slo: 7s\nqueue: 5\n")
	s.settings(t, "tiny@3", "queue: 6\n")
	if err := errors.Join(s.Load("later"), s.Load("tiny")); err != nil {
		t.Fatal(err)
	}
	q := question(1, nil)
	q.ModelName = "later"
	if _, err := s.ModelInfer(t.Context(), q); err != nil {
		t.Error(err)
	}
	for version, queue := range map[string]string{"1": "5", "2": "5", "3": "6"} {
		c, err := s.ModelConfig(t.Context(), &oip.ModelConfigRequest{Name: "tiny", Version: version})
		if p := c.GetConfig().GetParameters(); err != nil || p["queue"].GetStringValue() != queue || p["slo_us"].GetStringValue() != "7000000" {
			t.Errorf("version %s: queue %s, slo_us %s, %v: expected %s, 7000000", version, p["queue"].GetStringValue(), p["slo_us"].GetStringValue(), err, queue)
		}
	}
	if err := s.Load("never"); status.Code(err) != codes.NotFound {
		t.Errorf("a model that there is not: %v", err)
	}
	s.copied(t, "stats")
	if err := s.Load("stats"); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "rename it") || strings.Contains(err.Error(), s.dir) {
		t.Errorf("a file with an impossible name: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(s.dir, "tiny@3.sluice")), s.Load("tiny")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(s.dir, "later.sluice"))); err != nil || status.Code(s.Load("later")) != codes.NotFound {
		t.Error("a model whose file has gone is loaded", err)
	}
	var left []string
	for _, i := range s.Index() {
		left = append(left, i.Name+":"+i.Version+" "+i.State)
	}
	if want := []string{"tiny:1 READY", "tiny:2 READY"}; !slices.Equal(left, want) {
		t.Errorf("the repository has %q: expected %q", left, want)
	}
	for _, bad := range []string{"tiny@01", "tiny@+4", "a\x01b", "a b", "\xff", "stats", ".", "..", "inference.GRPCInferenceService"} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, bad+".sluice"), nil, 0o600), s.Add(dir)); !errors.Is(err, serve.ErrName) || strings.Contains(err.Error(), "\x01") || !utf8.ValidString(err.Error()) {
			t.Errorf("%q: %v: expected a refusal, in print", bad, err)
		}
	}
	if err := s.Add("net.onnx"); err == nil {
		t.Error("a file that is no bundle is taken")
	}
}

// TestFilesOfSettings: the settings of a file are used, or the file is rejected.
func TestFilesOfSettings(t *testing.T) {
	for text, why := range map[string]string{
		"queue: 4\n---\nqueue: 7\n": "one document", "queue: 0": "queue", "queue: -1": "queue", "queue:": "queue", "queue: 1.5": "1.5", "b_max: 0": "b_max",
		"priorities: 1001": "1001", "priorities: 0": "priorities", "priority: 0": "priority", "priorities: 2\npriority: 3": "priority 3", "policy: ''": "policy", "theta: [~]": "theta",
		"theta: [3]": "theta", "theta: [.nan]": "theta", "slo: -1s": "slo", "slo: 5": "20ms", "slo:": "slo", "queue: 1\nqueue: 2": "already", "queue: 010": "write 10", "q\x00u\x00": "UTF-16", "SLO: 1s": "SLO",
	} {
		if _, err := serve.ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v: expected a refusal that names %s", text, err, why)
		}
	}
	s := start(t, 0, func(o *serve.Options) { o.Defaults.SLO = serve.Duration(7 * time.Second) })
	s.settings(t, "tiny", "b_max: 99\n")
	if err := s.Load("tiny"); err == nil || !strings.Contains(err.Error(), "b_max 99: its device runs batches of at most 8") {
		t.Errorf("a batch that no device runs: %v", err)
	}
	s.copied(t, "tiny@2")
	s.copied(t, "tiny@3")
	s.settings(t, "tiny", "priorities: 4\n")
	s.settings(t, "tiny@2", "slo: 0s\npriority: 3\n") // of 4
	s.settings(t, "tiny@3", "priority: 5\n")
	if err := s.Load("tiny"); err == nil || !strings.Contains(err.Error(), "priority 5") {
		t.Errorf("%v: expected that priority 5 of 4 is refused", err)
	}
	for version, slo := range map[string]string{"1": "7000000", "2": "0"} {
		c, err := s.ModelConfig(t.Context(), &oip.ModelConfigRequest{Name: "tiny", Version: version})
		if got := c.GetConfig().GetParameters()["slo_us"].GetStringValue(); err != nil || got != slo {
			t.Errorf("version %s: slo_us %s, %v: expected %s", version, got, err, slo)
		}
	}
}

// TestBadFiles: an error in one file of the repository is shown in the index, and the other models serve.
func TestBadFiles(t *testing.T) {
	s := start(t, 0, nil)
	for file, text := range map[string]string{"cut.sluice": "x", "stats.sluice": "", "settings.yaml": "teta: 3\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.copied(t, "settings")
	s.copied(t, "well")
	s.copied(t, "well@2")
	s.copied(t, "only@2")
	for name, settings := range map[string]string{"wel": "queue: 3", "well@3": "", "well": "queue: 5", "well@2": "", "only": ""} {
		s.settings(t, name, settings)
	}
	err := s.Add(s.dir)
	for _, bad := range []string{"stats.sluice", "wel.yaml", "well@3.yaml"} {
		if !errors.Is(err, serve.ErrName) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%v: expected that %s is of no model", err, bad)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 2 {
		t.Errorf("%v: expected three complaints", err)
	}
	if err := s.LoadAll(); err == nil || !strings.Contains(err.Error(), "teta") {
		t.Errorf("%v: expected teta", err)
	}
	var got []string
	for _, i := range s.Index() {
		if got = append(got, i.Name+" "+i.State); (i.Reason == "") != (i.State == "READY") || strings.Contains(i.Reason, s.dir) {
			t.Errorf("%+v: expected a reason without a path where it is not ready", i)
		}
	}
	if want := []string{"cut UNAVAILABLE", "only READY", "settings UNAVAILABLE", "tiny READY", "well READY", "well READY"}; !slices.Equal(got, want) || !s.Ready() {
		t.Errorf("ready %v, %v: expected %v", s.Ready(), got, want)
	}
}

// TestBadVersion: a load with a bad file loads the other versions. A path that is not a regular file does not block.
func TestBadVersion(t *testing.T) {
	s := start(t, 0, nil)
	s.copied(t, "m@2")
	if err := os.WriteFile(filepath.Join(s.dir, "m.sluice"), []byte("SLBUNDLE, cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(s.dir, "m@3.sluice"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.copied(t, "m@4")
	s.settings(t, "m@4", "teta: 3\n")
	err := s.Load("m")
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "truncated") || !strings.Contains(err.Error(), "no regular file") || !strings.Contains(err.Error(), "teta") {
		t.Errorf("%v: expected InvalidArgument with the three faults", err)
	}
	if got := s.state("m"); got != "1 UNAVAILABLE, 2 READY, 3 UNAVAILABLE, 4 UNAVAILABLE" {
		t.Errorf("%s", got)
	}
	// renamed: the entry follows
	if err := errors.Join(os.Rename(filepath.Join(s.dir, "m@2.sluice"), filepath.Join(s.dir, "m@5.sluice")), os.Remove(filepath.Join(s.dir, "m.sluice")), os.Rename(filepath.Join(s.dir, "m@4.sluice"), filepath.Join(s.dir, "m@1.sluice"))); err != nil {
		t.Fatal(err)
	}
	_ = s.Load("m")
	if got := s.state("m"); !strings.HasPrefix(got, "1 READY") || !strings.HasSuffix(got, "5 READY") {
		t.Errorf("%s: expected 1, now m@1.sluice, and 5 to be ready", got)
	}
}

// state returns the states of a model's versions in the index.
func (s *running) state(name string) string {
	var out []string
	for _, i := range s.Index() {
		if i.Name == name {
			out = append(out, i.Version+" "+i.State)
		}
	}
	return strings.Join(out, ", ")
}

// TestLoadFails: errors in the repository do not count as device failures, and clients do not see the server's paths.
func TestLoadFails(t *testing.T) {
	s := start(t, 0, nil)
	s.settings(t, "tiny", "teta: 3\n")
	err := s.Load("tiny")
	if status.Code(err) != codes.InvalidArgument || strings.Contains(err.Error(), s.dir) || strings.Contains(err.Error(), "serve.") || !strings.Contains(err.Error(), "teta") {
		t.Errorf("%v: expected InvalidArgument, which names teta and no path", err)
	}
	if i := s.Index()[0]; i.State != "READY" || !strings.Contains(i.Reason, "serves on") || !strings.Contains(i.Reason, "teta") {
		t.Errorf("%+v: expected the old model, and why there is no new one", i)
	}
	if err := s.Unload("tiny"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "unloaded") {
		t.Errorf("%v: expected that it is unloaded", err)
	}
	for _, name := range []string{"tiny", "never"} { // as Triton: no error
		if r, err := s.ModelReady(t.Context(), &oip.ModelReadyRequest{Name: name}); err != nil || r.Ready {
			t.Errorf("%s: ready %v, %v: expected neither", name, r.GetReady(), err)
		}
	}
}

// TestUnloadDuringLoad: an unload during a load is refused, like a second load.
func TestUnloadDuringLoad(t *testing.T) {
	reached, let := make(chan struct{}, 1), make(chan struct{})
	s := start(t, 0, func(o *serve.Options) {
		first := true
		o.About = func(*bundle.Bundle) (serve.About, error) {
			if !first {
				reached <- struct{}{}
				<-let
			}
			first = false
			return serve.About{}, nil
		}
	})
	loaded := make(chan error, 1)
	go func() { loaded <- s.Load("tiny") }()
	<-reached
	if err := s.Unload("tiny"); status.Code(err) != codes.Unavailable {
		t.Errorf("unload: %v: expected Unavailable", err)
	}
	close(let)
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if _, err := s.ModelInfer(t.Context(), question(1, nil)); err != nil {
		t.Error(err)
	}
}

// TestAbout: clients can read how pixels become a model's input, and the names of its classes.
func TestAbout(t *testing.T) {
	names := []string{"zero", "one", "two", "three"}
	s := start(t, 0, func(o *serve.Options) {
		o.About = func(*bundle.Bundle) (serve.About, error) {
			return serve.About{Classes: names, Pixels: "mean 0.5", Warning: "noise"}, nil
		}
	})
	c, err := s.ModelConfig(t.Context(), &oip.ModelConfigRequest{Name: "tiny"})
	if p := c.GetConfig().GetParameters(); err != nil || p["preprocess"].GetStringValue() != "mean 0.5" || p["warning"].GetStringValue() != "noise" || !strings.HasPrefix(p["int16_scale"].GetStringValue(), "2^-") {
		t.Errorf("%v, %v: expected preprocess, warning and int16_scale", p, err)
	}
	q := question(1, nil)
	q.Outputs = []*oip.ModelInferRequest_InferRequestedOutputTensor{{Name: "logits", Parameters: map[string]*oip.InferParameter{"classification": whole(1)}}}
	if a, err := s.ModelInfer(t.Context(), q); err != nil || !strings.HasSuffix(string(a.RawOutputContents[0]), ":3:three") {
		t.Errorf("%q, %v: expected value:3:three", a.GetRawOutputContents(), err)
	}
	if d, err := s.ServerMetadata(t.Context(), &oip.ServerMetadataRequest{}); err != nil || slices.Contains(d.Extensions, "system_shared_memory") {
		t.Errorf("%v, %v: expected no shared memory", d, err)
	}
	if st, err := s.ModelStatistics(t.Context(), &oip.ModelStatisticsRequest{Name: "tiny"}); err != nil || time.Since(time.UnixMilli(int64(st.ModelStats[0].LastInference))) > time.Hour {
		t.Errorf("%v, %v: expected when the last request came", st, err)
	}
}

// TestPixels: bytes are processed by the bundle's preprocessing, on every path, and samples with values beyond the
// network's scale are counted.
func TestPixels(t *testing.T) {
	pixel := func(v uint8, _ int) float32 { return (float32(v)/255 - 0.5) * 2 }
	s := start(t, 0, func(o *serve.Options) {
		golden(o)
		o.About = func(*bundle.Bundle) (serve.About, error) { return serve.About{Pixel: pixel}, nil }
	})
	var bytes []byte
	var floats []float32
	contents := &oip.InferTensorContents{}
	for i := range pixels {
		v := uint8(i * 7)
		bytes, floats = append(bytes, v), append(floats, pixel(v, 0))
		contents.UintContents = append(contents.UintContents, uint32(v))
	}
	ask := func(datatype string, raw [][]byte, contents *oip.InferTensorContents) (*oip.ModelInferResponse, error) {
		return s.ModelInfer(t.Context(), &oip.ModelInferRequest{ModelName: "tiny", RawInputContents: raw, Inputs: []*oip.ModelInferRequest_InferInputTensor{
			{Name: "input", Datatype: datatype, Shape: []int64{28, 28, 1}, Contents: contents},
		}})
	}
	want, err := ask("FP32", nil, &oip.InferTensorContents{Fp32Contents: floats})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ask("UINT8", [][]byte{bytes}, nil)
	typed, other := ask("UINT8", nil, contents)
	if err := errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
	for _, got := range []*oip.ModelInferResponse{raw, typed} {
		if !slices.EqualFunc(got.RawOutputContents, want.RawOutputContents, slices.Equal[[]byte]) {
			t.Errorf("bytes: %v: expected %v, as of their values", got.RawOutputContents, want.RawOutputContents)
		}
	}
	code, _, text := post(t, s.rest+"/v2/models/tiny/infer", fmt.Appendf(nil, `{"inputs":[{"name":"input","datatype":"UINT8","shape":[28,28,1],"data":%s}],"outputs":[{"name":"logits","parameters":{"binary_data":true}}]}`,
		strings.ReplaceAll(fmt.Sprint(contents.UintContents), " ", ",")), 0)
	if code != 200 || !strings.HasSuffix(string(text), string(want.RawOutputContents[0])) {
		t.Errorf("JSON: %d %q: expected the logits %q at its end", code, text, want.RawOutputContents[0])
	}
	contents.UintContents[3] = 256
	if _, err := ask("UINT8", nil, contents); status.Code(err) != codes.InvalidArgument {
		t.Errorf("256: %v: expected InvalidArgument", err)
	}
	if n := s.Take().Models[0].Saturated; n != 0 {
		t.Errorf("%d samples saturated: expected none", n)
	}
	floats[9] = -1e9
	if _, err := ask("FP32", nil, &oip.InferTensorContents{Fp32Contents: floats}); err != nil {
		t.Error(err)
	}
	if n := s.Take().Models[0].Saturated; n != 1 {
		t.Errorf("%d samples saturated: expected one", n)
	}
	without := start(t, 0, nil)
	q := question(1, nil)
	q.Inputs[0].Datatype, q.RawInputContents = "UINT8", [][]byte{bytes}
	if _, err := without.ModelInfer(t.Context(), q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "pixels") {
		t.Errorf("%v: expected that nothing is known of pixels", err)
	}
}

// TestStatisticsAreNoSnapshots: polling statistics makes no snapshots for the status page.
func TestStatisticsAreNoSnapshots(t *testing.T) {
	s := start(t, 0, nil)
	before := s.Take().Number
	for range 3 {
		if _, err := s.ModelStatistics(t.Context(), &oip.ModelStatisticsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if p, _ := s.Latest(); p.Number != before {
		t.Errorf("snapshot %d: expected %d still", p.Number, before)
	}
}

// TestOtherSites: pages of other sites cannot make a browser call a server on a loopback address, also not by a host name
// of their own.
func TestOtherSites(t *testing.T) {
	s := start(t, 0, nil)
	status := httptest.NewServer(s.Status())
	defer status.Close()
	for _, c := range []struct {
		method, url, host, origin string
		want                      int
	}{
		{"POST", s.rest + "/v2/repository/models/tiny/unload", "", "http://evil.example", 403},
		{"POST", s.rest + "/v2/repository/models/tiny/unload", "evil.example", "http://evil.example", 403},
		{"GET", status.URL + "/snapshot", "evil.example:8002", "", 403},
		{"GET", status.URL + "/snapshot", "localhost:8002", "", 200},
		{"GET", s.rest + "/v2/health/ready", "[::1]:8000", "", 200},
		{"POST", s.rest + "/v2/repository/index", "", "", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != c.want {
			t.Errorf("%s %s, Host %q, Origin %q: %d: expected %d", c.method, c.url, c.host, c.origin, resp.StatusCode, c.want)
		}
	}
}

// TestDeadlinesCountFromTheFirstByte: the transfer time of a request counts.
func TestDeadlinesCountFromTheFirstByte(t *testing.T) {
	s := start(t, 0, nil)
	b := body(1, map[string]any{"slo_us": 20_000})
	in := &slowReader{b: b, let: make(chan struct{})}
	time.AfterFunc(100*time.Millisecond, func() { close(in.let) })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+"/v2/models/tiny/infer", in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(b)-4*pixels))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 504 {
		t.Errorf("%d: expected 504", resp.StatusCode)
	}
	if m := s.Take().Models[0]; m.Missed != 1 || m.Fail.Ns < 20e6 {
		t.Errorf("%d deadlines missed, %d ns of failures: expected one, from its first byte on", m.Missed, m.Fail.Ns)
	}
}

// slowReader returns half of its bytes, and the rest when it is released.
type slowReader struct {
	b   []byte
	n   int
	let chan struct{}
}

func (r *slowReader) Read(p []byte) (int, error) {
	end := len(r.b) / 2
	if r.n >= end {
		<-r.let
		end = len(r.b)
	}
	if r.n == len(r.b) {
		return 0, io.EOF
	}
	n := copy(p, r.b[r.n:end])
	if r.n += n; r.n == len(r.b) {
		return n, io.EOF
	}
	return n, nil
}

// TestRefusalsSayWhen: a refusal has times relative to now, and says when to retry only if a retry can help.
func TestRefusalsSayWhen(t *testing.T) {
	s := start(t, 50*time.Millisecond, func(o *serve.Options) { o.Defaults.Queue = 64 })
	code, head, text := post(t, s.rest+"/v2/models/tiny/infer", body(1, map[string]any{"slo_us": 10_000, "exit_threshold": "2"}), 4*pixels)
	if code != 429 || head.Get("Retry-After") != "" || !strings.Contains(string(text), "ms") || strings.Contains(string(text), "task") {
		t.Errorf("%d, Retry-After %q, %s: expected 429 in ms, without when to come again", code, head.Get("Retry-After"), text)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := s.ModelInfer(t.Context(), question(64, nil))
		asked <- err
	}()
	eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
	code, head, text = post(t, s.rest+"/v2/models/tiny/infer", body(40, nil), 40*4*pixels) // 40 samples beyond the limit, each alone
	if code != 429 || head.Get("Retry-After") != "4" || !strings.Contains(string(text), "64 samples") {
		t.Errorf("%d, Retry-After %q, %s: expected 429, to come again in 4 s, behind 64 samples", code, head.Get("Retry-After"), text)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// TestLeastSlack: a snapshot has the time left for the most urgent request.
func TestLeastSlack(t *testing.T) {
	s := start(t, 300*time.Millisecond, nil)
	if m := s.Take().Models[0]; m.Deadline {
		t.Error("there is a deadline before any request")
	}
	asked := make(chan error, 2)
	for _, slo := range []int64{3600e6, 60e6} {
		go func() {
			_, err := s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"slo_us": whole(slo)}))
			asked <- err
		}()
	}
	eventually(t, "the requests are there", func() bool { return s.Take().Models[0].Queued == 2 })
	if m := s.Take().Models[0]; !m.Deadline || m.Slack <= 0 || m.Slack > 60e9 {
		t.Errorf("%v, %d ns: expected at most a minute", m.Deadline, m.Slack)
	}
	if err := errors.Join(<-asked, <-asked); err != nil {
		t.Error(err)
	}
	if m := s.Take().Models[0]; m.Deadline {
		t.Error("a deadline is left behind")
	}
}

// TestEitherContents: contents beside raw contents are refused, as the protocol does.
func TestEitherContents(t *testing.T) {
	s := start(t, 0, nil)
	q := question(1, nil)
	q.Inputs[0].Contents = &oip.InferTensorContents{Fp32Contents: []float32{1}}
	if _, err := s.ModelInfer(t.Context(), q); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v: expected InvalidArgument", err)
	}
}

// TestRefusedAtTheDoorIsCounted: endings add up to what clients see.
func TestRefusedAtTheDoorIsCounted(t *testing.T) {
	s := start(t, 0, func(o *serve.Options) { o.Token = func() string { return "secret" } })
	_, _ = s.ModelInfer(t.Context(), question(1, nil))
	code, head, _ := post(t, s.rest+"/v2/models/tiny/infer", body(1, nil), 4*pixels)
	if p := s.Take(); code != 401 || head.Get("WWW-Authenticate") != "Bearer" || p.Requests["Unauthenticated"] != 2 {
		t.Errorf("%d, WWW-Authenticate %q, counted %v: expected 401, Bearer, two", code, head.Get("WWW-Authenticate"), p.Requests)
	}
}
