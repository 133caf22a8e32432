// The REST interface: the protocol's calls over HTTP, with JSON and binary tensors.

package serve

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
)

// REST returns the HTTP handler of the protocol.
func (s *Server) REST() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w http.ResponseWriter, r *http.Request) error) {
		open := strings.HasPrefix(pattern, "GET /v2/health/")
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := s.guard(r.Header.Get("Authorization"), r.RemoteAddr, open)
			if err == nil {
				body := r.Body
				r.Body = http.MaxBytesReader(w, body, int64(s.opts.Limits.Message))
				if err = f(w, r); err != nil && coded(err).REST == http.StatusRequestEntityTooLarge {
					// if the connection is closed before the client has sent everything, the client does not read the
					// answer
					_, _ = io.CopyN(io.Discard, body, int64(s.opts.Limits.Message))
				}
			}
			if err != nil {
				fail(w, err)
			}
		})
	}
	state := func(name string, ok func() bool) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			return truth(w, name, ok())
		}
	}
	handle("GET /v2/health/live", state("live", func() bool { return true }))
	handle("GET /v2/health/ready", state("ready", s.Ready))
	for _, at := range []string{"GET /v2", "GET /v2/{$}"} {
		handle(at, func(w http.ResponseWriter, _ *http.Request) error {
			return answerJSON(w, map[string]any{"name": Name, "version": s.opts.Version, "extensions": extensions()})
		})
	}
	model := func(method, what string, f func(w http.ResponseWriter, r *http.Request) error) {
		for _, at := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
			handle(method+" "+at+what, f)
		}
	}
	model("GET", "", func(w http.ResponseWriter, r *http.Request) error {
		d, err := s.describe(r.PathValue("model"), r.PathValue("version"))
		if err != nil {
			return err
		}
		return answerJSON(w, d)
	})
	model("GET", "/ready", func(w http.ResponseWriter, r *http.Request) error {
		if name := r.PathValue("model"); !s.has(name) {
			return refuse(NotFound, "no model %q", name)
		}
		return truth(w, "ready", s.modelReady(r.PathValue("model"), r.PathValue("version")))
	})
	model("GET", "/config", func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.config(r.PathValue("model"), r.PathValue("version"))
		if err != nil {
			return err
		}
		return answerProto(w, c)
	})
	stats := func(w http.ResponseWriter, r *http.Request) error {
		st, err := s.statistics(r.PathValue("model"), r.PathValue("version"))
		if err != nil {
			return err
		}
		return answerProto(w, st)
	}
	model("GET", "/stats", stats)
	handle("GET /v2/models/stats", stats)
	model("POST", "/infer", s.inferREST)
	s.repositoryREST(handle)
	noMemoryREST(handle)
	mux.HandleFunc("/", noCall(mux))
	return s.limitTimes(s.sameOrigin(mux))
}

// noCall answers calls that do not exist. If the path exists with another method, the answer names the allowed method.
// Otherwise the answer is "not found".
func noCall(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		other := r.Clone(r.Context())
		for _, other.Method = range []string{http.MethodGet, http.MethodPost} {
			if _, pattern := mux.Handler(other); pattern != "/" {
				w.Header().Set("Allow", other.Method)
				fail(w, &Error{Code: Unserved, Text: fmt.Sprintf("%s %s: expected %s", r.Method, r.URL.Path, other.Method), REST: http.StatusMethodNotAllowed})
				return
			}
		}
		fail(w, refuse(NotFound, "%s %s: no such call of the Open Inference Protocol v2", r.Method, r.URL.Path))
	}
}

// handler registers a function for a pattern.
type handler func(pattern string, f func(w http.ResponseWriter, r *http.Request) error)

