// The gRPC face.

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-npu/sluice/host/serve/oip"
)

type grpcFace struct {
	oip.UnimplementedGRPCInferenceServiceServer
	s *Server
}

// GRPC makes the gRPC server, with health and reflection.
func (s *Server) GRPC(opts ...grpc.ServerOption) *grpc.Server {
	opts = append(
		opts, grpc.MaxRecvMsgSize(s.opts.Limits.Message), grpc.MaxConcurrentStreams(1024),
		// A client that went without a word gives its connection back, and clients may look after theirs.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if err := s.guardGRPC(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			defer s.reportTrailer(ctx, info.FullMethod)
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			if err := s.guardGRPC(ss.Context(), info.FullMethod); err != nil {
				return err
			}
			defer s.reportTrailer(ss.Context(), info.FullMethod)
			return h(srv, &session{ss, s, openCall(info.FullMethod)})
		}),
	)
	g := grpc.NewServer(opts...)
	oip.RegisterGRPCInferenceServiceServer(g, &grpcFace{s: s})
	healthpb.RegisterHealthServer(g, &healthFace{s: s})
	reflection.Register(g)
	return g
}

// session is a stream, whose token may be revoked while it is open: then it takes no more messages. What was asked before is
// answered.
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
	return x.s.authorised(bearer(x.Context()))
}

// healthFace answers gRPC health checks from the server's state: the whole server, or a model by its name.
type healthFace struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

// Check implements grpc health.
func (h *healthFace) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	ok := h.s.Ready()
	if r.Service != "" && r.Service != oip.GRPCInferenceService_ServiceDesc.ServiceName {
		var err error
		if ok, err = h.s.modelReady(r.Service, ""); err != nil {
			return nil, err
		}
	}
	if ok {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
}

// healthEvery is how often a watched state is looked at.
const healthEvery = 100 * time.Millisecond

// Watch implements grpc health: the state, and each change of it.
func (h *healthFace) Watch(r *healthpb.HealthCheckRequest, ss grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	told := healthpb.HealthCheckResponse_UNKNOWN
	for {
		now, err := h.Check(ss.Context(), r)
		if err != nil { // the protocol's word for a service that there is not
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

// open are the calls that need no token: they say whether the server is alive.
func openCall(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasSuffix(method, "/ServerLive") || strings.HasSuffix(method, "/ServerReady")
}

// bearer is the header of a call that has the token.
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
	ok, err := f.s.modelReady(r.Name, r.Version)
	return &oip.ModelReadyResponse{Ready: ok}, err
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

// noParameters refuses what Triton loads models with: files and settings of the client's.
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

// noSharedMemory is what a client hears that wants to share memory.
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
	q, err := fromGRPC(r)
	if err != nil {
		return nil, f.s.unread(r.ModelName, r.ModelVersion, err)
	}
	a, err := f.s.Infer(ctx, q, nil)
	if err != nil {
		return nil, coded(err)
	}
	return toGRPC(a), nil
}

// inStream is how many requests of one stream are under way at a time: reading stops there.
const inStream = 64

// ModelStreamInfer answers each request of the stream with one message an exit passed, and at the end the whole answer, which
// is marked as the final one. Requests of one stream run beside each other.
func (f *grpcFace) ModelStreamInfer(ss grpc.BidiStreamingServer[oip.ModelInferRequest, oip.ModelStreamInferResponse]) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // of Send
		room = make(chan struct{}, inStream)
	)
	defer all.Wait()
	requests := 0
	send := func(m *oip.ModelStreamInferResponse) error {
		mu.Lock()
		defer mu.Unlock()
		return ss.Send(m)
	}
	answer := func(a *Answer, final bool) error {
		a.Params["triton_final_response"] = final
		return send(&oip.ModelStreamInferResponse{InferResponse: toGRPC(a)})
	}
	for {
		r, err := ss.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		room <- struct{}{}
		first := requests == 0 // the stream itself was counted
		requests++
		all.Go(func() {
			defer func() { <-room }()
			var err error
			if !first {
				err = f.s.guardGRPC(ss.Context(), "")
			}
			var q *Request
			if err == nil {
				if q, err = fromGRPC(r); err != nil {
					err = f.s.unread(r.ModelName, r.ModelVersion, err)
				}
			}
			var a *Answer
			if err == nil {
				a, err = f.s.Infer(ss.Context(), q, func(a *Answer) error { return answer(a, false) })
			}
			if err == nil {
				_ = answer(a, true) // the client may have gone: Recv says so
				return
			}
			e := coded(err) // the stream goes on, as Triton's does
			_ = answerError(send, r, e)
		})
	}
}

// answerError tells of a failed request on a stream.
func answerError(send func(*oip.ModelStreamInferResponse) error, r *oip.ModelInferRequest, e *Error) error {
	return send(&oip.ModelStreamInferResponse{
		ErrorMessage: fmt.Sprintf("%s: %s", e.Code, e.Error()),
		InferResponse: &oip.ModelInferResponse{
			ModelName: r.ModelName, ModelVersion: r.ModelVersion, Id: r.Id,
			Parameters: toParams(map[string]any{"triton_final_response": true}),
		},
	})
}
