//go:build !linux

package capture

import (
	"context"
	"fmt"
	"runtime"
)

// Source is an interface that packets are captured from, on Linux.
type Source struct{}

// Open refuses: captures are read from files here.
func Open(iface string, _ Config) (*Source, error) {
	return nil, fmt.Errorf("%w: interface %s: live captures are for Linux, this is %s; a capture's file is read everywhere", ErrCapture, iface, runtime.GOOS)
}

// Live is never called: there is no Source.
func (*Source) Live(context.Context, func(Transfer)) (Seen, error) { return Seen{}, nil }