// repositoryREST registers the calls of the model repository.
func (s *Server) repositoryREST(handle handler) {
	handle("POST /v2/repository/index", func(w http.ResponseWriter, r *http.Request) error {
		var q struct {
			Ready bool `json:"ready"`
		}
		if err := s.readJSON(r, &q); err != nil {
			return err
		}
		out := []Index{}
		for _, i := range s.Index() {
			if !q.Ready || i.State == "READY" {
				out = append(out, i)
			}
		}
		return answerJSON(w, out)
	})
	repository := func(f func(string) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			var q struct {
				Parameters map[string]jsontext.Value `json:"parameters"`
			}
			if err := s.readJSON(r, &q); err != nil {
				return err
			}
			delete(q.Parameters, "unload_dependents") // a parameter of Triton; models here have no dependents
			if err := noParameters(r.PathValue("model"), len(q.Parameters)); err != nil {
				return err
			}
			if err := f(r.PathValue("model")); err != nil {
				return err
			}
			return answerJSON(w, struct{}{})
		}
	}
	handle("POST /v2/repository/models/{model}/load", repository(s.Load))
	handle("POST /v2/repository/models/{model}/unload", repository(s.Unload))
}

// noMemoryREST registers the calls for shared memory. They return errors, because shared memory is not supported.
func noMemoryREST(handle handler) {
	for _, kind := range []string{"systemsharedmemory", "cudasharedmemory"} {
		none := func(w http.ResponseWriter, _ *http.Request) error { return answerJSON(w, []struct{}{}) }
		for _, at := range []string{"/status", "/region/{region}/status"} {
			handle("GET /v2/"+kind+at, none)
		}
		for _, at := range []string{"/unregister", "/region/{region}/unregister"} {
			handle("POST /v2/"+kind+at, none)
		}
		handle("POST /v2/"+kind+"/region/{region}/register", func(_ http.ResponseWriter, r *http.Request) error {
			return noSharedMemory(r.PathValue("region"))
		})
	}
}

// limitTimes limits the client's time to send a request, even if h does not read it, and to receive the answer.
// net/http removes the limit on sending when the body is complete.
func (s *Server) limitTimes(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w) // has no effect for a test's writer, because it has no connection
		t := deadlineWriter{w, c, s.opts.Limits.Transfer}
		if r.Body != http.NoBody {
			_ = c.SetReadDeadline(time.Now().Add(s.opts.Limits.Transfer))
			t.extend() // for the "100 Continue" that net/http may write
		}
		h.ServeHTTP(t, r)
	})
}

type deadlineWriter struct {
	http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
}

// Unwrap is used by http.ResponseController.
func (w deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w deadlineWriter) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// WriteHeader implements http.ResponseWriter. An answer may have only a header, so the time limit restarts here too.
func (w deadlineWriter) WriteHeader(code int) {
	w.extend()
	w.ResponseWriter.WriteHeader(code)
}

// extend restarts the time limit of the answer, because net/http may first wait for the rest of the request.
func (w deadlineWriter) extend() { _ = w.c.SetWriteDeadline(time.Now().Add(w.limit + time.Minute)) }

// truth answers a yes-or-no question with a status code, and with a text for clients that read the body.
func truth(w http.ResponseWriter, name string, ok bool) error {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return json.NewEncoder(w).Encode(map[string]bool{name: ok})
}

func answerJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, err error) {
	e := coded(err)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case e.Code == codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case e.Code == Exhausted && e.Retry > 0:
		w.Header().Set("Retry-After", e.retryHeader())
	}
	w.WriteHeader(cmp.Or(e.REST, httpCode(e.Code)))
	_ = json.NewEncoder(w).Encode(map[string]string{"error": e.Error()}) // an error means that the client has disconnected
}

// readJSON reads a small document. If the document is missing, v stays unchanged.
func (s *Server) readJSON(r *http.Request, v any) error {
	in, err := unpacked(r)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(in), slack))
	if err == nil && len(bytes.TrimSpace(b)) > 0 {
		err = illegible(jsonv2.Unmarshal(b, v, lenient))
	}
	return blamed(err, "the request is no JSON as expected")
}

