// Clients that are slow or send too much, and TLS.

package serve_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/drive"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// listen serves gRPC on a port of its own.
func listen(t *testing.T, s *running, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := s.GRPC(opts...)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// TestLongWords: a refusal that repeats a client's words fits into a header, so that the client reads it.
func TestLongWords(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	q := question(1, nil)
	q.ModelName = strings.Repeat("\u00e9", 200_000)
	shape := question(1, nil)
	shape.Inputs[0].Shape = make([]int64, 100_000)
	for name, c := range map[string]struct {
		ask  *oip.ModelInferRequest
		code codes.Code
	}{"model": {q, codes.NotFound}, "shape": {shape, codes.InvalidArgument}} {
		_, err := s.ModelInfer(t.Context(), c.ask)
		if text := status.Convert(err).Message(); status.Code(err) != c.code || len(text) > 2000 || !utf8.ValidString(text) {
			t.Errorf("%s: %s with %d bytes: expected %s with at most 2000", name, status.Code(err), len(text), c.code)
		}
	}
	code, _, text := post(t, s.rest+"/v2/models/"+strings.Repeat("x", 100_000)+"/infer", body(1, nil), 4*pixels)
	if code != 404 || len(text) > 2000 {
		t.Errorf("REST: %d with %d bytes: expected 404 with at most 2000", code, len(text))
	}
}

// TestSlowUpload: a client that stops in the middle of its request is disconnected, even if no code reads the rest.
func TestSlowUpload(t *testing.T) {
	for name, c := range map[string]struct {
		token, path, want string
	}{"body": {"", "models/tiny/infer", " 408 "}, "refused": {"secret", "models/tiny/infer", " 401 "}, "no such call": {"", "x", " 404 "}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, time.Millisecond, func(o *serve.Options) {
				if o.Limits.Transfer = 50 * time.Millisecond; c.token != "" {
					o.Token = func() string { return c.token }
				}
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.rest, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "POST /v2/"+c.path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(bufio.NewReader(conn))
			if first, _, _ := strings.Cut(string(all), "\n"); err != nil || !strings.Contains(first, c.want) {
				t.Errorf("%q, %v: expected%sand the end of the connection", first, err, c.want)
			}
		})
	}
}

// TestSlowAnswer: the time limit of uploads does not end a request that waits for its answer.
func TestSlowAnswer(t *testing.T) {
	s := start(t, 200*time.Millisecond, func(o *serve.Options) { o.Limits.Transfer = 50 * time.Millisecond })
	if code, _, text := post(t, s.rest+"/v2/models/tiny/infer", body(1, map[string]any{"exit_threshold": "2"}), 4*pixels); code != 200 {
		t.Errorf("%d %s: expected 200", code, text)
	}
}

