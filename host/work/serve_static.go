//go:build static

package work

import (
	"errors"
	"net"
)

// Server is not in static builds, for boards: a NATS server is as large as a third of sluice.
type Server struct{}

var errServer = errors.New("this sluice has no NATS server, since it was built with -tags static: expected --url")

// Serve returns an error.
func Serve(listen, token, dir string) (*Server, error) { return nil, errServer }

// The methods that the commands call.
func (*Server) ClientURL() string                { return "" }
func (*Server) InProcessConn() (net.Conn, error) { return nil, errServer }
func (*Server) Shutdown()                        {}
func (*Server) WaitForShutdown()                 {}