// blamed converts an error of reading a request. An error without a known cause becomes an invalid request.
func blamed(err error, what string) error {
	if err == nil || coded(err).Code != Internal {
		return err
	}
	return refuse(Invalid, "%s: %v", what, err)
}

// buffers are memory that is reused for requests and their answers.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// spare returns a buffer, emptied for reuse. It returns nil if the buffer is large, so that the garbage collector frees
// the buffer. Reused buffers do not count as memory of requests.
func spare(b []byte) []byte {
	if cap(b) > 16<<10 {
		return nil
	}
	return b[:0]
}

// body reads the body of a request into a buffer and decompresses it. The result taken is the reserved memory in bytes.
// The length is limited by the server's limit and the model's longest request.
func (s *Server) body(r *http.Request, m *Model) (body []byte, taken int, err error) {
	in, err := unpacked(r)
	if err != nil {
		return nil, 0, err
	}
	limit := min(int64(s.opts.Limits.Message), m.longest(s.opts.Limits.Samples))
	counted := &taking{Reader: io.LimitReader(in, limit+1), m: &s.memory}
	b := *buffers.Get().(*[]byte)
	for n := 0; err == nil; b = b[:len(b)+n] {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err = counted.Read(b[len(b):cap(b)])
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && int64(len(b)) > limit {
		err = &http.MaxBytesError{Limit: limit}
	}
	return b, counted.n, blamed(err, "read the request")
}

func unpacked(r *http.Request) (in io.Reader, err error) {
	enc := strings.ToLower(r.Header.Get("Content-Encoding"))
	switch enc {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		in, err = gzip.NewReader(r.Body)
	case "deflate":
		in, err = zlib.NewReader(r.Body)
	default:
		return nil, &Error{Code: Invalid, Text: fmt.Sprintf("Content-Encoding %q: expected gzip, deflate or none", enc), REST: http.StatusUnsupportedMediaType}
	}
	return in, blamed(err, "the request is not "+enc+" as it says")
}

// longest returns the size in bytes of the largest useful request. Each element counts as 32 bytes, a long JSON number.
func (m *Model) longest(samples int) int64 {
	return slack + 32*int64(samples)*int64(m.net.InH)*int64(m.net.InW)*int64(m.net.InC)
}

// headerLength is the name of the header that contains the length of the JSON. The binary tensors follow the JSON.
const headerLength = "Inference-Header-Content-Length"

func (s *Server) inferREST(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	model, version := r.PathValue("model"), r.PathValue("version")
	end, err := s.begin()
	if err != nil {
		return s.unread(model, version, err)
	}
	end() // Infer counts the request itself
	m, err := s.model(model, version)
	if err != nil {
		return s.unread(model, version, err)
	}
	body, taken, err := s.body(r, m)
	defer func() {
		s.memory.give(taken)
		if b := spare(body); b != nil {
			buffers.Put(&b)
		}
	}()
	if err != nil {
		return s.unread(model, version, err)
	}
	var q *restRequest
	if length := r.Header.Get(headerLength); length == "0" && len(body) > 0 {
		q = m.raw(body)
	} else if q, err = decode(body, length); err != nil {
		return s.unread(model, version, err)
	}
	q.Model, q.Version, q.Came = model, version, began
	body = spare(body) // q refers to body until the device has copied the inputs
	a, err := s.Infer(traced(r), &q.Request, nil)
	s.reportHeader(w.Header())
	if err != nil {
		return err
	}
	var head int
	body, head = appendAnswer(body, a, func(i int) bool { // the request is no longer needed
		if i < len(q.Outputs) { // outputs are in the order of the request
			return q.Outputs[i].Binary
		}
		return q.binary
	})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if head < len(body) {
		h.Set("Content-Type", "application/octet-stream")
		h.Set(headerLength, strconv.Itoa(head))
	}
	out := io.Writer(w)
	var pack io.WriteCloser
	for enc := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		switch strings.TrimSpace(enc) {
		case "gzip":
			pack = gzip.NewWriter(w)
			h.Set("Content-Encoding", "gzip")
		case "deflate":
			pack = zlib.NewWriter(w)
			h.Set("Content-Encoding", "deflate")
		}
		if pack != nil {
			out = pack
			break
		}
	}
	_, _ = out.Write(body) // an error means that the client has disconnected
	if pack != nil {
		_ = pack.Close() // an error means that the client has disconnected
	}
	return nil
}

