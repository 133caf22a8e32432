package drive

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// telling is a server whose streams say these messages.
type telling struct {
	oip.GRPCInferenceServiceClient
	grpc.ClientStream
	messages []*oip.ModelStreamInferResponse
	last     time.Time // when the last one was asked for
}

func (s *telling) ModelStreamInfer(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[oip.ModelInferRequest, oip.ModelStreamInferResponse], error) {
	return s, nil
}
func (*telling) Send(*oip.ModelInferRequest) error { return nil }
func (*telling) CloseSend() error                  { return nil }

func (s *telling) Recv() (*oip.ModelStreamInferResponse, error) {
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	m := s.messages[0]
	if s.messages = s.messages[1:]; len(s.messages) == 0 {
		s.last = time.Now()
	}
	return m, nil
}

// TestStream: the first answer counts from when it came, the last one is the answer, and an error in a message is the request's.
func TestStream(t *testing.T) {
	answer := func(outputs ...string) *oip.ModelStreamInferResponse {
		a := &oip.ModelInferResponse{}
		for _, name := range outputs {
			a.Outputs = append(a.Outputs, &oip.ModelInferResponse_InferOutputTensor{Name: name})
		}
		return &oip.ModelStreamInferResponse{InferResponse: a}
	}
	fails := func(text string) *oip.ModelStreamInferResponse {
		return &oip.ModelStreamInferResponse{ErrorMessage: text}
	}
	type messages = []*oip.ModelStreamInferResponse
	for name, c := range map[string]struct {
		messages
		last   string
		ending Ending
	}{
		"exits": {messages{answer("first"), answer("last")}, "last", Answered}, "an empty last one, as Triton's": {messages{answer("a"), answer()}, "a", Answered},
		"nothing": {nil, "", Errored}, "no outputs": {messages{answer()}, "", Errored}, "no room": {messages{fails("ResourceExhausted: full")}, "", Refused},
		"draining": {messages{fails("Unavailable: it drains")}, "", Refused}, "late": {messages{answer("a"), fails("DeadlineExceeded: late")}, "", Expired}, "Triton's words": {messages{fails("no such model")}, "", Errored},
	} {
		s := &telling{messages: c.messages}
		a, first, err := (&remote{client: s}).stream(t.Context(), nil)
		ending := Answered
		if err != nil {
			ending = failed(t.Context(), err, false)
		}
		if ending != c.ending || c.ending == Answered && (a.Outputs[0].Name != c.last || !first.Before(s.last)) || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, %v: expected ending %d, the output %q, the first before the last was asked for", name, a, err, c.ending, c.last)
		}
	}
}