// TestHealthWatch: watchers of the server's health learn that it drains, and so do callers that ask.
func TestHealthWatch(t *testing.T) {
	s := start(t, time.Second, nil)
	c, err := grpc.NewClient(listen(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	states := map[string][]healthpb.HealthCheckResponse_ServingStatus{
		"":     {healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING},
		"tiny": {healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING},
		"none": {healthpb.HealthCheckResponse_SERVICE_UNKNOWN},
	}
	watched := map[string]healthpb.Health_WatchClient{}
	next := func(name string, want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watched[name].Recv(); err != nil || r.Status != want {
			t.Fatalf("%q: %v, %v: expected %s", name, r, err, want)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for name, want := range states {
		if watched[name], err = healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{Service: name}); err != nil {
			t.Fatal(err)
		}
		next(name, want[0])
	}
	busy := make(chan error, 1) // keeps the server while it drains
	go func() {
		_, err := s.ModelInfer(ctx, question(1, nil))
		busy <- err
	}()
	eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
	go s.Drain(ctx)
	next("", states[""][1])
	next("tiny", states["tiny"][1])
	if err := <-busy; err != nil {
		t.Error(err)
	}
}

// TestDrainGivesUp: a request that the server abandons gets the advice to use another server.
func TestDrainGivesUp(t *testing.T) {
	s := start(t, time.Second, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := s.ModelInfer(t.Context(), question(1, map[string]*oip.InferParameter{"exit_threshold": text("2")}))
		ended <- err
	}()
	eventually(t, "the request is there", func() bool { return s.Take().Models[0].Queued == 1 })
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v: expected that requests are left", err)
	}
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("%v: expected Unavailable", err)
	}
}

// TestMethods: a call with the wrong method gets the right one; metadata are available with and without a trailing
// slash.
func TestMethods(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	for _, c := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{"GET", "/v2/models/tiny/infer", 405, "POST"},
		{"POST", "/v2/models/tiny", 405, "GET"},
		{"PUT", "/v2/repository/index", 405, "POST"},
		{"GET", "/v2/", 200, ""},
		{"GET", "/v2", 200, ""},
		{"GET", "/v3", 404, ""},
	} {
		w := httptest.NewRecorder()
		s.REST().ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q: expected %d, %q", c.method, c.path, w.Code, w.Header().Get("Allow"), c.code, c.allow)
		}
	}
	for text, want := range map[string]string{"": "empty", `{"inputs":[]}{}`: "Inference-Header-Content-Length"} {
		if code, _, got := post(t, s.rest+"/v2/models/tiny/infer", []byte(text), 0); code != 400 || !strings.Contains(string(got), want) {
			t.Errorf("%q: %d %s: expected 400 with %q", text, code, got, want)
		}
	}
}

// authority makes certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue writes NAME.pem and NAME.key, signed by a, or by itself where a has no certificate yet.
func (a *authority) issue(t *testing.T, name string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	if a.cert == nil {
		a.cert, a.key = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestTLS: REST and gRPC answer over TLS; with --client-ca only clients with a certificate signed by it.
func TestTLS(t *testing.T) {
	ours, strangers := &authority{dir: t.TempDir()}, &authority{dir: t.TempDir()}
	ca, _ := ours.issue(t, "ca", 1)
	cert, key := ours.issue(t, "server", 2)
	known, knownKey := ours.issue(t, "client", 3)
	otherCA, _ := strangers.issue(t, "ca", 1)
	stranger, strangerKey := strangers.issue(t, "client", 2)
	for name, c := range map[string]struct {
		clientCA, trusts, cert, key string
		answered                    bool
	}{
		"TLS":                            {"", ca, "", "", true},
		"server of another authority":    {"", otherCA, "", "", false},
		"mTLS":                           {ca, ca, known, knownKey, true},
		"mTLS, no certificate":           {ca, ca, "", "", false},
		"mTLS, a stranger's certificate": {ca, ca, stranger, strangerKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, time.Millisecond, nil)
			config, err := serve.TLS(cert, key, c.clientCA, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			h := &http.Server{Handler: s.REST(), TLSConfig: config.Clone(), ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
			go h.ServeTLS(l, "", "")
			defer h.Close()
			client, err := serve.ClientTLS(c.trusts, c.cert, c.key)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"https://" + l.Addr().String(), "grpcs://" + listen(t, s, grpc.Creds(credentials.NewTLS(config)))} {
				ask, err := drive.Dial(at, "", client)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				if !c.answered {
					ctx, stop = context.WithTimeout(t.Context(), time.Second) // gRPC retries until then
				}
				m, err := ask.Describe(ctx, "tiny")
				stop()
				ask.Close()
				if (err == nil) != c.answered {
					t.Errorf("%s: %v, %v: expected an answer: %v", at, m, err, c.answered)
				}
			}
		})
	}
	if _, err := serve.TLS(cert, key, key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "expected PEM") {
		t.Errorf("a key in place of authorities: %v: expected a refusal", err)
	}
	if _, err := serve.ClientTLS("", cert, ""); err == nil {
		t.Error("a client's certificate without its key: taken")
	}
}

// lines is a log that a test can read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(what string) int { return strings.Count(l.String(), what) }

// TestTokenReload: a new token is used without a restart; an empty file keeps the old one.
func TestTokenReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := &lines{}
	log := slog.New(slog.NewTextHandler(said, nil))
	write(" \n")
	if _, err := serve.TokenFile(path, log); err == nil || !strings.Contains(err.Error(), "expected a file with a token") {
		t.Errorf("%v: expected that an empty file is refused", err)
	}
	write("\xff\xfef\x00")
	if _, err := serve.TokenFile(path, log); err == nil || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("%v: expected that UTF-16 is refused", err)
	}
	write("\ufefffirst\r\n")
	token, err := serve.TokenFile(path, log)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, time.Millisecond, func(o *serve.Options) { o.Token = token })
	expect := func(known, other string) {
		t.Helper()
		for of, want := range map[string]int{known: 200, other: 401} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.rest+"/v2/models/tiny", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+of)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("token %q: %d: expected %d", of, resp.StatusCode, want)
			}
		}
	}
	expect("first", "the-second")
	write("")
	expect("first", "the-second")
	if n := said.count("level=ERROR"); n != 1 {
		t.Errorf("an empty file was logged %d times: expected once\n%s", n, said)
	}
	write("the-second")
	expect("the-second", "first")
	// replaced by one of the same length and time, as on systems where all files have one time
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	next := path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte("the-third."), 0o600), os.Chtimes(next, info.ModTime(), info.ModTime()), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
	expect("the-third.", "the-second")
}