// restRequest is a request and the requested form of the answer.
type restRequest struct {
	Request
	binary bool // default form of outputs that do not specify a form
}

// raw reads a request in Triton's raw binary form, without JSON. The body is one sample, and outputs are binary.
func (m *Model) raw(body []byte) *restRequest {
	return &restRequest{Request{Inputs: []Tensor{{Name: m.inputName(), Datatype: "FP32", Shape: m.dims(), Data: body}}}, true}
}

// decode reads an inference request: JSON, followed by the tensors that the JSON declares as binary. The argument
// length is the value of the HTTP header that gives the size of the JSON part.
func decode(body []byte, length string) (*restRequest, error) {
	head, tail := body, []byte(nil)
	if length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, refuse(Invalid, "%s is %q: expected 0..%d, the length of the request", headerLength, length, len(body))
		}
		head, tail = body[:n], body[n:]
	}
	doc, err := document(head)
	if err != nil {
		return nil, err
	}
	q := &restRequest{Request: Request{ID: doc.ID, Params: doc.Params}}
	if q.binary, err = flag(doc.Params, "", "binary_data_output", false); err != nil {
		return nil, err
	}
	q.Inputs, q.Outputs = make([]Tensor, 0, len(doc.Inputs)), make([]Wanted, 0, len(doc.Outputs))
	for i := range doc.Inputs {
		var t Tensor
		if t, tail, err = doc.Inputs[i].input(tail); err != nil {
			return nil, err
		}
		q.Inputs = append(q.Inputs, t)
	}
	if len(tail) > 0 {
		return nil, refuse(Invalid, "%d bytes stand behind the last binary input", len(tail))
	}
	for i := range doc.Outputs {
		w, err := doc.Outputs[i].wanted(q.binary)
		if err != nil {
			return nil, err
		}
		q.Outputs = append(q.Outputs, w)
	}
	return q, nil
}

func longID(id string) error {
	return refuse(Invalid, "the request's id has %d bytes: expected at most %d", len(id), maxID)
}

// flag reads a boolean parameter, or returns the argument without. The argument of names the output in error texts.
func flag(p map[string]any, of, name string, without bool) (bool, error) {
	v, there := p[name]
	if !there {
		return without, nil
	}
	is, ok := v.(bool)
	if !ok {
		if of != "" {
			of = fmt.Sprintf("output %q: ", of)
		}
		return false, refuse(Invalid, "%sparameter %s is %v: expected true or false", of, name, v)
	}
	return is, nil
}

// parameters returns a tensor's parameters. Shared memory is rejected.
func (t *restTensor) parameters() (options, error) {
	if _, shared := t.Parameters["shared_memory_region"]; shared {
		return nil, noSharedMemory(t.Name)
	}
	return t.Parameters, nil
}

// input reads an input from the JSON or from the binary tensors, and returns the remaining binary tensors.
func (t *restTensor) input(tail []byte) (Tensor, []byte, error) {
	in := Tensor{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape}
	p, err := t.parameters()
	if err != nil {
		return in, tail, err
	}
	size, binary, err := whole(p, "binary_data_size", 0, int64(len(tail)))
	if err != nil {
		return in, tail, err
	}
	n := elements(t.Shape)
	switch {
	case n < 0:
		return in, tail, refuse(Invalid, "input %q has the impossible shape %v", t.Name, t.Shape)
	case binary:
		in.Data, tail = tail[:size], tail[size:]
	default:
		if in.Data, err = fromJSON(t, n); err != nil {
			return in, tail, err
		}
	}
	if s := sizeOf(t.Datatype); s > 0 && n*s != len(in.Data) {
		return in, tail, refuse(Invalid, "input %q of %s with the shape %v has %d bytes: expected %d", t.Name, t.Datatype, t.Shape, len(in.Data), n*s)
	}
	return in, tail, nil
}

