// The gRPC interface.

package serve

import (
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // registers gzip for compressed requests
	protobuf "google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

// deflate is gRPC's compression "deflate", which uses zlib's format.
type deflate struct{}

func (deflate) Name() string                                 { return "deflate" }
func (deflate) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }
func (deflate) Decompress(r io.Reader) (io.Reader, error)    { return zlib.NewReader(r) }

func init() { encoding.RegisterCompressor(deflate{}) } // gzip is registered by its import

type grpcFace struct {
	oip.UnimplementedGRPCInferenceServiceServer
	s *Server
}

// GRPC returns the gRPC server, with the services for health and reflection.
func (s *Server) GRPC(opts ...grpc.ServerOption) *grpc.Server {
	opts = append(
		opts, grpc.NumStreamWorkers(64), grpc.MaxRecvMsgSize(s.opts.Limits.Message), grpc.MaxConcurrentStreams(256), grpc.ConnectionTimeout(10*time.Second),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protobuf.Name), s.opts.Limits.Message}),
		// Close the connections of dead clients, and allow clients to send keepalives.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// Reject the call before its message is read.
		grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
			return ctx, s.guardGRPC(ctx, call.FullMethodName)
		}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			defer s.reportTrailer(ctx, info.FullMethod)
			a, err := h(ctx, req)
			if e, ok := errors.AsType[*Error](err); ok && e.Code == Exhausted {
				_ = grpc.SetTrailer(ctx, e.again()) // an error means that the call has ended
			}
			return a, err
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			defer s.reportTrailer(ss.Context(), info.FullMethod)
			return h(srv, &session{ss, s, openCall(info.FullMethod)})
		}),
	)
	g := grpc.NewServer(opts...)
	service := oip.GRPCInferenceService_ServiceDesc
	service.Methods = slices.Clone(service.Methods)
	for i := range service.Methods {
		m := &service.Methods[i]
		handle := m.Handler
		m.Handler = func(face any, ctx context.Context, read func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
			return handle(face, context.WithValue(ctx, came{}, time.Now()), func(m any) error { return cmp.Or(read(m), s.legible(m)) }, in)
		}
	}
	g.RegisterService(&service, &grpcFace{s: s})
	healthpb.RegisterHealthServer(g, &healthFace{s: s})
	reflection.Register(g)
	return g
}

// came is the context key for the start time of a call.
type came struct{}

// session is a stream that accepts no more messages after its token is revoked. Earlier requests are still answered.
type session struct {
	grpc.ServerStream
	s    *Server
	open bool
}

// RecvMsg implements grpc.ServerStream.
func (x *session) RecvMsg(m any) error {
	if err := x.ServerStream.RecvMsg(m); err != nil || x.open {
		return err
	}
	return cmp.Or(x.s.authorised(bearer(x.Context())), x.s.legible(m))
}

// healthFace answers gRPC health checks for the whole server or for one model.
type healthFace struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

// Check implements grpc health.
func (h *healthFace) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	ok := h.s.Ready()
	if r.Service != "" && r.Service != oip.GRPCInferenceService_ServiceDesc.ServiceName {
		if _, err := h.s.model(r.Service, ""); err != nil && !h.s.has(r.Service) {
			return nil, err
		}
		ok = h.s.modelReady(r.Service, "")
	}
	if ok {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
}

// healthEvery is the polling interval of watched states.
const healthEvery = 100 * time.Millisecond

// Watch implements grpc health: it sends the state and every change of it.
func (h *healthFace) Watch(r *healthpb.HealthCheckRequest, ss grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	told := healthpb.HealthCheckResponse_UNKNOWN
	for {
		now, err := h.Check(ss.Context(), r)
		if err != nil { // the protocol requires this for an unknown service
			now = &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVICE_UNKNOWN}
		}
		if now.Status != told {
			if err := ss.Send(now); err != nil {
				return err
			}
			told = now.Status
		}
		select {
		case <-ss.Context().Done():
			return ss.Context().Err()
		case <-h.s.ctx.Done():
			return refuse(Unavailable, "the server has stopped")
		case <-tick.C:
		}
	}
}

// openCall reports whether a call needs no token. This is true only for calls that check the server's health.
func openCall(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasSuffix(method, "/ServerLive") || strings.HasSuffix(method, "/ServerReady")
}