// TestTLSReload: a new certificate and new authorities are used without a restart; an incomplete file changes nothing.
func TestTLSReload(t *testing.T) {
	ours, others := &authority{dir: t.TempDir()}, &authority{dir: t.TempDir()}
	ca, _ := ours.issue(t, "ca", 1)
	cert, key := ours.issue(t, "server", 2)
	known, knownKey := ours.issue(t, "client", 3)
	othersCA, _ := others.issue(t, "ca", 1)
	other, otherKey := others.issue(t, "client", 4)
	said := &lines{}
	config, err := serve.TLS(cert, key, ca, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h.TLS, h.Config.ErrorLog = config, log.New(io.Discard, "", 0)
	h.StartTLS()
	defer h.Close()
	// serial returns the serial number of the server's certificate; 0 if the server rejects the client's
	serial := func(cert, key string) int64 {
		t.Helper()
		client, err := serve.ClientTLS(ca, cert, key)
		if err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{TLSClientConfig: client}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(strings.Replace(h.URL, "localhost", "127.0.0.1", 1))
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	expect := func(when string, ofKnown, ofOther int64) {
		t.Helper()
		if a, b := serial(known, knownKey), serial(other, otherKey); a != ofKnown || b != ofOther {
			t.Errorf("%s: certificates %d and %d: expected %d and %d", when, a, b, ofKnown, ofOther)
		}
	}
	expect("at first", 2, 0)
	whole, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	expect("half a certificate", 2, 0)
	if n := said.count("level=ERROR"); n != 1 {
		t.Errorf("half a certificate was logged %d times: expected once\n%s", n, said)
	}
	ours.issue(t, "server", 22)
	expect("a new certificate", 22, 0)
	theirs, err := os.ReadFile(othersCA)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, append(trusted, theirs...), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("more authorities", 22, 22)
}

// TestConnections: if a port has too many connections, unused ones are closed; if none is unused, a new one is closed.
func TestConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	busy, held := make(chan struct{}), make(chan struct{}, 4)
	face := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			held <- struct{}{}
			<-busy
		}
	})}
	l := serve.Limit(inner, 2, 0, func() {
		face.SetKeepAlivesEnabled(false)
		face.SetKeepAlivesEnabled(true)
	})
	go face.Serve(l)
	defer face.Close()
	ask := func(path string) error {
		c := http.Client{Transport: &http.Transport{}, Timeout: time.Minute} // a separate connection, which stays open
		resp, err := c.Get("http://" + inner.Addr().String() + path)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for range 6 {
		if err := ask("/"); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- ask("/long") }()
		select {
		case <-held:
		case err := <-ended:
			t.Fatalf("a connection, while those before it are idle: %v", err)
		}
	}
	if err := ask("/"); err == nil {
		t.Error("a third connection, where two are in use, is answered")
	}
	close(busy)
	if err := errors.Join(<-ended, <-ended, ask("/")); err != nil {
		t.Error(err)
	}
}

