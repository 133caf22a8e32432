// Clients for the server's two interfaces, REST and gRPC.

package drive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// connections is the maximum number of REST connections. It is below the 1024 connections that `sluice serve` accepts.
const connections = 1000

// Dial returns a client for an address that begins with http:, https:, grpc: or grpcs:. The bearer token may be empty.
// secure is the TLS configuration for https: and grpcs:; nil: trust the system's certificates.
func Dial(address, token string, secure *tls.Config) (Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("server address %q: expected http://HOST:PORT, https://, grpc:// or grpcs://", address)
	}
	switch u.Scheme {
	case "http", "https":
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost, t.MaxIdleConns, t.MaxConnsPerHost = connections, connections, connections
		t.DisableCompression, t.TLSClientConfig = true, secure
		return &rest{base: strings.TrimSuffix(address, "/"), token: token, client: &http.Client{Transport: t}}, nil
	case "grpc", "grpcs":
		how := insecure.NewCredentials()
		if u.Scheme == "grpcs" {
			how = credentials.NewTLS(secure)
		}
		opts := []grpc.DialOption{grpc.WithTransportCredentials(how)}
		if token != "" {
			opts = append(opts, grpc.WithPerRPCCredentials(bearer{token, u.Scheme == "grpcs"}))
		}
		c, err := grpc.NewClient(u.Host, opts...)
		if err != nil {
			return nil, fmt.Errorf("server address %q: %w", address, err)
		}
		return &remote{conn: c, client: oip.NewGRPCInferenceServiceClient(c)}, nil
	}
	return nil, fmt.Errorf("server address %q: scheme %q: expected http, https, grpc or grpcs", address, u.Scheme)
}

type bearer struct {
	token  string
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

func elements(rng *rand.Rand, datatype string, n int) ([]byte, error) {
	var out []byte
	for range n {
		switch datatype {
		case "FP32":
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(rng.Float32()))
		case "FP64":
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(rng.Float64()))
		case "BOOL":
			out = append(out, byte(rng.IntN(2)))
		case "INT8", "UINT8":
			out = append(out, byte(rng.IntN(100)))
		case "INT16", "UINT16":
			out = binary.LittleEndian.AppendUint16(out, uint16(rng.IntN(100)))
		case "INT32", "UINT32":
			out = binary.LittleEndian.AppendUint32(out, uint32(rng.IntN(100)))
		case "INT64", "UINT64":
			out = binary.LittleEndian.AppendUint64(out, uint64(rng.IntN(100)))
		default:
			return nil, fmt.Errorf("no values can be drawn for the datatype %s", datatype)
		}
	}
	return out, nil
}

// wants returns the names of the model's outputs for exit and class. Requests need no other outputs.
func (q *Question) wants() (out []string) {
	for _, t := range q.Model.Outputs {
		if of := (tensorDoc{Name: t.Name, Datatype: t.Datatype}); of.takes() {
			out = append(out, t.Name)
		}
	}
	return out
}

func (q *Question) params() map[string]any {
	p := map[string]any{}
	if q.SLO > 0 {
		p["slo_us"] = max(1, q.SLO.Microseconds())
	}
	if q.Theta != "" {
		p["exit_threshold"] = q.Theta
	}
	if q.Priority > 0 {
		p["priority"] = int64(q.Priority)
	}
	return p
}

// values returns the elements of an integer output.
func values(data []byte) []int {
	out := []int{}
	for ; len(data) >= 4; data = data[4:] {
		out = append(out, int(int32(binary.LittleEndian.Uint32(data))))
	}
	return out
}

type rest struct {
	base, token string
	client      *http.Client
}

func (r *rest) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 64 << 20

func (r *rest) do(ctx context.Context, method, path string, head http.Header, body []byte) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	maps.Copy(req.Header, head)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, resp.Header, text, err
}

func (r *rest) Describe(ctx context.Context, model string) (*Model, error) {
	code, _, text, err := r.do(ctx, http.MethodGet, "/v2/models/"+url.PathEscape(model), nil, nil)
	var m Model
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %s", code, strings.TrimSpace(string(text)))
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s at %s: %w", model, r.base, err)
	}
	var config struct {
		Parameters map[string]struct {
			Value string `json:"string_value"`
		} `json:"parameters"`
	}
	m.Params = map[string]string{} // from Triton's configuration extension, which not every server supports
	if code, _, text, err := r.do(ctx, http.MethodGet, "/v2/models/"+url.PathEscape(model)+"/config", nil, nil); err == nil && code == http.StatusOK && json.Unmarshal(text, &config) == nil {
		for k, v := range config.Parameters {
			m.Params[k] = v.Value
		}
	}
	return &m, nil
}

