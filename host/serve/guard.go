// Who may call, how often, and over what: tokens, rates and connections per client, TLS.

package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
)

// maxClients bounds the addresses whose rates are remembered; the oldest half is forgotten beyond.
const maxClients = 4096

// rates limits requests by the client's address.
type rates struct {
	mu      sync.Mutex
	clients map[string]*rate.Limiter
	before  map[string]*rate.Limiter // those of an earlier generation
}

func (r *rates) allow(addr string, limit float64) bool {
	if limit <= 0 {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
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

// guard refuses a call without the token, or beyond the client's rate.
func (s *Server) guard(token, addr string, open bool) error {
	if open {
		return nil
	}
	if !s.authorised(token) {
		return refuse(codes.Unauthenticated, "no valid bearer token: send the header Authorization: Bearer TOKEN")
	}
	if !s.rates.allow(addr, s.opts.Limits.Rate) {
		return exhausted(time.Duration(float64(time.Second)/s.opts.Limits.Rate), "more than %g requests a second of one client", s.opts.Limits.Rate)
	}
	return nil
}

// reread is how often a certificate's files are looked at again.
const reread = 10 * time.Second

// TLS is a configuration with the certificate of two files, read again when they change. With ca, clients must show a
// certificate that it has signed.
func TLS(cert, key, ca string) (*tls.Config, error) {
	var (
		mu   sync.Mutex
		pair tls.Certificate
		read time.Time
	)
	load := func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < reread {
			return &pair, nil
		}
		p, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			if read.IsZero() {
				return nil, fmt.Errorf("TLS certificate %s, key %s: %w", cert, key, err)
			}
			return &pair, nil // half written: the old one until it is whole
		}
		pair, read = p, time.Now()
		return &p, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
	}
	if ca == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	var err error
	c.ClientCAs, err = authorities(ca)
	return c, err
}

// ClientTLS is the other side of TLS: ca signs the servers that are trusted ("": the system's do), cert and key are shown
// where the server asks. Without any of them it is nil.
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

// authorities reads the certificates of those who sign others.
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
