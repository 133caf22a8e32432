//go:build !linux

package capture

import (
	"context"
	"fmt"
	"runtime"
)

// Source captures packets from an interface, on Linux only.
type Source struct{}

// Open fails: this system reads captures from files only.
func Open(iface string, _ Config) (*Source, error) {
	return nil, fmt.Errorf("%w: interface %s: live captures are for Linux, this is %s; a capture's file is read everywhere", ErrCapture, iface, runtime.GOOS)
}

// Live is never called, because Open fails.
func (*Source) Live(context.Context, func(Transfer)) (Seen, error) { return Seen{}, nil }
