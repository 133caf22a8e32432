package drive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
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
	open := func(m *oip.ModelStreamInferResponse) *oip.ModelStreamInferResponse {
		m.InferResponse.Parameters = map[string]*oip.InferParameter{"triton_final_response": {ParameterChoice: &oip.InferParameter_BoolParam{}}}
		return m
	}
	type messages = []*oip.ModelStreamInferResponse
	for name, c := range map[string]struct {
		messages
		last   string
		ending Ending
	}{
		"exits": {messages{answer("first"), answer("last")}, "last", Answered}, "an empty last one, as Triton's": {messages{answer("a"), answer()}, "a", Answered},
		"nothing": {nil, "", Errored}, "no outputs": {messages{answer()}, "", Errored}, "no room": {messages{fails("ResourceExhausted: full")}, "", Refused},
		"not its last": {messages{open(answer("a"))}, "", Errored}, "ended after an error": {messages{fails("ResourceExhausted: full"), answer("a")}, "", Refused},
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
		if len(s.messages) > 0 {
			t.Errorf("%s: %d messages were not read", name, len(s.messages))
		}
	}
}

// TestOutputs: an answer's tensors are read wherever they may be, and one that cannot be read is an error.
func TestOutputs(t *testing.T) {
	for text, want := range map[string]Reply{
		`{"name":"exit","datatype":"INT32","data":[[3],[1]]}`:                                                                   {Exits: []int{3, 1}},
		`{"name":"exit","datatype":"INT32","shape":[0],"data":[]}`:                                                              {Exits: []int{}},
		`{"name":"class","datatype":"INT64","data":[7]}`:                                                                        {},
		`{"name":"exit","datatype":"INT32","data":["a"]}`:                                                                       {Ending: Errored},
		`{"name":"exit","datatype":"INT32","parameters":{"binary_data_size":4}}`:                                                {Exits: []int{1684234849}},
		`{"name":"exit","datatype":"INT32","parameters":{"binary_data_size":3}}`:                                                {Ending: Errored},
		`{"name":"exit","datatype":"INT32","parameters":{"binary_data_size":0}}`:                                                {Exits: []int{}},
		`{"name":"exit","datatype":"INT32","parameters":{"binary_data_size":1e300}}`:                                            {Ending: Errored},
		`{"name":"exit","datatype":"INT32","parameters":{"binary_data_size":0.5}}`:                                              {Ending: Errored},
		`{"name":"class","datatype":"INT64","parameters":{"binary_data_size":2}},{"name":"exit","datatype":"INT32","data":[2]}`: {Exits: []int{2}},
	} {
		text = `{"outputs":[` + text + `]}`
		got := readREST(http.Header{headerLength: {strconv.Itoa(len(text))}}, []byte(text+"abcd"))
		if got.Ending != want.Ending || !slices.Equal(got.Exits, want.Exits) || (got.Exits == nil) != (want.Exits == nil) || got.Classes != nil {
			t.Errorf("%s: %+v: expected %+v", text, got, want)
		}
	}
}
