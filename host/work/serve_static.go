//go:build static

package work

import (
	"errors"
	"net"
)

// Server is empty in static builds (for boards), because a NATS server is as large as a third of sluice.
type Server struct{}

var errServer = errors.New("this sluice has no NATS server, since it was built with -tags static: expected --url")

// Serve returns an error.
func Serve(listen, token, dir string) (*Server, error) { return nil, errServer }

// These methods are needed because commands call them.
func (*Server) ClientURL() string                { return "" }
func (*Server) InProcessConn() (net.Conn, error) { return nil, errServer }
func (*Server) Shutdown()                        {}
func (*Server) WaitForShutdown()                 {}