// TestConnectionsOfOneClient: connections of one address beyond its limit are closed; closing one makes room.
func TestConnectionsOfOneClient(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := serve.Limit(inner, 100, 2, nil)
	defer l.Close()
	taken := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	open := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	open()
	open()
	first := <-taken
	defer (<-taken).Close()
	beyond := open()
	if err := beyond.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := beyond.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the third connection: %d bytes, %v: expected its end", n, err)
	}
	first.Close()
	first.Close() // as servers do; it counts once
	open()
	select {
	case c := <-taken:
		c.Close()
	case <-time.After(20 * time.Second):
		t.Error("no room although a connection has gone")
	}
}

// TestUneven: nested lists must match the tensor's shape, or be one flat list.
func TestUneven(t *testing.T) {
	s := start(t, 0, nil)
	nested := func(n int, data string) []byte {
		return fmt.Appendf(nil, `{"inputs":[{"name":"input","datatype":"FP32","shape":[%d,28,28,1],"data":%s}]}`, n, data)
	}
	list := func(n int, of string) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]" }
	row := list(28, "1")
	for name, c := range map[string]struct {
		data string
		want int
	}{
		"nested": {list(1, list(28, list(28, "[1]"))), 200}, "without ones": {list(28, row), 200}, "flat": {list(784, "1"), 200}, "a sample as a list": {list(1, list(784, "1")), 200},
		"uneven": {"[" + list(27, "1") + "," + list(29, "1") + strings.Repeat(","+row, 26) + "]", 400}, "other sides": {list(14, list(56, "1")), 400},
		"a list among numbers": {"[" + strings.Repeat("1,", 783) + "[1]]", 400}, "an empty one": {"[" + strings.Repeat("1,", 784) + "[]]", 400}, "one too deep": {"[" + strings.Repeat(row+",", 27) + list(28, "[1]") + "]", 400},
	} {
		code, _, text := post(t, s.rest+"/v2/models/tiny/infer", nested(1, c.data), 0)
		if code != c.want || code == 400 && !strings.Contains(string(text), "expected [1 28 28 1]") && !strings.Contains(string(text), "expected the shape [1 28 28 1]") {
			t.Errorf("%s: %d %s: expected %d, with the shape", name, code, text, c.want)
		}
	}
}

// TestStatuses: errors in a request's transfer have their own status on REST, and count as the request's fault.
func TestStatuses(t *testing.T) {
	s := start(t, 0, func(o *serve.Options) { o.Limits.Message = 1 << 18 })
	ask := func(method, path, packed string, b []byte) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.rest+"/v2/"+path, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Encoding", packed)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	_, err := z.Write(make([]byte, 1<<20))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want int }{
		"long":            {ask("POST", "models/tiny/infer", "", make([]byte, 1<<19)), 413},
		"long, unpacked":  {ask("POST", "models/tiny/infer", "gzip", zeros.Bytes()), 413},
		"a long question": {ask("POST", "repository/index", "", []byte(`{"ready":`+strings.Repeat(" ", 1<<17)+"true}")), 413},
		"brotli":          {ask("POST", "models/tiny/infer", "br", []byte("x")), 415},
		"no gzip":         {ask("POST", "models/tiny/infer", "gzip", []byte("x")), 400},
		"no JSON":         {ask("POST", "repository/index", "", []byte("x")), 400},
		"method":          {ask("PUT", "models/tiny/infer", "", nil), 405},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d: expected %d", name, c.got, c.want)
		}
	}
	if p := s.Take(); p.Requests["InvalidArgument"] != 4 || len(p.Requests) != 1 {
		t.Errorf("counted %v: expected four of InvalidArgument", p.Requests)
	}
}