type tensorDoc struct {
	Name       string          `json:"name"`
	Shape      []int64         `json:"shape,omitempty"`
	Datatype   string          `json:"datatype,omitempty"`
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

const headerLength = "Inference-Header-Content-Length"

func (r *rest) Infer(ctx context.Context, q *Question) Reply {
	if q.Stream {
		return Reply{Ending: Errored, Why: "REST has no streams: expected a server at grpc:// or grpcs://"}
	}
	doc := struct {
		ID      string         `json:"id"`
		Params  map[string]any `json:"parameters,omitempty"`
		Inputs  []tensorDoc    `json:"inputs"`
		Outputs []tensorDoc    `json:"outputs,omitempty"`
	}{ID: strconv.FormatUint(q.ID, 10), Params: q.params()}
	for i, in := range q.Model.Inputs {
		doc.Inputs = append(doc.Inputs, tensorDoc{Name: in.Name, Shape: fixed(in.Shape, q.Batch), Datatype: in.Datatype, Parameters: map[string]any{"binary_data_size": len(q.Data[i])}})
	}
	for _, name := range q.wants() {
		doc.Outputs = append(doc.Outputs, tensorDoc{Name: name, Parameters: map[string]any{"binary_data": true}})
	}
	head, err := json.Marshal(doc)
	if err != nil {
		return Reply{Ending: Errored, Why: err.Error()}
	}
	body := bytes.Join(append([][]byte{head}, q.Data...), nil)
	code, header, text, err := r.do(ctx, http.MethodPost, "/v2/models/"+url.PathEscape(q.Model.Name)+"/infer",
		http.Header{headerLength: {strconv.Itoa(len(head))}, "Content-Type": {"application/octet-stream"}}, body)
	switch {
	case ctx.Err() != nil:
		return Reply{Ending: Cancelled, Why: "cancelled"}
	case err != nil:
		return Reply{Ending: Errored, Why: err.Error()}
	case code == http.StatusOK:
		return readREST(header, text)
	}
	why := Reply{Ending: Errored, Why: fmt.Sprintf("%d %s", code, strings.TrimSpace(string(text)))}
	switch code {
	case http.StatusGatewayTimeout:
		why.Ending = Expired
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		why.Ending = Refused
	}
	return why
}

func readREST(header http.Header, text []byte) Reply {
	out, n := Reply{}, len(text)
	if length := header.Get(headerLength); length != "" {
		var err error
		if n, err = strconv.Atoi(length); err != nil || n < 0 || n > len(text) {
			return Reply{Ending: Errored, Why: "the answer is shorter than it says"}
		}
	}
	var doc struct {
		Outputs []tensorDoc `json:"outputs"`
	}
	tail := text[n:]
	if err := json.Unmarshal(text[:n], &doc); err != nil {
		return Reply{Ending: Errored, Why: "the answer's JSON: " + err.Error()}
	}
	if len(doc.Outputs) == 0 {
		return Reply{Ending: Errored, Why: "the answer has no outputs"}
	}
	for _, o := range doc.Outputs {
		size, _ := o.Parameters["binary_data_size"].(float64)
		if !(size >= 0 && size <= float64(len(tail))) || size != math.Trunc(size) {
			return Reply{Ending: Errored, Why: "the answer is shorter than it says"}
		}
		raw := tail[:int(size)]
		tail = tail[int(size):]
		var in []int
		if o.Data != nil && o.takes() {
			flat := "[" + strings.NewReplacer("[", "", "]", "").Replace(string(o.Data)) + "]" // the server may nest rows as lists
			if err := json.Unmarshal([]byte(flat), &in); err != nil {
				return Reply{Ending: Errored, Why: "the answer's JSON: " + err.Error()}
			}
		}
		out.take(o, in, raw)
	}
	return out
}

// takes reports whether Reply uses this tensor.
func (t *tensorDoc) takes() bool {
	return t.Datatype == "INT32" && (t.Name == "exit" || t.Name == "class")
}

// take reads the values of a tensor from in, or from raw if the tensor is binary.
func (r *Reply) take(t tensorDoc, in []int, raw []byte) {
	if !t.takes() || r.Ending == Errored {
		return
	}
	if in == nil {
		if len(raw)%4 != 0 {
			r.wrong("the answer's %s has %d bytes of INT32", t.Name, len(raw))
			return
		}
		in = values(raw)
	}
	if t.Name == "exit" {
		r.Exits = in
	} else {
		r.Classes = in
	}
}

type remote struct {
	conn   *grpc.ClientConn
	client oip.GRPCInferenceServiceClient
}

func (r *remote) Close() error { return r.conn.Close() }

func (r *remote) Describe(ctx context.Context, model string) (*Model, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second) // the server may still be starting
	defer stop()
	d, err := r.client.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: model}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("model %s at %s: %w", model, r.conn.Target(), err)
	}
	of := func(in []*oip.ModelMetadataResponse_TensorMetadata) (out []Tensor) {
		for _, t := range in {
			out = append(out, Tensor{t.Name, t.Datatype, t.Shape})
		}
		return out
	}
	m := &Model{Name: model, Inputs: of(d.Inputs), Outputs: of(d.Outputs), Params: map[string]string{}}
	if c, err := r.client.ModelConfig(ctx, &oip.ModelConfigRequest{Name: model}); err == nil { // not every server supports this call
		for k, v := range c.GetConfig().GetParameters() {
			m.Params[k] = v.GetStringValue()
		}
	}
	return m, nil
}

