package serve_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/serve"
	"github.com/sluice-npu/sluice/host/serve/oip"
	"github.com/sluice-npu/sluice/host/soft"
)

// python runs a program in the Python environment that make setup makes.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	bin := cmp.Or(os.Getenv("SLUICE_PYTHON"), "../../build/venv/bin/python")
	out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) || strings.Contains(string(out), "ModuleNotFoundError") {
		t.Fatalf("%s has not the clients' packages: run make setup, or name another Python in SLUICE_PYTHON: %v\n%s", bin, err, out)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// golden has the numerics of the hardware, in place of a stub's.
func golden(o *serve.Options) {
	o.Open = func(ctx context.Context, b *bundle.Bundle) (*serve.Opened, error) {
		d := soft.New(b.Design, soft.Options{})
		return &serve.Opened{Device: device.Adapt(d), Timely: true}, d.Load(ctx, b)
	}
}

// TestClients: tritonclient makes every call it has, over HTTP and gRPC, also from asyncio.
func TestClients(t *testing.T) {
	s := start(t, 0, golden)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := s.GRPC()
	go g.Serve(l)
	defer g.Stop()
	t.Logf("%s", python(t, "testdata/clients.py", strings.TrimPrefix(s.rest, "http://"), l.Addr().String()))
}

// TestOtherClients: KServe's clients and mlserver's make every call they have.
func TestOtherClients(t *testing.T) {
	s := start(t, 0, golden)
	at, rest := listen(t, s), strings.TrimPrefix(s.rest, "http://")
	t.Logf("%s", python(t, "testdata/kserve_clients.py", rest, at, "deploy/servingruntime.yaml"))
	t.Logf("%s", python(t, "testdata/mlserver_client.py", rest))
}

// TestWire: every message, field and call has the name, number and type that tritonclient knows.
func TestWire(t *testing.T) {
	out := python(t, "-c", `import sys
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2
files = descriptor_pb2.FileDescriptorSet()
for m in (model_config_pb2, service_pb2):
    m.DESCRIPTOR.CopyToProto(files.file.add())
sys.stdout.buffer.write(files.SerializeToString())`)
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(out, &files); err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{}
	for _, f := range files.File {
		for _, m := range f.MessageType {
			fields(theirs, m, "")
		}
		for _, e := range f.EnumType {
			for _, v := range e.Value {
				theirs[e.GetName()+"."+v.GetName()] = fmt.Sprint(v.GetNumber())
			}
		}
		for _, s := range f.Service {
			for _, m := range s.Method {
				theirs[s.GetName()+"/"+m.GetName()] = fmt.Sprint(m.GetInputType(), m.GetOutputType(), m.GetClientStreaming(), m.GetServerStreaming())
			}
		}
	}
	ours := map[string]string{}
	file := oip.File_oip_proto
	for i := range file.Messages().Len() {
		fields(ours, protodesc.ToDescriptorProto(file.Messages().Get(i)), "")
	}
	for i := range file.Enums().Len() {
		e := file.Enums().Get(i)
		for k := range e.Values().Len() {
			ours[string(e.Name())+"."+string(e.Values().Get(k).Name())] = fmt.Sprint(e.Values().Get(k).Number())
		}
	}
	service := file.Services().Get(0)
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		ours[string(service.Name())+"/"+string(m.Name())] = fmt.Sprint("."+m.Input().FullName(), "."+m.Output().FullName(), m.IsStreamingClient(), m.IsStreamingServer())
	}
	if len(ours) < 150 {
		t.Fatalf("%d fields only", len(ours))
	}
	for name, what := range ours {
		if theirs[name] != what {
			t.Errorf("%s is %q here, %q in tritonclient", name, what, theirs[name])
		}
	}
}

func fields(into map[string]string, m *descriptorpb.DescriptorProto, in string) {
	name := in + m.GetName()
	for _, f := range m.Field {
		oneof := ""
		if f.OneofIndex != nil {
			oneof = m.OneofDecl[f.GetOneofIndex()].GetName()
		}
		into[name+"."+f.GetName()] = fmt.Sprint(f.GetNumber(), f.GetLabel(), f.GetType(), f.GetTypeName(), oneof)
	}
	for _, n := range m.NestedType {
		fields(into, n, name+".")
	}
}