func bearer(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (s *Server) guardGRPC(ctx context.Context, method string) error {
	addr := ""
	if p, ok := peer.FromContext(ctx); ok {
		addr = p.Addr.String()
	}
	return s.guard(bearer(ctx), addr, openCall(method))
}

func (f *grpcFace) ServerLive(context.Context, *oip.ServerLiveRequest) (*oip.ServerLiveResponse, error) {
	return &oip.ServerLiveResponse{Live: true}, nil
}

func (f *grpcFace) ServerReady(context.Context, *oip.ServerReadyRequest) (*oip.ServerReadyResponse, error) {
	return &oip.ServerReadyResponse{Ready: f.s.Ready()}, nil
}

func (f *grpcFace) ModelReady(_ context.Context, r *oip.ModelReadyRequest) (*oip.ModelReadyResponse, error) {
	return &oip.ModelReadyResponse{Ready: f.s.modelReady(r.Name, r.Version)}, nil
}

func (f *grpcFace) ServerMetadata(context.Context, *oip.ServerMetadataRequest) (*oip.ServerMetadataResponse, error) {
	return &oip.ServerMetadataResponse{Name: Name, Version: f.s.opts.Version, Extensions: extensions()}, nil
}

func (f *grpcFace) ModelMetadata(_ context.Context, r *oip.ModelMetadataRequest) (*oip.ModelMetadataResponse, error) {
	d, err := f.s.describe(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	tensors := func(of []tensorDoc) (out []*oip.ModelMetadataResponse_TensorMetadata) {
		for _, t := range of {
			out = append(out, &oip.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
		}
		return out
	}
	return &oip.ModelMetadataResponse{Name: d.Name, Versions: d.Versions, Platform: d.Platform, Inputs: tensors(d.Inputs), Outputs: tensors(d.Outputs)}, nil
}

func (f *grpcFace) ModelConfig(_ context.Context, r *oip.ModelConfigRequest) (*oip.ModelConfigResponse, error) {
	c, err := f.s.config(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	return &oip.ModelConfigResponse{Config: c}, nil
}

func (f *grpcFace) ModelStatistics(_ context.Context, r *oip.ModelStatisticsRequest) (*oip.ModelStatisticsResponse, error) {
	return f.s.statistics(r.Name, r.Version)
}

func (f *grpcFace) RepositoryIndex(_ context.Context, r *oip.RepositoryIndexRequest) (*oip.RepositoryIndexResponse, error) {
	out := &oip.RepositoryIndexResponse{}
	for _, i := range f.s.Index() {
		if !r.Ready || i.State == "READY" {
			out.Models = append(out.Models, &oip.RepositoryIndexResponse_ModelIndex{Name: i.Name, Version: i.Version, State: i.State, Reason: i.Reason})
		}
	}
	return out, nil
}

// noParameters rejects Triton's load parameters, because they contain files and settings from the client.
func noParameters(model string, n int) error {
	if n == 0 {
		return nil
	}
	return refuse(Invalid, "load %s: %d parameters: expected none, a model and its settings come from the server's repository alone", model, n)
}

func (f *grpcFace) RepositoryModelLoad(_ context.Context, r *oip.RepositoryModelLoadRequest) (*oip.RepositoryModelLoadResponse, error) {
	if err := noParameters(r.ModelName, len(r.Parameters)); err != nil {
		return nil, err
	}
	return &oip.RepositoryModelLoadResponse{}, f.s.Load(r.ModelName)
}

func (f *grpcFace) RepositoryModelUnload(_ context.Context, r *oip.RepositoryModelUnloadRequest) (*oip.RepositoryModelUnloadResponse, error) {
	return &oip.RepositoryModelUnloadResponse{}, f.s.Unload(r.ModelName)
}

// noSharedMemory is the error for clients that register shared memory.
func noSharedMemory(name string) error {
	return refuse(Unserved, "shared memory %q: this server shares no memory with clients; send tensors in the request", name)
}

func (f *grpcFace) SystemSharedMemoryStatus(context.Context, *oip.SystemSharedMemoryStatusRequest) (*oip.SystemSharedMemoryStatusResponse, error) {
	return &oip.SystemSharedMemoryStatusResponse{}, nil
}

func (f *grpcFace) SystemSharedMemoryRegister(_ context.Context, r *oip.SystemSharedMemoryRegisterRequest) (*oip.SystemSharedMemoryRegisterResponse, error) {
	return nil, noSharedMemory(r.Name)
}

func (f *grpcFace) SystemSharedMemoryUnregister(context.Context, *oip.SystemSharedMemoryUnregisterRequest) (*oip.SystemSharedMemoryUnregisterResponse, error) {
	return &oip.SystemSharedMemoryUnregisterResponse{}, nil
}

func (f *grpcFace) CudaSharedMemoryStatus(context.Context, *oip.CudaSharedMemoryStatusRequest) (*oip.CudaSharedMemoryStatusResponse, error) {
	return &oip.CudaSharedMemoryStatusResponse{}, nil
}

func (f *grpcFace) CudaSharedMemoryRegister(_ context.Context, r *oip.CudaSharedMemoryRegisterRequest) (*oip.CudaSharedMemoryRegisterResponse, error) {
	return nil, noSharedMemory(r.Name)
}

func (f *grpcFace) CudaSharedMemoryUnregister(context.Context, *oip.CudaSharedMemoryUnregisterRequest) (*oip.CudaSharedMemoryUnregisterResponse, error) {
	return &oip.CudaSharedMemoryUnregisterResponse{}, nil
}

func (f *grpcFace) ModelInfer(ctx context.Context, r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	a, err := f.s.inferGRPC(ctx, r, nil)
	if err != nil {
		return nil, coded(err)
	}
	return toGRPC(a), nil
}

// inferGRPC answers a message with an inference request.
func (s *Server) inferGRPC(ctx context.Context, r *oip.ModelInferRequest, passed func(*Answer) error) (*Answer, error) {
	size := proto.Size(r)
	err := s.memory.take(size)
	if err != nil {
		return nil, s.unread(r.ModelName, r.ModelVersion, err)
	}
	defer s.memory.give(size)
	q, err := fromGRPC(r)
	if err != nil {
		return nil, s.unread(r.ModelName, r.ModelVersion, err)
	}
	r.Inputs, r.RawInputContents = nil, nil // q now refers to the inputs, and releases them when the device has copied them
	q.Came, _ = ctx.Value(came{}).(time.Time)
	return s.Infer(ctx, q, passed)
}

// inStream is the maximum number of requests in flight per stream. At this number, the stream reads no further request.
const inStream = 64

// lastWords is the maximum time for a stream to report its last results when the server stops.
const lastWords = time.Second

// stream is a call of ModelStreamInfer.
type stream struct {
	grpc.BidiStreamingServer[oip.ModelInferRequest, oip.ModelStreamInferResponse]
	s     *Server
	room  chan struct{} // one entry per request in flight
	mu    sync.Mutex    // locked during Send
	leave func()        // ends the stream
}

// ModelStreamInfer answers each request with one message per exit. Then the whole answer follows, marked as final.
// Requests of one stream run concurrently. A client that does not read its answers blocks only its own stream, and the
// server ends this stream after Limits.Transfer.
func (f *grpcFace) ModelStreamInfer(ss grpc.BidiStreamingServer[oip.ModelInferRequest, oip.ModelStreamInferResponse]) error {
	stuck, leave := context.WithCancel(ss.Context())
	defer leave()
	x := &stream{BidiStreamingServer: ss, s: f.s, room: make(chan struct{}, inStream), leave: leave}
	read := make(chan error, 1)
	go func() { read <- x.read() }()
	select {
	case err := <-read:
		return err
	case <-stuck.Done():
		return refuse(Cancelled, "the client has gone, or has taken no answer for %v", f.s.opts.Limits.Transfer)
	case <-f.s.ctx.Done():
	}
	late := time.After(lastWords)
	for range inStream { // when all entries are occupied, no request is in flight
		select {
		case x.room <- struct{}{}:
			continue
		case <-late:
		case <-stuck.Done():
		}
		break
	}
	return refuse(Unavailable, "the server has stopped")
}

// read answers requests until the client closes its side.
func (x *stream) read() error {
	var all sync.WaitGroup
	defer all.Wait()
	for first := true; ; first = false { // the first request was checked together with the stream
		r, err := x.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case x.room <- struct{}{}:
		case <-x.Context().Done():
			return x.Context().Err()
		}
		all.Go(func() {
			defer func() { <-x.room }()
			x.infer(r, first)
		})
	}
}

// infer answers one request. If it cannot send the answer, the client has disconnected, and Recv reports the error.
func (x *stream) infer(r *oip.ModelInferRequest, first bool) {
	var err error
	if !first {
		err = x.s.guardGRPC(x.Context(), "")
	}
	var a *Answer
	if err == nil {
		a, err = x.s.inferGRPC(x.Context(), r, func(a *Answer) error { return x.answer(a, false) })
	}
	if err == nil {
		_ = x.answer(a, true)
		return
	}
	_ = answerError(x.send, r, coded(err)) // as with Triton, an error does not end the stream
}

// send sends one message. The client must receive it within Limits.Transfer, which also limits sending a request.
func (x *stream) send(m *oip.ModelStreamInferResponse) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer time.AfterFunc(x.s.opts.Limits.Transfer, x.leave).Stop()
	return x.Send(m)
}

func (x *stream) answer(a *Answer, final bool) error {
	a.Params["triton_final_response"] = final
	return x.send(&oip.ModelStreamInferResponse{InferResponse: toGRPC(a)})
}

func answerError(send func(*oip.ModelStreamInferResponse) error, r *oip.ModelInferRequest, e *Error) error {
	return send(&oip.ModelStreamInferResponse{
		ErrorMessage: fmt.Sprintf("%s: %s", e.Code, e.Error()),
		InferResponse: &oip.ModelInferResponse{
			ModelName: r.ModelName, ModelVersion: r.ModelVersion, Id: r.Id,
			Parameters: toParams(map[string]any{"triton_final_response": true}),
		},
	})
}