// TestLoadCountsUnavailable: a server that drains refuses; one that is not there is an error.
func TestLoadCountsUnavailable(t *testing.T) {
	s := start(t, time.Millisecond, nil)
	dial := func(at string) drive.Server {
		c, err := drive.Dial(at, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	faces := map[string]drive.Server{"REST": dial(s.rest), "gRPC": dial("grpc://" + listen(t, s))}
	m, err := faces["REST"].Describe(t.Context(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	nobody := httptest.NewServer(nil)
	at := strings.TrimPrefix(nobody.URL, "http://")
	nobody.Close()
	q := &drive.Question{Model: m, ID: 1, Batch: 1, Data: [][]byte{values(1)}}
	for name, c := range faces {
		if r := c.Infer(t.Context(), q); r.Ending != drive.Refused {
			t.Errorf("%s, the server drains: %+v: expected a refusal", name, r)
		}
	}
	for _, scheme := range []string{"http://", "grpc://"} {
		if r := dial(fmt.Sprint(scheme, at)).Infer(t.Context(), q); r.Ending != drive.Errored {
			t.Errorf("%s, no server: %+v: expected an error", scheme, r)
		}
	}
}

// TestLenient: JSON is read as by encoding/json, with our own error messages.
func TestLenient(t *testing.T) {
	s := start(t, 0, nil)
	data := strings.TrimSuffix(strings.Repeat("1,", 784), ",")
	ask := func(document string) (int, string) {
		document = strings.ReplaceAll(document, "INPUT", `[{"name":"input","datatype":"FP32","shape":[1,28,28,1],"data":[`+data+`]}]`)
		code, _, text := post(t, s.rest+"/v2/models/tiny/infer", []byte(document), 0)
		return code, string(text)
	}
	for document, want := range map[string]string{
		`{"Inputs":INPUT,"ID":"a"}`: `"id":"a"`, `{"id":"b","id":"c","inputs":INPUT}`: `"id":"c"`, "{\"id\":\"\xe9\",\"inputs\":INPUT}": `"id":"`,
		`{"foo":{"a":1,"a":2},"inputs":INPUT}`: `"outputs"`, `{"parameters":{"exit_threshold":null},"inputs":INPUT}`: `"outputs"`,
		`{"parameters":{"exit_threshold":9.5,"exit_threshold":null},"inputs":INPUT}`: `"outputs"`,
	} {
		if code, text := ask(document); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %.200s: expected %s", document, code, text, want)
		}
	}
	for document, want := range map[string]string{
		`{"Parameters":{"exit_threshold":9.5},"inputs":INPUT}`: "exit_threshold", `{"inputs":[{"name":"input","datatype":"FP32","shape":[1.0,28]}]}`: `the shape is [1.0,28]: expected a list of whole numbers`,
		`{"id":5,"inputs":INPUT}`: `"/id" is a JSON number: expected a text`, `{"inputs":{}}`: "expected a list", `{"after top-level value":5,"after top-level value":x}`: "invalid character",
		`{"inputs":INPUT}x`: headerLength, `{"parameters":[1],"inputs":INPUT}`: "parameters are [1]: expected an object", `{"inputs":[5]}`: `"/inputs/0" is a JSON number: expected an object`,
	} {
		if code, text := ask(document); code != 400 || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), want) {
			t.Errorf("%.40s: %d %.200s: expected 400, %s", document, code, text, want)
		}
	}
}

const headerLength = "Inference-Header-Content-Length"
