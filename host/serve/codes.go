// Error codes and retry times on both interfaces.

package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
)

// Codes with the same values as in gRPC.
const (
	Invalid     = codes.InvalidArgument
	NotFound    = codes.NotFound
	Exhausted   = codes.ResourceExhausted
	Expired     = codes.DeadlineExceeded
	Unavailable = codes.Unavailable
	Cancelled   = codes.Canceled
	Internal    = codes.Internal
	Unserved    = codes.Unimplemented
)

// expired is Triton's text for an expired request. Clients search for this text.
const expired = "Request timeout expired"

// Error is a rejection or a failure, with its code.
type Error struct {
	Code  codes.Code
	Text  string
	Retry time.Duration // for Exhausted: time until a retry; 0: a retry does not help
	REST  int           // HTTP status; 0: determined by Code
	cause error
}

// errClosed is the error for a request that was not accepted because its model was closed or its device was lost.
var errClosed = errors.New("the model accepts no more requests")

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// maxText is the maximum length of an error's text, which may contain the client's input. gRPC sends the text in a
// header, and clients accept at most 8 KiB of headers.
const maxText = 1000

func (e *Error) Error() string { return brief(e.Text, maxText) }

// GRPCStatus implements the interface through which package grpc/status reads an error's status.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.Error())
	if e.Code == Exhausted && e.Retry > 0 {
		if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)}); err == nil {
			return with
		}
	}
	return st
}

func refuse(c codes.Code, format string, a ...any) *Error {
	return &Error{Code: c, Text: fmt.Sprintf(format, a...)}
}

func exhausted(retry time.Duration, format string, a ...any) *Error {
	return &Error{Code: Exhausted, Text: fmt.Sprintf(format, a...), Retry: retry}
}

// coded converts an error of the engine or of a context to an Error.
func coded(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{Code: Invalid, Text: fmt.Sprintf("the request is longer than %d bytes, unpacked", long.Limit), REST: http.StatusRequestEntityTooLarge}
	}
	is := func(of error) bool { return errors.Is(err, of) }
	switch {
	case is(os.ErrDeadlineExceeded):
		return &Error{Code: Invalid, Text: "the request did not arrive completely in time: send it faster", REST: http.StatusRequestTimeout}
	case is(engine.ErrExpired), is(context.DeadlineExceeded):
		return refuse(Expired, "%s: %v", expired, err)
	case is(context.Canceled):
		return refuse(Cancelled, "the client has gone: %v", err)
	case is(engine.ErrAdmitted):
		text := err.Error()
		if _, why, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(text, "task ") { // remove the engine's own request number
			text = why
		}
		return exhausted(retryAfter, "%s", text)
	case is(engine.ErrClosed), is(engine.ErrNetwork), is(device.ErrGone):
		return &Error{Code: Unavailable, Text: err.Error(), cause: errClosed}
	case is(engine.ErrSamples), is(device.ErrRequest):
		return refuse(Invalid, "%v", err)
	}
	return refuse(Internal, "%v", err)
}

// retryAfter is the default time until a rejected client should retry.
const retryAfter = 50 * time.Millisecond

func httpCode(c codes.Code) int {
	switch c {
	case Invalid:
		return http.StatusBadRequest
	case NotFound:
		return http.StatusNotFound
	case Exhausted:
		return http.StatusTooManyRequests
	case Expired:
		return http.StatusGatewayTimeout
	case Unavailable:
		return http.StatusServiceUnavailable
	case Cancelled:
		return 499 // nginx's code for a client that closed the request
	case Unserved:
		return http.StatusNotImplemented
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// again returns metadata that tells clients when to retry. Envoy reads Retry-After, as on REST. gRPC clients read
// grpc-retry-pushback-ms, in which a negative number means that a retry does not help.
func (e *Error) again() metadata.MD {
	if e.Retry > 0 {
		return metadata.Pairs("retry-after", e.retryHeader())
	}
	return metadata.Pairs("grpc-retry-pushback-ms", "-1")
}

// retryHeader returns the value of Retry-After: whole seconds, rounded up.
func (e *Error) retryHeader() string { return strconv.Itoa(max(1, int(math.Ceil(e.Retry.Seconds())))) }
