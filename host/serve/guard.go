// Access control: tokens, request rates and connections per client, TLS.

package serve

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"github.com/sluice-npu/sluice/dse/plaintext"
)

// maxClients is the maximum number of stored limiters, one per client address. Above it, the older half is removed.
const maxClients = 4096

// rates limits request rates by client address.
type rates struct {
	mu      sync.Mutex
	clients map[string]*rate.Limiter
	before  map[string]*rate.Limiter // the older half of the limiters
}

func (r *rates) allow(addr string, limit float64) bool {
	if limit <= 0 {
		return true
	}
	host := hostOf(addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.clients[host]
	if l == nil {
		if l = r.before[host]; l == nil {
			l = rate.NewLimiter(rate.Limit(limit), max(1, int(limit)))
		}
		if r.clients == nil || len(r.clients) >= maxClients/2 {
			r.before, r.clients = r.clients, map[string]*rate.Limiter{}
		}
		r.clients[host] = l
	}
	return l.Allow()
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// guard rejects a call that has no valid token or exceeds the client's rate.
func (s *Server) guard(token, addr string, open bool) error {
	if open {
		return nil
	}
	if err := s.authorised(token); err != nil {
		return s.unread("", "", err)
	}
	if !s.rates.allow(addr, s.opts.Limits.Rate) {
		return s.unread("", "", exhausted(time.Duration(float64(time.Second)/s.opts.Limits.Rate), "more than %g requests a second of one client", s.opts.Limits.Rate))
	}
	return nil
}

// sameOrigin rejects requests that a browser sends for pages of other sites. If no token is required, a server on a
// loopback address also rejects all host names except localhost. Otherwise an attacker's host name that resolves to
// this address (DNS rebinding) would count as the same origin.
func (s *Server) sameOrigin(h http.Handler) http.Handler {
	mine := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := mine.Check(r)
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if err == nil && s.opts.Token == nil && local != nil && local.IP.IsLoopback() && !loopback(r.Host) {
			err = fmt.Errorf("the host %q of the request: expected localhost or a loopback address", brief(r.Host, maxKept))
		}
		if err != nil {
			fail(w, refuse(codes.PermissionDenied, "%v", err))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// loopback reports whether a host is empty, an IP address, or localhost.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil
}

// authorised rejects a header without the bearer token. The comparison takes constant time.
func (s *Server) authorised(header string) error {
	if s.opts.Token == nil {
		return nil
	}
	if scheme, token, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Token())) == 1 {
		return nil
	}
	return refuse(codes.Unauthenticated, "no valid bearer token: send the header Authorization: Bearer TOKEN")
}

// kept stores a value that is parsed from files. It reads the files again when they change. If the new content is
// incomplete or invalid, kept returns the old value and logs the error once per change.
type kept[T any] struct {
	paths []string
	parse func() (T, error)
	log   *slog.Logger
	mu    sync.Mutex
	tried []os.FileInfo // nil: the file did not exist
	value T
}

// keepRead reads the files for the first time, and fails if they are invalid.
func keepRead[T any](log *slog.Logger, parse func() (T, error), paths ...string) (*kept[T], error) {
	k := &kept[T]{paths: paths, parse: parse, log: log}
	k.tried = k.states()
	var err error
	k.value, err = parse()
	return k, err
}

func (k *kept[T]) states() []os.FileInfo {
	now := make([]os.FileInfo, len(k.paths))
	for i, path := range k.paths {
		if info, err := os.Stat(path); err == nil {
			now[i] = info
		}
	}
	return now
}

// unchanged reports whether two states of a path belong to the same unchanged file. Time and size are not sufficient,
// because all files of a reproducible build have the same time, and all tokens have the same length.
func unchanged(was, now os.FileInfo) bool {
	if was == nil || now == nil {
		return was == nil && now == nil
	}
	return os.SameFile(was, now) && was.ModTime().Equal(now.ModTime()) && was.Size() == now.Size()
}

func (k *kept[T]) get() T {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.states()
	if slices.EqualFunc(k.tried, now, unchanged) {
		return k.value
	}
	k.tried = now
	if v, err := k.parse(); err != nil {
		k.log.Error("files have changed and cannot be used; what they held before still counts", "files", k.paths, "err", err)
	} else {
		k.value = v
		k.log.Info("files have changed and are used", "files", k.paths)
	}
	return k.value
}

// ReadToken reads a bearer token from a file in any common text encoding.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = plaintext.Clean(text)
	}
	return strings.TrimSpace(string(text)), err
}

// TokenFile returns a function for Options.Token. It reads the token from a file, and reads it again after a change.
func TokenFile(path string, log *slog.Logger) (func() string, error) {
	k, err := keepRead(log, func() (string, error) {
		token, err := ReadToken(path)
		if err == nil && token == "" {
			err = fmt.Errorf("%s: expected a file with a token in it", path)
		}
		return token, err
	}, path)
	if err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	return k.get, nil
}

// TLS returns a server's configuration with a certificate and its key from files. If ca is not empty, clients must
// present a certificate that is signed by this authority. The files are read again when they change.
func TLS(cert, key, ca string, log *slog.Logger) (*tls.Config, error) {
	paths := []string{cert, key}
	if ca != "" {
		paths = append(paths, ca)
	}
	protocols := []string{"h2", "http/1.1"}
	k, err := keepRead(log, func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate %s, key %s: %w", cert, key, err)
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
		if ca != "" {
			c.ClientAuth = tls.RequireAndVerifyClientCert
			c.ClientCAs, err = authorities(ca)
		}
		return c, err
	}, paths...)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.get(), nil },
	}, nil
}

// ClientTLS returns the configuration of a client. ca is the file of the trusted authorities ("": the system's). The
// client presents the certificate in cert if the server requests one. The result is nil if all files are "".
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("a client's certificate and key: expected both or neither")
	}
	if ca == "" && cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		var err error
		if c.RootCAs, err = authorities(ca); err != nil {
			return nil, err
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate %s, key %s: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Limit limits the connections of a listener to most in total, and to perClient per client address (0: no limit). It
// closes further connections, because a wait for a free place could last forever. Before that, it calls the function
// full (unless nil), which should close idle connections. It repeats the call for some milliseconds and accepts no
// connection meanwhile, because net/http marks a connection as idle only shortly after the client has the answer.
func Limit(l net.Listener, most, perClient int, full func()) net.Listener {
	return &limitListener{Listener: l, most: most, perClient: perClient, full: full, open: map[string]int{}}
}

const fullTries = 10 // one call per millisecond

type limitListener struct {
	net.Listener
	most, perClient int
	full            func()
	mu              sync.Mutex
	open            map[string]int // number of connections by client address
	all             int
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(c.RemoteAddr().String())
		room := l.add(host, 1)
		for try := 0; !room && l.full != nil && try < fullTries; try++ {
			if try > 0 {
				time.Sleep(time.Millisecond)
			}
			l.full()
			room = l.add(host, 0)
		}
		if room {
			return &countedConn{Conn: c, gone: sync.OnceFunc(func() { l.add(host, -1) })}, nil
		}
		l.add(host, -1)
		c.Close()
	}
}

// add adds n connections of a client, and reports whether they are within its limit.
func (l *limitListener) add(host string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all += n
	if l.open[host] += n; l.open[host] == 0 {
		delete(l.open, host)
	}
	return (l.most == 0 || l.all <= l.most) && (l.perClient == 0 || l.open[host] <= l.perClient)
}

type countedConn struct {
	net.Conn
	gone func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.gone()
	return c.Conn.Close()
}

func authorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificates of authorities: no certificate in %s: expected PEM", path)
	}
	return pool, nil
}
