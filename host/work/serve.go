//go:build !static

package work

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server in this process.
type Server struct{ *server.Server }

// Serve starts a NATS server with JetStream. The server stores its files in dir.
func Serve(listen, token, dir string) (*Server, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", listen, err)
	}
	if ip := net.ParseIP(host); token == "" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen %s: expected a loopback address, or a token that workers have to know", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	} else if l, err := net.Listen("tcp", listen); err != nil { // the server itself would retry forever without an error message
		return nil, err
	} else if err := l.Close(); err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: host, Port: port, JetStream: true, StoreDir: dir, Authorization: token, NoSigs: true, NoLog: true, SyncAlways: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("listen %s: the server is not ready", listen)
	}
	return &Server{s}, nil
}