func (r *remote) Infer(ctx context.Context, q *Question) Reply {
	m := &oip.ModelInferRequest{ModelName: q.Model.Name, Id: strconv.FormatUint(q.ID, 10), Parameters: map[string]*oip.InferParameter{}, RawInputContents: q.Data}
	for name, v := range q.params() {
		p := &oip.InferParameter{}
		switch v := v.(type) {
		case int64:
			p.ParameterChoice = &oip.InferParameter_Int64Param{Int64Param: v}
		case string:
			p.ParameterChoice = &oip.InferParameter_StringParam{StringParam: v}
		}
		m.Parameters[name] = p
	}
	for _, in := range q.Model.Inputs {
		m.Inputs = append(m.Inputs, &oip.ModelInferRequest_InferInputTensor{Name: in.Name, Datatype: in.Datatype, Shape: fixed(in.Shape, q.Batch)})
	}
	for _, name := range q.wants() {
		m.Outputs = append(m.Outputs, &oip.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	var (
		trailer metadata.MD
		out     Reply
		a       *oip.ModelInferResponse
		err     error
	)
	if q.Stream {
		a, out.First, err = r.stream(ctx, m, grpc.Trailer(&trailer))
	} else {
		a, err = r.client.ModelInfer(ctx, m, grpc.Trailer(&trailer))
	}
	if err != nil {
		return Reply{Ending: failed(ctx, err, len(trailer) > 0), Why: err.Error()}
	}
	for i, o := range a.Outputs {
		var in []int
		var raw []byte
		if c := o.GetContents().GetIntContents(); c != nil {
			for _, v := range c {
				in = append(in, int(v))
			}
		} else if i < len(a.RawOutputContents) {
			raw = a.RawOutputContents[i]
		}
		out.take(tensorDoc{Name: o.Name, Datatype: o.Datatype}, in, raw)
	}
	return out
}

// stream sends a request on a stream. It returns the last message with outputs, and the time of the first such message.
func (r *remote) stream(ctx context.Context, m *oip.ModelInferRequest, opts ...grpc.CallOption) (a *oip.ModelInferResponse, first time.Time, err error) {
	ss, err := r.client.ModelStreamInfer(ctx, opts...)
	if err == nil && ss.Send(m) == nil { // if Send fails, Recv returns the reason
		err = ss.CloseSend()
	}
	var bad error // the first error in a message; the rest of the stream is still read, so that gRPC releases the stream
	more := false
	for err == nil {
		var got *oip.ModelStreamInferResponse
		if got, err = ss.Recv(); err != nil {
			break
		}
		if got.GetErrorMessage() != "" {
			bad = cmp.Or[error](bad, told(got.ErrorMessage))
		}
		if final, ok := got.GetInferResponse().GetParameters()["triton_final_response"]; ok {
			more = !final.GetBoolParam()
		}
		if len(got.GetInferResponse().GetOutputs()) > 0 {
			if a = got.InferResponse; first.IsZero() {
				first = time.Now()
			}
		}
	}
	if errors.Is(err, io.EOF) {
		if err = bad; err == nil && (a == nil || more) {
			err = errors.New("the stream ended without its last answer")
		}
	}
	return a, first, err
}

// told is the text of an error message on a stream. The text begins with the name of the gRPC code.
type told string

func (e told) Error() string { return string(e) }

// GRPCStatus implements the interface through which package grpc/status reads an error's status.
func (e told) GRPCStatus() *status.Status {
	name, _, _ := strings.Cut(string(e), ":")
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return status.New(c, string(e))
		}
	}
	return status.New(codes.Unknown, string(e))
}

// failed returns the Ending of a failed call. answered means that the error came from the server. gRPC also reports
// Unavailable if no server is reachable, so the code alone does not show the source.
func failed(ctx context.Context, err error, answered bool) Ending {
	_, said := errors.AsType[told](err)
	switch code := status.Code(err); {
	case code == codes.DeadlineExceeded:
		return Expired
	case code == codes.ResourceExhausted, code == codes.Unavailable && (answered || said):
		return Refused
	case code == codes.Canceled:
		return Cancelled
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Cancelled
	}
	return Errored
}