// wanted reads a requested output. The argument binary is the default form of the output.
func (t *restTensor) wanted(binary bool) (w Wanted, err error) {
	p, err := t.parameters()
	if err != nil {
		return w, err
	}
	w.Name = t.Name
	if w.Binary, err = flag(p, t.Name, "binary_data", binary); err != nil {
		return w, err
	}
	n, _, err := whole(p, "classification", 0, 1<<30)
	w.Classes = int(n)
	return w, err
}

// fromJSON reads n elements from the JSON, flat or nested.
func fromJSON(in *restTensor, n int) ([]byte, error) {
	where := func(format string, a ...any) error {
		return refuse(Invalid, "input %q: %s", in.Name, fmt.Sprintf(format, a...))
	}
	if !slices.Contains(inputTypes(), in.Datatype) {
		return nil, where("data of %s: expected one of %v", in.Datatype, inputTypes())
	}
	if len(in.Data) < 2*n { // each element needs at least a digit and a separator
		return nil, where("the shape %v has %d elements, and fewer stand in data", in.Shape, n)
	}
	out := make([]byte, 0, n*sizeOf(in.Datatype))
	d := jsontext.NewDecoder(bytes.NewBuffer(in.Data), lenient)
	count := 0
	var lists nesting
	for kind := d.PeekKind(); kind != 0; kind = d.PeekKind() {
		if kind == '[' || kind == ']' {
			_, _ = d.ReadToken() // no error: it was valid JSON
			lists.bracket(kind == '[')
			continue
		}
		v, err := d.ReadValue()
		if err != nil || kind != '0' {
			return nil, where("data holds %.40s: expected numbers", v)
		}
		lists.number()
		if count++; count > n {
			return nil, where("more than the %d elements of the shape %v stand in data", n, in.Shape)
		}
		if out, err = appendNumber(out, in.Datatype, string(v)); err != nil {
			return nil, where("element %d: %v", count-1, err)
		}
	}
	if count != n {
		return nil, where("%d elements stand in data: expected the %d of the shape %v", count, n, in.Shape)
	}
	switch got := sides(lists.lengths); {
	case lists.uneven:
		return nil, where("the lists in data are not of one length and depth: expected the shape %v, or one list of %d", in.Shape, n)
	case len(got) > 1 && !slices.Equal(got, sides(in.Shape)):
		return nil, where("data has the shape %v: expected %v, or one list of %d", lists.lengths, in.Shape, n)
	}
	return out, nil
}

// sides returns the dimensions of a shape that are not 1.
func sides(shape []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(shape), func(d int64) bool { return d == 1 })
}

// nesting checks the shape of nested lists.
type nesting struct {
	lengths []int64 // by depth: length of the lists; -1: no list of this depth has ended yet
	open    []int64 // by depth: number of elements so far in the open list
	depth   int     // depth of the numbers
	uneven  bool
}

// element counts an element of the innermost open list.
func (l *nesting) element() {
	if k := len(l.open) - 1; k >= 0 {
		l.open[k]++
	}
}

// bracket opens or closes a list.
func (l *nesting) bracket(begins bool) {
	if begins {
		l.element()
		if l.open = append(l.open, 0); len(l.open) > len(l.lengths) {
			l.lengths = append(l.lengths, -1)
		}
		return
	}
	k := len(l.open) - 1
	l.uneven = l.uneven || l.lengths[k] >= 0 && l.lengths[k] != l.open[k]
	l.lengths[k], l.open = l.open[k], l.open[:k]
}

func (l *nesting) number() {
	l.element()
	l.uneven = l.uneven || l.depth > 0 && l.depth != len(l.open)
	l.depth = len(l.open)
}
